"""Long arguments of old calls, cut value by value; the JSON stays valid.

Off by default: later calls quote what the assistant wrote itself, and nothing else holds it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial

from windlass.messages import Message, Opaque
from windlass.window.pending import PendingEdits, Proposal
from windlass.window.policies.shared import SharedOptions
from windlass.window.survive import aged, head_tail, with_texts


@dataclass(frozen=True, kw_only=True)
class Arguments(SharedOptions):
    """Cuts each text in the arguments of a call that `window` calls have seen.

    A value keeps its head and tail, `max_chars` in all, with the reference of the message
    between them. Arguments that are no JSON, and calls that a provider signed, stay.

    Args:
        max_chars: Characters that one text in the arguments keeps.
    """

    max_chars: int = 500
    name: str = "arguments"

    def propose(self, pending: PendingEdits) -> Iterable[Proposal]:
        """The calls that have reached their age at this call."""
        for at in aged(pending, self.name, self.window):
            entry = pending.entry(at)
            if entry is None or any(isinstance(part, Opaque) for part in entry.message.parts):
                continue
            if any(len(call.arguments) > self.max_chars for call in entry.message.tool_calls):
                if pending.fixed(at):
                    pending.again(self.name, at, pending.turn + self.window)
                    continue
                reason = f"arguments seen by {self.window} calls"
                yield Proposal((at,), "truncate", reason, self._write(at))

    def _write(self, at: int) -> Callable[[PendingEdits], Message | None]:
        def write(pending: PendingEdits) -> Message | None:
            entry = pending.entry(at)
            if entry is None:
                return None
            between = f"[... {{}} characters; {pending.recall_hint(at)} ...]"
            calls = tuple(
                replace(call, arguments=self._cut(call.arguments, between))
                for call in entry.message.tool_calls
            )
            return replace(entry.message, tool_calls=calls)

        return write

    def _cut(self, arguments: str, between: str) -> str:
        if len(arguments) <= self.max_chars:
            return arguments
        try:
            value = json.loads(arguments)
        except (ValueError, RecursionError):
            return arguments
        cut = with_texts(value, partial(self._shorter, between=between))
        return arguments if cut == value else json.dumps(cut, ensure_ascii=False)

    def _shorter(self, text: str, between: str) -> str:
        cut = head_tail(text, self.max_chars, between)
        return cut if len(cut) < len(text) else text
