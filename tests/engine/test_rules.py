"""Turns, attempts, limits, and what a phase leaves behind."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.engine.harness import House, asked_by, call, calls, cascade, phase
from tests.strategies import png
from windlass.engine.events import Noted
from windlass.errors import BudgetExceeded, PhaseFailed
from windlass.history.base import NodeType
from windlass.history.row_details import json_of
from windlass.messages import Message
from windlass.safety import patterns
from windlass.tools.base import ToolContext
from windlass.window.originals import file_name, reference
from windlass.wire.base import Request

LONG = "\n".join(f"line {number} of a long result" for number in range(200))


def tell() -> str:
    """Tell something long."""
    return LONG


def draw() -> bytes:
    """Draw a picture."""
    return png()


def note(context: ToolContext, key: str, value: str) -> str:
    """Keep a value."""
    context.state[key] = value
    return "kept"


def grow(context: ToolContext) -> str:
    """Append to a list in the state."""
    context.state.setdefault("list", [])
    context.state["list"].append(len(context.state["list"]))
    return str(context.state["list"])


def is_good(output: str) -> dict[str, Any]:
    """Whether the output is good."""
    return {"valid": "good" in output, "reason": f"{output!r} is not good"}


def is_kept(output: str, state: dict[str, Any]) -> dict[str, Any]:
    """Whether the state holds what the phase had to keep."""
    return {"valid": bool(state.get("k")) and "good" in output, "reason": "nothing kept"}


TOOLS = (tell, draw, note, grow, is_good, is_kept)


def kept(value: str) -> Message:
    return calls(call("note", json.dumps({"key": "k", "value": value})))


class TestTurns:
    @pytest.mark.req("CI-44")
    async def test_max_turns_is_a_limit_and_no_error(self, house: House) -> None:
        ran = await house.run(
            cascade(phase("a", tackle=["tell"], rules={"max_turns": 2}), phase("b")),
            {"a": [calls(call("tell"), text="First."), calls(call("tell"))]},
            tools=TOOLS,
        )
        assert len(ran.requests("a")) == 3, "the last one answers without tools"
        assert ran.result.status == "incomplete"
        assert ran.result.error is None
        assert ran.result.outputs == {"a": "First.", "b": "ok b"}
        (told,) = ran.decisions("limit")
        assert told["max_turns"] == 2
        statuses = {outcome.phase: outcome.status for outcome in ran.store.outcomes(ran.session)}
        assert statuses == {"a": "incomplete", "b": "completed", None: "incomplete"}

    @pytest.mark.req("CI-44")
    async def test_a_phase_ends_at_the_first_reply_without_calls(self, house: House) -> None:
        ran = await house.run(
            cascade(phase("a", tackle=["tell"])),
            {"a": [calls(call("tell")), calls(call("tell")), "done", "never said"]},
            tools=TOOLS,
        )
        assert len(ran.model.requests) == 3
        assert ran.result.output == "done"

    @pytest.mark.req("CI-44")
    async def test_twenty_turns_are_the_default(self, house: House) -> None:
        ran = await house.run(
            cascade(phase("a", tackle=["grow"])),
            lambda _: calls(call("grow")),
            tools=TOOLS,
        )
        assert len(ran.model.requests) == 20 + 1
        assert ran.result.status == "incomplete"

    @pytest.mark.req("CA-22")
    async def test_calls_after_tool_results_are_follow_ups(self, house: House) -> None:
        ran = await house.run(
            cascade(phase("a", tackle=["tell"], rules={"loop_until": "is_good"})),
            {"a": [calls(call("tell"), call("tell")), "bad", "good"]},
            tools=TOOLS,
        )
        assert [str(stored.row.node_type) for stored in ran.rows()] == [
            "user",
            "agent",
            "tool_result",
            "tool_result",
            "follow_up",
            "validation",
            "user",
            "agent",
            "validation",
        ]

    @pytest.mark.req("CA-30")
    async def test_tokens_and_dollars_of_each_call_can_be_asked_of_all_sessions(
        self, house: House
    ) -> None:
        script = {"a": [calls(call("tell")), "done"]}
        for _ in range(2):
            ran = await house.run(cascade(phase("a", tackle=["tell"])), script, tools=TOOLS)
        found = ran.store.query(
            "SELECT session_id, tokens_in, cost FROM unified_logs"
            " WHERE node_type = 'follow_up' AND tokens_in > ?",
            [1_000],
        )
        assert len({row["session_id"] for row in found}) == 2
        assert [row["cost"] for row in found] == [0.0, 0.0]  # a model that costs nothing
        assert ran.result.cost == 0.0

    async def test_a_forced_tool_is_forced_until_it_was_called(self, house: House) -> None:
        ran = await house.run(
            cascade(phase("a", tackle=["tell", "grow"], tool_choice="tell")),
            {"a": [calls(call("grow")), calls(call("tell")), "done"]},
            tools=TOOLS,
        )
        assert [r.tool_choice for r in ran.model.requests] == ["tell", "tell", "auto"]

    async def test_generation_settings_reach_the_provider(self, house: House) -> None:
        schema = {"type": "object", "required": ["x"]}
        ran = await house.run(
            cascade(
                phase("a", temperature=0.5, output_schema=schema, max_output_tokens=7),
                temperature=1.5,
                reasoning_effort="low",
            ),
            {"a": ['{"x": 1}']},
        )
        sent = ran.request("a")
        assert (sent.temperature, sent.reasoning_effort) == (0.5, "low")
        assert (sent.max_output_tokens, sent.output_schema) == (7, schema)


class TestAttempts:
    @pytest.mark.req("AC-104", "AC-50", "CI-44")
    async def test_a_validator_that_is_a_tool_sends_the_phase_round_again(
        self, house: House
    ) -> None:
        rules = {"loop_until": "is_good", "max_attempts": 3}
        ran = await house.run(
            cascade(phase("a", rules=rules)), {"a": ["bad", "worse", "good"]}, tools=TOOLS
        )
        assert ran.result.status == "completed"
        assert ran.result.output == "good"
        again = (
            "[Validation Failed]\n'bad' is not good\n\n"
            "Please try again (Attempt #2). Address the validation issues noted above."
        )
        assert ran.seen("a", 2)[-1] == ("user", again)
        told = [json_of(stored.row) for stored in ran.rows(NodeType.VALIDATION)]
        assert told == [
            {
                "attempt": 1,
                "output": "bad",
                "validation_reason": "'bad' is not good",
                "valid": False,
            },
            {
                "attempt": 2,
                "output": "worse",
                "validation_reason": "'worse' is not good",
                "valid": False,
            },
            {
                "attempt": 3,
                "output": "good",
                "validation_reason": "'good' is not good",
                "valid": True,
            },
        ]
        assert [s.row.attempt for s in ran.rows(NodeType.AGENT)] == [1, 2, 3]

    @pytest.mark.req("AC-104")
    async def test_a_validator_may_be_a_dotted_function(
        self, house: House, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        module = house.folder / "own_validator.py"
        module.write_text(
            "def check(text: str) -> bool:\n    '''Whether it will do.'''\n"
            "    return 'good' in text\n",
            encoding="utf-8",
        )
        monkeypatch.syspath_prepend(str(house.folder))
        rules = {"loop_until": "own_validator:check"}
        ran = await house.run(cascade(phase("a", rules=rules)), {"a": ["bad", "good"]})
        assert ran.result.output == "good"
        assert len(ran.model.requests) == 2
        assert ran.model.requests[0].tools == ()  # a validator is not the model's tool

    @pytest.mark.req("CI-44", "AC-104")
    @pytest.mark.parametrize("most", [None, 1, 2])
    async def test_used_up_attempts_fail_the_phase(self, house: House, most: int | None) -> None:
        rules = {"loop_until": "is_good"} | ({} if most is None else {"max_attempts": most})
        ran = await house.run(
            cascade(phase("a", rules=rules), phase("b")), {"a": ["bad"]}, tools=TOOLS
        )
        assert len(ran.model.requests) == (most or 3)
        assert ran.result.status == "failed"
        assert isinstance(ran.result.error, PhaseFailed)
        assert f"used up its {most or 3} attempts" in str(ran.result.error)
        assert ran.requests("b") == []
        outcomes = {o.phase: o.status for o in ran.store.outcomes(ran.session)}
        assert outcomes == {"a": "failed", None: "failed"}

    @pytest.mark.req("CI-44", "CI-11", "CI-26")
    async def test_on_exhausted_continue_goes_on_with_an_incomplete_output(
        self, house: House
    ) -> None:
        rules = {"loop_until": "is_good", "max_attempts": 2, "on_exhausted": "continue"}
        ran = await house.run(
            cascade(phase("a", rules=rules), phase("b", context={"from": ["a"]})),
            {"a": ["bad", "worse"]},
            tools=TOOLS,
        )
        assert ran.result.status == "incomplete"
        assert ("user", "[Output from a, status: incomplete]:\nworse") in ran.seen("b")

    @pytest.mark.req("AC-104")
    async def test_state_of_a_failed_attempt_is_not_taken_over(self, house: House) -> None:
        ran = await house.run(
            cascade(
                phase("a", tackle=["grow"]),
                phase("b", tackle=["note", "grow"], rules={"loop_until": "is_kept"}),
                phase("c", context={"from": [{"phase": "b", "include": ["state"]}]}),
            ),
            {
                "a": [calls(call("grow")), "ok"],
                "b": [
                    calls(call("note", '{"key": "lost", "value": "x"}'), call("grow")),
                    "good",
                    kept("v"),
                    calls(call("grow")),
                    "good",
                ],
            },
            tools=TOOLS,
        )
        assert ran.result.state == {"list": [0, 1], "k": "v"}  # not [0, 1, 2], and no 'lost'
        changes = [(c.phase, c.key, c.value) for c in ran.store.state(ran.session)]
        assert changes == [("a", "list", [0]), ("b", "k", "v"), ("b", "list", [0, 1])]
        assert "lost" not in ran.seen("c")[1][1]

    async def test_an_attempt_is_judged_by_what_it_said_itself(self, house: House) -> None:
        rules = {"loop_until": "is_good", "max_turns": 1, "max_attempts": 2}
        ran = await house.run(
            cascade(phase("a", tackle=["tell"], rules=rules)),
            {"a": ["bad", calls(call("tell"))]},
            tools=TOOLS,
        )
        told = [json_of(stored.row)["output"] for stored in ran.rows(NodeType.VALIDATION)]
        assert told == ["bad", ""]

    async def test_an_output_schema_is_a_validator(self, house: House) -> None:
        schema = {"type": "object", "required": ["x"]}
        ran = await house.run(
            cascade(phase("a", output_schema=schema)), {"a": ["no", "{}", '{"x": 1}']}
        )
        assert [s.row.attempt for s in ran.rows(NodeType.VALIDATION)] == [1, 1, 2]
        reasons = [json_of(s.row)["validation_reason"] for s in ran.rows(NodeType.VALIDATION)]
        assert reasons[0].startswith("The output must be JSON")
        assert "$: 'x' is a required property" in reasons[1]
        assert ran.result.output == '{"x": 1}'

    @pytest.mark.parametrize(
        ("validator", "told"),
        [
            (lambda output: 1 / 0, "the validator 'judge' failed: ZeroDivisionError"),
            (lambda output: "fine", "must answer {valid, reason}, not 'fine'"),
            (lambda output: {"valid": "yes"}, "must answer {valid, reason}"),
        ],
    )
    async def test_a_validator_that_fails_ends_the_phase_at_once(
        self, house: House, validator: Any, told: str
    ) -> None:
        validator.__name__ = "judge"
        validator.__annotations__ = {"output": str, "return": Any}
        ran = await house.run(cascade(phase("a", rules={"loop_until": "judge"})), tools=[validator])
        assert len(ran.model.requests) == 1
        assert told in str(ran.result.error)


class TestManifest:
    @pytest.mark.req("CI-43")
    async def test_the_model_chooses_its_tools_once_and_they_stay(self, house: House) -> None:
        def script(request: Request) -> Any:
            if request.output_schema is not None:
                return '{"tools": ["tell", "no_such_tool"]}'
            return "done" if request.messages[-1].role == "tool" else calls(call("tell"))

        ran = await house.run(cascade(phase("a", tackle="manifest")), script, tools=TOOLS)
        choosing, *asking = ran.model.requests
        menu = choosing.messages[-1].text
        assert "Do a." in menu
        assert all(f"- {name}: " in menu for name in ("tell", "grow", "run_sql", "recall"))
        assert [[spec.name for spec in request.tools] for request in asking] == [["tell"]] * 2
        (told,) = ran.decisions("manifest")
        assert told["chosen"] == ["tell"]
        assert "by model" in told["text"]
        (row,) = [s.row for s in ran.rows(NodeType.DECISION)]
        assert row.tokens_in
        assert ran.result.usage.tokens_in == row.tokens_in + sum(
            stored.row.tokens_in or 0 for stored in ran.rows(NodeType.AGENT, NodeType.FOLLOW_UP)
        )

    @pytest.mark.req("CI-43")
    async def test_an_answer_of_no_use_is_replaced_by_words_in_common(self, house: House) -> None:
        def script(request: Request) -> str:
            return "I would take a hammer." if request.output_schema else "done"

        ran = await house.run(
            cascade({"name": "a", "instructions": "Tell something long.", "tackle": "manifest"}),
            script,
            tools=TOOLS,
        )
        names = [spec.name for spec in ran.model.requests[-1].tools]
        assert names[0] == "tell"
        assert len(names) <= 8
        assert "by words in common" in ran.decisions("manifest")[0]["text"]

    @pytest.mark.req("CI-43")
    async def test_at_most_eight_are_taken(self, house: House) -> None:
        def script(request: Request) -> str:
            if request.output_schema is None:
                return "done"
            names = request.output_schema["properties"]["tools"]["items"]["enum"]
            return json.dumps({"tools": list(names)})

        ran = await house.run(cascade(phase("a", tackle="manifest")), script, tools=TOOLS)
        assert len(ran.model.requests[-1].tools) == 8


class TestRetention:
    @pytest.mark.req("CI-45", "CI-48")
    async def test_output_only_hides_all_but_the_output_from_later_windows(
        self, house: House
    ) -> None:
        replay = {"from": [{"phase": "a", "include": ["messages"]}], "include_input": False}
        ran = await house.run(
            cascade(
                phase("a", tackle=["tell"], context_retention="output_only"),
                phase("b"),
                phase("c", context=replay),
            ),
            {"a": [calls(call("tell"), text="Looking."), "found"]},
            tools=TOOLS,
        )
        assert len(ran.request("a", -1).messages) == 3  # within the phase nothing is hidden
        assert ran.seen("b") == [("assistant", "found"), ("user", "Do b.")]
        assert [text for _, text in ran.seen("c")] == ["[Conversation from a]:", "found", "Do c."]
        assert len(ran.rows(phase="a")) == 4  # and the record has it all
        assert ran.calls()[2].full_tokens > ran.calls()[2].sent_tokens

    @pytest.mark.req("CI-45")
    async def test_full_is_the_default(self, house: House) -> None:
        plain = await house.run(cascade(phase("a"), phase("b")))
        full = await house.run(cascade(phase("a", context_retention="full"), phase("b")))
        assert plain.request("b").messages == full.request("b").messages
        assert len(full.request("b").messages) == 3

    async def test_an_output_with_calls_is_shown_without_them(self, house: House) -> None:
        ran = await house.run(
            cascade(
                phase(
                    "a", tackle=["tell"], context_retention="output_only", rules={"max_turns": 1}
                ),
                phase("b"),
            ),
            {"a": [calls(call("tell"), text="Looking.")]},
            tools=TOOLS,
        )
        assert ran.seen("b") == [("assistant", "Looking."), ("user", "Do b.")]
        assert not any(message.tool_calls for message in ran.request("b").messages)
        assert ran.request("b").tools == ()


class TestTtl:
    @pytest.mark.req("CI-46", "CE-31")
    async def test_tool_results_expire_after_their_turns_and_the_original_is_kept(
        self, house: House
    ) -> None:
        ttl = {"tool_results": 1}
        ran = await house.run(
            cascade(phase("a", tackle=["tell", "recall"], context_ttl=ttl), phase("b")),
            {"a": [calls(call("tell")), calls(call("recall", '{"ref": "x"}')), "end"]},
            tools=TOOLS,
        )
        (stored,) = [s for s in ran.rows(NodeType.TOOL_RESULT) if s.row.turn == 1]
        assert stored.row.message is not None
        ref = reference(stored.row.message)
        shown = [dict(ran.seen("a", number)).get("tool") for number in (1, 2, 3)]
        expected = f"[tell result expired after 1 turns: {len(LONG):,} characters; {ref}]"
        results = [m.text for m in ran.request("a", 3).messages if m.role == "tool"]
        assert shown[1] == LONG
        assert results[0] == expected
        assert ("tool", expected) in ran.seen("b")  # committed for good
        file = house.store / "storage" / "tool_results" / f"{file_name(stored.row.message)}.json"
        assert json.loads(file.read_bytes())["content"] == LONG
        (edit,) = ran.store.edits(ran.session)
        assert (edit.because, edit.message_id) == ("expire", stored.id)
        (view,) = [view for view in ran.views("a") if view.number == 3]
        edited = [seen for seen in view.seen if seen.because]
        assert [seen.original.text for seen in edited if seen.original] == [LONG]
        assert ran.has_no_damage()

    async def test_the_model_gets_an_expired_result_back_by_its_reference(
        self, house: House
    ) -> None:
        def script(request: Request) -> Any:
            results = [m.text for m in request.messages if m.role == "tool"]
            match len(results):
                case 0:
                    return calls(call("tell"))
                case 1:
                    return calls(call("draw"))
                case 2:
                    ref = results[0].partition("characters; ")[2].rstrip("]")
                    wanted = {"ref": ref, "part": "7-8"}
                    return calls(call("recall", json.dumps(wanted)))
                case _:
                    return results[-1]

        ran = await house.run(
            cascade(phase("a", tackle=["tell", "draw", "recall"], context_ttl={"tool_results": 1})),
            script,
            tools=TOOLS,
        )
        assert ran.result.output == ("7: line 6 of a long result\n8: line 7 of a long result")

    @pytest.mark.req("CI-46")
    @pytest.mark.parametrize(
        ("kind", "gone"), [("images", "picture"), ("assistant", "words"), ("user", "input")]
    )
    async def test_each_category_expires_by_itself(
        self, house: House, kind: str, gone: str
    ) -> None:
        said = "many words " * 30
        ran = await house.run(
            cascade(
                phase("a", tackle=["draw"], context={"from": []}, context_ttl={kind: 1}),
            ),
            {"a": [calls(call("draw"), text=said), calls(call("draw")), "end"]},
            {"x": "input " * 60},
            tools=TOOLS,
        )
        first, _, last = (ran.request("a", number).messages for number in (1, 2, 3))
        everything = {
            "picture": sum(len(m.pictures) for m in last) < 2,
            "words": said not in [m.text for m in last],
            "input": first[0].text not in [m.text for m in last],
        }
        assert [name for name, missing in everything.items() if missing] == [gone]
        assert last[1].text == "Do a."  # the instructions never expire

    @pytest.mark.req("CI-46")
    async def test_null_is_never(self, house: House) -> None:
        ran = await house.run(
            cascade(phase("a", tackle=["tell"], context_ttl={"tool_results": None})),
            {"a": [calls(call("tell"))] * 1 + [calls(call("grow"))] * 3 + ["end"]},
            tools=TOOLS,
        )
        assert ("tool", LONG) in ran.seen("a", -1)
        assert ran.store.edits(ran.session) == []


class TestExtraction:
    @pytest.mark.req("CI-47", "CI-40")
    @pytest.mark.parametrize(
        ("format_", "said", "stored"),
        [
            ("text", "<x> one\ntwo </x>", "one\ntwo"),
            ("json", '<x>{"n": [1, 2]}</x>', {"n": [1, 2]}),
            ("code", "<x>\n```python\nprint(1)\n```\n</x>", "print(1)"),
        ],
    )
    async def test_a_pattern_becomes_a_state_key(
        self, house: House, format_: str, said: str, stored: Any
    ) -> None:
        wanted = {"pattern": "<x>(.*)</x>", "store_as": "found", "format": format_}
        asked = {**phase("b"), "instructions": "Do b. {{ state.found }}"}
        ran = await house.run(cascade(phase("a", output_extraction=wanted), asked), {"a": [said]})
        assert ran.result.state == {"found": stored}
        (change,) = ran.store.state(ran.session)
        assert (change.phase, change.key, change.value) == ("a", "found", stored)
        shown = json.dumps(stored) if isinstance(stored, dict) else stored
        assert ran.seen("b")[-1] == ("user", f"Do b. {shown}")

    @pytest.mark.req("CI-47")
    async def test_no_match_is_recorded_or_fails_the_phase_where_it_is_required(
        self, house: House
    ) -> None:
        wanted = {"pattern": "<x>(.*)</x>", "store_as": "found"}
        ran = await house.run(cascade(phase("a", output_extraction=wanted), phase("b")))
        assert ran.result.status == "completed"
        (told,) = ran.decisions("extraction")
        assert "no match" in told["text"]
        failed = await house.run(
            cascade(phase("a", output_extraction=wanted | {"required": True}), phase("b"))
        )
        assert isinstance(failed.result.error, PhaseFailed)
        assert failed.requests("b") == []

    async def test_a_pattern_that_never_ends_on_pythons_engine_costs_no_time(
        self, house: House
    ) -> None:
        wanted = {"pattern": "^((?:a+)+)$", "store_as": "found"}
        bomb = "a" * 10_000 + "!"
        began = time.thread_time()
        ran = await house.run(cascade(phase("a", output_extraction=wanted)), {"a": [bomb]})
        assert time.thread_time() - began < 2
        (told,) = ran.decisions("extraction")
        assert "no match" in told["text"]

    async def test_a_search_that_takes_too_long_fails_the_phase_and_is_recorded(
        self, house: House, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(patterns, "SECONDS", 0.5)
        wanted = {"pattern": "(?=a)((?:a+)+)$", "store_as": "found"}
        ran = await house.run(
            cascade(phase("a", output_extraction=wanted), phase("b")), {"a": ["a" * 10_000 + "!"]}
        )
        assert isinstance(ran.result.error, PhaseFailed)
        assert "output_extraction" in str(ran.result.error)
        assert "was stopped" in str(ran.result.error)
        assert ran.requests("b") == []
        rows = [each.row for each in ran.store.rows(ran.session)]
        assert any(row.node_type is NodeType.ERROR for row in rows)

    async def test_a_schema_whose_pattern_takes_too_long_fails_the_phase(
        self, house: House, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(patterns, "SECONDS", 0.5)
        schema = {"type": "object", "properties": {"x": {"pattern": "(?=a)(a+)+$"}}}
        said = json.dumps({"x": "a" * 10_000 + "!"})
        ran = await house.run(cascade(phase("a", output_schema=schema)), {"a": [said]})
        assert isinstance(ran.result.error, PhaseFailed)
        assert "output_schema" in str(ran.result.error)

    @pytest.mark.req("CI-48", "CI-47")
    async def test_context_ttl_extraction_and_retention_work_side_by_side(
        self, house: House
    ) -> None:
        said = "<x>" + "kept " * 50 + "</x>"
        ran = await house.run(
            cascade(
                phase("a"),
                phase(
                    "b",
                    tackle=["tell"],
                    context={"from": ["a"], "include_input": False},
                    context_ttl={"tool_results": 1, "assistant": 1},
                    output_extraction={"pattern": "<x>(.*)</x>", "store_as": "x"},
                    context_retention="output_only",
                ),
                phase("c", context={"from": [{"phase": "b", "include": ["messages", "state"]}]}),
            ),
            # The output is edited within the phase; extraction reads it as it was said.
            {"b": [calls(call("tell"), text=said), calls(call("tell")), calls(call("tell")), " "]},
            tools=TOOLS,
        )
        first, last = ran.seen("b", 1), ran.seen("b", 4)
        assert first == [("user", "[Output from a]:\nok a"), ("user", "Do b.")]
        assert ("tool", LONG) not in last[:4]
        assert said not in [text for _, text in last]
        assert ran.result.state == {"x": ("kept " * 50).strip()}
        seen = [text for _, text in ran.seen("c")]
        assert seen[:2] == ["[Conversation from b]:", said]
        assert seen[2].startswith("[State from b]:\n")
        assert len(seen) == 4


class TestBudget:
    @pytest.mark.req("CA-18")
    @pytest.mark.parametrize(
        ("share", "warned", "exceeded"), [(2.0, False, None), (1.1, True, False), (0.5, True, True)]
    )
    async def test_a_warning_names_the_phase_and_is_recorded(
        self, house: House, share: float, warned: bool, exceeded: bool | None
    ) -> None:
        plain = await house.run(cascade(phase("a")), {"a": ["ok"]})
        tokens = plain.calls()[0].sent_tokens
        limit = int(tokens * share)
        ran = await house.run(cascade(phase("a", max_input_tokens=limit)))
        assert ran.result.status == "completed"
        told = [e.text for e in ran.events if isinstance(e, Noted)]
        assert [t.startswith("phase 'a' sends") and str(limit) in t for t in told] == [
            True
        ] * warned
        budget = ran.calls()[0].details.as_json().get("budget")
        assert (budget["exceeded"] if budget else None) is exceeded

    @pytest.mark.req("CA-18", "CA-19")
    async def test_fail_stops_before_anything_is_sent(self, house: House) -> None:
        budget = {"limit": 3, "on_exceed": "fail"}
        ran = await house.run(cascade(phase("a"), phase("b", max_input_tokens=budget)))
        assert ran.requests("b") == []
        assert isinstance(ran.result.error, BudgetExceeded)
        assert "phase 'b'" in str(ran.result.error)
        assert "max_input_tokens is 3" in str(ran.result.error)
        assert ran.has_no_damage()

    async def test_fail_does_nothing_within_the_limit(self, house: House) -> None:
        budget = {"limit": 300, "warn": 0.1, "on_exceed": "fail"}
        ran = await house.run(cascade(phase("a", max_input_tokens=budget)))
        assert ran.result.status == "completed"


def test_phases_are_told_apart_by_what_they_ask(tmp_path: Path) -> None:
    request = Request("x", (Message("user"),), 1)
    assert asked_by(request) == "-"
