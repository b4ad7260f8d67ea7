"""LangChain's `ClearToolUsesEdit`: past `trigger` tokens all but the newest results are cleared.

Its own defaults are `trigger=100000` and `keep=3`.

The edit is applied as LangChain's own middleware does before each model call: to the
messages without the system prompt, counted by its approximate counter.
"""

from __future__ import annotations

from typing import Any

from bench.windows.peers.lines import Chat, ShownEntry, serve
from langchain.agents.middleware.context_editing import ClearToolUsesEdit
from langchain_core.messages import convert_to_messages
from langchain_core.messages.utils import count_tokens_approximately


class Clearing:
    """The messages of one run, in LangChain's form too."""

    def __init__(self, **options: Any) -> None:
        self._edit = ClearToolUsesEdit(**options)
        self._chats: list[Chat] = []
        self._messages: list[Any] = []

    def window(self, new: list[Chat]) -> ShownEntry:
        """What the middleware would hand to the model."""
        self._chats += new
        self._messages += convert_to_messages(new)
        places = [at for at, chat in enumerate(self._chats) if chat["role"] != "system"]
        # The edit puts changed copies into the list and leaves the messages alone.
        edited = [self._messages[at] for at in places]
        self._edit.apply(edited, count_tokens=count_tokens_approximately)
        shown: ShownEntry = list(range(len(self._chats)))
        for at, message in zip(places, edited, strict=True):
            if message is not self._messages[at]:
                shown[at] = {**self._chats[at], "content": message.content}
        return shown


if __name__ == "__main__":
    serve(Clearing)
