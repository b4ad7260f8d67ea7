"""Banks of a store of the test's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.memory.making import Clock, banks_of
from windlass.history.sqlite import SqliteStore
from windlass.memory.banks import Banks


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with SqliteStore(tmp_path / "store", busy_s=5.0) as opened:
        yield opened


@pytest.fixture
def banks(store: SqliteStore, clock: Clock) -> Banks:
    return banks_of(store, clock)
