"""The messages of a conversation as they came. Nothing in it ever changes: it is only added to."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.messages import Message, ToolCall
from windlass.window.entries import Item
from windlass.wire.inner_calls import calls_made, calls_named


class Transcript:
    """Who said what in which turn, and which result answers which call; positions count from 0.

    A turn is what was said after one call and before the next.
    """

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.births: list[int] = []
        """The turn of each message: how many calls had been made when it came."""
        self.call_of: dict[int, ToolCall] = {}
        """The tool call that each result answers, by the position of the result."""
        self.caller_of: dict[int, int] = {}
        """The position of the reply that made the call, by that of its result."""
        self.results_of: dict[int, list[int]] = {}
        """The positions of the results, by that of the reply that made the calls."""
        self.tied: dict[int, list[int]] = {}
        """The positions of replies and items that hold the two ends of one call, by each of them.

        Such calls stand in opaque parts: a reply may bring the result of a call of the one before.
        """
        self.calls = 0
        """How many calls were made."""
        self.first_user = self.last_user = -1
        """The positions of the first user message, the task, and of the newest; -1: none."""
        self.systems: list[int] = []
        """The positions of the system messages, in order."""
        self.pictured: list[int] = []
        """The positions of the messages that came with pictures, in order."""
        self._starts = [0]
        self._open: dict[str, tuple[int, ToolCall]] = {}
        self._inner: dict[str, int] = {}
        """Where the calls in opaque parts stand, by their ids."""

    @property
    def sent(self) -> int:
        """Return the position of the first message that no call has seen."""
        return self._starts[-1]

    @property
    def asking(self) -> Sequence[int]:
        """Return the positions of the first user message and of the newest, each once, in order."""
        return sorted({self.first_user, self.last_user} - {-1})

    def born(self, turn: int) -> range:
        """Give the positions of what was said in a turn: after call `turn` and before the next."""
        if not 0 <= turn < len(self._starts):
            return range(0)
        end = self._starts[turn + 1] if turn + 1 < len(self._starts) else len(self.items)
        return range(self._starts[turn], end)

    def results_in(self, turn: int) -> range:
        """Return the positions of what was said in a turn from its first tool result on."""
        born = self.born(turn)
        first = next((at for at in born if at in self.call_of), born.stop)
        return range(first, born.stop)

    def add(self, item: Item, message: Message) -> int:
        """Add a message, which comes as `message`; returns its position."""
        at = len(self.items)
        self.items.append(item)
        self.births.append(self.calls)
        if message.role == "assistant":
            self._open = {call.id: (at, call) for call in message.tool_calls}
        elif message.role == "tool" and message.tool_call_id in self._open:
            caller, call = self._open[message.tool_call_id]
            self.call_of[at], self.caller_of[at] = call, caller
            self.results_of.setdefault(caller, []).append(at)
        elif message.role == "user":
            self.last_user = at
            if self.first_user < 0:
                self.first_user = at
        if message.is_system:
            self.systems.append(at)
        if message.pictures:
            self.pictured.append(at)
        for id_ in calls_named(message):
            self._tie(self._inner.get(id_), at)
        self._inner |= dict.fromkeys(calls_made(message), at)
        return at

    def _tie(self, first: int | None, at: int) -> None:
        """Note that a call stands at `first` and is answered, or goes on, at `at`."""
        if first is None or at in (places := self.tied.get(first, [first])):
            return
        places += [each for each in self.tied.get(at, [at]) if each not in places]
        self.tied |= dict.fromkeys(places, places)

    def call_made(self) -> None:
        """The next turn begins: a call has seen all that there is."""
        self.calls += 1
        self._starts.append(len(self.items))
