"""Expansion: an original comes back when what only it holds is named.

Off by default: on recordings it costs more than keeping a text while it is named.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from windlass.messages import Message, Text
from windlass.window._pending import PendingEdits, Proposal
from windlass.window.entries import Item
from windlass.window.names import whole_names

MOST_NAMES: Final = 5
"""Names of the newest messages that are looked for; each is a search in the shortened ones."""


@dataclass(frozen=True, slots=True)
class Expand:
    """Shows an original once more, at the end, when the newest messages name what is in it.

    Looked at are names in what a user or the assistant said last that nothing else shown holds.
    The newest shortened message whose original holds one comes back as a user message that says
    where it is from, and stays. A name in view is not looked for, so nothing comes back twice.

    Args:
        most_tokens: Larger originals do not come back.
    """

    most_tokens: int = 2_000
    name: str = "expand"

    def propose(self, pending: PendingEdits) -> Iterable[Proposal]:
        """Nothing to shorten; the originals are inserted and pinned."""
        missing = {
            name
            for at in pending.fresh
            if (message := pending.original(at)).role in ("user", "assistant")
            for name in whole_names(message.text)
            if pending.holders(name) == 1
        }
        if not missing or _open_calls(pending):
            return ()
        looked = sorted(missing)[:MOST_NAMES]
        for at in range(pending.fresh.start - 1, -1, -1):
            if not looked:
                break
            edit, item = pending.edit(at), pending.item(at)
            if edit is None or edit.because == "expand":
                continue
            text = item.message.text
            named = [name for name in looked if name in text]
            if named:
                why = f"shown again because it names {', '.join(named)}"
                shown = f"[{pending.recall_hint(at)}, {why}]\n{text}"
                message = Message("user", (Text(shown),))
                if pending.size(message) <= self.most_tokens:
                    place = len(pending) + len(pending.made.inserts)
                    again = Item(
                        f"{item.id}+{pending.turn}", message, "user", item.phase, item.turn
                    )
                    pending.insert(again, "expand", f"{named[0]} was named and stood only there")
                    pending.pin(place, float("inf"))
                    looked = [name for name in looked if name not in named]
        return ()


def _open_calls(pending: PendingEdits) -> bool:
    """Whether a call of the newest answer waits for its result."""
    for at in pending.fresh:
        calls = pending.original(at).tool_calls
        if len(pending.results(at)) < len(calls):
            return True
    return False
