"""Tasks at work: steps in order, inputs side by side, what is kept where one fails."""

from __future__ import annotations

import asyncio
import itertools
import pickle
import re
from typing import Any

import pytest

import windlass
from tests.engine.harness import call, calls, without_steps
from tests.tasks.conftest import TaskHouse, asked, inputs
from tests.tasks.making import atomic, block, reduce, sequential
from windlass.engine.events import InputEnded
from windlass.engine.tasks.task_runner import grouped
from windlass.errors import (
    BadRequest,
    ContextError,
    ContextTooLong,
    InputFailed,
    LimitReached,
    MatchingFailed,
    NoContext,
    PhaseFailed,
    ProviderError,
    RateLimited,
    StepFailed,
    StoreError,
    TaskError,
    TaskFileError,
    ToolError,
    UsageError,
    WindlassError,
    WorkerLost,
)
from windlass.history.base import NodeType
from windlass.history.row_details import json_of
from windlass.messages import ToolCall, assistant
from windlass.wire.base import Request

PREVIOUS = "## Previous outputs"


def item(request: Request) -> str:
    """The input that a request of an inner task works on."""
    found = re.search(r"\[Input: [^\n]*\]\n(.*)", request.messages[-1].text, re.DOTALL)
    return found[1] if found else ""


class TestSequence:
    @pytest.mark.req("ADR-46", "ADR-50")
    async def test_steps_run_in_order_and_leave_their_outputs(self, house: TaskHouse) -> None:
        xml = sequential(atomic("a"), atomic("b", asks="Go on from {{ outputs.a }}."))
        ran = await house.run(xml)
        assert ran.result.status == "completed"
        assert ran.result.outputs == {
            "a": "answer to Do a.",
            "b": "answer to Go on from answer to Do a..",
        }
        assert ran.result.output == ran.result.outputs["b"]
        assert ran.result.notes == {}
        assert ran.result.usage.tokens_in == sum(call.tokens_in for call in ran.calls)

    async def test_steps_have_tools_and_share_the_state(self, house: TaskHouse) -> None:
        def script(request: Request) -> Any:
            if asked(request) == "Do a." and request.messages[-1].role == "user":
                call = ToolCall("c1", "set_state", '{"key": "x", "value": "7"}')
                return assistant("", calls=[call])
            return "done"

        first = atomic("a", "<tools><tool>set_state</tool></tools>")
        xml = sequential(first, atomic("b", asks="x is {{ state.x }}"))
        ran = await house.run(xml, script)
        assert ran.result.error is None
        assert ran.result.state == {"x": "7"}
        assert ran.seen("b")[-1].endswith("x is 7")

    @pytest.mark.req("ADR-42", "ADR-39", "ADR-45")
    @pytest.mark.parametrize("accumulate", ["true", "false"])
    async def test_a_failed_step_keeps_what_finished(
        self, house: TaskHouse, accumulate: str
    ) -> None:
        how = "notes_only" if accumulate == "true" else None
        inside = block("full", "enabled", accumulate, how)
        xml = sequential(atomic("a"), atomic("b"), atomic("c"), inside=inside)
        ran = await house.run(xml, {"Do b.": ValueError("no more")})
        error = ran.result.error
        assert isinstance(error, StepFailed)
        assert isinstance(error, TaskError)
        assert isinstance(error.__cause__, ProviderError)
        assert (error.step, error.index) == ("b", 1)
        assert error.notes["partialResults"] == [
            {"index": 0, "step": "a", "output": "answer to Do a."}
        ]
        assert ran.result.notes == error.notes
        assert ran.result.status == "failed"
        assert len(ran.model.requests) == 2
        told = [json_of(row.row) for row in ran.store.rows(ran.result.session_id)]
        assert any("step 1 ('b')" in str(one.get("text")) for one in told)

    @pytest.mark.req("ADR-42")
    async def test_a_failure_deep_inside_keeps_results_on_every_level(
        self, house: TaskHouse
    ) -> None:
        inner = sequential(atomic("x"), atomic("y"), name="inner")
        ran = await house.run(sequential(atomic("a"), inner), {"Do y.": ValueError("no")})
        notes = ran.result.notes
        assert [one["step"] for one in notes["partialResults"]] == ["a"]
        assert notes["failed"]["step"] == "inner"
        assert notes["failed"]["error"] == "StepFailed"
        assert notes["failed"]["notes"]["partialResults"][0]["step"] == "x"

    async def test_an_atomic_root_fails_as_a_phase_does(self, house: TaskHouse) -> None:
        rules = (
            "<rules><max_attempts>1</max_attempts>"
            "<loop_until>tests.tasks.test_running:never</loop_until></rules>"
        )
        ran = await house.run(atomic("a", rules))
        assert isinstance(ran.result.error, PhaseFailed)

    async def test_nothing_to_ask_is_an_error_of_its_own(self, house: TaskHouse) -> None:
        ran = await house.run(atomic("a", asks="{% if input %}x{% endif %}"))
        assert isinstance(ran.result.error, NoContext)


def never(output: str) -> dict[str, Any]:
    """A validator that accepts nothing."""
    return {"valid": False, "reason": "never"}


class TestReduce:
    @pytest.mark.req("ADR-13", "ADR-48")
    async def test_results_stand_in_the_order_of_the_inputs(self, house: TaskHouse) -> None:
        waits = {"a": 0.03, "b": 0.0, "c": 0.015, "d": 0.001}

        async def script(request: Request) -> str:
            if asked(request) == "Do inner.":
                await asyncio.sleep(waits[item(request)])
                return f"got {item(request)}"
            return "all"

        ran = await house.run(reduce(inputs(*waits)), script)
        assert ran.result.output == "all"
        assert re.findall(
            r"\[result (\d): (\w)\]\ngot (\w)", ran.section("reduction", PREVIOUS)
        ) == [(str(n), name, name) for n, name in enumerate("abcd")]
        ended = [event.name for event in ran.events if isinstance(event, InputEnded)]
        assert sorted(ended) == list("abcd")
        assert ended != list("abcd")

    async def test_no_more_than_the_limit_run_at_a_time(self, house: TaskHouse) -> None:
        running, most = 0, 0

        async def script(request: Request) -> str:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.002)
            running -= 1
            return "x"

        await house.run(reduce(inputs(*"abcdefgh"), parallel=3), script)
        assert most == 3

    @pytest.mark.req("ADR-43", "ADR-44", "ADR-45", "ADR-39")
    async def test_a_failure_names_its_input_and_keeps_the_rest(self, house: TaskHouse) -> None:
        async def script(request: Request) -> str:
            said = item(request)
            if said == "bad":
                await asyncio.sleep(0.01)
                raise ValueError("no more")
            await asyncio.sleep(0.02 if said == "slow" else 0)
            return f"got {said}"

        names = ("a", "slow", "bad", "d", "e", "f", "g", "h")
        ran = await house.run(reduce(inputs(*names), parallel=3), script)
        error = ran.result.error
        assert isinstance(error, InputFailed)
        assert (error.index, error.input) == (2, "bad")
        assert "input 2 (bad)" in str(error)
        kept = {one["index"]: one["output"] for one in error.notes["partialResults"]}
        assert kept[0] == "got a"
        assert kept[1] == "got slow"  # it was in flight, and was awaited
        sent = [item(request) for request in ran.model.requests]
        assert sent.count("bad") == 1
        assert len(sent) == len(kept) + 1
        assert list(kept) == sorted(kept)

    async def test_all_inputs_that_failed_are_named(self, house: TaskHouse) -> None:
        async def script(request: Request) -> str:
            said = item(request)
            await asyncio.sleep(0.02 if said == "first" else 0.01)
            if said in ("first", "third"):
                raise ValueError(f"no {said}")
            return f"got {said}"

        ran = await house.run(reduce(inputs("first", "second", "third"), parallel=3), script)
        error = ran.result.error
        assert isinstance(error, InputFailed)
        told = str(error)
        assert re.search(
            r"input 0 \(first\).*no first.*; input 2 \(third\).*no third.*; 1 of 3", told
        )
        assert [each["index"] for each in error.notes["failed"]] == [0, 2]

    @pytest.mark.req("ADR-43")
    async def test_a_failed_reduction_keeps_all_results(self, house: TaskHouse) -> None:
        ran = await house.run(reduce(inputs("a", "b")), {"Do reduction.": ValueError("no")})
        error = ran.result.error
        assert isinstance(error, StepFailed)
        assert [one["input"] for one in error.notes["partialResults"]] == ["a", "b"]

    async def test_inputs_are_files_lines_patterns_and_expressions(self, house: TaskHouse) -> None:
        house.write(docs__a="text of a", docs__b="text of b", rows="one\n\ntwo\n")
        declared = (
            "<input>inline</input><file>docs/a.md</file><glob>docs/*.md</glob>"
            '<file split="lines">rows.md</file><expression>input.rows[1:]</expression>'
        )
        ran = await house.run(reduce(declared), given={"rows": [0, {"n": 1}, "two"]})
        sent = [item(one) for one in ran.model.requests if asked(one) == "Do inner."]
        assert sorted(sent) == sorted(
            ["inline", "text of a", "text of a", "text of b", "one", "two", '{\n  "n": 1\n}', "two"]
        )

    @pytest.mark.parametrize(
        ("declared", "told"),
        [
            ("<file>gone.md</file>", "no file 'gone.md'"),
            ("<file>../x</file>", "leads out of the folder"),
            ("<glob>*.pdf</glob>", "no file in"),
            ("<glob>/etc/*</glob>", "leads out of the folder"),
            ("<expression>[]</expression>", "comes to nothing"),
            ("<expression>input.x.rows</expression>", "there is no 'rows' here"),
        ],
    )
    async def test_inputs_that_come_to_nothing_are_mistakes_with_lines(
        self, house: TaskHouse, declared: str, told: str
    ) -> None:
        with pytest.raises(TaskFileError, match=r"task\.xml:2: ") as raised:
            await house.run(reduce(declared), given={"x": 1})
        assert told in str(raised.value)

    async def test_one_that_only_a_run_can_know_is_an_error_of_the_run(
        self, house: TaskHouse
    ) -> None:
        ran = await house.run(reduce("<expression>state.none</expression>"), given={"x": 1})
        assert "there is no 'none' here" in str(ran.result.error)
        assert "task.xml:2" in str(ran.result.error)
        assert ran.model.requests == []

    async def test_a_file_that_an_earlier_task_may_make_is_looked_for_in_its_turn(
        self, house: TaskHouse
    ) -> None:
        def write() -> str:
            """Write the file."""
            (house.folder / "made.md").write_text("one")
            return "written"

        def script(request: Request) -> Any:
            last = request.messages[-1]
            asks = "Do first." in last.text
            return calls(call("write")) if asks and last.role == "user" else "done"

        first = atomic("first", "<tools><tool>write</tool></tools>")
        ran = await house.run(
            sequential(first, reduce("<file>made.md</file>")), script, tools=[write]
        )
        assert ran.result.status == "completed", ran.result.error
        with pytest.raises(TaskFileError, match=r"no file 'gone\.md'"):
            await house.run(sequential(atomic("first"), reduce("<file>gone.md</file>")))

    @pytest.mark.req("ADR-13")
    async def test_an_inner_task_may_be_any_task(self, house: TaskHouse) -> None:
        told = "{{ input.index }}: {{ outputs['inner.x'] }}"
        steps = f"<steps>{atomic('x')}{atomic('y', asks=told)}</steps>"
        xml = reduce(inputs("p", "q"), inner=steps, inner_type=' type="sequential"')
        ran = await house.run(xml)
        assert "[input: p]\np" in ran.section("inner[0].x", "## Inherited context")
        assert ran.seen("inner[1].y")[-1] == "## Task\n\n1: answer to Do x."
        nested = reduce(
            "<expression>input.rows</expression>",
            inner_type=' type="reduce"',
            inner=(
                "<inputs><expression>input.item</expression></inputs>"
                "<inner_task><description>Do cell.</description></inner_task>"
                "<reduction_task><description>Do row.</description></reduction_task>"
            ),
        )
        ran = await house.run(nested, given={"rows": [["a", "b"], ["c"]]})
        paths = sorted(str(call.phase) for call in ran.calls)
        assert paths == [
            "inner[0].inner[0]",
            "inner[0].inner[1]",
            "inner[0].reduction",
            "inner[1].inner[0]",
            "inner[1].reduction",
            "reduction",
        ]


class TestTree:
    @pytest.mark.req("ADR-51")
    async def test_results_beyond_the_window_are_reduced_in_groups(self, house: TaskHouse) -> None:
        def script(request: Request) -> str:
            text = "\n".join(message.text for message in request.messages)
            if asked(request) == "Do inner.":
                return f"<{item(request)}> " + "word " * 300
            return " ".join(re.findall(r"<\w+>", text))

        names = [f"n{n}" for n in range(23)]
        ran = await house.run(reduce(inputs(*names)), script, model={"window": 3_300})
        assert ran.result.error is None
        assert re.findall(r"<(\w+)>", ran.result.output or "") == names
        groups = sorted({str(call.phase) for call in ran.calls if "reduction[" in str(call.phase)})
        assert len(groups) > 2
        assert any("exceed the window; reduced in" in note for note in ran.notes())
        assert all(call.sent_tokens <= 3_300 - 1_024 for call in ran.calls)

    async def test_what_cannot_be_grouped_is_said(self, house: TaskHouse) -> None:
        ran = await house.run(
            reduce(inputs("a", "b")), {"Do inner.": "word " * 1_800}, model={"window": 3_300}
        )
        assert isinstance(ran.result.error, StepFailed)
        assert isinstance(ran.result.error.__cause__, ContextTooLong)
        assert "answer shorter" in str(ran.result.error)

    def test_groups_are_neighbours_and_fit(self) -> None:
        for count, size, room in itertools.product((1, 2, 7, 100), (1, 5, 9), (9, 10, 50)):
            sizes = [size] * count
            groups = list(grouped(sizes, room))
            assert [n for first, last in groups for n in range(first, last)] == list(range(count))
            assert all(sum(sizes[first:last]) <= room for first, last in groups)


class TestLimitsAndWarnings:
    @pytest.mark.req("ADR-40")
    async def test_warnings_change_nothing(self, house: TaskHouse) -> None:
        asks = "Count the words: " + "word " * 400
        quiet = await house.run(atomic("a", asks=asks))
        limit = "<max_input_tokens>450</max_input_tokens>"
        warned = await house.run(atomic("a", limit + block("none", "disabled"), asks=asks))
        assert any("its max_input_tokens is 450" in note for note in warned.notes())
        assert any("has no context" in note for note in warned.notes())
        assert warned.result.status == "completed"
        assert warned.seen("a") == quiet.seen("a")

    @pytest.mark.req("ADR-41")
    async def test_a_hard_limit_stops(self, house: TaskHouse) -> None:
        xml = sequential(atomic("a"), atomic("b", asks="Count: " + "word " * 3_000))
        ran = await house.run(xml, model={"window": 3_000})
        assert isinstance(ran.result.error, StepFailed)
        assert isinstance(ran.result.error.__cause__, ContextTooLong)
        assert [one["step"] for one in ran.result.notes["partialResults"]] == ["a"]
        assert len(ran.model.requests) == 1


@pytest.mark.req("ADR-39")
def test_the_tree_of_errors_has_the_settled_names() -> None:
    tree: dict[type[WindlassError], tuple[type[WindlassError], ...]] = {
        ContextError: (MatchingFailed, NoContext),
        TaskError: (StepFailed, InputFailed, PhaseFailed, WorkerLost),
        LimitReached: (ContextTooLong,),
        ProviderError: (RateLimited, BadRequest),
        WindlassError: (
            ContextError,
            TaskError,
            LimitReached,
            ProviderError,
            ToolError,
            StoreError,
        ),
    }
    for kind, below in tree.items():
        assert all(issubclass(one, kind) for one in below)
    assert UsageError.exit_code == 2
    assert StepFailed.exit_code == InputFailed.exit_code == 1
    failed = InputFailed("told", input="a.md", index=3, notes={"partialResults": []})
    again = pickle.loads(pickle.dumps(failed))  # as it comes from another process
    assert (type(again), str(again), again.index, again.input) == (InputFailed, "told", 3, "a.md")
    assert again.notes == failed.notes


class TestResume:
    async def test_finished_tasks_are_not_repeated(self, house: TaskHouse) -> None:
        broken = {"on": True}

        def script(request: Request) -> str:
            if item(request) == "c" and broken["on"]:
                raise ValueError("no more")
            return f"got {item(request)}"

        xml = sequential(atomic("first"), reduce(inputs(*"abcd"), name="each", parallel=1))
        ran = await house.run(xml, script, context="Known.")
        assert isinstance(ran.result.error, StepFailed)
        broken["on"] = False
        again = await house.run("<gone/>", script, resume=ran.result.session_id)
        assert again.result.error is None
        assert [item(one) for one in again.model.requests] == ["c", "d", ""]
        told = again.section("each.reduction", PREVIOUS)
        assert re.findall(r"got (\w)", told) == list("abcd")
        assert "Known." in again.section("each.inner[3]", "## Inherited context")
        assert again.result.session_id == ran.result.session_id
        assert not [one for one in again.store.verify() if one.severity == "damage"]

    async def test_what_finished_tasks_left_is_there_again(self, house: TaskHouse) -> None:
        broken = {"on": True}

        def script(request: Request) -> Any:
            if asked(request) == "Do a." and request.messages[-1].role == "user":
                call = ToolCall("c1", "set_state", '{"key": "x", "value": "7"}')
                return assistant("", calls=[call])
            if "x is" in asked(request) and broken["on"]:
                raise ValueError("no more")
            return f"answer to {asked(request)}"

        first = atomic("a", "<tools><tool>set_state</tool></tools>")
        inner = sequential(atomic("y"), name="inner")
        last = atomic("b", asks="x is {{ state.x }}, {{ outputs['inner.y'] }}")
        ran = await house.run(sequential(first, inner, last), script)
        broken["on"] = False
        again = await house.run("<gone/>", script, resume=ran.result.session_id)
        assert again.result.error is None
        assert len(again.model.requests) == 1
        assert again.model.requests[0].messages[-1].text.endswith("x is 7, answer to Do y.")
        assert again.result.state == {"x": "7"}

    async def test_an_input_that_changed_is_worked_on_again(self, house: TaskHouse) -> None:
        house.write(docs__a="one", docs__b="two")
        xml = reduce("<glob>docs/*.md</glob>")
        ran = await house.run(xml, {"Do reduction.": ValueError("no")})
        house.write(docs__a="another")
        again = await house.run("<gone/>", resume=ran.result.session_id)
        assert [item(one) for one in again.model.requests] == ["another", ""]
        assert any("its input has changed" in note for note in again.notes())

    async def test_what_cannot_be_resumed_is_said(self, house: TaskHouse) -> None:
        ran = await house.run(atomic("a"))
        with pytest.raises(UsageError, match="completed; there is nothing to resume"):
            await house.run("<x/>", resume=ran.result.session_id)


async def test_inside_an_event_loop_the_other_function_is_meant() -> None:
    with pytest.raises(UsageError, match=r"await windlass\.evaluate"):
        windlass.evaluate_sync("task.xml")


async def test_the_record_has_the_file_and_the_kinds_of_rows(house: TaskHouse) -> None:
    ran = await house.run(sequential(atomic("a"), atomic("b")))
    start = ran.store.start(ran.result.session_id)
    assert start.cascade["operators"] == 1
    assert "<steps>" in start.cascade["xml"]
    rows = without_steps(ran.store.rows(ran.result.session_id))
    kinds = [stored.row.node_type for stored in rows]
    assert kinds == [
        NodeType.USER,
        NodeType.AGENT,
        NodeType.CONTEXT_INJECTION,
        NodeType.USER,
        NodeType.AGENT,
    ]
