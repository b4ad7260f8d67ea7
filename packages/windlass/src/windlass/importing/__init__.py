"""Recordings of other programs: read, stored as sessions, and written out again."""
