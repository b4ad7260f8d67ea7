"""Every request is one that all three providers take: calls and results stay together."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest
from hypothesis import given

from tests.engine.harness import House, Ran, Said, call, calls, cascade, phase
from tests.engine.pairing import Chat, anthropic_refuses, gemini_refuses
from tests.strategies import conversations, png
from windlass.wire.openai import check_sequence, to_openai


def look_up(word: str = "x") -> str:
    """Look a word up."""
    return f"{word} means " + "something " * 40


def draw() -> bytes:
    """Draw a picture."""
    return png()


TOOLS = (look_up, draw)


def pairs() -> list[Said]:
    """Replies with two calls, one call and none; the ids are new each time."""
    return [
        calls(call("look_up"), call("draw"), text="Both."),
        calls(call("look_up", "{}")),
        "found",
    ]


def refused(ran: Ran, phases: Collection[str]) -> list[str]:
    """What the three providers would say against the requests of these phases."""
    wrong: list[str] = []
    for name in phases:
        for request in ran.requests(name):
            names = {spec.name for spec in request.tools}
            check_sequence(request.messages, names)
            chat = [to_openai(message, ran.store.picture) for message in request.messages]
            wrong += [f"{name}: {told}" for told in anthropic_refuses(chat, names)]
            wrong += [f"{name}: {told}" for told in gemini_refuses(chat, names)]
    return wrong


class TestToolsOfEarlierPhases:
    @pytest.mark.req("CI-61")
    async def test_a_phase_without_tools_defines_those_that_its_snowball_calls(
        self, house: House
    ) -> None:
        ran = await house.run(
            cascade(phase("a", tackle=["look_up", "draw", "set_state"]), phase("b")),
            {"a": pairs()},
            tools=TOOLS,
        )
        request = ran.request("b")
        assert [spec.name for spec in request.tools] == ["look_up", "draw"]  # set_state: not called
        assert request.tool_choice == "none"
        whole = {spec.name: spec for spec in ran.request("a").tools}
        assert all(spec == whole[spec.name] for spec in request.tools)
        assert refused(ran, "ab") == []

    @pytest.mark.req("CI-61", "CI-60")
    async def test_so_does_a_phase_that_replays_them(self, house: House) -> None:
        context = {"from": [{"phase": "a", "include": ["messages"]}]}
        ran = await house.run(
            cascade(phase("a", tackle=["look_up", "draw"]), phase("b", context=context)),
            {"a": pairs()},
            tools=TOOLS,
        )
        assert [m.tool_calls for m in ran.request("b").messages if m.tool_calls]
        assert {spec.name for spec in ran.request("b").tools} == {"look_up", "draw"}
        assert ran.request("b").tool_choice == "none"
        assert refused(ran, "ab") == []

    @pytest.mark.req("CI-61")
    async def test_a_phase_without_calls_behind_it_defines_none(self, house: House) -> None:
        ran = await house.run(
            cascade(phase("a", tackle=["look_up"]), phase("b", context={"from": ["a"]})),
            {"a": pairs()[1:]},
            tools=TOOLS,
        )
        assert ran.request("b").tools == ()

    async def test_a_phase_keeps_its_own_tools_first(self, house: House) -> None:
        ran = await house.run(
            cascade(phase("a", tackle=["look_up"]), phase("b", tackle=["draw"])),
            {"a": pairs()[1:]},
            tools=TOOLS,
        )
        assert [spec.name for spec in ran.request("b").tools] == ["draw", "look_up"]
        assert ran.request("b").tool_choice == "auto"


MESSAGES = {"phase": "a", "include": ["messages"]}
LATER: dict[str, dict[str, Any]] = {
    "snowball": {},
    "replay": {"context": {"from": [MESSAGES]}},
    "replay of the assistant": {"context": {"from": [{**MESSAGES, "filter": "assistant_only"}]}},
    "replay of the last turn": {"context": {"from": [{**MESSAGES, "filter": "last_turn"}]}},
    "replayed twice": {"context": {"from": [MESSAGES, MESSAGES]}},
    "injected in front": {"inject_from": [MESSAGES]},
    "injected at the end": {"inject_from": [MESSAGES], "position": "end"},
    "everything": {
        "context": {"from": [{**MESSAGES, "include": ["state", "messages", "output", "images"]}]}
    },
    "minimal": {"context_strategy": "minimal"},
    "sliding": {"context_strategy": "sliding", "max_input_tokens": 200},
}
EARLIER: dict[str, dict[str, Any]] = {
    "plain": {},
    "expiring": {"context_ttl": {"tool_results": 1, "assistant": 1, "images": 1}},
    "ended by its limit": {"rules": {"max_turns": 2}},
    "tried again": {
        "rules": {
            "loop_until": "is_last",
            "max_attempts": 2,
            "max_turns": 2,
            "on_exhausted": "continue",
        }
    },
}


def is_last(output: str) -> bool:
    """Never content."""
    return False


class TestEveryWindow:
    @pytest.mark.req("CI-61", "CI-12")
    @pytest.mark.parametrize("later", LATER.values(), ids=LATER)
    @pytest.mark.parametrize("earlier", EARLIER.values(), ids=EARLIER)
    async def test_is_taken_by_all_three_providers(
        self, house: House, earlier: dict[str, Any], later: dict[str, Any]
    ) -> None:
        ran = await house.run(
            cascade(
                phase("a", tackle=["look_up", "draw"], **earlier),
                phase("b", tackle=["look_up"], **later),
                phase("c"),
                system="Be.",
            ),
            {"a": pairs(), "b": pairs()[1:]},
            tools=(*TOOLS, is_last),
            model={"system_anywhere": False},
        )
        assert ran.result.error is None
        assert refused(ran, "abc") == []

    async def test_a_hidden_phase_leaves_no_half_of_a_pair(self, house: House) -> None:
        ran = await house.run(
            cascade(
                phase("o"),
                phase(
                    "a",
                    tackle=["look_up", "draw"],
                    context_retention="output_only",
                    rules={"max_turns": 1},
                ),
                *(phase(f"b{number}", **keys) for number, keys in enumerate(LATER.values())),
            ),
            {"a": pairs()},
            tools=TOOLS,
        )
        assert ran.result.error is None
        assert refused(ran, ["o", "a", *(f"b{n}" for n in range(len(LATER)))]) == []

    async def test_a_reply_that_said_nothing_is_not_sent_on(self, house: House) -> None:
        ran = await house.run(cascade(phase("a"), phase("b"), phase("c")), {"b": [""]})
        assert (ran.result.status, ran.result.reason) == ("incomplete", "empty")
        assert ran.result.outputs == {"a": "ok a", "b": "", "c": "ok c"}
        roles = [role for role, _ in ran.seen("c")]
        assert roles == ["user", "assistant", "user", "user"]
        assert ran.has_no_damage()


ASKED: Chat = [
    {"role": "user", "content": "u"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": id_, "type": "function", "function": {"name": "t", "arguments": "{}"}}
            for id_ in ("c1", "c2")
        ],
    },
]
ONE: dict[str, Any] = {"role": "tool", "content": "r", "tool_call_id": "c1"}
TWO: dict[str, Any] = {"role": "tool", "content": "r", "tool_call_id": "c2"}
USER: dict[str, Any] = {"role": "user", "content": "u"}


class TestTheCheckersThemselves:
    """They would be worth nothing if they took everything."""

    def test_they_take_what_is_right(self) -> None:
        for chat in ([*ASKED, ONE, TWO], [*ASKED, TWO, ONE]):
            assert anthropic_refuses(chat, {"t"}) == []
            assert gemini_refuses(chat, {"t"}) == []

    @pytest.mark.parametrize(
        ("chat", "tools"),
        [
            ([*ASKED, ONE], {"t"}),
            ([*ASKED, ONE, USER, TWO], {"t"}),
            ([*ASKED, ONE, TWO], set()),
            ([USER, ONE], {"t"}),
            ([*ASKED[1:], ONE, TWO], {"t"}),
            ([*ASKED], {"t"}),
        ],
    )
    def test_they_refuse_what_is_wrong(self, chat: Any, tools: set[str]) -> None:
        assert anthropic_refuses(chat, tools)
        assert gemini_refuses(chat, tools)

    def test_anthropic_wants_ids_once_and_results_before_text(self) -> None:
        turn: list[dict[str, Any]] = [*ASKED, ONE, TWO]
        assert "tool_use ids must be unique" in anthropic_refuses(turn * 2, {"t"})
        chat = [*ASKED, USER, ONE, TWO]
        assert any("before text" in told for told in anthropic_refuses(chat, {"t"}))

    def test_gemini_wants_a_call_after_the_user(self) -> None:
        chat = [USER, {"role": "assistant", "content": "a"}, *ASKED[1:]]
        told = gemini_refuses([*chat, ONE, TWO], {"t"})
        assert told == ["turn 2: a function call after model"]

    @given(conversations(min_turns=1))
    def test_they_agree_with_the_packages_own_rule(self, messages: Any) -> None:
        chat = [to_openai(message) for message in messages]
        names = {made.name for message in messages for made in message.tool_calls}
        pairing = [told for told in anthropic_refuses(chat, names) if "result" in told]
        check_sequence(messages, names)
        assert pairing == []
