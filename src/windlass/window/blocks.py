"""Blocks at the end of messages: what injectors add to the last message of a call.

A block that was sent stays where it was, byte for byte, while the message it stands on is shown
as it was then; an edit of the message takes it away. It is taken away on purpose only where
that costs nothing: behind the first place at which the request differs from the one before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from windlass.messages import Message, Text
from windlass.window.entries import Entry

BECAUSE = "inject"
"""What an entry is called that has a block at its end."""


@dataclass(frozen=True, slots=True)
class Attached:
    """What stands at the end of a message.

    `on` is the key of the message as it was shown, `block` what was told at that moment and may
    be taken away, `lasting` what must stay (a change of what stands further up). `tokens` are
    those of the block, `lasting_tokens` of the other.
    """

    on: str
    block: str = ""
    lasting: str = ""
    tokens: int = 0
    lasting_tokens: int = 0

    def to(self, message: Message) -> Message:
        """The message with what stands at its end."""
        texts = [Text(text) for text in (self.lasting, self.block) if text]
        return message.with_parts(*message.parts, *texts)


def with_blocks(
    entries: Sequence[Entry], attached: Mapping[str, Attached]
) -> tuple[tuple[Entry, ...], dict[int, str]]:
    """The entries with their blocks, and where blocks stand: by position, the occurrence's id."""
    if not attached:
        return tuple(entries), {}
    shown: list[Entry] = []
    places: dict[int, str] = {}
    for at, entry in enumerate(entries):
        block = attached.get(entry.item.id)
        if block is None or entry.message.key != block.on:
            shown.append(entry)
            continue
        places[at] = entry.item.id
        shown.append(added(entry, block))
    return tuple(shown), places


def added(entry: Entry, block: Attached) -> Entry:
    """The entry with a block at its end."""
    because = f"{entry.because}, {BECAUSE}" if entry.because else BECAUSE
    return replace(entry, message=block.to(entry.message), because=because)


def without_block(attached: Attached) -> Attached | None:
    """What must stay of it; None: nothing."""
    return replace(attached, block="", tokens=0) if attached.lasting else None


def let_go(
    attached: Mapping[str, Attached], places: Mapping[int, str], start: int
) -> dict[str, Attached]:
    """What is attached without the blocks that stand from the position `start` on.

    `places` are the ids of their occurrences, by position.
    """
    left = dict(attached)
    for at, ident in places.items():
        if at >= start and left[ident].block:
            stays = without_block(left.pop(ident))
            if stays is not None:
                left[ident] = stays
    return left


def same_until(now: Sequence[Message], before: Sequence[Message]) -> int:
    """How many messages at the beginning are the same."""
    for at, (mine, theirs) in enumerate(zip(now, before, strict=False)):
        if mine is not theirs and mine.key != theirs.key:
            return at
    return min(len(now), len(before))
