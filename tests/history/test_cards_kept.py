"""Cards in a store: what goes in comes out, the newer one stands, and SQL finds it."""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.history.builders import LONG, a_session, row, start
from windlass.errors import UsageError
from windlass.history.base import Batch, Keeper, NodeType
from windlass.history.callouts import mark_of
from windlass.history.cards import cards_of, mark_cards, pin_of
from windlass.history.migrating import migrate
from windlass.history.sqlite import SqliteKeeper
from windlass.messages import assistant, system, tool, user
from windlass.selection.card import Card

CARD_COLUMNS: list[str] = (  # noqa: SIM905 - as the document lists them
    "session_id content_hash summary keywords embedding embedding_model estimated_tokens role "
    "phase_name turn_number is_anchor is_callout callout_name generated_at generator_model "
    "message_timestamp"
).split()

SAID = [
    user("Which lamp sold best in May?"),
    assistant("The green one: 41 of lamp_17."),
    tool("c1", LONG, name="run_sql"),
    user("Which lamp sold best in May?"),
]


def card(stored_id: str, at: int = 0, **told: Any) -> Card:
    """A card of the message `SAID[at]`."""
    message = SAID[at]
    return Card(
        **{
            "id": stored_id,
            "content_hash": message.content_hash,
            "summary": f"summary of {at} with ünïcode",
            "keywords": ("lamp_17", "lämp"),
            "tokens": 10 + at,
            "role": message.role,
            "phase": "ask" if at < 2 else "write",
            "turn": at or None,
            "embedding": array("f", [0.6, -0.8, at / 3]),
            "embedding_model": "two-1",
            "generator_model": "rule",
            "generated_at": 1_763_000_000,
            **told,
        }
    )


@pytest.fixture
def ids(keeper: Keeper) -> list[str]:
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
    return [id_ for id_ in keeper.append(Batch("s", start=start(), rows=rows)) if id_]


def put(keeper: Keeper, ids: Sequence[str]) -> list[Card]:
    made = [card(id_, at) for at, id_ in enumerate(ids)]
    keeper.put_cards("s", made)
    return made


class TestKeptCards:
    @pytest.mark.req("AC-10", "AC-11")
    def test_cards_come_back_whole_and_in_the_order_of_the_session(
        self, keeper: Keeper, ids: list[str]
    ) -> None:
        made = [card(id_, at, is_anchor=at == 1) for at, id_ in enumerate(ids)]
        made[2] = replace(made[2], callout="the figures", embedding=(), embedding_model="")
        keeper.put_cards("s", made[::-1])
        found = list(keeper.cards("s"))
        assert found == made
        assert [one.is_callout for one in found] == [False, False, True, False]
        assert cards_of(keeper, "s") == {one.id: one for one in made}
        assert (keeper.cards("other"), cards_of(keeper, "other")) == ([], {})

    @pytest.mark.req("AC-11")
    def test_equal_bodies_share_the_hash_and_not_the_place(
        self, keeper: Keeper, ids: list[str]
    ) -> None:
        put(keeper, ids)
        first, *_, last = keeper.cards("s")
        assert (first.content_hash, first.id) == (last.content_hash, ids[0])
        assert (last.id, first.phase, last.phase) == (ids[3], "ask", "write")

    @pytest.mark.req("AC-19", "AC-113")
    def test_the_newer_card_stands(self, keeper: Keeper, ids: list[str]) -> None:
        put(keeper, ids)
        newer = card(ids[0], summary="newer", generated_at=1_763_000_009, generator_model="a/b")
        keeper.put_cards("s", [newer])
        keeper.put_cards("s", [card(ids[0], summary="older", generated_at=1_763_000_001)])
        assert keeper.cards("s")[0] == newer
        again = replace(newer, summary="of the same second")
        keeper.put_cards("s", [again])
        assert keeper.cards("s")[0] == again
        assert len(keeper.cards("s")) == 4

    @pytest.mark.req("AC-14")
    def test_vectors_of_two_models_stand_in_one_session(
        self, keeper: Keeper, ids: list[str]
    ) -> None:
        made = [card(ids[0]), card(ids[1], 1, embedding=array("f", [1.0]), embedding_model="one")]
        keeper.put_cards("s", made)
        assert list(keeper.cards("s")) == made

    def test_a_card_of_no_message_is_never_given_back(self, keeper: Keeper, ids: list[str]) -> None:
        lost = card(f"{'0' * 16}-1", content_hash="0" * 16)
        keeper.put_cards("s", [card(ids[0]), lost, card(f"{SAID[1].content_hash}-7", 1)])
        assert [one.id for one in keeper.cards("s")] == ids[:1]
        assert {one["message_id"] for one in keeper.query(ALL)} <= {ids[0], lost.id}
        assert [one for one in keeper.verify() if one.severity == "damage"] == []

    def test_an_unknown_session_is_refused(self, keeper: Keeper, ids: list[str]) -> None:
        with pytest.raises(UsageError, match="no session 'other'"):
            keeper.put_cards("other", [card(ids[0])])

    def test_an_open_store_sees_what_another_puts(
        self, open_keeper: Callable[[], Keeper], keeper: Keeper, ids: list[str]
    ) -> None:
        with open_keeper() as other:
            made = put(other, ids)
        assert list(keeper.cards("s")) == made


class TestCardQueue:
    @pytest.mark.req("AC-26", "AC-96")
    def test_what_waits_is_each_message_without_a_card(
        self, keeper: Keeper, ids: list[str]
    ) -> None:
        keeper.append(Batch("s", rows=[row(system("Be.")), row(), row(user("one more"))]))
        waiting = keeper.without_cards("s")
        assert [one.seq for one in waiting] == [1, 2, 3, 4, 7]
        assert waiting == [one for one in keeper.rows("s") if one.seq in (1, 2, 3, 4, 7)]
        keeper.put_cards("s", [card(ids[1], 1), card(ids[3], 3)])
        assert [one.seq for one in keeper.without_cards("s")] == [1, 3, 7]
        assert [one.seq for one in keeper.without_cards("s", limit=2)] == [1, 3]
        assert [one.seq for one in keeper.without_cards("s", after=3)] == [7]
        assert list(keeper.without_cards("other")) == []

    def test_records_of_choosing_and_decisions_do_not_wait(self, keeper: Keeper) -> None:
        kinds = [NodeType.CONTEXT_SELECTION, NodeType.DECISION, NodeType.VALIDATION]
        rows = [row(user(kind.value), node_type=kind) for kind in kinds]
        keeper.append(Batch("s", start=start(), rows=rows))
        assert list(keeper.without_cards("s")) == []


class TestCardMarks:
    @pytest.mark.req("AC-17", "AC-18")
    def test_cards_follow_callouts_and_pins(self, keeper: Keeper, ids: list[str]) -> None:
        put(keeper, ids)
        assert mark_cards(keeper, "s", 1_763_000_100.0) == 0
        marks = [
            row(metadata=mark_of(ids[1], "old name", "user")),
            row(metadata=mark_of(ids[1], "best lamp", "user")),
            row(metadata=pin_of(ids[2], pinned=True)),
            row(metadata=pin_of(ids[3], pinned=True)),
            row(metadata=pin_of(ids[3], pinned=False)),
        ]
        keeper.append(Batch("s", rows=marks))
        assert mark_cards(keeper, "s", 1_763_000_100.0) == 2
        found = cards_of(keeper, "s")
        assert [found[id_].callout for id_ in ids] == [None, "best lamp", None, None]
        assert [found[id_].is_anchor for id_ in ids] == [False, False, True, False]
        assert found[ids[1]].generated_at == 1_763_000_100
        told = keeper.query(
            "SELECT callout_name FROM context_cards WHERE is_callout AND session_id = ?", ("s",)
        )
        assert told == [{"callout_name": "best lamp"}]


ALL = "SELECT * FROM context_cards"


class TestCardSql:
    @pytest.mark.req(
        "AC-10", "AC-11", "AC-12", "AC-13", "AC-14", "AC-15", "AC-16", "AC-17", "AC-18", "AC-19"
    )
    def test_context_cards_has_literally_the_documents_columns(
        self, keeper: Keeper, ids: list[str]
    ) -> None:
        put(keeper, ids)
        found = keeper.query(f"{ALL} ORDER BY message_timestamp")
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
    def test_the_documents_selection_query(self, keeper: Keeper, ids: list[str]) -> None:
        put(keeper, ids)
        found = keeper.query(
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
    def test_the_documents_join(self, keeper: Keeper, ids: list[str]) -> None:
        keeper.put_cards("s", [card(ids[1], 1)])
        found = keeper.query(
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
    def test_prune_takes_the_cards_along(self, keeper: Keeper, ids: list[str]) -> None:
        put(keeper, ids)
        for batch in a_session("kept"):
            keeper.append(batch)
        said = next(one for one in keeper.rows("kept") if one.id)
        assert said.id is not None
        assert said.row.message is not None
        other = card(said.id, content_hash=said.row.message.content_hash, role="system")
        keeper.put_cards("kept", [other])
        keeper.prune(session_id="s", now=0.0)
        assert [one["session_id"] for one in keeper.query(ALL)] == ["kept"]
        assert list(keeper.cards("s")) == []
        assert list(keeper.verify()) == []

    def test_migrate_carries_them_and_the_newer_one_stands(
        self, keeper: Keeper, tmp_path: Path
    ) -> None:
        with SqliteKeeper(tmp_path / "source") as source:
            rows = [row(said, phase="ask") for said in SAID[:2]]
            ids = [one for one in source.append(Batch("s", start=start(), rows=rows)) if one]
            made = [
                card(id_, at, phase="ask", turn=None, callout="x" * at or None)
                for at, id_ in enumerate(ids)
            ]
            source.put_cards("s", made)
            (copied,) = migrate(source, keeper)
            assert copied.cards == 2
            assert list(keeper.cards("s")) == made
            newer = replace(made[0], summary="made anew there", generated_at=1_763_000_500)
            keeper.put_cards("s", [newer])
            source.put_cards(
                "s", [replace(made[1], summary="new here", generated_at=1_763_000_400)]
            )
            list(migrate(source, keeper))
            assert [one.summary for one in keeper.cards("s")] == ["made anew there", "new here"]
