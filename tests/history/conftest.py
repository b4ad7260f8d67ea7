"""The stores that the contract tests run over."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from windlass.history.base import Store
from windlass.history.sqlite import SqliteStore


@pytest.fixture
def open_store(tmp_path: Path) -> Callable[[], Store]:
    """Opens the test's one store; each call is a store of its own."""
    return lambda: SqliteStore(tmp_path / "store", busy_s=5.0)


@pytest.fixture
def store(open_store: Callable[[], Store]) -> Iterator[Store]:
    """A store of a fresh store."""
    with open_store() as opened:
        yield opened
