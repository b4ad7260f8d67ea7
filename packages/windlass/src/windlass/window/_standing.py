"""What stands for each message of a conversation, by the edits that calls were made with.

Also what one call changes, and what is kept for later ones. It decides nothing: who decided an edit
hands it over.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from windlass.messages import Message
from windlass.window._identifiers import IdentifierIndex, ShownNames
from windlass.window.entries import Edit, Entry, Want
from windlass.wire.thinking import thinks


class Standing:
    """What the last call saw of each message, and what came since, by position."""

    def __init__(self, count: Callable[[Message], int]) -> None:
        self.entries: list[Entry | None] = []
        """What is shown; None: nothing, or it stands in a fold."""
        self.edits: dict[int, Edit] = {}
        """The latest edit of what was edited."""
        self.changes: list[int] = []
        """The positions whose entries calls changed, in the order in which they did."""
        self.gone: list[int] = []
        """The positions of what is not shown any more, in order."""
        self.pins: dict[int, float] = {}
        """The last call at which what is pinned stays as it is."""
        self.thinking: list[int] = []
        """The positions of what is shown with signed thinking, in order."""
        self.settled = 0
        """Where what was decided for a window that was handed back ends."""
        self.names = IdentifierIndex()
        self.tokens = TokenCount(count)

    def add(self, entry: Entry) -> None:
        """Show a new message as `entry` says."""
        if thinks(entry.message):
            self.thinking.append(len(self.entries))
        self.entries.append(entry)
        self.tokens.add(entry.message)

    def pin(self, at: int, until: float) -> None:
        """Keep what is shown of a message, up to and with the call `until`."""
        self.pins[at] = max(self.pins.get(at, 0), until)

    def change(self, at: int, entry: Entry | None, edit: Edit) -> None:
        """Let `entry` stand at a position from now on, because of an edit."""
        self.changes.append(at)
        if entry is None and self.entries[at] is not None:
            insort(self.gone, at)
        self.entries[at], self.edits[at] = entry, edit
        place = bisect_left(self.thinking, at)
        if self.thinking[place : place + 1] == [at] and not (entry and thinks(entry.message)):
            del self.thinking[place]

    def sizes(self, sent: int) -> list[int]:
        """The tokens of what the calls so far saw, the first `sent` positions; kept up to date."""
        return self.tokens.of_entries(self.entries, self.changes, sent)

    def recount(self) -> None:
        """Count all anew: tokens are counted differently from now on."""
        self.tokens.recount(entry.message for entry in self.entries if entry is not None)


class TokenCount:
    """The tokens of a conversation, each message counted when they are first asked for."""

    def __init__(self, count: Callable[[Message], int]) -> None:
        self.saved = 0
        """How many tokens less is shown than came."""
        self._count = count
        self._came: list[Message] = []
        self._came_tokens = self._counted = 0
        self._sizes: list[int] = []
        self._resized = 0

    def add(self, message: Message) -> None:
        """Another message came."""
        self._came.append(message)

    def came(self) -> int:
        """Return tokens of all messages as they came."""
        for message in self._came[self._counted :]:
            self._came_tokens += self._count(message)
        self._counted = len(self._came)
        return self._came_tokens

    def of_entries(self, entries: list[Entry | None], changes: list[int], until: int) -> list[int]:
        """Those of each entry before `until`, by position; `changes` lists those that changed."""
        for entry in entries[len(self._sizes) : until]:
            self._sizes.append(self._count(entry.message) if entry else 0)
        for at in changes[self._resized :]:
            if at < len(self._sizes):
                entry = entries[at]
                self._sizes[at] = self._count(entry.message) if entry else 0
        self._resized = len(changes)
        return self._sizes

    def recount(self, shown: Iterable[Message]) -> None:
        """Count all that came, and what is `shown` of it, anew."""
        self._came_tokens = self._counted = 0
        self.saved = self.came() - sum(map(self._count, shown))


@dataclass(slots=True)
class Notes:
    """What the policies of a conversation keep for later calls, and the texts supplied to them.

    `looks` are the positions that a policy wants to look at again, by call and by its name.
    `supplied` are the texts that were wanted, by key. `indexes` are what policies work out of the
    messages that calls have seen, and up to which position each has met them.
    """

    looks: dict[int, dict[str, list[int]]] = field(default_factory=dict)
    supplied: dict[str, str] = field(default_factory=dict)
    indexes: dict[type, tuple[Any, int]] = field(default_factory=dict)


@dataclass(slots=True)
class CallEdits:
    """What one call changes.

    `entries` and `edits` are what it shows differently and why, by position; `names` the names
    in what it shows anew or differently. `decided` are its edits in the order in which they were
    made, and `saved` the tokens by which they make the window shorter. `looks` are (policy,
    position, call) to look at again, `pins` what stays as it is until which call, `wants` the texts
    that are asked for.
    """

    entries: dict[int, Entry | None] = field(default_factory=dict)
    names: dict[int, ShownNames] = field(default_factory=dict)
    edits: dict[int, Edit] = field(default_factory=dict)
    decided: list[Edit] = field(default_factory=list)
    looks: list[tuple[str, int, int]] = field(default_factory=list)
    pins: dict[int, float] = field(default_factory=dict)
    wants: list[Want] = field(default_factory=list)
    saved: int = 0

    def copy(self) -> CallEdits:
        """Return a copy that can be changed independently."""
        return CallEdits(
            dict(self.entries),
            dict(self.names),
            dict(self.edits),
            [*self.decided],
            [*self.looks],
            dict(self.pins),
            [*self.wants],
            self.saved,
        )
