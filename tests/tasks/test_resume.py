"""Tasks that are resumed: what was answered in a task that had not finished is not sent again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from tests.tasks.conftest import Ran, TaskHouse, asked
from tests.tasks.making import atomic, block, reduce, sequential
from windlass.errors import StepDiffers, UsageError
from windlass.history.base import NodeType
from windlass.history.sqlite import SqliteStore
from windlass.messages import Message, ToolCall, assistant
from windlass.report.call_views import view_session
from windlass.tools.registry import tool
from windlass.wire.base import Request


class Killed(BaseException):
    """Ends a run at once, as a signal does."""


TWO_TOOLS = "<tools><tool>look</tool></tools>"


@tool(effects="none")
def look(at: str) -> str:
    """Look.

    Args:
        at: At what.
    """
    return f"{at} is well"


def looks_twice(on: Callable[[], bool]) -> Callable[[Request], Message | str]:
    """Each task looks two times, then says so; the second look breaks off while `on`."""

    def reply(request: Request) -> Message | str:
        results = sum(message.role == "tool" for message in request.messages)
        if results == 1 and on():
            raise Killed
        if results < 2 and request.tools:
            arguments = f'{{"at": "{asked(request)} {results}"}}'
            return assistant("", calls=[ToolCall(f"c{results}", "look", arguments)])
        return f"{asked(request)} done with {results} looks"

    return reply


async def broken_off(house: TaskHouse, xml: str, script: Any, **options: Any) -> str:
    """The session of a task that ended in the middle of a call."""
    with pytest.raises(Killed):
        await house.run(xml, script, session_id="s1", **options)
    return "s1"


async def resumed(house: TaskHouse, script: Any, **options: Any) -> Ran:
    return await house.run("<gone/>", script, resume="s1", **options)


def replies(ran: Ran) -> list[tuple[str | None, int | None]]:
    rows = (each.row for each in ran.store.rows("s1"))
    return [(r.phase, r.turn) for r in rows if r.node_type in (NodeType.AGENT, NodeType.FOLLOW_UP)]


XML = sequential(atomic("a", TWO_TOOLS), atomic("b", TWO_TOOLS))


class TestAnsweredCalls:
    async def test_come_from_the_record(self, house: TaskHouse) -> None:
        times = iter([False, True])
        await broken_off(house, XML, looks_twice(lambda: next(times, False)), tools=[look])
        with closing(SqliteStore.open_existing(house.store)) as store:
            assert view_session(store, "s1").resume == "windlass evaluate --resume s1"
        untouched = await house.run(XML, looks_twice(lambda: False), tools=[look])
        ran = await resumed(house, looks_twice(lambda: False), tools=[look])
        assert ran.result.status == "completed"
        assert ran.result.outputs == untouched.result.outputs
        # The call that was broken off in `b`, and the last one.
        assert [asked(request) for request in ran.model.requests] == ["Do b.", "Do b."]
        assert ran.model.requests == untouched.model.requests[-2:]
        assert replies(ran) == [("a", 1), ("a", 2), ("a", 3), ("b", 1), ("b", 2), ("b", 3)]
        assert not [each for each in ran.store.verify() if each.severity == "damage"]

    async def test_of_inner_tasks_side_by_side_likewise(self, house: TaskHouse) -> None:
        texts = "".join(f'<input name="{name}">{name}</input>' for name in "abc")
        xml = reduce(texts, inner=TWO_TOOLS, parallel=1)
        times = iter([False, False, True])
        await broken_off(house, xml, looks_twice(lambda: next(times)), tools=[look])
        ran = await resumed(house, looks_twice(lambda: False), tools=[look])
        assert ran.result.status == "completed"
        assert [len(request.messages) > 1 for request in ran.model.requests].count(True) >= 1
        assert len(ran.model.requests) == 3  # the last two of the third input, and the reduction
        assert len(replies(ran)) == 3 * 3 + 1

    async def test_notes_of_a_helper_are_asked_for_once(
        self, house: TaskHouse, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("WINDLASS_HELPER_MODEL", "scripted/x")
        xml = sequential(
            atomic("a"), atomic("b"), inside=block("full", "enabled", "true", "notes_only")
        )
        broken = {"on": True}

        def script(request: Request) -> str:
            said = request.messages[-1].text
            if "Do b." in said and broken["on"]:
                raise Killed
            return "A note." if "Do a." not in said and "Do b." not in said else "word " * 400

        await broken_off(house, xml, script)
        broken["on"] = False
        ran = await resumed(house, script)
        assert ran.result.status == "completed"
        assert len(ran.model.requests) == 1
        assert "A note." in ran.model.requests[0].messages[-2].text


class TestTools:
    async def test_what_may_have_run_waits_for_a_yes(self, house: TaskHouse) -> None:
        done: list[str] = []

        def mail(to: str) -> str:
            """Mail.

            Args:
                to: To whom.
            """
            done.append(to)
            if len(done) == 1:
                raise Killed
            return "mailed"

        def script(request: Request) -> Message | str:
            if request.messages[-1].role == "tool":
                return "Mailed."
            return assistant("", calls=[ToolCall("c1", "mail", '{"to": "x"}')])

        xml = atomic("a", "<tools><tool>mail</tool></tools>")
        await broken_off(house, xml, script, tools=[mail])
        ran = await resumed(house, script, tools=[mail])
        assert ran.result.status == "waiting"
        assert ran.result.notes["unsure"]["tools"] == ["mail"]
        assert (len(ran.model.requests), done) == (0, ["x"])
        ran = await resumed(house, script, tools=[mail], again=["mail"])
        assert (ran.result.status, ran.result.output) == ("completed", "Mailed.")
        assert (len(ran.model.requests), done) == (1, ["x", "x"])


class TestWhatChanged:
    async def test_a_step_that_differs_is_named_and_can_be_accepted(self, house: TaskHouse) -> None:
        times = iter([False, True])
        await broken_off(house, XML, looks_twice(lambda: next(times)), tools=[look])

        def look_closely(at: str, again: str = "") -> str:
            """Look closely.

            Args:
                at: At what.
                again: How often.
            """
            return f"{at} is fine"

        look_closely.__name__ = "look"
        closely = tool(effects="none")(look_closely)
        script = looks_twice(lambda: False)
        with pytest.raises(StepDiffers, match=r"phase b, attempt 1, turn 1: .*the tool 'look'"):
            await resumed(house, script, tools=[closely])
        ran = await resumed(house, script, tools=[closely], accept=True)
        assert ran.result.status == "completed"
        assert [asked(request) for request in ran.model.requests] == ["Do b."] * 3
        assert any("the tool 'look' changed since; it is run again" in n for n in ran.notes())

    async def test_an_input_that_changed_in_an_unfinished_task_is_worked_on_again(
        self, house: TaskHouse
    ) -> None:
        house.write(docs__a="one")
        xml = atomic("a", f"{TWO_TOOLS}<inputs><file>docs/a.md</file></inputs>")
        times = iter([True])
        await broken_off(house, xml, looks_twice(lambda: next(times)), tools=[look])
        house.write(docs__a="another")
        ran = await resumed(house, looks_twice(lambda: False), tools=[look])
        assert ran.result.status == "completed"
        assert len(ran.model.requests) == 3
        assert all(
            "another" in request.messages[-1 - 2 * n].text
            for n, request in enumerate(ran.model.requests)
        )

    async def test_a_task_that_its_answers_do_not_complete_is_asked_again(
        self, house: TaskHouse
    ) -> None:
        xml = sequential(atomic("a"), atomic("b"))
        ran = await house.run(xml, {"Do b.": ""}, session_id="s1")
        assert ran.result.status == "incomplete"
        ran = await resumed(house, {"Do b.": "Here."})
        assert (ran.result.status, ran.result.output) == ("completed", "Here.")
        assert [asked(request) for request in ran.model.requests] == ["Do b."]


async def test_a_session_that_runs_is_not_resumed(house: TaskHouse) -> None:
    started = asyncio.Event()

    async def script(request: Request) -> str:
        started.set()
        await asyncio.sleep(0.5)
        return "Done."

    running = asyncio.create_task(house.run(atomic("a"), script, session_id="s1"))
    await started.wait()
    with pytest.raises(UsageError, match=r"session 's1' is running in process"):
        await resumed(house, script)
    assert (await running).result.status == "completed"
