"""Pruning: whole sessions go, and only what no other session uses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.history.builders import LONG, a_session, png, row, seen, start
from windlass.errors import StoreError, UsageError
from windlass.history.base import Batch, Keeper, Pruned
from windlass.history.blobs import Blobs
from windlass.messages import tool, user

DAY = 86_400.0


def files(store: Path) -> set[str]:
    return {
        path.relative_to(store).as_posix()
        for path in store.rglob("*")
        if path.is_file() and not path.name.startswith("windlass.sqlite")
    }


@pytest.fixture
def store(keeper: Keeper) -> Path:
    """Two sessions that share bodies and a picture; each has one of its own."""
    for name, shade in (("s1", 1), ("s2", 2)):
        for batch in a_session(name, shade=shade):
            keeper.append(batch)
        own = row(tool("c", f"only {name} " + LONG), timestamp=1_001.0)
        keeper.append(Batch(name, rows=[own, row(user("both", seen(png(1))))]))
        assert own.message is not None
        keeper.store_tool_result(name, f"ref-{name}", own.message.key)
    return keeper.folder


@pytest.mark.req("AC-112")
def test_removes_a_session_and_what_no_other_uses(keeper: Keeper, store: Path) -> None:
    before = files(store)
    kept = list(keeper.rows("s1"))
    told = keeper.prune(session_id="s2", now=0.0)
    # Its own long body and its picture; its picture row and that body.
    assert (told.sessions, told.rows, told.bodies, told.blobs) == (("s2",), 8, 2, 2)
    gone = before - files(store)
    assert len(gone) == 4
    assert "images/s2/chart/image_0.png" in gone
    assert "storage/tool_results/ref-s2.json" in gone
    assert f"blobs/{seen(png(2)).sha256[:2]}/{seen(png(2)).sha256}" in gone
    assert not (store / "images/s2").exists()
    assert list(keeper.rows("s1")) == kept
    assert keeper.picture(seen(png(1)).sha256) == png(1)
    assert [one.session_id for one in keeper.sessions()] == ["s1"]
    assert list(keeper.verify()) == []
    keeper.prune(session_id="s1", now=0.0)
    assert files(store) == set()
    assert keeper.query("SELECT count(*) AS n FROM bodies") == [{"n": 0}]


@pytest.mark.req("AC-112")
def test_a_dry_run_tells_the_same_and_changes_nothing(keeper: Keeper, store: Path) -> None:
    before = files(store), list(keeper.rows("s2"))
    told = keeper.prune(session_id="s2", now=0.0, dry_run=True)
    assert told.bytes > len(LONG)
    assert (files(store), list(keeper.rows("s2"))) == before
    assert keeper.prune(session_id="s2", now=0.0) == told


@pytest.mark.req("AC-112")
def test_age_is_that_of_the_last_row(keeper: Keeper) -> None:
    for name, at in (("old", 0.0), ("young", 80 * DAY), ("empty", 5.0)):
        keeper.append(Batch(name, start=start(0.0 if name != "empty" else at)))
        if name != "empty":
            keeper.append(Batch(name, rows=[row(user(name), timestamp=at)]))
    told = keeper.prune(older_than_s=90 * DAY, now=100 * DAY)
    assert set(told.sessions) == {"old", "empty"}
    assert [one.session_id for one in keeper.sessions()] == ["young"]
    assert keeper.prune(older_than_s=90 * DAY, now=100 * DAY) == Pruned((), 0, 0, 0, 0)


def test_what_a_crash_left_behind_goes_with_the_next(
    keeper: Keeper, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Blobs, "remove", crash)
        with pytest.raises(KeyboardInterrupt):
            keeper.prune(session_id="s2", now=0.0)
    assert [one for one in keeper.verify() if one.severity == "damage"] == []
    assert (store / "images/s2").exists()
    keeper.prune(older_than_s=1e9, now=0.0)
    assert list(keeper.verify()) == []
    assert not (store / "images/s2").exists()


def test_a_pruned_session_cannot_be_appended_to(
    keeper: Keeper, open_keeper: Callable[[], Keeper], store: Path
) -> None:
    with open_keeper() as other:
        other.prune(session_id="s2", now=0.0)
    with pytest.raises(StoreError, match="must carry its start"):
        keeper.append(Batch("s2", rows=[row(user("late"))]))
    keeper.append(Batch("s2", start=start(), rows=[row(user("anew"))]))
    assert [one.seq for one in keeper.rows("s2")] == [1]
    assert list(keeper.verify()) == []


def test_bodies_that_a_prune_elsewhere_took_are_written_again(
    keeper: Keeper, open_keeper: Callable[[], Keeper], store: Path
) -> None:
    said = tool("c", "only s2 " + LONG)
    with open_keeper() as other:
        other.prune(session_id="s2", now=0.0)
    keeper.append(Batch("s1", rows=[row(said)]))
    assert keeper.message(said.key) == said
    assert list(keeper.verify()) == []


def test_needs_an_age_or_a_known_session(keeper: Keeper) -> None:
    with pytest.raises(UsageError, match="either an age or a session"):
        keeper.prune(now=0.0)
    with pytest.raises(UsageError, match="either an age or a session"):
        keeper.prune(now=0.0, older_than_s=1.0, session_id="s")
    with pytest.raises(UsageError, match="no session 'nobody'"):
        keeper.prune(now=0.0, session_id="nobody")
