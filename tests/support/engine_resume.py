"""What tests of engine resume build their cases of; others use it, too."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import windlass
from tests.engine.harness import House, call, calls
from windlass.providers.scripted import Scripted
from windlass.tools.base import ToolContext
from windlass.tools.registry import tool
from windlass.wire.base import Request


class Gone(BaseException):
    """The process is gone."""


class Model:
    """A model of which each call answers by what it is asked, and which breaks off at one."""

    def __init__(self, at: int, script: Callable[[Request], Any]) -> None:
        self.at, self.script, self.asked = at, script, list[Request]()

    def __call__(self, request: Request) -> Any:
        self.asked.append(request)
        if len(self.asked) == self.at:
            raise Gone
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


def script(request: Request) -> Any:
    """Each phase looks, notes and answers."""
    last = request.messages[-1]
    if last.role == "tool" and last.name == "note":
        return f"done after {len(request.messages)} messages"
    if last.role == "tool":
        return calls(call("note", json.dumps({"text": f"seen {len(request.messages)}"})))
    return calls(call("look", '{"name": "it"}'), text="I look.")


async def resumed(
    house: House,
    script: Callable[[Request], Any],
    tools: Sequence[Any] = (look, note),
    **options: Any,
) -> tuple[Any, list[Request]]:
    model = Model(-1, script)
    result = await windlass.resume(
        "s",
        model="scripted/x",
        store=house.store,
        root=house.folder,
        tools=tools,
        providers={"scripted": Scripted(model)},
        **options,
    )
    return result, model.asked
