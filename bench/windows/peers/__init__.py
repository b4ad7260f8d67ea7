"""Contestants out of other packages, each a program run by the Python of its own environment."""
