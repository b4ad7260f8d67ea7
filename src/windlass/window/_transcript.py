"""Messages as they came, and what stands for each of them: what a step of a conversation reads.

It remembers who called which tool, which turn a message belongs to, and what names are in view.
It decides nothing.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from windlass.messages import Message, Text, ToolCall
from windlass.text.tokens import size
from windlass.window._identifiers import IdentifierIndex
from windlass.window._references import is_marked
from windlass.window.entries import Edit, Entry, Item
from windlass.window.originals import RECALL, reference
from windlass.window.proposals import Facts
from windlass.window.thoughts import Thinking
from windlass.wire.editing import holds_compaction
from windlass.wire.thinking import thinks


@dataclass(kw_only=True)
class Transcript:
    """The messages of a conversation in order.

    Args:
        count: Tokens of a message; default the neutral count.
        facts: What is declared of tools, by name.
        recall_hint: How the original of a message is got back, in words for a placeholder.
        uses_names: Whether any policy asks `PendingEdits.left`.
        settles: Whether the list may be a window that is handed back. What stands before the last
            mark of one stays then as it is, but for what settings ask for.
        bound: What becomes of edits in front of signed thinking that is bound to what stood before
            it: see `Thinking` (None: none is).
    """

    count: Callable[[Message], int] = size
    facts: Mapping[str, Facts] = field(default_factory=dict[str, Facts])
    recall_hint: Callable[[Message], str] = reference
    uses_names: bool = True
    settles: bool = False
    bound: Thinking | None = None

    def __post_init__(self) -> None:
        self.items: list[Item] = []
        self.entries: list[Entry | None] = []
        self.births: list[int] = []
        self.edits: dict[int, Edit] = {}
        self.changes: list[int] = []
        self.gone: list[int] = []
        self.pins: dict[int, float] = {}
        self.looks: dict[int, dict[str, list[int]]] = {}
        self.supplied: dict[str, str] = {}
        self.derived: dict[type, Any] = {}
        self.names = IdentifierIndex()
        self.call_of: dict[int, ToolCall] = {}
        self.caller_of: dict[int, int] = {}
        self.results_of: dict[int, list[int]] = {}
        self.settled = 0
        """Where what was decided for a window that was handed back ends."""
        self.calls = 0
        self.first_user = self.last_user = -1
        self.pictured: list[int] = []
        self.thinking: list[int] = []
        """The positions of what is shown with signed thinking, in order."""
        self.saved = 0
        self._came: list[Message] = []
        self._came_tokens = self._counted = 0
        self._starts = [0]
        self._open: dict[str, tuple[int, ToolCall]] = {}

    @property
    def sent(self) -> int:
        """The position of the first message that no call has seen."""
        return self._starts[-1]

    def results_in(self, turn: int) -> range:
        """The positions of what was said in a turn from its first tool result on."""
        born = self.born(turn)
        first = next((at for at in born if at in self.call_of), born.stop)
        return range(first, born.stop)

    def born(self, turn: int) -> range:
        """The positions of what was said in a turn: after call `turn` and before the next."""
        if not 0 <= turn < len(self._starts):
            return range(0)
        end = self._starts[turn + 1] if turn + 1 < len(self._starts) else len(self.items)
        return range(self._starts[turn], end)

    def place(self, entry: Entry) -> None:
        """Add a message that is shown as `entry` says."""
        item, message = entry.item, entry.message
        at = len(self.items)
        self.items.append(item)
        self.entries.append(entry)
        self._came.append(entry.message)
        self.births.append(self.calls)
        if message.role == "assistant":
            self._open = {call.id: (at, call) for call in message.tool_calls}
        elif message.role == "tool" and message.tool_call_id in self._open:
            caller, call = self._open[message.tool_call_id]
            self.call_of[at], self.caller_of[at] = call, caller
            self.results_of.setdefault(caller, []).append(at)
            if call.name == RECALL.name:
                self.pins[at] = float("inf")  # what was asked back is not taken away again
        elif message.role == "user":
            self.last_user = at
            if self.first_user < 0:
                self.first_user = at
        if holds_compaction(message):
            self.pins[at] = float("inf")
        if message.pictures:
            self.pictured.append(at)
        if thinks(message):
            self.thinking.append(at)
        if self.settles and _is_shortened(message):
            self.settled = at + 1

    def change(self, at: int, entry: Entry | None, edit: Edit) -> None:
        """Let `entry` stand at a position from now on, because of an edit."""
        self.changes.append(at)
        if entry is None and self.entries[at] is not None:
            insort(self.gone, at)
        self.entries[at], self.edits[at] = entry, edit
        place = bisect_left(self.thinking, at)
        if self.thinking[place : place + 1] == [at] and not (entry and thinks(entry.message)):
            del self.thinking[place]

    def came_tokens(self) -> int:
        """Tokens of all messages as they came; counts only what is new since it was asked."""
        for message in self._came[self._counted :]:
            self._came_tokens += self.count(message)
        self._counted = len(self._came)
        return self._came_tokens

    def forget_counts(self) -> None:
        """Count all messages anew when their tokens are asked for."""
        self._came_tokens = self._counted = 0


def _is_shortened(message: Message) -> bool:
    """Whether a window showed this message in the place of a longer one."""
    words = message.role == "assistant"
    return any(
        is_marked(part.text, words=words) for part in message.parts if isinstance(part, Text)
    ) or any(is_marked(call.arguments, words=True) for call in message.tool_calls)
