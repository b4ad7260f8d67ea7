"""What stands for each message of a conversation, by the edits that calls were made with.

Also what one call changes, and what is kept for later ones. It decides nothing: who decided an edit
hands it over.

Which messages in view hold a name, asked before a message is shortened.

Most messages are shortened a call or two after they arrive, and few names are ever asked for. So
the newest messages are searched one by one, as sets, and only those that stay are indexed; names
are extracted at the first question. This module knows positions and messages, but not why one is
shown, or for how long.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from windlass.messages import Message
from windlass.window.entries import Edit, Entry, Want
from windlass.window.names import names_in
from windlass.wire.thinking import thinks

_YOUNG: Final = 8
"""Messages searched one by one: those of the last three or four turns."""

NONE: Final[frozenset[str]] = frozenset()


class ShownNames:
    """The names of one message as it is shown, extracted when first needed."""

    def __init__(self, message: Message | None) -> None:
        self._message = message

    @cached_property
    def names(self) -> AbstractSet[str]:
        """Return the names in it; none if it is not shown."""
        return NONE if self._message is None else names_in(self._message)


class IdentifierIndex:
    """The names in what is shown, by position."""

    def __init__(self) -> None:
        self._shown: dict[int, ShownNames] = {}
        self._young: dict[int, ShownNames] = {}
        self._counts: Counter[str] = Counter()
        """How many of the messages that are not young hold a name."""

    def put(self, shown: Mapping[int, ShownNames]) -> None:
        """Show these messages from now on, in place of the earlier ones."""
        for at, new in shown.items():
            old = self._shown.get(at)
            self._shown[at] = new
            if old is None or at in self._young:
                self._young[at] = new
            else:
                self._counts.subtract(old.names - new.names)
                self._counts.update(new.names - old.names)
        while len(self._young) > _YOUNG:
            oldest = next(iter(self._young))
            self._counts.update(self._young.pop(oldest).names)

    def __contains__(self, at: int) -> bool:
        return at in self._shown

    def holders(
        self, names: Iterable[str], instead: Mapping[int, ShownNames], but: Collection[int] = ()
    ) -> Counter[str]:
        """Return how many messages contain each of the names.

        `instead` replaces the messages at its positions; the positions `but` do not count.
        """
        searched = frozenset(names)
        counts = Counter({name: self._counts[name] for name in self._counts.keys() & searched})
        for at in {*instead, *but}:
            if at in self._shown and at not in self._young:
                counts.subtract(searched.intersection(self._shown[at].names))
        for at, shown in {**self._young, **instead}.items():
            if at not in but:
                counts.update(searched.intersection(shown.names))
        return counts


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
