"""Policies that are off in every profile but `spec`: the documented behaviour."""
