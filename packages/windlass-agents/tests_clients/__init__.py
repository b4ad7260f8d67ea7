"""Coding agents as their vendors ship them, in the environment that `make clients` makes."""
