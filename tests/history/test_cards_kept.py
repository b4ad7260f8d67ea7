"""Cards in a store: what goes in comes out, the newer one stands, and SQL finds it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.history.builders import row, start
from tests.support.history_cards_kept import SAID, card
from windlass.history.base import Batch, Store
from windlass.history.card_rows import cards_of, mark_cards
from windlass.history.marks import CalloutMark, PinMark
from windlass.history.migrating import migrate
from windlass.history.sqlite import SqliteStore
from windlass.selection.card import Card


@pytest.fixture
def ids(store: Store) -> list[str]:
    """The messages of session `s`, said a day apart."""
    rows = [
        row(
            said,
            phase="ask" if at < 2 else "write",
            turn=at or None,
            timestamp=1_763_000_000.5 + at * 86_400,
        )
        for at, said in enumerate(SAID)
    ]
    return [id_ for id_ in store.append(Batch("s", start=start(), rows=rows)) if id_]


def put(store: Store, ids: Sequence[str]) -> list[Card]:
    made = [card(id_, at) for at, id_ in enumerate(ids)]
    store.put_cards("s", made)
    return made


class TestCardMarks:
    @pytest.mark.req("AC-17", "AC-18")
    def test_cards_follow_callouts_and_pins(self, store: Store, ids: list[str]) -> None:
        put(store, ids)
        assert mark_cards(store, "s", 1_763_000_100.0) == 0
        marks = [
            row(details=CalloutMark(ids[1], "old name", "user")),
            row(details=CalloutMark(ids[1], "best lamp", "user")),
            row(details=PinMark(ids[2], pinned=True, by="user")),
            row(details=PinMark(ids[3], pinned=True, by="user")),
            row(details=PinMark(ids[3], pinned=False, by="user")),
        ]
        store.append(Batch("s", rows=marks))
        assert mark_cards(store, "s", 1_763_000_100.0) == 2
        found = cards_of(store, "s")
        assert [found[id_].callout for id_ in ids] == [None, "best lamp", None, None]
        assert [found[id_].is_anchor for id_ in ids] == [False, False, True, False]
        assert found[ids[1]].generated_at == 1_763_000_100
        told = store.query(
            "SELECT callout_name FROM context_cards WHERE is_callout AND session_id = ?", ("s",)
        )
        assert told == [{"callout_name": "best lamp"}]


class TestCardsElsewhere:
    def test_migrate_carries_them_and_the_newer_one_stands(
        self, store: Store, tmp_path: Path
    ) -> None:
        with SqliteStore(tmp_path / "source") as source:
            rows = [row(said, phase="ask") for said in SAID[:2]]
            ids = [one for one in source.append(Batch("s", start=start(), rows=rows)) if one]
            made = [
                card(id_, at, phase="ask", turn=None, callout="x" * at or None)
                for at, id_ in enumerate(ids)
            ]
            source.put_cards("s", made)
            (copied,) = migrate(source, store)
            assert copied.cards == 2
            assert list(store.cards("s")) == made
            newer = replace(made[0], summary="made anew there", generated_at=1_763_000_500)
            store.put_cards("s", [newer])
            source.put_cards(
                "s", [replace(made[1], summary="new here", generated_at=1_763_000_400)]
            )
            list(migrate(source, store))
            assert [one.summary for one in store.cards("s")] == ["made anew there", "new here"]
