"""Cards beside a run: what gets one, who writes it, and what happens when things fail."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.engine.harness import House, Ran, by_phase, call, calls, cascade, phase
from windlass.engine.cards import card_queue, maker
from windlass.engine.cards.card_queue import failed_of
from windlass.engine.events import Noted, SessionStarted
from windlass.errors import ProviderError, StoreError, UsageError
from windlass.history.base import NodeType
from windlass.history.card_rows import cards_of, item_of
from windlass.history.row_details import json_of
from windlass.history.sqlite import SqliteStore
from windlass.messages import Message
from windlass.selection.card import Card
from windlass.selection.index import Index, Query
from windlass.selection.vectors import Vectors, installed
from windlass.settings.settings import Settings
from windlass.wire.base import Request

LONG = "The pump in hall 7 failed at 14:05. " * 12
needs_model = pytest.mark.skipif(not installed(), reason="the extra 'embeddings' is not installed")


def two_phases(**keys: Any) -> dict[str, Any]:
    return cascade(phase("a", tackle=["look", "recall"]), phase("b"), system="Be brief.", **keys)


def replies(*, first: str = LONG) -> dict[str, list[Any]]:
    return {
        "a": [calls(call("look", '{"at": "pump"}'), text="Let me look at the pump first."), first],
        "b": ["Short answer about P-101."],
    }


def with_summaries(
    answer: Callable[[Request], Any], said: dict[str, list[Any]] | None = None
) -> Callable[[Request], Any]:
    """A script in which the model `sum` writes summaries."""
    script = by_phase(said or replies())
    return lambda request: answer(request) if request.model == "sum" else script(request)


def by_text(ran: Ran) -> dict[str, Card]:
    """Each card by the beginning of what its message says."""
    found = cards_of(ran.store, ran.session)
    rows = {stored.id: stored for stored in ran.rows() if stored.id in found}
    return {(str(one.row.message and one.row.message.text))[:9]: found[id_]
            for id_, one in rows.items() if id_}  # fmt: skip


@pytest.fixture
def summarised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINDLASS_CARDS_SUMMARISER", "scripted/sum")


def look(at: str) -> str:
    """Look at something.

    Args:
        at: What.
    """
    return f"{at}: P-101 of hall 7 stands still, {at}, {at}"


@pytest.fixture(autouse=True)
def patient(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each run has the tool, and waits for all its cards."""
    house.tools = (look,)
    monkeypatch.setattr(card_queue, "DRAIN_S", 60.0)


class TestWhichGetOne:
    @pytest.mark.req("AC-95", "AC-96", "AC-16")
    async def test_each_message_that_says_something_gets_one(self, house: House) -> None:
        ran = await house.run(two_phases(auto_context={}), replies())
        cards = ran.store.cards(ran.session)
        assert [(card.role, card.phase, card.turn) for card in cards] == [
            ("assistant", "a", 1),
            ("tool", "a", 1),
            ("assistant", "a", 2),
            ("assistant", "b", 1),
        ]
        assert {card.generator_model for card in cards} == {"rule"}
        assert all(card.generated_at > 1_700_000_000 for card in cards)
        # "Do a." has fewer than 20 characters and names nothing; "Be brief." is no message of it.
        assert ran.store.without_cards(ran.session)[0].row.message is not None
        assert ran.has_no_damage()

    @pytest.mark.req("AC-95")
    async def test_originals_brought_back_get_none(self, house: House) -> None:
        def script(request: Request) -> Message | str:
            results = [one for one in request.messages if one.role == "tool"]
            if not results:
                return calls(call("look", '{"at": "pump"}'), text="Let me look at the pump first.")
            if len(results) == 1:
                return calls(call("recall", f'{{"ref": "result_{results[0].content_hash}"}}'))
            return "done with that, thank you"

        ran = await house.run(two_phases(auto_context={}), script)
        tools = [one.row.message for one in ran.rows(NodeType.TOOL_RESULT)]
        assert [one and one.name for one in tools][:2] == ["look", "recall"]
        carded = cards_of(ran.store, ran.session)
        named = {
            one.row.message.name: one.id in carded
            for one in ran.rows(NodeType.TOOL_RESULT, phase="a")
            if one.row.message
        }
        assert named["recall"] is False
        recalled = next(
            one for one in ran.rows() if one.row.message and one.row.message.name == "recall"
        )
        item = item_of(recalled)
        assert item is not None
        assert item.node == "recall"

    @pytest.mark.parametrize(
        ("keys", "made"),
        [
            ({}, False),
            ({"auto_context": False}, False),
            ({"auto_context": True}, True),
            ({"auto_context": {"profile": "lean"}}, True),
        ],
    )
    async def test_only_runs_that_can_use_them_make_them(
        self, house: House, keys: dict[str, Any], made: bool
    ) -> None:
        ran = await house.run(two_phases(**keys), replies())
        assert bool(ran.store.cards(ran.session)) is made

    async def test_whoever_says_how_gets_them(
        self, house: House, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("WINDLASS_CARDS_EMBEDDER", "none")
        ran = await house.run(two_phases(), replies())
        assert [card.embedding for card in ran.store.cards(ran.session)] == [()] * 4

    @pytest.mark.req("AC-99", "AC-100")
    async def test_the_flag_switches_them_off_for_everybody(
        self, house: House, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("WINDLASS_AUTO_CONTEXT_CARDS_ENABLED", "false")
        monkeypatch.setenv("WINDLASS_CARDS_SUMMARISER", "scripted/sum")
        ran = await house.run(two_phases(auto_context={}), replies())
        assert list(ran.store.cards(ran.session)) == []
        (told,) = ran.decisions("switched_off")
        assert told["setting"] == "auto_context_cards_enabled"
        assert "WINDLASS_AUTO_CONTEXT_CARDS_ENABLED" in told["text"]
        (started,) = [one for one in ran.events if isinstance(one, SessionStarted)]
        assert started.models == ("scripted/x",)

    @pytest.mark.req("AC-18", "AC-17")
    async def test_a_callout_is_on_the_card(self, house: House) -> None:
        given = two_phases(auto_context={})
        given["phases"][0]["callouts"] = {"the failure": "14:05"}
        ran = await house.run(given, replies())
        marked = [card for card in ran.store.cards(ran.session) if card.is_callout]
        assert [(card.callout, card.turn) for card in marked] == [("the failure", 2)]

    @pytest.mark.req("AC-18")
    async def test_a_message_marked_after_its_card_was_made(self, house: House) -> None:
        async def wait_then_mark(request: Request) -> Message | str:
            if len(request.messages) == 1:
                return calls(call("look", '{"at": "pump"}'), text="Let me look at the pump first.")
            if len(request.messages) == 3:
                await asyncio.sleep(0.3)  # the card of the result is made meanwhile
                return calls(call("callout", '{"ref": "look", "name": "kept"}'))
            await asyncio.sleep(0.3)
            return "done with that, thank you"

        given = cascade(phase("a", tackle=["look", "callout"]), auto_context={})
        ran = await house.run(given, wait_then_mark)
        marked = [card for card in ran.store.cards(ran.session) if card.is_callout]
        assert [(card.callout, card.role) for card in marked] == [("kept", "tool")]


class TestSummaries:
    @pytest.mark.req("AC-91", "AC-92", "AC-12", "AC-19")
    async def test_a_model_writes_those_of_long_texts_alone(
        self, house: House, summarised: None
    ) -> None:
        text = "Begin. " + "middle " * 900 + "The end is P-999."
        script = with_summaries(
            lambda _: "Summary: The pump failed.\n\nIt was P-101.", replies(first=text)
        )
        ran = await house.run(two_phases(auto_context={}), script)
        asked = [one for one in ran.model.requests if one.model == "sum"]
        assert len(asked) == 1
        question = asked[0].messages[0].text
        assert "Summarize this assistant message in 1-2 sentences" in question
        assert "Begin." in question
        assert "The end is P-999." in question
        (cut,) = re.findall(r"\n\[\.\.\. ([\d,]+) characters \.\.\.\]\n", question)
        assert len(text) - int(cut.replace(",", "")) == 2_000
        cards = ran.store.cards(ran.session)
        assert [card.generator_model for card in cards] == ["rule", "rule", "scripted/sum", "rule"]
        assert cards[2].summary == "The pump failed. It was P-101."
        assert cards[3].summary == "Short answer about P-101."
        assert cards[1].summary.startswith("Result of look")
        (spent,) = ran.decisions("cards")
        assert "1" in spent["text"]
        (row,) = [one.row for one in ran.rows() if json_of(one.row).get("kind") == "cards"]
        assert row.model == "scripted/sum"
        assert (row.tokens_in or 0) > 300
        (started,) = [one for one in ran.events if isinstance(one, SessionStarted)]
        assert started.models == ("scripted/x", "scripted/sum")

    @pytest.mark.req("AC-91")
    @pytest.mark.parametrize("chars", [199, 200])
    async def test_under_200_characters_a_text_is_its_own_summary(
        self, house: House, summarised: None, chars: int
    ) -> None:
        text = ("The pump in hall 7 failed again. " * 9)[: chars - 1] + "!"
        script = with_summaries(lambda _: "It failed.", replies(first=text))
        ran = await house.run(two_phases(auto_context={}), script)
        assert ran.store.cards(ran.session)[2].summary == (text if chars < 200 else "It failed.")

    @pytest.mark.req("AC-12", "AC-92")
    async def test_too_long_an_answer_is_cut(self, house: House, summarised: None) -> None:
        ran = await house.run(
            two_phases(auto_context={}), with_summaries(lambda _: "It goes on. " * 400)
        )
        summary = ran.store.cards(ran.session)[2].summary
        assert len(summary) <= 300
        assert summary.endswith("goes on.")

    @pytest.mark.req("AC-93")
    @pytest.mark.parametrize("answer", ["", " \n", "boom", "odd"])
    async def test_by_rule_where_the_model_does_not_answer(
        self, house: House, summarised: None, answer: str
    ) -> None:
        def say(_: Request) -> str:
            if answer == "boom":
                raise ProviderError("the vendor is on holiday")
            if answer == "odd":
                raise RuntimeError("a bug of the vendor's client")
            return answer

        ran = await house.run(two_phases(auto_context={}), with_summaries(say))
        assert ran.result.status == "completed"
        card = ran.store.cards(ran.session)[2]
        assert card.generator_model == "rule"
        assert card.summary.startswith("The pump in hall 7")
        (told,) = ran.decisions("cards_failed")
        assert told["failed"] == [card.id]
        assert told["model"] == "scripted/sum"
        assert "1 card with a summary by rule" in told["text"]
        why = {"boom": "on holiday", "odd": "RuntimeError: a bug"}.get(answer, "answered nothing")
        assert why in told["text"]
        assert list(failed_of(ran.rows(), cards_of(ran.store, ran.session))) == [card.id]

    async def test_a_model_that_failed_is_left_alone_for_a_while(
        self, house: House, summarised: None
    ) -> None:
        asked: list[Request] = []

        def say(request: Request) -> str:
            asked.append(request)
            raise ProviderError("the vendor is on holiday")

        said = replies() | {"b": ["Another long text about pumps. " * 20]}
        ran = await house.run(two_phases(auto_context={}), with_summaries(say, said))
        assert len(asked) == 1
        failed = [id_ for told in ran.decisions("cards_failed") for id_ in told["failed"]]
        assert len(failed) == 2

    @pytest.mark.req("AC-59", "AC-88")
    async def test_nobody_is_asked_unless_a_setting_names_it(
        self, house: House, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ran = await house.run(two_phases(auto_context={}), replies())
        assert {one.model for one in ran.model.requests} == {"function"}
        monkeypatch.setenv("WINDLASS_HELPER_MODEL", "scripted/sum")
        ran = await house.run(two_phases(auto_context={}), with_summaries(lambda _: "Helped."))
        assert ran.store.cards(ran.session)[2].generator_model == "scripted/sum"
        monkeypatch.setenv("WINDLASS_CARDS_SUMMARISER", "none")
        ran = await house.run(two_phases(auto_context={}), replies())
        assert ran.store.cards(ran.session)[2].generator_model == "rule"

    @pytest.mark.req("AC-59")
    def test_a_cascades_helper_goes_before_the_users(self) -> None:
        settings = Settings.read({}, {"WINDLASS_HELPER_MODEL": "b/user"}, Path())
        named = {"auto_context": {"helper_model": "a/cascade"}}
        assert maker.card_options(settings, named).summariser == "a/cascade"
        assert maker.card_options(settings, {"auto_context": True}).summariser == "b/user"
        assert (
            maker.card_options(Settings.read({}, {}, Path()), {"auto_context": True}).summariser
            is None
        )

    @pytest.mark.req("AC-11")
    async def test_equal_bodies_share_summary_and_vector(
        self, house: House, summarised: None
    ) -> None:
        said = replies() | {"b": [LONG]}
        script = with_summaries(lambda _: "The pump failed.", said)
        ran = await house.run(two_phases(auto_context={}), script)
        assert len([one for one in ran.model.requests if one.model == "sum"]) == 1
        one, other = [card for card in ran.store.cards(ran.session) if card.tokens > 50]
        assert (one.summary, list(one.embedding)) == (other.summary, list(other.embedding))
        assert (one.phase, other.phase) == ("a", "b")
        assert one.id != other.id

    async def test_a_model_that_is_not_there_is_told_before_anything_is_paid(
        self, house: House, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("WINDLASS_CARDS_SUMMARISER", "nobody/x")
        with pytest.raises(UsageError, match="there is no provider 'nobody'"):
            await house.run(two_phases(auto_context={}), replies())


class Odd:
    """An embedding model that answers what a test wants."""

    name = "odd-1"
    dimensions = 2

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def embed(self, texts: Sequence[str]) -> Vectors:
        if isinstance(self.answer, Exception):
            raise self.answer
        rows: Vectors = np.array(self.answer * len(texts), dtype=np.float32)
        return rows


class TestVectors:
    @needs_model
    @pytest.mark.req("AC-14", "AC-94")
    async def test_selection_takes_the_vectors_that_are_kept(self, house: House) -> None:
        ran = await house.run(two_phases(auto_context={}), replies())
        index = Index()
        kept = cards_of(ran.store, ran.session)
        items = [item for one in ran.rows() if (item := item_of(one)) and item.id in kept]
        for item in items:
            index.append(item, kept[item.id].tokens, kept[item.id])

        class Never(Odd):
            name = "wordllama-0.4-256"
            dimensions = 256

            def embed(self, texts: Sequence[str]) -> Vectors:
                assert list(texts) == ["P-101"], "only the task is embedded"
                return np.full((1, 256), 1 / 16, dtype=np.float32)

        assert len(index.by_vectors(Query.of("P-101"), Never(None))) == len(items) == 4

    async def test_without_an_embedding_model_cards_are_made_all_the_same(
        self, house: House, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("windlass.selection.vectors.installed", lambda: False)
        ran = await house.run(two_phases(auto_context={}), replies())
        cards = ran.store.cards(ran.session)
        assert [(len(card.embedding), card.embedding_model) for card in cards] == [(0, "")] * 4
        monkeypatch.setenv("WINDLASS_CARDS_EMBEDDER", "wordllama")
        with pytest.raises(UsageError, match=r"cards.embedder is 'wordllama'.*pip install"):
            await house.run(two_phases(auto_context={}), replies())

    @pytest.mark.parametrize("answer", [ValueError("no weights"), [[1.0, 2.0, 3.0]]])
    async def test_one_that_fails_costs_the_vectors_alone(
        self, house: House, monkeypatch: pytest.MonkeyPatch, answer: Any
    ) -> None:
        monkeypatch.setattr(maker, "embedder_of", lambda *_: lambda: Odd(answer))
        ran = await house.run(two_phases(auto_context={}), replies())
        assert ran.result.status == "completed"
        assert len(ran.store.cards(ran.session)) == 4
        told = ran.decisions("cards_failed")
        assert sum(len(one["failed"]) for one in told) == 4
        assert told[0]["lacks"] == "vector"
        assert "with no vector, because of odd-1" in told[0]["text"]

    async def test_two_models_in_one_session_are_never_compared(
        self, house: House, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(maker, "embedder_of", lambda *_: lambda: Odd([[0.6, 0.8]]))
        ran = await house.run(two_phases(auto_context={}), replies())
        first, second, *_ = ran.store.cards(ran.session)
        other = Odd([[0.0, 1.0]])
        other.name = "odd-2"
        from dataclasses import replace

        ran.store.put_cards(ran.session, [replace(second, embedding_model="odd-2")])
        kept = cards_of(ran.store, ran.session)
        index = Index()
        for one in ran.rows():
            item = item_of(one)
            if item is not None and item.id in (first.id, second.id):
                index.append(item, 5, kept[item.id])
        # The first has no vector of odd-2: its text is embedded by that model.
        assert index.by_vectors(Query.of("pump"), other) == pytest.approx([1.0, 0.8])


class TestBeside:
    @pytest.mark.req("AC-26", "AC-98", "AC-96")
    async def test_a_turn_does_not_wait_for_a_card(
        self, house: House, summarised: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(card_queue, "DRAIN_S", 0.2)

        async def never(request: Request) -> str:
            await asyncio.sleep(600)
            return ""

        started = time.monotonic()
        ran = await house.run(two_phases(auto_context={}), with_summaries(never))
        assert time.monotonic() - started < 10
        assert ran.result.status == "completed"
        noted = [one.text for one in ran.events if isinstance(one, Noted)]
        assert any(f"windlass cards {ran.session} --make" in text for text in noted)
        assert len(ran.store.without_cards(ran.session)) > 2

    @pytest.mark.req("AC-26", "AC-89")
    async def test_what_is_left_is_made_by_the_next_run(
        self, house: House, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(card_queue, "DRAIN_S", 0.0)
        left = await house.run(two_phases(auto_context={}), replies())
        assert len(left.store.cards(left.session)) < 4

        async def slowly(request: Request) -> str:
            del request
            await asyncio.sleep(0.5)
            return "done with that, thank you"

        await house.run(cascade(phase("c"), auto_context={}), slowly)
        assert len(left.store.cards(left.session)) == 4
        assert left.has_no_damage()

    async def test_a_store_that_fails_costs_no_run_and_no_card(
        self, house: House, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        put = SqliteStore.put_cards
        failing = [StoreError("the disk is full")]
        monkeypatch.setattr(card_queue, "_RETRY_S", (0.05,))

        def fail_once(self: SqliteStore, session_id: str, cards: Sequence[Card]) -> None:
            if failing:
                raise failing.pop()
            put(self, session_id, cards)

        monkeypatch.setattr(SqliteStore, "put_cards", fail_once)
        ran = await house.run(two_phases(auto_context={}), replies())
        assert ran.result.status == "completed"
        assert len(ran.store.cards(ran.session)) == 4
        noted = [one.text for one in ran.events if isinstance(one, Noted)]
        assert "cards wait: the disk is full" in noted

    async def test_a_bug_in_making_them_ends_no_run(
        self, house: House, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def bug(*_: object, **__: object) -> None:
            raise ZeroDivisionError("of cards")

        monkeypatch.setattr("windlass.engine.cards.maker.card_of", bug)
        ran = await house.run(two_phases(auto_context={}), replies())
        assert ran.result.status == "completed"
        noted = [one.text for one in ran.events if isinstance(one, Noted)]
        assert "no more cards are made: ZeroDivisionError: of cards" in noted

    @pytest.mark.req("AC-87", "AC-89")
    async def test_batches_have_their_size_and_workers_their_number(
        self, house: House, summarised: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("WINDLASS_CARDS_BATCH_SIZE", "2")
        monkeypatch.setenv("WINDLASS_CARDS_WORKERS", "3")
        sizes: list[int] = []
        put = SqliteStore.put_cards

        def watch(self: SqliteStore, session_id: str, cards: Sequence[Card]) -> None:
            sizes.append(len(cards))
            put(self, session_id, cards)

        monkeypatch.setattr(SqliteStore, "put_cards", watch)
        at_once = [0, 0]

        async def summary(request: Request) -> str:
            del request
            at_once[0] += 1
            at_once[1] = max(at_once)
            await asyncio.sleep(0.2)
            at_once[0] -= 1
            return "A summary."

        texts = [f"Text {at}: " + LONG for at in range(8)]
        asked = [calls(call("look", f'{{"at": "k{at}"}}'), text=text)
                 for at, text in enumerate(texts)]  # fmt: skip
        said = {"a": [*asked, "done"]}
        ran = await house.run(
            cascade(phase("a", tackle=["look"]), auto_context={}),
            with_summaries(summary, said),
        )
        assert max(sizes) == 2
        assert 1 < at_once[1] <= 3
        assert not [one for one in ran.store.without_cards(ran.session) if _is_long(one)]


def _is_long(stored: Any) -> bool:
    return len(stored.row.message.text) > 20


async def test_every_worker_is_stopped_when_a_run_is_cancelled(
    house: House, summarised: None
) -> None:
    entered = asyncio.Event()

    async def hang(request: Request) -> str:
        del request
        entered.set()
        await asyncio.sleep(600)
        return ""

    async def reply(request: Request) -> Any:
        if request.model == "sum":
            return await hang(request)
        if len(request.messages) > 2:
            await asyncio.sleep(600)
        return calls(call("look", '{"at": "k"}'), text=LONG)

    given = cascade(phase("a", tackle=["look"]), auto_context={})
    run = asyncio.create_task(house.run(given, reply))
    await asyncio.wait_for(entered.wait(), 30)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []
