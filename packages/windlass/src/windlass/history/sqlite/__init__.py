"""The store that needs no server: one SQLite file, and a folder of files."""

from windlass.history.sqlite._store import SqliteStore, verify_store

__all__ = ["SqliteStore", "verify_store"]
