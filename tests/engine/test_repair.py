"""What is mended in the middle of a run: an output that is no match, a context too long."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.engine.harness import House, call, calls, cascade, phase
from windlass.errors import ContextTooLong, OutputInvalid, PhaseFailed
from windlass.history.base import NodeType
from windlass.history.row_details import json_of
from windlass.messages import Message
from windlass.wire.base import Request

SCHEMA = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}


class TestRepair:
    @pytest.mark.parametrize("wrong", ["no JSON", "{}", '{"x": "one"}', "[1]"])
    async def test_a_mismatch_is_mended_in_the_same_attempt(self, house: House, wrong: str) -> None:
        made = cascade(phase("a", output_schema=SCHEMA, rules={"max_attempts": 1}), phase("b"))
        ran = await house.run(made, {"a": [wrong, '{"x": 1}']})
        assert (ran.result.status, ran.result.outputs["a"]) == ("completed", '{"x": 1}')
        asked = ran.seen("a", 2)
        assert asked[:2] == [("user", "Do a."), ("assistant", wrong)]
        assert asked[2][1].startswith("[Output Invalid]\nThe output ")
        told = [stored.row for stored in ran.rows(NodeType.VALIDATION)]
        assert [(row.attempt, json_of(row)["valid"]) for row in told] == [(1, False), (1, True)]
        assert [json_of(row).get("repair") for row in told] == [True, None]
        assert json_of(told[0])["output"] == wrong

    async def test_each_attempt_has_one_and_then_the_failure_is_typed(self, house: House) -> None:
        made = cascade(phase("a", output_schema=SCHEMA, rules={"max_attempts": 2}))
        ran = await house.run(made, {"a": ["wrong"]})
        assert isinstance(ran.result.error, OutputInvalid)
        assert isinstance(ran.result.error, PhaseFailed)
        assert "used up its 2 attempts; the last was refused: The output must be JSON" in str(
            ran.result.error
        )
        assert len(ran.model.requests) == 4
        attempts = [stored.row.attempt for stored in ran.rows(NodeType.AGENT, phase="a")]
        assert attempts == [1, 1, 2, 2]
        (row,) = [stored.row for stored in ran.rows(NodeType.ERROR)]
        assert json_of(row)["error"] == "OutputInvalid"

    async def test_a_validators_refusal_is_not_mended_but_tried_again(self, house: House) -> None:
        def is_good(output: str) -> bool:
            """Whether x is 2."""
            return bool(json.loads(output)["x"] == 2)

        rules = {"loop_until": "is_good", "max_attempts": 2}
        made = cascade(phase("a", output_schema=SCHEMA, rules=rules))
        ran = await house.run(made, {"a": ['{"x": 1}', "{}", '{"x": 2}']}, tools=[is_good])
        assert ran.result.output == '{"x": 2}'
        attempts = [stored.row.attempt for stored in ran.rows(NodeType.AGENT)]
        assert attempts == [1, 2, 2]
        refused = await house.run(
            cascade(phase("a", output_schema=SCHEMA, rules={**rules, "max_attempts": 1})),
            {"a": ['{"x": 1}']},
            tools=[is_good],
        )
        assert type(refused.result.error) is PhaseFailed

    async def test_a_repair_that_calls_a_tool_instead_is_a_refused_attempt(
        self, house: House
    ) -> None:
        made = cascade(
            phase("a", tackle=["set_state"], output_schema=SCHEMA, rules={"max_attempts": 2})
        )
        keep = call("set_state", '{"key": "k", "value": 1}')
        ran = await house.run(made, {"a": ["wrong", calls(keep), '{"x": 1}']})
        assert ran.result.output == '{"x": 1}'
        assert [s.row.attempt for s in ran.rows(NodeType.VALIDATION)] == [1, 1, 2]

    async def test_the_limit_of_turns_does_not_count_it(self, house: House) -> None:
        made = cascade(phase("a", output_schema=SCHEMA, rules={"max_turns": 1}))
        ran = await house.run(made, {"a": ["wrong", '{"x": 1}']})
        assert (ran.result.status, len(ran.model.requests)) == ("completed", 2)

    async def test_on_exhausted_continue_goes_on(self, house: House) -> None:
        rules = {"max_attempts": 1, "on_exhausted": "continue"}
        ran = await house.run(
            cascade(phase("a", output_schema=SCHEMA, rules=rules), phase("b")), {"a": ["wrong"]}
        )
        assert ran.result.status == "incomplete"
        assert len(ran.requests("a")) == 2


LONG = "many words of an answer that fills the window " * 20


def too_long(
    at: Callable[[Request], bool], replies: str = LONG, **numbers: int
) -> tuple[list[int], Callable[[Request], str | Message]]:
    """A script that refuses requests as too long, and how many messages each had."""
    sizes: list[int] = []

    def script(request: Request) -> str:
        sizes.append(len(request.messages))
        if at(request):
            raise ContextTooLong("prompt is too long", **numbers)
        return replies

    return sizes, script


def five(**last: Any) -> dict[str, Any]:
    return cascade(*(phase(f"p{n}") for n in range(4)), phase("z", **last), system="Be brief.")


class TestContextTooLong:
    async def test_is_answered_by_one_new_plan_and_one_resend(self, house: House) -> None:
        sizes, script = too_long(lambda request: len(request.messages) > 8)
        ran = await house.run(five(), script)
        assert (ran.result.status, ran.result.error) == ("completed", None)
        assert sizes[-2:] == [10, 8]  # system, four turns, instructions; then without the oldest
        sent = ran.model.requests[-1].messages
        assert (sent[0].text, sent[-1].text) == ("Be brief.", "Do z.")
        assert sent[1].text == "Do p1."  # whole turns, from a user message on
        (told,) = ran.decisions("replan")
        assert told["messages_left_out"] == 2
        assert told["tokens_after"] <= 0.8 * told["tokens_before"]
        assert told["refused"] == "prompt is too long"
        (record,) = [c for c in ran.calls() if "replanned" in c.details.as_json()]
        assert record.sent_tokens == told["tokens_after"]
        assert len(record.shown) == 8
        assert len(ran.rows(NodeType.AGENT)) == 5  # what was refused is no call of the record
        assert len(ran.rows(NodeType.ERROR)) == 0
        assert ran.has_no_damage()

    async def test_takes_the_providers_numbers(self, house: House) -> None:
        sizes, script = too_long(
            lambda request: len(request.messages) > 4, counted=1_000, limit=400
        )
        ran = await house.run(five(), lambda r: script(r) if len(r.messages) > 8 else LONG)
        assert ran.result.status == "completed"
        assert sizes == [10]
        assert len(ran.model.requests[-1].messages) == 4
        (told,) = ran.decisions("replan")
        assert (told["counted"], told["limit"]) == (1_000, 400)
        assert told["tokens_after"] <= 0.4 * told["tokens_before"]

    async def test_is_told_when_the_second_is_refused_too(self, house: House) -> None:
        sizes, script = too_long(lambda request: request.messages[-1].text == "Do z.")
        ran = await house.run(five(), script)
        assert sizes[-2:] == [10, 8]
        assert isinstance(ran.result.error, ContextTooLong)
        assert len(ran.decisions("replan")) == 1

    @pytest.mark.parametrize(
        "last", [{"context": {"from": ["p0", "p1", "p2", "p3"]}}, {"context": {"from": []}}]
    )
    async def test_what_the_user_chose_is_not_cut(self, house: House, last: Any) -> None:
        _, script = too_long(lambda request: request.messages[-1].text == "Do z.")
        ran = await house.run(five(**last), script)
        assert isinstance(ran.result.error, ContextTooLong)
        assert len(ran.requests("z")) == 1
        assert ran.decisions("replan") == []

    async def test_where_nothing_can_go_it_is_told_at_once(self, house: House) -> None:
        _, script = too_long(lambda request: True)
        ran = await house.run(cascade(phase("a"), system="Be brief."), script)
        assert isinstance(ran.result.error, ContextTooLong)
        assert len(ran.model.requests) == 1

    async def test_the_corrected_count_stays_in_force_for_the_phase(self, house: House) -> None:
        made = cascade(
            *(phase(f"p{n}") for n in range(4)), phase("z", tackle=["set_state"]), phase("y")
        )
        keep = call("set_state", '{"key": "k", "value": 1}')
        refusals: list[int] = []

        def script(request: Request) -> str | Message:
            if request.messages[-1].text == "Do z." and not refusals:
                refusals.append(len(request.messages))
                raise ContextTooLong("too long")
            if request.messages[-1].text == "Do z.":
                return calls(keep)
            return LONG

        ran = await house.run(made, script)
        assert ran.result.status == "completed"
        assert [len(request.messages) for request in ran.requests("z")] == [9, 7, 7]
        assert ran.requests("z")[2].messages[0].text == "Do p2."
        assert ran.requests("y")[0].messages[0].text == "Do p0."  # and for no other


class TestReadsAndWrites:
    async def test_stand_in_the_record_of_a_result(self, house: House, tmp_path: Path) -> None:
        (tmp_path / "a.md").write_text("text")
        wanted = [
            call("read_file", '{"path": "a.md"}'),
            call("read_file", '{"path": "nowhere.md"}'),
            call("list_files", "{}"),
            call("write_file", '{"path": "b.md", "text": "new"}'),
            call("set_state", '{"key": "k", "value": 1}'),
        ]
        tackle = ["read_file", "list_files", "write_file", "set_state"]
        ran = await house.run(cascade(phase("a", tackle=tackle)), {"a": [calls(*wanted), "done"]})
        found = [json_of(stored.row) for stored in ran.rows(NodeType.TOOL_RESULT)]
        assert [(m.get("reads"), m.get("writes")) for m in found] == [
            (["a.md"], None),
            (None, None),  # it failed, and read nothing
            (["."], None),  # the default
            (None, ["b.md"]),
            (None, None),
        ]
