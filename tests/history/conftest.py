"""The keepers that the contract tests run over."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from windlass.history.sqlite import SqliteKeeper


@pytest.fixture(params=["sqlite"])
def open_keeper(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], SqliteKeeper]:
    """Opens the test's one store; each call is a keeper of its own."""
    makers = {"sqlite": lambda: SqliteKeeper(tmp_path / "store", busy_s=5.0)}
    return makers[request.param]


@pytest.fixture
def keeper(open_keeper: Callable[[], SqliteKeeper]) -> Iterator[SqliteKeeper]:
    """A keeper of a fresh store."""
    with open_keeper() as opened:
        yield opened
