"""What the documents say a phase is sent, by cascades with each option as they write it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.engine.harness import House, by_phase, call, calls, cascade, phase
from tests.engine.logs import log, logs, lookup, reading, shown
from tests.support.engine_choosing import SEVEN, TOPICS, asks, pages, selecting, talk
from tests.support.engine_context import RED, draw, look_up, url
from windlass.engine.cards import indexer
from windlass.history.base import NodeType
from windlass.history.card_rows import cards_of
from windlass.history.row_details import json_of
from windlass.wire.base import Request


def selected(**keys: Any) -> dict[str, Any]:
    """A phase that takes from phase `a`."""
    return phase("b", context={"from": [{"phase": "a", **keys}]})


class TestHeaders:
    @pytest.mark.req("CI-21")
    async def test_of_the_input_with_json_indented_by_two(self, house: House) -> None:
        given = {"city": "Ulm", "years": [2024, 2025]}
        ran = await house.run(cascade(phase("a", context={"from": []})), given=given)
        assert ran.seen("a")[0] == ("user", f"[Original Input]:\n{json.dumps(given, indent=2)}")

    @pytest.mark.req("CI-26")
    async def test_of_an_output(self, house: House) -> None:
        ran = await house.run(cascade(phase("a"), selected(include=["output"])), {"a": ["All."]})
        assert ("user", "[Output from a]:\nAll.") in ran.seen("b")

    @pytest.mark.req("CI-27")
    async def test_of_pictures_is_a_text_part_of_their_message(self, house: House) -> None:
        ran = await house.run(
            cascade(phase("a", tackle=["draw"]), selected(include=["images"])),
            {"a": [calls(call("draw")), "drawn"]},
            tools=[draw],
        )
        (message,) = [one for one in ran.chat("b") if isinstance(one["content"], list)]
        assert message["content"] == [{"type": "text", "text": "[Images from a]:"}, url(RED)]

    @pytest.mark.req("CI-28")
    async def test_of_a_conversation_then_the_messages_themselves(self, house: House) -> None:
        said = calls(call("look_up", '{"word": "tea"}'), text="I look.")
        ran = await house.run(
            cascade(phase("a", tackle=["look_up"]), selected(include=["messages"])),
            {"a": [said, "It is hot."]},
            tools=[look_up],
        )
        seen = ran.seen("b")
        at = seen.index(("user", "[Conversation from a]:"))
        assert seen[at + 1 : at + 5] == [
            ("user", "Do a."),
            ("assistant", "I look."),
            ("tool", "tea means something"),
            ("assistant", "It is hot."),
        ]
        assert ran.request("b").messages[at + 2].tool_calls == said.tool_calls


class TestTools:
    @pytest.mark.req("CI-42")
    async def test_a_phase_has_those_it_names_and_no_other(self, house: House) -> None:
        ran = await house.run(
            cascade(phase("a", tackle=["look_up", "draw"]), phase("b", context={"from": []})),
            {"a": [calls(call("look_up")), "ok"]},
            tools=[draw, look_up],
        )
        assert [spec.name for spec in ran.request("a").tools] == ["look_up", "draw"]
        assert not ran.request("b").tools
        assert ("tool", "x means something") in ran.seen("a", 2)


class TestOnAndOff:
    @pytest.mark.req("CA-5", "AC-101")
    async def test_nothing_is_shortened_unless_asked_for(self, house: House) -> None:
        ran = await house.run(cascade(lookup(), phase("b")), reading(*"123456789"), tools=[logs()])
        assert shown(ran, 10) == [log(number) for number in "123456789"]
        texts = [text for role, text in ran.seen("b") if role == "tool"]
        assert texts == [log(number) for number in "123456789"]
        assert all(one.sent_tokens == one.full_tokens for one in ran.calls())

    @pytest.mark.req("AC-31")
    @pytest.mark.parametrize("said", [{}, {"intra_phase": {}}, True])
    async def test_what_is_written_without_enabled_is_on(self, house: House, said: Any) -> None:
        ran = await house.run(
            cascade(lookup(), auto_context=said), reading("1", "2", "3"), tools=[logs()]
        )
        assert len(shown(ran, 4)[0]) < len(log("1")) / 2
        off = {"intra_phase": {"enabled": False}}
        ran = await house.run(
            cascade(lookup(), auto_context=off), reading("1", "2", "3"), tools=[logs()]
        )
        assert shown(ran, 4)[0] == log("1")

    @pytest.mark.req("AC-102", "AC-31")
    @pytest.mark.parametrize("said", [{"enabled": True}, {}])
    async def test_intra_context_alone_turns_one_phase_on(
        self, house: House, said: dict[str, Any]
    ) -> None:
        made = cascade(
            lookup(intra_context=said), phase("b", tackle=["build_log"], context={"from": []})
        )
        replies = reading("1", "2", "3")
        ran = await house.run(made, {"a": replies["a"], "b": replies["a"]}, tools=[logs()])
        assert len(shown(ran, 4)[0]) < len(log("1")) / 2
        assert shown(ran, 4, "b")[0] == log("1")

    @pytest.mark.req("AC-62")
    @pytest.mark.parametrize("on", [True, False])
    async def test_inter_phase_can_be_switched_off(self, house: House, on: bool) -> None:
        ran = await house.run(
            cascade(
                *SEVEN, asks("last", "rivers"), auto_context=selecting(enabled=on, selection={})
            ),
            pages(*TOPICS),
        )
        texts = [text for _, text in ran.seen("last")]
        assert talk("rivers") in texts
        assert (talk("orchards") in texts) is not on


class TestBudgets:
    @pytest.mark.req("AC-57")
    async def test_a_choice_has_30000_tokens_unless_said_otherwise(self, house: House) -> None:
        names = [f"p{number}" for number in range(30)]
        replies = {name: [f"Of rivers, {name}. " + "The rivers rise. " * 500] for name in names}
        sent = {}
        for most in (None, 20_000):
            said: dict[str, Any] = {"share": 1.0, "outline": 0.0}
            said |= {} if most is None else {"max_tokens": most}
            made = cascade(
                *map(phase, names), asks("last", "rivers"), auto_context=selecting(selection=said)
            )
            ran = await house.run(made, replies, model={"window": 200_000})
            sent[most or 30_000] = ran.calls()[-1].sent_tokens
        for most, tokens in sent.items():
            assert 0.9 * most < tokens <= 1.02 * most

    @pytest.mark.req("AC-58")
    async def test_a_choice_has_50_messages_unless_said_otherwise(self, house: House) -> None:
        names = [f"p{number}" for number in range(55)]
        replies = {name: [f"Of rivers, {name} says they rise."] for name in names}
        chosen = {}
        for most in (None, 12):
            said: dict[str, Any] = {"share": 1.0, "outline": 0.0}
            said |= {} if most is None else {"max_messages": most}
            made = cascade(
                *map(phase, names if most is None else names[:15]),
                asks("last", "rivers"),
                auto_context=selecting(selection=said),
            )
            ran = await house.run(made, replies)
            told = json_of(ran.rows(NodeType.CONTEXT_SELECTION)[-1].row)
            chosen[most or 50] = len(told["selected"])
        assert chosen == {50: 50, 12: 12}

    @pytest.mark.req("CE-51")
    async def test_of_a_large_result_more_stays_where_the_window_has_more_room(
        self, house: House
    ) -> None:
        text = "\n".join(f"{number:05} is a line of output" for number in range(900))

        def dump() -> str:
            """Dump."""
            return text

        compress = {"above_chars": 20_000, "max_result_tokens": 4_000}
        kept = []
        for said in ("", "Go on. " * 12_000):
            made = cascade(
                phase("a", tackle=["dump"], instructions=f"Do a. {said}"),
                auto_context={
                    "commit": "at_once",
                    "intra_phase": {"cuts": None, "compress": compress},
                },
            )
            ran = await house.run(
                made, {"a": [calls(call("dump")), "ok"]}, tools=[dump], model={"window": 60_000}
            )
            kept.append(len(shown(ran, 2)[0]))
        assert kept[0] == len(text)
        assert kept[1] < 0.6 * kept[0]


class TestCards:
    @pytest.mark.req("AC-97")
    async def test_a_run_ends_when_its_cards_are_made(
        self, house: House, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("WINDLASS_CARDS_SUMMARISER", "scripted/sum")
        monkeypatch.setattr(indexer, "DRAIN_S", 60.0)
        written: list[str] = []
        plain = by_phase({"a": ["The pump in hall 7 failed at 14:05. " * 12]})

        async def script(request: Request) -> Any:
            if request.model != "sum":
                return plain(request)
            await asyncio.sleep(0.3)
            written.append("The pump failed.")
            return written[-1]

        ran = await house.run(cascade(phase("a"), auto_context=True), script)
        assert written
        (said,) = [stored.id for stored in ran.rows(NodeType.AGENT)]
        assert said
        assert [cards_of(ran.store, ran.session)[said].summary] == written
