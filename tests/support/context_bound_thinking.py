"""What tests of context bound thinking build their cases of; others use it, too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.window.conversations import messages_for
from windlass.messages import ToolSpec
from windlass.wire import anthropic
from windlass.wire.base import Request

MODEL = "anthropic/claude-opus-5-5"


def in_anthropics_form(numbers: Sequence[int]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """A history as its user holds it, without thinking, and the tools that it calls."""
    messages = messages_for(numbers)
    names = sorted({call.name for message in messages for call in message.tool_calls})
    specs = tuple(ToolSpec(name, "", {"type": "object"}) for name in names)
    body = anthropic.body(Request("claude-opus-4-1", tuple(messages), 1, specs))
    head = [{"role": "system", "content": body["system"]}] if "system" in body else []
    turns = [
        {**turn, "content": [block for block in turn["content"] if "thinking" not in block["type"]]}
        for turn in body["messages"]
    ]
    return [*head, *(turn for turn in turns if turn["content"])], [one.to_openai() for one in specs]


def thinking(number: int, kind: int) -> list[dict[str, Any]]:
    """What a reply begins with; some think twice, some not at all."""
    shown = {"type": "thinking", "thinking": f"hm {number}", "signature": f"sig {number}"}
    hidden = {"type": "redacted_thinking", "data": f"data {number}"}
    return [[shown], [shown, hidden], [hidden], []][kind % 4]
