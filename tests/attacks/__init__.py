"""Attacks that were tried, and what holds against them."""
