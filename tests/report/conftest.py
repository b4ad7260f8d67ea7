"""Reports are made of what the engine room records."""

from tests.engine.conftest import house

__all__ = ["house"]
