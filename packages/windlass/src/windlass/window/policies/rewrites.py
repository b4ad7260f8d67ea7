"""An old version of a file is replaced once a later call has written the whole file again.

By then no file contains it: these are failed attempts, which every later call would read again. The
calls stay, with their paths and the assistant's words, and so does the current content.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from windlass.messages import Message, Opaque, ToolCall
from windlass.window._pending import PendingEdits, Proposal
from windlass.window._shell import with_body
from windlass.window._survive import with_texts
from windlass.window.digests import has_failed
from windlass.window.kinds import COMMANDS, NOTHING, FileAccess, arguments_of

REWRITTEN: Final = "[{chars} characters, written anew later; {recall_hint}]"
"""Replaces a written text in the arguments of its call."""


@dataclass(frozen=True, slots=True)
class Rewrites:
    """Replaces long texts in the arguments of writes whose file was written again.

    A write counts once its result shows no failure. Of a command in a shell the text of its
    here-document is replaced. Calls that a provider signed stay.

    Args:
        min_chars: Texts of fewer characters stay.
    """

    min_chars: int = 200
    name: str = "rewrites"

    def propose(self, pending: PendingEdits) -> Iterable[Proposal]:
        """Yield the earlier writes to files that what is new replaced."""
        index = pending.index(_WriteIndex)
        for at in pending.fresh:
            access = _write_at(pending, at)
            for earlier in index.of(access.writes) if access.writes and access.whole else ():
                place, call = pending.caller(earlier), pending.call(earlier)
                if place is not None and call is not None:
                    write = partial(self._write, at=place, call=call)
                    yield Proposal((place,), "supersede", "the file was written anew", write)

    def _write(self, pending: PendingEdits, at: int, call: ToolCall) -> Message | None:
        message = pending.shown(at)
        if any(isinstance(part, Opaque) for part in message.parts):
            return None
        recall_hint = pending.recall_hint(at)
        calls = tuple(
            replace(each, arguments=self._shortened(each, recall_hint))
            if each.id == call.id
            else each
            for each in message.tool_calls
        )
        return None if calls == message.tool_calls else replace(message, tool_calls=calls)

    def _shortened(self, call: ToolCall, recall_hint: str) -> str:
        """Return the arguments of a call with a line for each long text in them."""
        values = arguments_of(call)
        line = partial(self._line, recall_hint=recall_hint)
        shortened = {
            name: with_body(value, line)
            if name in COMMANDS and isinstance(value, str)
            else with_texts(value, line)
            for name, value in values.items()
        }
        return call.arguments if shortened == values else json.dumps(shortened, ensure_ascii=False)

    def _line(self, text: str, recall_hint: str) -> str:
        if len(text) < self.min_chars:
            return text
        return REWRITTEN.format(chars=len(text), recall_hint=recall_hint)


class _WriteIndex:
    """Which results tell of writes to a file that no later write has replaced."""

    def __init__(self) -> None:
        self._writes: dict[str, list[int]] = {}

    def add(self, pending: PendingEdits, at: int) -> None:
        """Take in the next message, where it tells of a write."""
        access = _write_at(pending, at)
        if access.writes is None:
            return
        places = self._writes.setdefault(access.writes, [])
        if access.whole:  # calls of one reply do not know of each other
            caller = pending.caller(at)
            places[:] = [place for place in places if pending.caller(place) == caller]
        places.append(at)

    def of(self, path: str) -> Sequence[int]:
        """Return the results that tell of such writes to the file, by position, oldest first."""
        return self._writes.get(path, ())


def _write_at(pending: PendingEdits, at: int) -> FileAccess:
    """Return what the call wrote whose result this is; nothing where the result shows a failure."""
    return NOTHING if has_failed(pending.original(at)) else pending.file_access(at)
