"""What every keeper promises, on ClickHouse: the same tests as over SQLite."""

# ruff: noqa: F401, F403 - collected here by their names
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.history.test_cards_kept import *
from tests.history.test_contract import *
from tests.history.test_migrating import *
from tests.history.test_prune import *
from tests.history.test_sql import *

from windlass.history.base import Keeper
from windlass.history.clickhouse import pruning


def test_what_a_crash_left_behind_goes_with_the_next(  # type: ignore[no-redef]
    keeper: Keeper, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(pruning, "remove_files", crash)
        with pytest.raises(KeyboardInterrupt):
            keeper.prune(session_id="s2", now=0.0)
    assert [one for one in keeper.verify() if one.severity == "damage"] == []
    assert (store / "images/s2").exists()
    keeper.prune(older_than_s=1e9, now=0.0)
    assert list(keeper.verify()) == []
    assert not (store / "images/s2").exists()
