"""How a phase ends where its last reply is no answer, and how its turns end."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.engine.harness import House, call, calls, cascade, phase
from tests.history.builders import png
from windlass.engine.events import PhaseEnded
from windlass.errors import PhaseFailed
from windlass.history.base import NodeType
from windlass.messages import Message, Opaque, assistant
from windlass.pictures import picture
from windlass.tools.base import ToolOutput
from windlass.wire.base import Request
from windlass.wire.openai import check_sequence


def tell() -> str:
    """Tell something."""
    return "It is 42."


def draw() -> ToolOutput:
    """Draw."""
    return ToolOutput("Drawn.", pictures=(picture(png()),))


def accept(output: str) -> bool:
    """Accept everything.

    Args:
        output: What was said.
    """
    return output is not None


THINKING = Message("assistant", (Opaque("anthropic", "thinking", '{"type":"thinking"}', "m"),))


class TestNoAnswer:
    @pytest.mark.parametrize(
        ("reply", "reason"),
        [
            ("", "empty"),
            (" \n", "empty"),
            (THINKING, "empty"),
            (("I will not.", "refusal"), "refusal"),
            (("", "refusal"), "refusal"),
            (("Half of", "filter"), "filter"),
            ((THINKING, "length"), "length"),
        ],
    )
    async def test_a_reply_that_is_no_answer_is_never_completed(
        self, house: House, reply: Any, reason: str
    ) -> None:
        ran = await house.run(cascade(phase("a"), phase("b")), {"a": [reply]})
        assert (ran.result.status, ran.result.reason) == ("incomplete", reason)
        assert ran.result.error is None
        ended = {one.phase: one.reason for one in ran.store.outcomes(ran.session)}
        assert ended == {"a": reason, "b": None, None: reason}
        told = [event for event in ran.events if isinstance(event, PhaseEnded)]
        assert [(one.status, one.reason) for one in told] == [
            ("incomplete", reason),
            ("completed", None),
        ]
        (why,) = ran.decisions("unfinished")
        assert why["reason"] == reason
        assert ran.has_no_damage()

    async def test_nothing_said_after_a_tool_is_no_answer(self, house: House) -> None:
        made = cascade(phase("a", tackle=["tell"]))
        said = calls(call("tell"), text="I look.")
        ran = await house.run(made, {"a": [said, ""]}, tools=[tell])
        assert (ran.result.status, ran.result.reason) == ("incomplete", "empty")
        assert ran.result.output == "I look."

    async def test_a_picture_is_an_answer(self, house: House) -> None:
        made = cascade(phase("a", tackle=["draw"]))
        ran = await house.run(made, {"a": [calls(call("draw")), ""]}, tools=[draw])
        assert ran.result.status == "completed"
        shown = assistant("").with_parts(picture(png()))
        ran = await house.run(cascade(phase("a")), {"a": [shown]})
        assert ran.result.status == "completed"

    async def test_it_has_another_attempt_where_attempts_are_left(self, house: House) -> None:
        made = cascade(phase("a", rules={"loop_until": "accept"}))
        ran = await house.run(made, {"a": ["", ("No.", "refusal"), "yes"]}, tools=[accept])
        assert (ran.result.status, ran.result.output) == ("completed", "yes")
        assert "The reply was empty." in ran.seen("a", 2)[-1][1]
        assert "The model refused to answer." in ran.seen("a", 3)[-1][1]

    async def test_a_validator_cannot_accept_nothing(self, house: House) -> None:
        rules = {"loop_until": "accept", "max_attempts": 2}
        ran = await house.run(cascade(phase("a", rules=rules)), {"a": [""]}, tools=[accept])
        assert type(ran.result.error) is PhaseFailed
        rules |= {"on_exhausted": "continue"}
        ran = await house.run(cascade(phase("a", rules=rules)), {"a": [""]}, tools=[accept])
        assert (ran.result.status, ran.result.reason) == ("incomplete", "empty")

    async def test_attempts_that_are_used_up_are_turns(self, house: House) -> None:
        rules = {"loop_until": "is_good", "max_attempts": 2, "on_exhausted": "continue"}

        def is_good(output: str) -> bool:
            return output == "good"

        ran = await house.run(cascade(phase("a", rules=rules)), {"a": ["bad"]}, tools=[is_good])
        assert (ran.result.status, ran.result.reason) == ("incomplete", "turns")


class TestTheClosingCall:
    async def test_one_turn_with_a_tool_has_an_answer(self, house: House) -> None:
        made = cascade(phase("a", tackle=["tell"], rules={"max_turns": 1}))
        ran = await house.run(made, {"a": [calls(call("tell")), "42, then."]}, tools=[tell])
        assert ran.result.output == "42, then."
        assert (ran.result.status, ran.result.reason) == ("incomplete", "turns")
        first, closing = ran.requests("a")
        assert (first.tool_choice, closing.tool_choice) == ("auto", "none")
        assert closing.tools == first.tools, "the tools stay in front of a cached prefix"
        assert closing.messages[: len(first.messages)] == first.messages
        assert closing.messages[-1].text == "It is 42."
        check_sequence(closing.messages, {spec.name for spec in closing.tools})
        assert len(ran.calls()) == 2
        (told,) = ran.decisions("limit")
        assert "one more call" in told["text"]

    async def test_an_answer_that_its_schema_accepts_completes_the_phase(
        self, house: House
    ) -> None:
        schema = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}
        made = cascade(phase("a", tackle=["tell"], output_schema=schema, rules={"max_turns": 1}))
        ran = await house.run(made, {"a": [calls(call("tell")), '{"n": 42}']}, tools=[tell])
        assert (ran.result.status, ran.result.reason) == ("completed", None)

    async def test_a_tool_that_is_called_all_the_same_is_not_run(self, house: House) -> None:
        ran_tools: list[int] = []

        def count() -> str:
            """Count."""
            ran_tools.append(1)
            return "counted"

        made = cascade(phase("a", tackle=["count"], rules={"max_turns": 2}), phase("b"))
        ran = await house.run(made, {"a": [calls(call("count"))]}, tools=[count])
        assert len(ran_tools) == 2
        assert len(ran.requests("a")) == 3
        assert (ran.result.status, ran.result.reason) == ("incomplete", "turns")
        last = ran.rows(NodeType.TOOL_RESULT)[-1].row
        assert last.message is not None
        assert last.message.failed
        assert "not run" in last.message.text
        check_sequence(ran.request("b").messages)

    async def test_each_attempt_has_its_own(self, house: House) -> None:
        rules = {"loop_until": "is_good", "max_turns": 1, "max_attempts": 2}

        def is_good(output: str) -> bool:
            return output == "good"

        def script(request: Request) -> Any:
            if request.tool_choice != "none":
                return calls(call("tell"))
            return "good" if "Attempt #2" in json.dumps([m.text for m in request.messages]) else ""

        made = cascade(phase("a", tackle=["tell"], rules=rules))
        ran = await house.run(made, script, tools=[tell, is_good])
        assert (ran.result.status, ran.result.output) == ("completed", "good")
        assert len(ran.requests("a")) == 4
