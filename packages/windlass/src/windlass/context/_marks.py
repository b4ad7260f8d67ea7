"""The cache marks that a caller set in a list: where they stand among the entries of a window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from windlass.caching.breakpoints import Place
from windlass.context.lists import FollowedList
from windlass.messages import Message
from windlass.window.entries import Entry
from windlass.wire.marks import block_parts, content_parts


@dataclass(frozen=True, slots=True)
class CallerMarks:
    """The caller's marks in a list, by message and by block of its content.

    `end`: the request as a whole has one, which stands at its end. `until` is the first place at
    which no other mark may stand (None: there is none).
    """

    listed: FollowedList
    own: tuple[Place, ...] = ()
    end: bool = False
    until: Place | None = None

    def among(self, entries: Sequence[Entry]) -> tuple[list[Place], Place | None]:
        """Return the marks by entry and part, and where none of ours stands from."""
        own = [place for place in self.places(entries) if place is not None]
        if self.end and entries:
            own.append((len(entries) - 1, self._parts_of(entries[-1].message)[-1]))
        return sorted(set(own)), self.until and self._first_place(entries, self.until)

    def places(self, entries: Sequence[Entry]) -> tuple[Place | None, ...]:
        """Return the marks by entry and part (None: what was marked is not shown)."""
        if not self.own:
            return ()
        shown = {entry.item.id: at for at, entry in enumerate(entries)}
        places: list[Place | None] = []
        for position, block in self.own:
            if position < 0:
                places.append((position, block))
                continue
            parts = [
                (taken.item, part)
                for taken in self.listed.taken
                if taken.source == position and not taken.left_out
                for part in self._parts_of(taken.item.message)
            ]
            item, part = parts[min(block, len(parts) - 1)] if parts else (None, 0)
            at = shown.get(item.id) if item is not None else None
            if at is None:
                places.append(None)
            else:
                now = self._parts_of(entries[at].message)
                places.append((at, part if part in now else now[-1]))
        return tuple(places)

    def _first_place(self, entries: Sequence[Entry], place: Place) -> Place:
        """The first place by entry and part of what stands at a place of the list or behind it."""
        if place[0] < 0:
            return place
        for at, entry in enumerate(entries):
            source = self.listed.sources.get(entry.item.id)
            if source is not None and source >= place[0]:
                parts = self._parts_of(entry.message)
                exact = source == place[0] and place[1] < len(parts)
                return at, parts[place[1]] if exact and place[1] else 0
        return len(entries), 0

    def _parts_of(self, message: Message) -> list[int]:
        """Return the parts of a message that are blocks of its content in the form of the list."""
        in_blocks = self.listed.form == "anthropic"
        parts = block_parts(message) if in_blocks else content_parts(message)
        return parts or [0]
