"""Cards in a store: what goes in comes out, the newer one stands, and SQL finds it."""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.history.builders import a_session, row, start
from tests.support.history_cards_kept import CARD_COLUMNS, SAID, card
from windlass.errors import UsageError
from windlass.history.base import Batch, NodeType, Store
from windlass.history.card_rows import cards_of, mark_cards
from windlass.history.marks import CalloutMark, PinMark
from windlass.history.migrating import migrate
from windlass.history.sqlite import SqliteStore
from windlass.messages import system, user
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


class TestKeptCards:
    @pytest.mark.req("AC-10", "AC-11")
    def test_cards_come_back_whole_and_in_the_order_of_the_session(
        self, store: Store, ids: list[str]
    ) -> None:
        made = [card(id_, at, is_anchor=at == 1) for at, id_ in enumerate(ids)]
        made[2] = replace(made[2], callout="the figures", embedding=(), embedding_model="")
        store.put_cards("s", made[::-1])
        found = list(store.cards("s"))
        assert found == made
        assert [one.is_callout for one in found] == [False, False, True, False]
        assert cards_of(store, "s") == {one.id: one for one in made}
        assert (store.cards("other"), cards_of(store, "other")) == ([], {})

    @pytest.mark.req("AC-11")
    def test_equal_bodies_share_the_hash_and_not_the_place(
        self, store: Store, ids: list[str]
    ) -> None:
        put(store, ids)
        first, *_, last = store.cards("s")
        assert (first.content_hash, first.id) == (last.content_hash, ids[0])
        assert (last.id, first.phase, last.phase) == (ids[3], "ask", "write")

    @pytest.mark.req("AC-19", "AC-113")
    def test_the_newer_card_stands(self, store: Store, ids: list[str]) -> None:
        put(store, ids)
        newer = card(ids[0], summary="newer", generated_at=1_763_000_009, generator_model="a/b")
        store.put_cards("s", [newer])
        store.put_cards("s", [card(ids[0], summary="older", generated_at=1_763_000_001)])
        assert store.cards("s")[0] == newer
        again = replace(newer, summary="of the same second")
        store.put_cards("s", [again])
        assert store.cards("s")[0] == again
        assert len(store.cards("s")) == 4

    @pytest.mark.req("AC-14")
    def test_vectors_of_two_models_stand_in_one_session(self, store: Store, ids: list[str]) -> None:
        made = [card(ids[0]), card(ids[1], 1, embedding=array("f", [1.0]), embedding_model="one")]
        store.put_cards("s", made)
        assert list(store.cards("s")) == made

    def test_a_card_of_no_message_is_never_given_back(self, store: Store, ids: list[str]) -> None:
        lost = card(f"{'0' * 16}-1", content_hash="0" * 16)
        store.put_cards("s", [card(ids[0]), lost, card(f"{SAID[1].content_hash}-7", 1)])
        assert [one.id for one in store.cards("s")] == ids[:1]
        assert {one["message_id"] for one in store.query(ALL)} <= {ids[0], lost.id}
        assert [one for one in store.verify() if one.severity == "damage"] == []

    def test_an_unknown_session_is_refused(self, store: Store, ids: list[str]) -> None:
        with pytest.raises(UsageError, match="no session 'other'"):
            store.put_cards("other", [card(ids[0])])

    def test_an_open_store_sees_what_another_puts(
        self, open_store: Callable[[], Store], store: Store, ids: list[str]
    ) -> None:
        with open_store() as other:
            made = put(other, ids)
        assert list(store.cards("s")) == made


class TestCardQueue:
    @pytest.mark.req("AC-26", "AC-96")
    def test_what_waits_is_each_message_without_a_card(self, store: Store, ids: list[str]) -> None:
        store.append(Batch("s", rows=[row(system("Be.")), row(), row(user("one more"))]))
        waiting = store.without_cards("s")
        assert [one.seq for one in waiting] == [1, 2, 3, 4, 7]
        assert waiting == [one for one in store.rows("s") if one.seq in (1, 2, 3, 4, 7)]
        store.put_cards("s", [card(ids[1], 1), card(ids[3], 3)])
        assert [one.seq for one in store.without_cards("s")] == [1, 3, 7]
        assert [one.seq for one in store.without_cards("s", limit=2)] == [1, 3]
        assert [one.seq for one in store.without_cards("s", after=3)] == [7]
        assert list(store.without_cards("other")) == []

    def test_records_of_choosing_and_decisions_do_not_wait(self, store: Store) -> None:
        kinds = [NodeType.CONTEXT_SELECTION, NodeType.DECISION, NodeType.VALIDATION]
        rows = [row(user(kind.value), node_type=kind) for kind in kinds]
        store.append(Batch("s", start=start(), rows=rows))
        assert list(store.without_cards("s")) == []


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


ALL = "SELECT * FROM context_cards"


class TestCardSql:
    @pytest.mark.req(
        "AC-10", "AC-11", "AC-12", "AC-13", "AC-14", "AC-15", "AC-16", "AC-17", "AC-18", "AC-19"
    )
    def test_context_cards_has_literally_the_documents_columns(
        self, store: Store, ids: list[str]
    ) -> None:
        put(store, ids)
        found = store.query(f"{ALL} ORDER BY message_timestamp")
        assert list(found[0]) == [*CARD_COLUMNS, "message_id"]
        told = found[1]
        assert (told["session_id"], told["content_hash"]) == ("s", SAID[1].content_hash)
        assert (told["summary"], told["estimated_tokens"]) == ("summary of 1 with ünïcode", 11)
        assert (told["role"], told["phase_name"], told["turn_number"]) == ("assistant", "ask", 1)
        assert not told["is_anchor"]
        assert not told["is_callout"]
        assert told["callout_name"] is None
        assert told["generated_at"] == "2025-11-13T02:13:20.000000Z"
        assert told["message_timestamp"][:19] == "2025-11-14T02:13:20"
        assert (told["generator_model"], told["embedding_model"]) == ("rule", "two-1")
        assert told["message_id"] == ids[1]
        keywords, vector = told["keywords"], told["embedding"]
        # SQLite has no arrays: keywords are JSON there, vectors float32 numbers.
        assert (json.loads(keywords) if isinstance(keywords, str) else keywords) == [
            "lamp_17",
            "lämp",
        ]
        numbers = array("f", vector)
        assert numbers == array("f", [0.6, -0.8, 1 / 3])

    @pytest.mark.req("AC-23", "AC-25")
    def test_the_documents_selection_query(self, store: Store, ids: list[str]) -> None:
        put(store, ids)
        found = store.query(
            """
            SELECT content_hash, summary, keywords, estimated_tokens, is_anchor, is_callout
            FROM context_cards
            WHERE session_id = ?
              AND phase_name IN ('ask', 'analysis')
            ORDER BY message_timestamp DESC;
            """,
            ("s",),
        )
        assert [one["content_hash"] for one in found] == [
            SAID[1].content_hash,
            SAID[0].content_hash,
        ]
        assert [one["estimated_tokens"] for one in found] == [11, 10]

    @pytest.mark.req("AC-25")
    def test_the_documents_join(self, store: Store, ids: list[str]) -> None:
        store.put_cards("s", [card(ids[1], 1)])
        found = store.query(
            """
            SELECT
                ul.content_hash,
                ul.role,
                ul.content_json,
                cc.summary,
                cc.keywords,
                cc.estimated_tokens
            FROM unified_logs ul
            LEFT JOIN context_cards cc
                ON ul.session_id = cc.session_id
                AND ul.content_hash = cc.content_hash
            WHERE ul.session_id = ?;
            """,
            ("s",),
        )
        assert len(found) == 4
        joined = {one["content_json"]: one["summary"] for one in found}
        assert joined[json.dumps(SAID[1].text)] == "summary of 1 with ünïcode"
        assert joined[json.dumps(SAID[0].text)] is None


class TestCardsElsewhere:
    @pytest.mark.req("AC-112")
    def test_prune_takes_the_cards_along(self, store: Store, ids: list[str]) -> None:
        put(store, ids)
        for batch in a_session("kept"):
            store.append(batch)
        said = next(one for one in store.rows("kept") if one.id)
        assert said.id is not None
        assert said.row.message is not None
        other = card(said.id, content_hash=said.row.message.content_hash, role="system")
        store.put_cards("kept", [other])
        store.prune(session_id="s", now=0.0)
        assert [one["session_id"] for one in store.query(ALL)] == ["kept"]
        assert list(store.cards("s")) == []
        assert list(store.verify()) == []

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
