"""Who runs a session: one at a time, whatever the store, and nobody once its process is gone."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from tests.history.builders import row, start
from windlass.errors import SessionHeld, UsageError
from windlass.history.base import STATES, Batch, Outcome, SessionFilter, Status, Store
from windlass.messages import user

DAY = 86_400.0


def begin(store: Store, name: str, parent: str | None = None) -> None:
    began = dataclasses.replace(start(), parent_id=parent)
    store.append(Batch(name, start=began, rows=[row(user("begin"))]))


def end(store: Store, name: str, status: Status) -> None:
    store.append(Batch(name, outcomes=[Outcome(status, 2_000.0)]))


def test_one_at_a_time(store: Store, open_store: Callable[[], Store]) -> None:
    begin(store, "s")
    with store.hold("s"), open_store() as other:
        for each in (store, other):
            with pytest.raises(SessionHeld, match="session 's' is running in process"):
                each.hold("s").__enter__()
        with other.hold("t"):
            pass
    with open_store() as other, other.hold("s"):
        pass
    with store.hold("s"):
        pass


def test_of_a_family_the_one_at_the_top_is_held(
    store: Store, open_store: Callable[[], Store]
) -> None:
    begin(store, "s")
    begin(store, "s.1.1", "s")
    begin(store, "s.1.1.2.1", "s.1.1")
    with open_store() as other:
        for mine, asked in (("s", "s.1.1.2.1"), ("s.1.1.2.1", "s"), ("s.1.1", "s.1.1.2.1")):
            with store.hold(mine), pytest.raises(SessionHeld):
                other.hold(asked).__enter__()


def test_how_a_session_stands(store: Store, open_store: Callable[[], Store]) -> None:
    begin(store, "s")
    begin(store, "s.1.1", "s")
    begin(store, "t")

    def listed(status: str | None = None) -> dict[str, str]:
        with open_store() as other:
            infos = other.sessions(SessionFilter(status=status))
            assert {
                each.session_id: other.session_status(each.session_id).status for each in infos
            } == {each.session_id: each.status for each in infos}
            return {each.session_id: each.status for each in infos}

    assert listed() == dict.fromkeys(("s", "s.1.1", "t"), "broken off")
    with store.hold("s"):
        assert listed() == {"s": "running", "s.1.1": "running", "t": "broken off"}
        assert listed("running") == {"s": "running", "s.1.1": "running"}
        assert listed("broken off") == {"t": "broken off"}
        assert listed("completed") == {}
        end(store, "s", "failed")
        assert listed("failed") == {}
        assert listed()["s"] == "running"
    assert listed("failed") == {"s": "failed"}
    end(store, "t", "completed")
    assert listed("completed") == {"t": "completed"}
    with store.hold("t"):
        assert listed()["t"] == "running"
    assert set(listed().values()) <= set(STATES)


def test_a_prune_leaves_alone_what_runs(store: Store, open_store: Callable[[], Store]) -> None:
    for name in ("s", "t"):
        begin(store, name)
    begin(store, "s.1.1", "s")
    with store.hold("s"), open_store() as other:
        for name in ("s", "s.1.1"):
            with pytest.raises(SessionHeld, match="session 's' is running"):
                other.prune(session_id=name, now=0.0)
        told = other.prune(older_than_s=DAY, now=100 * DAY, dry_run=True)
        assert (told.sessions, told.running) == (("t",), ("s",))
        told = other.prune(older_than_s=DAY, now=100 * DAY)
        assert (told.sessions, told.running) == (("t",), ("s",))
        assert {each.session_id for each in other.sessions()} == {"s", "s.1.1"}
    told = store.prune(session_id="s", now=0.0)
    assert set(told.sessions) == {"s", "s.1.1"}


def test_the_name_of_a_session_that_was_pruned_may_come_again(store: Store) -> None:
    for _ in range(3):
        with store.hold("s"):
            begin(store, "s")
        store.prune(session_id="s", now=0.0)
    assert list(store.verify()) == []


def test_holding_leaves_nothing_in_the_record(store: Store) -> None:
    begin(store, "s")
    before = list(store.rows("s")), store.query("SELECT count(*) AS n FROM unified_logs")
    with store.hold("s"), store.hold("never begun"):
        assert list(store.verify()) == []
        assert [each.session_id for each in store.sessions()] == ["s"]
        listed = store.query("SELECT session_id FROM session_list")
        assert listed == [{"session_id": "s"}]
    assert (list(store.rows("s")), store.query("SELECT count(*) AS n FROM unified_logs")) == before
    assert list(store.verify()) == []


def test_a_session_that_is_not_there_has_no_standing(store: Store) -> None:
    with pytest.raises(UsageError, match="no session 'nobody'"):
        store.session_status("nobody")


def test_batches_are_counted(store: Store) -> None:
    assert store.batches("s") == 0
    begin(store, "s")
    assert store.batches("s") == 1
    end(store, "s", "failed")
    assert store.batches("s") == 2
