"""The keepers that the contract tests run over."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from windlass.history.base import Keeper
from windlass.history.sqlite import SqliteKeeper


@pytest.fixture
def open_keeper(tmp_path: Path) -> Callable[[], Keeper]:
    """Opens the test's one store; each call is a keeper of its own."""
    return lambda: SqliteKeeper(tmp_path / "store", busy_s=5.0)


@pytest.fixture
def keeper(open_keeper: Callable[[], Keeper]) -> Iterator[Keeper]:
    """A keeper of a fresh store."""
    with open_keeper() as opened:
        yield opened
