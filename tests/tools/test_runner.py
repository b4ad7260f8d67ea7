"""Whatever a tool does, the model gets one result, in time."""

from __future__ import annotations

import asyncio
import contextvars
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from windlass.errors import ToolError
from windlass.messages import ToolCall, ToolSpec
from windlass.text.pictures import picture
from windlass.tools.base import Tool, ToolContext, ToolOutput
from windlass.tools.registry import make_tool
from windlass.tools.runner import run_tool, run_tools

PNG = (
    b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x02\x00\x00\x00\x03\x08\x02\x00\x00\x00"
    b"\x00\x00\x00\x00"
)

Run = Callable[..., Any]


@pytest.fixture
def run(context: ToolContext) -> Run:
    async def go(function: Callable[..., Any], arguments: str = "{}", **options: Any) -> ToolOutput:
        made = make_tool(function, name="probe", **options)
        return await run_tool(made, ToolCall("1", "probe", arguments), context)

    return go


def two(title: str, count: int = 1) -> str:
    """Take two."""
    return f"{title!r} {count!r}"


class TestArguments:
    async def test_are_coerced_by_the_signature(self, run: Run) -> None:
        assert await run(two, '{"title": "a", "count": "5"}') == ToolOutput("'a' 5")

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            ('{"title": ', "are no JSON"),
            ("[1]", "are not a JSON object"),
            ("[" * 100_000, "nested more than 100 levels deep"),
            ("{}", "'title' is missing"),
            ('{"title": "a", "colour": 1}', "'colour' is unknown"),
            ('{"title": "a", "count": "many"}', "'count': input should be a valid integer"),
            ('{"title": "a", "\\ud800": 1}', "wrong arguments"),
        ],
    )
    async def test_that_are_wrong_tell_the_model_what_was_expected(
        self, run: Run, arguments: str, said: str
    ) -> None:
        output = await run(two, arguments)
        assert output.error
        assert said in output.text
        assert (
            "it takes a JSON object with title (string), count (integer, optional)" in output.text
        )

    async def test_of_a_tool_made_by_hand_are_checked_against_its_schema(
        self, context: ToolContext
    ) -> None:
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
        made = Tool(ToolSpec("hand", "", schema), lambda n: n + 1)
        good = await run_tool(made, ToolCall("1", "hand", '{"n": 1}'), context)
        bad = await run_tool(made, ToolCall("1", "hand", "{}"), context)
        assert good == ToolOutput("2")
        assert bad.error
        assert "'n' is a required property" in bad.text

    async def test_do_not_hold_the_context(self, run: Run, context: ToolContext) -> None:
        def where(context: ToolContext) -> str:
            return context.phase

        assert await run(where) == ToolOutput("p")
        assert (await run(where, '{"context": 1}')).error


@dataclass
class Point:
    x: int


class TestResults:
    @pytest.mark.parametrize(
        ("result", "text"),
        [
            ("text", "text"),
            (None, "done"),
            ({"b": 1, "a": "é"}, '{"b": 1, "a": "é"}'),
            ([Point(1)], '[{"x": 1}]'),
            (3, "3"),
            ({1}, '"{1}"'),
            (b"bytes", "bytes"),
            ("a\0b", "a\0b"),
        ],
    )
    async def test_become_text(self, run: Run, result: Any, text: str) -> None:
        assert await run(lambda: result) == ToolOutput(text)

    async def test_that_are_a_picture_are_named_after_the_tool(self, run: Run) -> None:
        output = await run(lambda: PNG)
        assert output.text == "picture probe.png, 2x3"
        assert output.pictures == (picture(PNG, name="probe.png"),)
        assert output.pictures[0].data == PNG

    async def test_that_are_an_output_or_a_picture_stay_so(self, run: Run) -> None:
        chart = picture(PNG, name="chart.png")
        whole = ToolOutput("drawn", (chart,))
        assert await run(lambda: whole) == whole
        assert await run(lambda: chart) == ToolOutput("picture chart.png, 2x3", (chart,))

    async def test_with_invalid_utf8_say_how_many_bytes(self, run: Run) -> None:
        output = await run(lambda: b"caf\xe9 and more words of good text")
        assert output.text.startswith("caf\ufffd and")
        assert "1 of 32 bytes were not valid UTF-8" in output.text
        assert not output.error

    async def test_that_are_other_bytes_are_only_described(self, run: Run) -> None:
        assert "neither text nor a picture" in (await run(lambda: bytes(range(256)))).text

    @pytest.mark.parametrize("result", ["a\ud800b", {"k": "a\ud800b"}, ToolOutput("a\ud800b")])
    async def test_survive_lone_surrogates(self, run: Run, result: Any) -> None:
        output = await run(lambda: result)
        assert not output.error
        output.text.encode()

    async def test_that_json_cannot_say_are_failures(self, run: Run) -> None:
        circle: list[Any] = []
        circle.append(circle)
        assert (await run(lambda: circle)).text == "ValueError: Circular reference detected"


class TestFailures:
    async def test_give_type_and_text(self, run: Run) -> None:
        def fail() -> None:
            raise LookupError("no such thing")

        output = await run(fail)
        assert output == ToolOutput("LookupError: no such thing", error=True)

    async def test_of_a_tool_that_explains_itself_are_verbatim(self, run: Run) -> None:
        async def fail() -> None:
            raise ToolError("the shop is closed: try tomorrow")

        assert await run(fail) == ToolOutput("the shop is closed: try tomorrow", error=True)

    @pytest.mark.parametrize("problem", [SystemExit(3), StopIteration("x"), RuntimeError()])
    async def test_of_every_kind_are_results(self, run: Run, problem: BaseException) -> None:
        def fail() -> None:
            raise problem

        output = await run(fail)
        assert output.error
        assert type(problem).__name__ in output.text

    def test_by_the_users_hand_pass_through(self, run: Run) -> None:
        def stop() -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            asyncio.run(run(stop))

    async def test_by_cancelling_the_run_reach_the_tool(self, run: Run) -> None:
        seen = asyncio.Event()
        ended: list[str] = []

        async def wait() -> None:
            seen.set()
            try:
                await asyncio.sleep(60)
            finally:
                ended.append("yes")

        task = asyncio.ensure_future(run(wait))
        await seen.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0)
        assert ended == ["yes"]


class TestTimeLimit:
    async def test_ends_the_wait_for_a_thread(self, run: Run) -> None:
        free = threading.Event()
        start = time.monotonic()
        output = await run(lambda: free.wait(30), timeout_s=0.2)
        free.set()
        assert time.monotonic() - start < 5
        assert output.error
        assert "time limit of 0.2 s" in output.text

    async def test_ends_the_wait_for_a_task_that_will_not_stop(self, run: Run) -> None:
        async def stubborn() -> None:
            for _ in range(3):
                try:
                    await asyncio.sleep(0.3)
                except asyncio.CancelledError:
                    continue

        start = time.monotonic()
        output = await run(stubborn, timeout_s=0.1)
        assert time.monotonic() - start < 0.3
        assert output.error

    def test_lets_the_interpreter_exit_while_a_tool_hangs(self) -> None:
        code = """
import asyncio, pathlib, time
from windlass.messages import ToolCall
from windlass.tools.base import ToolContext
from windlass.tools.registry import make_tool
from windlass.tools.runner import run_tool

def hang() -> None:
    while True:
        time.sleep(1)

tool = make_tool(hang, timeout_s=0.2)
context = ToolContext("s", "p", pathlib.Path("."), {})
print(asyncio.run(run_tool(tool, ToolCall("1", "hang", "{}"), context)).text)
"""
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=20, check=True
        )
        assert "'hang' did not finish within its time limit of 0.2 s" in done.stdout
        assert done.stderr == ""


class TestThread:
    async def test_is_a_daemon_and_inherits_context_variables(self, run: Run) -> None:
        variable = contextvars.ContextVar("variable", default="none")
        variable.set("set")
        output = await run(lambda: [threading.current_thread().daemon, variable.get()])
        assert json.loads(output.text) == [True, "set"]

    async def test_awaits_what_a_plain_function_returns(self, run: Run) -> None:
        async def later(text: str) -> str:
            return text

        assert await run(lambda: later("later")) == ToolOutput("later")


class TestParallelCalls:
    async def test_run_together_at_most_four_in_call_order(self, context: ToolContext) -> None:
        running, most = 0, 0

        async def step(n: int) -> str:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.02 * (10 - n) / 10)
            running -= 1
            return str(n)

        calls = [ToolCall(str(n), "step", json.dumps({"n": n})) for n in range(9)]
        outputs = await run_tools(calls, {"step": make_tool(step)}, context)
        assert [output.text for output in outputs] == [str(n) for n in range(9)]
        assert most == 4

    async def test_fail_each_for_itself(self, context: ToolContext) -> None:
        def half(n: int) -> float:
            return 1 / n

        calls = [
            ToolCall("1", "half", '{"n": 2}'),
            ToolCall("2", "half", '{"n": 0}'),
            ToolCall("3", "halve", "{}"),
        ]
        good, failed, unknown = await run_tools(calls, {"half": make_tool(half)}, context)
        assert good == ToolOutput("0.5")
        assert failed == ToolOutput("ZeroDivisionError: division by zero", error=True)
        assert unknown.text == "unknown tool 'halve': did you mean 'half'? known: half"
        assert unknown.error
