"""How a phase ends where its last reply is no answer, and how its turns end."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.engine.harness import House, call, calls, cascade, phase
from tests.history.builders import png
from tests.support.engine_resume import Gone, Model, look, resumed
from windlass.engine.events import LimitHit, Noted, PhaseEnded
from windlass.errors import BadRequest, PhaseFailed
from windlass.history.base import NodeType
from windlass.history.row_details import json_of
from windlass.messages import Message, Opaque, Text, assistant
from windlass.report.costs import session_cost
from windlass.report.explanation import explain_call
from windlass.text.pictures import picture
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
            (("Half of", "window"), "length"),
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

    @pytest.mark.req("AC-104")
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
        assert (ran.result.status, ran.result.reason) == ("completed", None)
        first, closing = ran.requests("a")
        assert (first.tool_choice, closing.tool_choice) == ("auto", "none")
        assert closing.tools == first.tools, "the tools stay in front of a cached prefix"
        assert closing.messages[: len(first.messages)] == first.messages
        assert closing.messages[-1].text == "It is 42."
        check_sequence(closing.messages, {spec.name for spec in closing.tools})
        assert len(ran.calls()) == 2
        (told,) = ran.decisions("limit")
        assert told["text"] == (
            "phase 'a' has one turn (max_turns is 1); one more call answers what the tools gave,"
            " without tools"
        )
        assert not [event for event in ran.events if isinstance(event, LimitHit)]
        assert [event.text for event in ran.events if isinstance(event, Noted)] == [told["text"]]

    async def test_one_turn_without_a_word_or_with_more_calls_is_incomplete(
        self, house: House
    ) -> None:
        made = cascade(phase("a", tackle=["tell"], rules={"max_turns": 1}))
        for last, reason in (("", "empty"), (calls(call("tell")), "turns")):
            ran = await house.run(made, {"a": [calls(call("tell")), last]}, tools=[tell])
            assert (ran.result.status, ran.result.reason) == ("incomplete", reason)

    async def test_two_turns_that_are_used_up_are_a_limit(self, house: House) -> None:
        made = cascade(phase("a", tackle=["tell"], rules={"max_turns": 2}))
        said = [calls(call("tell")), calls(call("tell")), "42, then."]
        ran = await house.run(made, {"a": said}, tools=[tell])
        assert (ran.result.status, ran.result.reason) == ("incomplete", "turns")
        assert [event for event in ran.events if isinstance(event, LimitHit)]

    async def test_one_turn_goes_on_where_it_was_broken_off(self, house: House) -> None:
        made = cascade(phase("a", tackle=["look"], rules={"max_turns": 1}))

        def script(request: Request) -> Any:
            last = request.messages[-1]
            return "well" if last.role == "tool" else calls(call("look", '{"name": "it"}'))

        with pytest.raises(Gone):
            await house.run(made, Model(2, script), tools=[look], session_id="s")
        result, sent = await resumed(house, script)
        assert (result.status, result.output, len(sent)) == ("completed", "well", 1)

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


def cut(text: str) -> Any:
    """A reply that its output limit cut."""
    return text, "length"


class TestContinuing:
    async def test_a_cut_reply_goes_on_once_and_both_texts_are_the_output(
        self, house: House
    ) -> None:
        made = cascade(phase("a"), phase("b"))
        ran = await house.run(made, {"a": [cut("Hello wo"), "rld."]})
        assert (ran.result.status, ran.result.outputs["a"]) == ("completed", "Hello world.")
        first, second = ran.requests("a")
        assert second.messages[: len(first.messages)] == first.messages
        assert [m.role for m in second.messages[-2:]] == ["assistant", "user"]
        assert second.messages[-2].text == "Hello wo"
        assert (second.tools, second.tool_choice) == (first.tools, first.tool_choice)
        check_sequence(second.messages)
        assert ran.seen("b")[:-1] == [("user", "Do a."), ("assistant", "Hello world.")]
        assert ran.has_no_damage()

    async def test_both_calls_are_in_the_record_and_the_bill(self, house: House) -> None:
        ran = await house.run(cascade(phase("a")), {"a": [cut("Hello wo"), "rld."]})
        replies = [stored.row for stored in ran.rows(NodeType.AGENT)]
        assert [row.message.text for row in replies if row.message] == ["Hello wo", "Hello world."]
        assert [json_of(row)["finish"] for row in replies] == ["length", "stop"]
        assert [row.turn for row in replies] == [1, 1]
        assert len(ran.calls()) == 2
        assert ran.result.usage.tokens_out == sum(row.tokens_out or 0 for row in replies)
        (lineage,) = ran.store.query("SELECT output FROM lineage WHERE phase = 'a'")
        assert lineage == {"output": "Hello world."}
        explained = explain_call(ran.store, ran.session, 2)
        assert any("asked once to go on" in note for note in explained.notes)
        whys = [decision.reason for decision in explained.decisions]
        assert "the reply so far, cut at its output limit" in whys

    async def test_a_second_cut_is_incomplete(self, house: House) -> None:
        ran = await house.run(cascade(phase("a")), {"a": [cut("one "), cut("two"), "three"]})
        assert (ran.result.status, ran.result.reason) == ("incomplete", "length")
        assert ran.result.output == "one two"
        assert len(ran.requests("a")) == 2

    async def test_the_joined_text_is_what_a_schema_is_asked_of(self, house: House) -> None:
        schema = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}
        made = cascade(phase("a", output_schema=schema))
        ran = await house.run(made, {"a": [cut('{"n": 4'), "2}"]})
        assert (ran.result.status, ran.result.output) == ("completed", '{"n": 42}')
        first, second = ran.requests("a")
        assert first.output_schema is not None
        assert second.output_schema is None, "the rest of a JSON text is none by itself"

    async def test_a_call_of_a_tool_is_never_put_together(self, house: House) -> None:
        broken = calls(call("tell", '{"a": '), text="I ")
        made = cascade(phase("a", tackle=["tell"]))
        ran = await house.run(made, {"a": [(broken, "length"), "done"]}, tools=[tell])
        assert (ran.result.status, ran.result.output) == ("completed", "done")
        assert not ran.decisions("continuation")
        assert "JSON" in ran.seen("a", 2)[-1][1]

    async def test_the_rest_may_call_a_tool(self, house: House) -> None:
        made = cascade(phase("a", tackle=["tell"]))
        rest = calls(call("tell"), text="look.")
        ran = await house.run(made, {"a": [cut("I will "), rest, "42"]}, tools=[tell])
        assert ran.result.output == "42"
        last = ran.request("a", 3)
        check_sequence(last.messages, {spec.name for spec in last.tools})
        assert [(m.role, m.text) for m in last.messages] == [
            ("user", "Do a."),
            ("assistant", "I will look."),
            ("tool", "It is 42."),
        ]

    async def test_what_would_pass_the_users_limit_is_not_continued(self, house: House) -> None:
        limit = {"limit": 100, "on_exceed": "fail"}
        made = cascade(phase("a", max_input_tokens=limit))
        ran = await house.run(made, {"a": [cut("word " * 100), "rest"]})
        assert len(ran.requests("a")) == 1
        assert (ran.result.status, ran.result.reason) == ("incomplete", "length")

    async def test_what_has_no_room_is_not_continued(self, house: House) -> None:
        made = cascade(phase("a", max_output_tokens=40))
        window = {"window": 90}
        ran = await house.run(made, {"a": [cut("word " * 40), "rest"]}, model=window)
        assert len(ran.requests("a")) == 1
        assert (ran.result.status, ran.result.reason) == ("incomplete", "length")

    async def test_a_provider_that_does_not_go_on_leaves_the_part(self, house: House) -> None:
        def script(request: Request) -> Any:
            if len(request.messages) > 1:
                raise BadRequest("the last message must be short")
            return cut("half")

        ran = await house.run(cascade(phase("a")), script)
        assert (ran.result.status, ran.result.reason) == ("incomplete", "length")
        assert (ran.result.error, ran.result.output) == (None, "half")

    async def test_thinking_stays_where_it_was_signed(self, house: House) -> None:
        thought = Opaque("anthropic", "thinking", '{"n":1}', "m")
        again = Opaque("anthropic", "thinking", '{"n":2}', "m")
        rest = assistant("wo", calls=(call("tell"),))
        parts: list[Any] = [
            (assistant("Hello ").with_parts(thought, Text("Hello ")), "length"),
            rest.with_parts(again, *rest.parts),
            "end",
        ]
        ran = await house.run(cascade(phase("a", tackle=["tell"])), {"a": parts}, tools=[tell])
        assert ran.request("a", 3).messages[1].parts == (thought, Text("Hello wo"))

    async def test_the_numbers_of_a_snowball_count_the_text_once(self, house: House) -> None:
        half = "many words " * 100
        made = cascade(phase("a"), phase("b"))
        ran = await house.run(made, {"a": [cut(half), half]})
        whole = await house.run(made, {"a": [half + half]})
        assert ran.calls()[-1].full_tokens == whole.calls()[-1].full_tokens
        told = [session_cost(r.store, r.session, "openai/gpt-4o") for r in (ran, whole)]
        assert told[0].phases[-1].snowball_dollars == told[1].phases[-1].snowball_dollars
        seen = ran.views("b")[0]
        assert dict(seen.hidden) == {}
