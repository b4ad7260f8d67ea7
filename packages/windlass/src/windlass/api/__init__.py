"""The library door: one engine, and the functions over it."""
