"""A history moves to another store, whole, and the proof says so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.history.builders import LONG, a_session, call, picture_row, png, row, start
from windlass.errors import StoreError
from windlass.history.base import Batch, StateChange, Store
from windlass.history.details import CacheDetails, CallDetails
from windlass.history.migrating import fingerprint, migrate
from windlass.history.sqlite import SqliteStore
from windlass.messages import assistant, tool, user


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Store]:
    """Two sessions with one of everything, and one that has only begun."""
    with SqliteStore(tmp_path / "source") as made:
        for name in ("old", "new"):
            for batch in a_session(name, shade=len(name)):
                made.append(batch)
            said = tool("c", f"{name} " + LONG)
            many = [row(user(f"{name} {at}"), phase=f"p{at % 3}") for at in range(450)]
            made.append(Batch(name, rows=[row(said), *many, picture_row(png(9))]))
            made.store_tool_result(name, f"ref-{name}", said.key)
        made.append(Batch("begun", start=start(5.0)))
        yield made


def told(store: Store) -> list[str]:
    return [finding.what for finding in store.verify() if finding.severity == "damage"]


def test_everything_arrives_and_is_proven(source: Store, store: Store) -> None:
    copied = {one.session_id: one for one in migrate(source, store)}
    assert list(copied) == ["begun", "old", "new"]
    assert (copied["new"].rows, copied["new"].new_rows, copied["new"].calls) == (458, 458, 2)
    assert copied["new"].pictures == 2
    for name in ("old", "new", "begun"):
        assert list(store.rows(name)) == list(source.rows(name))
        assert store.calls(name) == source.calls(name)
        assert store.edits(name) == source.edits(name)
        assert store.state(name) == source.state(name)
        assert store.outcomes(name) == source.outcomes(name)
        assert store.results(name) == source.results(name)
        assert store.start(name) == source.start(name)
    assert [path.read_bytes() for _, path in store.picture_names("new", "chart")] == [
        path.read_bytes() for _, path in source.picture_names("new", "chart")
    ]
    assert [one.session_id for one in store.sessions()] == [
        one.session_id for one in source.sessions()
    ]
    assert told(store) == []


def test_again_copies_nothing_and_later_only_what_is_new(source: Store, store: Store) -> None:
    list(migrate(source, store))
    assert [one.new_rows for one in migrate(source, store)] == [0, 0, 0]
    source.append(Batch("old", rows=[row(user("more"))], state=[StateChange("p", "k", 2)]))
    assert sum(one.new_rows for one in migrate(source, store)) == 1
    assert fingerprint(store, "old") == fingerprint(source, "old")


def test_what_a_later_version_says_of_a_row_is_copied_as_it_stands(
    source: Store, store: Store
) -> None:
    said = '{"text":"told","kind":"of a later version","x":[1,{"y":null}]}'
    source.append(Batch("old", rows=[row(stored_json=said)]))
    list(migrate(source, store))
    copied = list(store.rows("old"))[-1].row
    assert (copied.details, copied.text, copied.stored_json) == (None, "told", said)
    assert fingerprint(store, "old") == fingerprint(source, "old")


def test_what_other_versions_say_of_a_call_is_copied_as_it_stands(
    source: Store, store: Store
) -> None:
    said = (
        '{"of a later version":[1,{"y":null}],"edits":3,"budget":"of another kind",'
        '"cache":{"reported":9,"cold":true}}'
    )
    reply = row(assistant("Lamps."))
    sent = call([], trace_id=reply.trace_id, stored_json=said)
    source.append(Batch("old", rows=[reply], calls=[sent]))
    list(migrate(source, store))
    copied = store.calls("old")[-1]
    assert copied.stored_json == said
    assert copied.details == CallDetails(edits=3, cache=CacheDetails(0, 9))
    assert store.query(_CALLS) == source.query(_CALLS)
    assert fingerprint(store, "old") == fingerprint(source, "old")
    assert told(store) == []
    assert [one.new_rows for one in migrate(source, store)] == [0, 0, 0]


_CALLS = "SELECT trace_id, details_json FROM calls ORDER BY trace_id"


def test_goes_on_where_it_was_interrupted(
    source: Store, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = type(store).append
    batches: list[Batch] = []

    def cut(self: Store, batch: Batch) -> tuple[str | None, ...]:
        if len(batches) == 4:
            raise KeyboardInterrupt
        batches.append(batch)
        return append(self, batch)

    with monkeypatch.context() as patch:
        patch.setattr(type(store), "append", cut)
        with pytest.raises(KeyboardInterrupt):
            list(migrate(source, store))
    there = sum(len(batch.rows) for batch in batches)
    assert there > 0
    copied = list(migrate(source, store))
    assert sum(one.new_rows for one in copied) == sum(one.rows for one in copied) - there
    assert told(store) == []


def test_a_session_that_differs_is_refused_and_left_alone(source: Store, store: Store) -> None:
    store.append(Batch("old", start=start(), rows=[row(user("somebody else's"))]))
    with pytest.raises(StoreError, match=r"'old' already, and it differs in row 1.*prune"):
        list(migrate(source, store))
    assert len(list(store.rows("old"))) == 1
    store.append(Batch("new", start=start(77.0)))
    store.prune(session_id="old", now=0.0)
    with pytest.raises(StoreError, match=r"'new' already, and it differs in how it began"):
        list(migrate(source, store))


def test_what_did_not_arrive_is_noticed(
    source: Store, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(store), "results", lambda *_: [])
    monkeypatch.setattr(type(source), "results", lambda self, _: [("r", "k")] * (self is source))
    monkeypatch.setattr(type(store), "store_tool_result", lambda *_: None)
    with pytest.raises(StoreError, match=r"did not arrive whole.*windlass verify"):
        list(migrate(source, store))
