"""Recordings of more programs than the core reads: one module a format."""
