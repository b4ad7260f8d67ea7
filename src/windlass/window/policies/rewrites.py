"""What a call wrote to a file gives way once a later call has written the whole file anew.

By then it is in no file any more: failed attempts, which every later call would read again. The
calls stay, with their paths and with what the assistant said; so does what the file holds now.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from windlass.messages import Message, Opaque, ToolCall
from windlass.window.draft import Draft
from windlass.window.index import WriteIndex, write_at
from windlass.window.kinds import is_command
from windlass.window.proposals import Proposal
from windlass.window.shell import with_body
from windlass.window.survive import with_texts

TOLD: Final = "[{chars} characters, written anew below; {back}]"
"""Stands for a text that was written, within the arguments of its call."""


@dataclass(frozen=True, slots=True)
class Rewrites:
    """Replaces the long texts in the arguments of writes whose file was written anew.

    A write counts once its result shows no failure. Of a command in a shell the text of its
    here-document is replaced. Calls that a provider signed stay.

    Args:
        min_chars: Texts of fewer characters stay.
    """

    min_chars: int = 200
    name: str = "rewrites"

    def propose(self, draft: Draft) -> Iterable[Proposal]:
        """The earlier writes to files that what is new replaced."""
        index = draft.derived(WriteIndex)
        index.grow(draft)
        for at in draft.fresh:
            wrote = write_at(draft, at)
            if wrote is None or not wrote.whole:
                continue
            for earlier in index.of(wrote.path):
                place, call = draft.caller(earlier), draft.call(earlier)
                if place is not None and call is not None:
                    write = partial(self._write, at=place, call=call)
                    yield Proposal((place,), "supersede", "the file was written anew", write)

    def _write(self, draft: Draft, at: int, call: ToolCall) -> Message | None:
        entry = draft.entry(at)
        if entry is None or any(isinstance(part, Opaque) for part in entry.message.parts):
            return None
        back = draft.back(at)
        calls = tuple(
            replace(one, arguments=self._told(one.arguments, back)) if one.id == call.id else one
            for one in entry.message.tool_calls
        )
        if calls == entry.message.tool_calls:
            return None
        return replace(entry.message, tool_calls=calls)

    def _told(self, arguments: str, back: str) -> str:
        """The arguments with a line for each long text in them."""
        try:
            values = json.loads(arguments)
        except (ValueError, RecursionError):
            return arguments
        if not isinstance(values, dict):
            return arguments
        line = partial(self._line, back=back)
        told = {
            name: with_body(value, line)
            if is_command(name) and isinstance(value, str)
            else with_texts(value, line)
            for name, value in values.items()
        }
        return arguments if told == values else json.dumps(told, ensure_ascii=False)

    def _line(self, text: str, back: str) -> str:
        return TOLD.format(chars=len(text), back=back) if len(text) >= self.min_chars else text
