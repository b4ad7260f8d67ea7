"""A history moves to another store, whole, and the proof says so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.history.builders import LONG, a_session, picture_row, png, row, start
from windlass.errors import StoreError
from windlass.history.base import Batch, Keeper, StateChange
from windlass.history.migrating import fingerprint, migrate
from windlass.history.sqlite import SqliteKeeper
from windlass.messages import tool, user


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Keeper]:
    """Two sessions with one of everything, and one that has only begun."""
    with SqliteKeeper(tmp_path / "source") as made:
        for name in ("old", "new"):
            for batch in a_session(name, shade=len(name)):
                made.append(batch)
            said = tool("c", f"{name} " + LONG)
            many = [row(user(f"{name} {at}"), phase=f"p{at % 3}") for at in range(450)]
            made.append(Batch(name, rows=[row(said), *many, picture_row(png(9))]))
            made.store_tool_result(name, f"ref-{name}", said.key)
        made.append(Batch("begun", start=start(5.0)))
        yield made


def told(keeper: Keeper) -> list[str]:
    return [finding.what for finding in keeper.verify() if finding.severity == "damage"]


def test_everything_arrives_and_is_proven(source: Keeper, keeper: Keeper) -> None:
    copied = {one.session_id: one for one in migrate(source, keeper)}
    assert list(copied) == ["begun", "old", "new"]
    assert (copied["new"].rows, copied["new"].new_rows, copied["new"].calls) == (458, 458, 2)
    assert copied["new"].pictures == 2
    for name in ("old", "new", "begun"):
        assert list(keeper.rows(name)) == list(source.rows(name))
        assert keeper.calls(name) == source.calls(name)
        assert keeper.edits(name) == source.edits(name)
        assert keeper.state(name) == source.state(name)
        assert keeper.outcomes(name) == source.outcomes(name)
        assert keeper.results(name) == source.results(name)
        assert keeper.start(name) == source.start(name)
    assert [path.read_bytes() for _, path in keeper.picture_names("new", "chart")] == [
        path.read_bytes() for _, path in source.picture_names("new", "chart")
    ]
    assert [one.session_id for one in keeper.sessions()] == [
        one.session_id for one in source.sessions()
    ]
    assert told(keeper) == []


def test_again_copies_nothing_and_later_only_what_is_new(source: Keeper, keeper: Keeper) -> None:
    list(migrate(source, keeper))
    assert [one.new_rows for one in migrate(source, keeper)] == [0, 0, 0]
    source.append(Batch("old", rows=[row(user("more"))], state=[StateChange("p", "k", 2)]))
    assert sum(one.new_rows for one in migrate(source, keeper)) == 1
    assert fingerprint(keeper, "old") == fingerprint(source, "old")


def test_goes_on_where_it_was_interrupted(
    source: Keeper, keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = type(keeper).append
    batches: list[Batch] = []

    def cut(self: Keeper, batch: Batch) -> tuple[str | None, ...]:
        if len(batches) == 4:
            raise KeyboardInterrupt
        batches.append(batch)
        return append(self, batch)

    with monkeypatch.context() as patch:
        patch.setattr(type(keeper), "append", cut)
        with pytest.raises(KeyboardInterrupt):
            list(migrate(source, keeper))
    there = sum(len(batch.rows) for batch in batches)
    assert there > 0
    copied = list(migrate(source, keeper))
    assert sum(one.new_rows for one in copied) == sum(one.rows for one in copied) - there
    assert told(keeper) == []


def test_a_session_that_differs_is_refused_and_left_alone(source: Keeper, keeper: Keeper) -> None:
    keeper.append(Batch("old", start=start(), rows=[row(user("somebody else's"))]))
    with pytest.raises(StoreError, match=r"'old' already, and it differs in row 1.*prune"):
        list(migrate(source, keeper))
    assert len(list(keeper.rows("old"))) == 1
    keeper.append(Batch("new", start=start(77.0)))
    keeper.prune(session_id="old", now=0.0)
    with pytest.raises(StoreError, match=r"'new' already, and it differs in how it began"):
        list(migrate(source, keeper))


def test_what_did_not_arrive_is_noticed(
    source: Keeper, keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(keeper), "results", lambda *_: [])
    monkeypatch.setattr(type(source), "results", lambda self, _: [("r", "k")] * (self is source))
    monkeypatch.setattr(type(keeper), "store_tool_result", lambda *_: None)
    with pytest.raises(StoreError, match=r"did not arrive whole.*windlass verify"):
        list(migrate(source, keeper))
