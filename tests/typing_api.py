"""Typical uses of the library, for the type checker: what it takes and what it answers.

`assert_type` says nothing when it runs; mypy compares. `test_public_names` runs it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, assert_type

from anthropic.types import ToolParam
from openai import OpenAI
from openai.types.chat import ChatCompletionToolParam
from openai.types.responses import FunctionToolParam

import windlass
from windlass.context.select import Chosen, ChosenEntry
from windlass.context.window import ChatWindow, ShownEntry
from windlass.engine.events import Event
from windlass.engine.result import Result
from windlass.providers.scripted import Scripted
from windlass.wire.base import Request


def word_count(text: str) -> int:
    """Count words.

    Args:
        text: Any text.
    """
    return len(text.split())


def watch(event: Event) -> None:
    """Look at what happens."""
    assert event


def script(request: Request) -> str:
    """Answer with the number of messages."""
    return f"{len(request.messages)} messages"


def typical(folder: Path) -> None:
    """Make a cascade, run it both ways, and ask the history."""
    cascade = windlass.Cascade(
        cascade_id="typical",
        system="Be brief.",
        phases=[
            windlass.Phase(name="say", instructions="Say {{ input.word }}.", tackle=["word_count"]),
            windlass.Phase.model_validate(
                {"name": "again", "instructions": "Again.", "context": {"from": ["say"]}}
            ),
        ],
    )
    providers = {"scripted": Scripted(script)}
    result = windlass.run_sync(
        cascade,
        {"word": "hello"},
        model="scripted/any",
        store=folder / "store",
        tools=[word_count],
        providers=providers,
        on_event=watch,
    )
    assert_type(result, Result)
    assert_type(result.output, str | None)
    assert_type(result.outputs, Mapping[str, str])
    assert_type(result.cost, float | None)
    assert_type(result.error, windlass.WindlassError | None)
    assert result.check().output == "4 messages"

    async def awaited() -> Result:
        return await windlass.run(
            cascade,
            {"word": "hello"},
            model="scripted/any",
            store="store",
            tools=[word_count],
            providers={"scripted": Scripted(script)},
        )

    with OpenAI(api_key="none") as client:
        assert_type(windlass.wrap(client, "lean"), OpenAI)

    for_claude: list[ToolParam] = [windlass.recall_tool("anthropic")]
    for_chat: list[ChatCompletionToolParam] = [windlass.recall_tool("openai")]
    for_responses: list[FunctionToolParam] = [windlass.recall_tool("responses")]
    assert for_claude[0]["name"] == for_responses[0]["name"] == "recall"
    assert for_chat[0]["type"] == "function"

    policy = windlass.Policy(profile="lean", images_after=None, compress=None)
    assert_type(policy.images_after, int | None)
    assert windlass.Policy.of(policy.settings()) == policy

    assert asyncio.run(awaited()).status == "completed"

    rows = windlass.query_unified("tokens_in > ?", [0], store=folder / "store")
    row: dict[str, Any] = rows[0]
    assert row["model"] == "scripted/function"

    messages: list[dict[str, str]] = [{"role": "user", "content": "hello"}]
    window = windlass.bound(messages, "openai/gpt-4o", policy="lean", recall=True, pins=[0])
    assert_type(window, ChatWindow)
    assert_type(window.messages, list[dict[str, Any]])
    assert_type(window.entries, tuple[ShownEntry, ...])
    assert_type(window.saved_tokens, int)
    assert_type(window.wire("anthropic"), dict[str, Any])

    chosen = windlass.select(messages, "say hello", strategy="heuristic", max_tokens=100)
    assert_type(chosen, Chosen)
    assert_type(chosen.messages, list[Mapping[str, Any]])
    assert_type(chosen.entries, tuple[ChosenEntry, ...])
    assert chosen.messages == messages

    context = windlass.Context(policy={"see_results": 2}, tools=window.tools)
    context.append(messages[0])
    context.pin(0)
    context.report({"prompt_tokens": 9}, context.window())
    assert_type(context.window(), ChatWindow)
    assert context.window().messages == window.messages == messages
