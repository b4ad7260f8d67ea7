"""The nouns of a window: occurrences, entries, edits, and applying edits to entries.

This module knows messages and ids. It does not know where they are stored, what
they cost, or who decides on an edit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from windlass.messages import Message

Because: TypeAlias = Literal[
    "encode",
    "mask",
    "digest",
    "compress",
    "repeat",
    "supersede",
    "fold",
    "summarise",
    "compact",
    "truncate",
    "decay",
    "retry",
    "expire",
    "prune",
    "repair",
    "strip",
]
"""What an edit is an instance of, for the record and for people."""


INJECT: Final = "inject"
"""What the record says of a message with blocks at its end, or with a value made anew in it."""


@dataclass(frozen=True, slots=True)
class Item:
    """A message as it occurred: `id` names the occurrence in its session.

    `phase`, `turn` and `attempt` say where it was said (turns count from 1 within a
    phase, through all its attempts); `node` is the kind of row it is in the record.
    """

    id: str
    message: Message
    node: str
    phase: str | None = None
    turn: int | None = None
    attempt: int | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """One message of a window: as it is sent, what it stands for, and why it is there.

    `because` names the edit that changed it (None: shown as it was said). `covers` are
    the other occurrences that it stands for (a fold shows several messages as one). `block`:
    whether blocks stand at its end.
    """

    item: Item
    message: Message
    reason: str
    because: str | None = None
    covers: tuple[Item, ...] = ()
    block: bool = False

    @property
    def causes(self) -> tuple[str, ...]:
        """Return what made it other than it was said: an edit, blocks at its end, or both."""
        return (*([self.because] if self.because else []), *([INJECT] if self.block else []))

    @property
    def edited(self) -> bool:
        """Return whether what is sent differs from what was said."""
        return self.message != self.item.message


@dataclass(frozen=True, slots=True)
class Replace:
    """Show `replacement` in place of the occurrence `id`, from now on."""

    id: str
    replacement: Message
    because: Because
    reason: str


@dataclass(frozen=True, slots=True)
class Fold:
    """Show `replacement` in place of the occurrences `ids`, a span of them, from now on.

    The first of them is where it is shown.
    """

    ids: tuple[str, ...]
    replacement: Message
    because: Because
    reason: str


@dataclass(frozen=True, slots=True)
class Drop:
    """Do not show the occurrence `id`, from now on."""

    id: str
    because: Because
    reason: str


Edit: TypeAlias = Replace | Fold | Drop


@dataclass(frozen=True, slots=True)
class Want:
    """A text that a policy would like to show and cannot make itself (a summary).

    `key` names it, the same whenever the same messages are meant; `messages` are what it
    is to be made of; `purpose` says how; `max_tokens` is how long it may be.
    """

    key: str
    purpose: str
    messages: tuple[Message, ...]
    max_tokens: int


def targets(edit: Edit) -> tuple[str, ...]:
    """Return the ids of the occurrences that an edit changes."""
    return edit.ids if isinstance(edit, Fold) else (edit.id,)


def show(items: Iterable[Item], reason: str) -> tuple[Entry, ...]:
    """Return the items as they were said, all for the same reason."""
    return tuple(Entry(item, item.message, reason) for item in items)


def changed(entry: Entry, edit: Edit) -> Entry | None:
    """Return one entry under its edit; None where it is not shown any more."""
    match edit:
        case Drop():
            return None
        case Fold() if entry.item.id != edit.ids[0]:
            return None
        case Replace() | Fold():
            return Entry(entry.item, edit.replacement, entry.reason, edit.because, entry.covers)


def apply(entries: Sequence[Entry], edits: Mapping[str, Edit]) -> tuple[Entry, ...]:
    """Return the entries under the edits: the only code that rewrites what is sent.

    `edits` holds the latest edit of each occurrence. An entry whose occurrence has
    none comes back as the same object.
    """
    if not edits:
        return tuple(entries)
    shown: list[Entry] = []
    for entry in entries:
        edit = edits.get(entry.item.id)
        after = entry if edit is None else changed(entry, edit)
        if after is not None:
            shown.append(after)
    return tuple(shown)
