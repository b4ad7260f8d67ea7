"""Pruning: whole sessions go, and only what no other session uses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.history.builders import LONG, a_session, png, row, seen, start
from windlass.errors import StoreError, UsageError
from windlass.history.base import Batch, PruneResult, Store
from windlass.history.blobs import Blobs
from windlass.messages import tool, user

DAY = 86_400.0


def files(store_folder: Path) -> set[str]:
    return {
        path.relative_to(store_folder).as_posix()
        for path in store_folder.rglob("*")
        if path.is_file() and not path.name.startswith("windlass.sqlite")
    }


@pytest.fixture
def store_folder(store: Store) -> Path:
    """Two sessions that share bodies and a picture; each has one of its own."""
    for name, shade in (("s1", 1), ("s2", 2)):
        for batch in a_session(name, shade=shade):
            store.append(batch)
        own = row(tool("c", f"only {name} " + LONG), timestamp=1_001.0)
        store.append(Batch(name, rows=[own, row(user("both", seen(png(1))))]))
        assert own.message is not None
        store.store_tool_result(name, f"ref-{name}", own.message.key)
    return store.folder


@pytest.mark.req("AC-112")
def test_removes_a_session_and_what_no_other_uses(store: Store, store_folder: Path) -> None:
    before = files(store_folder)
    kept = list(store.rows("s1"))
    told = store.prune(session_id="s2", now=0.0)
    # Its own long body and its picture; its picture row and that body.
    assert (told.sessions, told.rows, told.bodies, told.blobs) == (("s2",), 8, 2, 2)
    gone = before - files(store_folder)
    assert len(gone) == 4
    assert "images/s2/chart/image_0.png" in gone
    assert "storage/tool_results/ref-s2.json" in gone
    assert f"blobs/{seen(png(2)).sha256[:2]}/{seen(png(2)).sha256}" in gone
    assert not (store_folder / "images/s2").exists()
    assert list(store.rows("s1")) == kept
    assert store.picture(seen(png(1)).sha256) == png(1)
    assert [one.session_id for one in store.sessions()] == ["s1"]
    assert list(store.verify()) == []
    store.prune(session_id="s1", now=0.0)
    assert files(store_folder) == set()
    assert store.query("SELECT count(*) AS n FROM bodies") == [{"n": 0}]


@pytest.mark.req("AC-112")
def test_a_dry_run_tells_the_same_and_changes_nothing(store: Store, store_folder: Path) -> None:
    before = files(store_folder), list(store.rows("s2"))
    told = store.prune(session_id="s2", now=0.0, dry_run=True)
    assert told.bytes > len(LONG)
    assert (files(store_folder), list(store.rows("s2"))) == before
    assert store.prune(session_id="s2", now=0.0) == told


@pytest.mark.req("AC-112")
def test_age_is_that_of_the_last_row(store: Store) -> None:
    for name, at in (("old", 0.0), ("young", 80 * DAY), ("empty", 5.0)):
        store.append(Batch(name, start=start(0.0 if name != "empty" else at)))
        if name != "empty":
            store.append(Batch(name, rows=[row(user(name), timestamp=at)]))
    told = store.prune(older_than_s=90 * DAY, now=100 * DAY)
    assert set(told.sessions) == {"old", "empty"}
    assert [one.session_id for one in store.sessions()] == ["young"]
    assert store.prune(older_than_s=90 * DAY, now=100 * DAY) == PruneResult((), 0, 0, 0, 0)


def test_what_a_crash_left_behind_goes_with_the_next(
    store: Store, store_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Blobs, "remove", crash)
        with pytest.raises(KeyboardInterrupt):
            store.prune(session_id="s2", now=0.0)
    assert [one for one in store.verify() if one.severity == "damage"] == []
    assert (store_folder / "images/s2").exists()
    store.prune(older_than_s=1e9, now=0.0)
    assert list(store.verify()) == []
    assert not (store_folder / "images/s2").exists()


def test_a_pruned_session_cannot_be_appended_to(
    store: Store, open_store: Callable[[], Store], store_folder: Path
) -> None:
    with open_store() as other:
        other.prune(session_id="s2", now=0.0)
    with pytest.raises(StoreError, match="must carry its start"):
        store.append(Batch("s2", rows=[row(user("late"))]))
    store.append(Batch("s2", start=start(), rows=[row(user("anew"))]))
    assert [one.seq for one in store.rows("s2")] == [1]
    assert list(store.verify()) == []


def test_bodies_that_a_prune_elsewhere_took_are_written_again(
    store: Store, open_store: Callable[[], Store], store_folder: Path
) -> None:
    said = tool("c", "only s2 " + LONG)
    with open_store() as other:
        other.prune(session_id="s2", now=0.0)
    store.append(Batch("s1", rows=[row(said)]))
    assert store.message(said.key) == said
    assert list(store.verify()) == []


def test_needs_an_age_or_a_known_session(store: Store) -> None:
    with pytest.raises(UsageError, match="either an age or a session"):
        store.prune(now=0.0)
    with pytest.raises(UsageError, match="either an age or a session"):
        store.prune(now=0.0, older_than_s=1.0, session_id="s")
    with pytest.raises(UsageError, match="no session 'nobody'"):
        store.prune(now=0.0, session_id="nobody")
