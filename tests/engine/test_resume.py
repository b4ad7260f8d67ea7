"""Going on with a session that was broken off: nothing answered is sent again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

import windlass
from tests.engine.harness import House, Ran, call, calls, cascade, phase
from windlass.errors import ProviderError, StepDiffers, UsageError
from windlass.history.base import NodeType
from windlass.providers.scripted import Scripted
from windlass.tools.base import ToolContext
from windlass.tools.registry import tool
from windlass.wire.base import Request


class Model:
    """A model of which each call answers by what it is asked, and which breaks off at one."""

    def __init__(self, at: int, script: Callable[[Request], Any]) -> None:
        self.at, self.script, self.asked = at, script, list[Request]()

    def __call__(self, request: Request) -> Any:
        self.asked.append(request)
        if len(self.asked) == self.at:
            raise asyncio.CancelledError
        return self.script(request)


@tool(effects="none")
def look(name: str) -> str:
    """Look.

    Args:
        name: At what.
    """
    return f"{name} is well"


def note(context: ToolContext, text: str) -> str:
    """Note.

    Args:
        context: What the run provides.
        text: What.
    """
    noted.append(text)
    context.state["notes"] = [*context.state.get("notes", []), text]
    return f"noted {text}"


noted: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_noted() -> None:
    noted.clear()


def script(request: Request) -> Any:
    """Each phase looks, notes and answers."""
    last = request.messages[-1]
    if last.role == "tool" and last.name == "note":
        return f"done after {len(request.messages)} messages"
    if last.role == "tool":
        return calls(call("note", json.dumps({"text": f"seen {len(request.messages)}"})))
    return calls(call("look", '{"name": "it"}'), text="I look.")


WHOLE = cascade(
    phase("a", tackle=["look", "note"], output_extraction={"pattern": "(done)", "store_as": "x"}),
    phase("b", tackle=["look", "note"], instructions="Do b of {{ state.x }}."),
)


async def broken_off(house: House, at: int, whole: dict[str, Any] = WHOLE) -> tuple[str, Model]:
    """A session whose call with this number never came back."""
    model = Model(at, script)
    with pytest.raises(asyncio.CancelledError):
        await house.run(whole, model, tools=[look, note], session_id="s")
    return "s", model


async def go_on(house: House, session: str, **options: Any) -> tuple[Any, list[Request]]:
    model = Model(-1, script)
    result = await windlass.resume(
        session,
        model="scripted/x",
        store=house.store,
        root=house.folder,
        tools=[look, note],
        providers={"scripted": Scripted(model)},
        **options,
    )
    return result, model.asked


def said(ran: Ran) -> list[tuple[str, str, str]]:
    rows = ran.rows(NodeType.USER, NodeType.AGENT, NodeType.FOLLOW_UP, NodeType.TOOL_RESULT)
    return [
        (one.row.node_type, one.row.phase or "", one.row.message.text if one.row.message else "")
        for one in rows
    ]


class TestResume:
    @pytest.mark.parametrize("at", range(1, 7))
    async def test_comes_to_the_same_end_and_sends_nothing_twice(
        self, house: House, at: int
    ) -> None:
        session, model = await broken_off(house, at)
        result, asked = await go_on(house, session)
        assert len(model.asked) - 1 + len(asked) == 6
        assert asked[0].messages == model.asked[-1].messages
        whole = House(house.folder / "whole")
        ran = await whole.run(WHOLE, Model(-1, script), tools=[look, note])
        assert result.outputs == ran.result.outputs
        assert result.state == ran.result.state
        assert result.status == "completed"
        assert result.usage.tokens_in == ran.result.usage.tokens_in
        assert result.usage.tokens_out == ran.result.usage.tokens_out
        resumed = Ran(result, Scripted(script), house.open_store(), [])
        assert said(resumed) == said(ran)
        assert resumed.has_no_damage()
        assert sorted(noted) == sorted([*result.state["notes"]] * 2)
        whole.close()

    async def test_what_was_sent_and_never_answered_stands_in_the_record(
        self, house: House
    ) -> None:
        session, _ = await broken_off(house, 3)
        result, _ = await go_on(house, session)
        ran = Ran(result, Scripted(script), house.open_store(), [])
        places = [each["step"] for each in ran.decisions("sent")]
        assert len(places) == 7
        assert places.count("phase a, attempt 1, turn 3") == 2

    async def test_a_failure_is_gone_on_from(self, house: House) -> None:
        def failing(request: Request) -> Any:
            if len(request.messages) > 8:
                raise ProviderError("no more")
            return script(request)

        ran = await house.run(WHOLE, failing, tools=[look, note], session_id="s")
        assert ran.result.status == "failed"
        result, asked = await go_on(house, "s")
        assert result.status == "completed"
        assert len(asked) + len(ran.model.requests) == 6 + 1

    async def test_a_completed_session_has_nothing_to_resume(self, house: House) -> None:
        await house.run(WHOLE, script, tools=[look, note], session_id="s")
        with pytest.raises(UsageError, match="completed; there is nothing to resume"):
            await go_on(house, "s")

    async def test_a_change_before_the_break_is_named(self, house: House) -> None:
        session, _ = await broken_off(house, 5)
        changed = json.loads(json.dumps(WHOLE))
        changed["phases"][0]["instructions"] = "Do something else."
        with pytest.raises(StepDiffers, match=r"phase a, attempt 1, turn 1.*the cascade changed"):
            await go_on(house, session, cascade=changed)

    async def test_a_change_behind_the_break_is_no_matter(self, house: House) -> None:
        session, _ = await broken_off(house, 3)
        changed = json.loads(json.dumps(WHOLE))
        changed["phases"][1]["instructions"] = "Do b in another way."
        result, asked = await go_on(house, session, cascade=changed)
        assert result.status == "completed"
        assert "Do b in another way." in [message.text for message in asked[-1].messages]

    async def test_a_tool_that_may_have_run_is_not_run_again_unasked(self, house: House) -> None:
        async def stops(text: str) -> str:
            """Note.

            Args:
                text: What.
            """
            noted.append(text)
            raise asyncio.CancelledError

        one = cascade(phase("a", tackle=["look", "note"]))
        stops.__name__ = "note"
        with pytest.raises(asyncio.CancelledError):
            await house.run(one, script, tools=[look, stops], session_id="s")
        result, asked = await go_on(house, "s")
        assert (result.status, asked, len(noted)) == ("waiting", [], 1)
        told = "note may have run when the session was broken off"
        ran = Ran(result, Scripted(script), house.open_store(), [])
        assert told in ran.decisions("waiting")[0]["text"]
        result, asked = await go_on(house, "s", again=["note"])
        assert (result.status, len(asked), len(noted)) == ("completed", 1, 2)
