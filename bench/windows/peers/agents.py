"""OpenAI Agents SDK's `ToolOutputTrimmer`, with its own defaults.

Results before the last `recent_turns` user messages are cut to a preview.
"""

from __future__ import annotations

from typing import Any

from agents.extensions import ToolOutputTrimmer
from agents.run_config import CallModelData, ModelInputData
from bench.windows.peers.lines import Chat, ShownEntry, serve


class Trimmed:
    """The messages of one run, as items of the Responses interface too."""

    def __init__(self, **options: Any) -> None:
        self._trim = ToolOutputTrimmer(**options)
        self._chats: list[Chat] = []
        self._items: list[dict[str, Any]] = []
        self._places: list[int] = []

    def window(self, new: list[Chat]) -> ShownEntry:
        """What the filter would hand to the model."""
        for chat in new:
            items = _items(chat)
            self._items += items
            self._places += [len(self._chats)] * len(items)
            self._chats.append(chat)
        data = ModelInputData(input=list(self._items), instructions=None)
        trimmed = self._trim(CallModelData(model_data=data, agent=None, context=None)).input
        shown: ShownEntry = list(range(len(self._chats)))
        for place, old, item in zip(self._places, self._items, trimmed, strict=True):
            if item is not old:
                shown[place] = {**self._chats[place], "content": item["output"]}
        return shown


def _items(chat: Chat) -> list[dict[str, Any]]:
    """One chat message as items."""
    content = chat.get("content")
    if chat["role"] == "tool":
        output = content if isinstance(content, str) else [_part(part) for part in content or ()]
        return [{"type": "function_call_output", "call_id": chat["tool_call_id"], "output": output}]
    said = [{"role": chat["role"], "content": content}] if content else []
    return said + [
        {
            "type": "function_call",
            "call_id": call["id"],
            "name": call["function"]["name"],
            "arguments": call["function"]["arguments"],
        }
        for call in chat.get("tool_calls") or ()
    ]


def _part(part: dict[str, Any]) -> dict[str, Any]:
    if part["type"] == "text":
        return {"type": "input_text", "text": part["text"]}
    return {"type": "input_image", "image_url": part["image_url"]["url"]}


if __name__ == "__main__":
    serve(Trimmed)
