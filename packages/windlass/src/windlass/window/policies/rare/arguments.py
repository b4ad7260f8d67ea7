"""Long arguments of old calls, cut value by value; the JSON stays valid.

Off by default: later calls quote what the assistant wrote itself, and nothing else holds it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial

from windlass.messages import Message, Opaque
from windlass.safety.foreign import parse_json
from windlass.window._pending import PendingEdits, Proposal
from windlass.window._survive import head_tail, with_texts


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Cuts each text in the arguments of a call that `window` calls have seen.

    A value keeps its head and tail, `max_chars` in all, with the reference of the message
    between them. Arguments that are no JSON, and calls that a provider signed, stay.

    Args:
        window: Calls that see the arguments whole.
        max_chars: Characters that one text in the arguments keeps.
    """

    window: int = 1
    max_chars: int = 500
    name: str = "arguments"

    def propose(self, pending: PendingEdits) -> Iterable[Proposal]:
        """Yield the calls that have reached their age at this call."""
        for at in pending.aged(self.name, self.window):
            entry = pending.entry(at)
            if entry is None or any(isinstance(part, Opaque) for part in entry.message.parts):
                continue
            is_long = any(len(call.arguments) > self.max_chars for call in entry.message.tool_calls)
            if is_long and not pending.put_off(self.name, at, self.window):
                reason = f"arguments seen by {self.window} calls"
                yield Proposal((at,), "truncate", reason, partial(self._write, at=at))

    def _write(self, pending: PendingEdits, at: int) -> Message:
        message = pending.shown(at)
        between = f"[... {{}} characters; {pending.recall_hint(at)} ...]"
        calls = tuple(
            replace(call, arguments=self._cut(call.arguments, between))
            for call in message.tool_calls
        )
        return replace(message, tool_calls=calls)

    def _cut(self, arguments: str, between: str) -> str:
        if len(arguments) <= self.max_chars:
            return arguments
        try:
            value = parse_json(arguments)
        except ValueError:
            return arguments
        cut = with_texts(value, partial(self._shorter, between=between))
        return arguments if cut == value else json.dumps(cut, ensure_ascii=False)

    def _shorter(self, text: str, between: str) -> str:
        cut = head_tail(text, self.max_chars, between)
        return cut if len(cut) < len(text) else text
