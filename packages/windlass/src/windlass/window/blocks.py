"""Blocks at the end of messages: what is added to the last message of a call.

A sent block stays in place, byte for byte, as long as its message is shown unchanged; an edit of
the message removes it. It is removed on purpose only where that costs nothing: after the first
place at which the request differs from the one before.

For the planner, a block is unplanned tokens at the end of a message. Removing it is free as soon as
something changes before it or in its message, because everything after that is written again
anyway. Until then it is read from the cache like the rest. The block of the planned call is not
known yet, and does not count.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

from windlass.messages import Message, Text
from windlass.window.entries import Entry


@dataclass(frozen=True, slots=True)
class Attached:
    """What stands at the end of a message.

    `bare` is the message as it was shown, `message` the same with its blocks: `block`, which was
    true at that moment and may be taken away, `lasting`, which must stay (a change of what stands
    further up), and `note`, which stays for good (what the provider cleared). `tokens` are those
    of the block, `lasting_tokens` of what stays.
    """

    bare: Message
    block: str = ""
    lasting: str = ""
    tokens: int = 0
    lasting_tokens: int = 0
    note: str = ""
    message: Message = field(init=False, compare=False)

    def __post_init__(self) -> None:
        message = self.bare.with_parts(*self.bare.parts, *map(Text, self.texts))
        object.__setattr__(self, "message", message)  # once, so that its key is found once

    @property
    def texts(self) -> tuple[str, ...]:
        """The blocks in their order; what may be taken away stands last."""
        return tuple(filter(None, (self.note, self.lasting, self.block)))

    def stands_on(self, message: Message) -> bool:
        """Return whether the message is shown as it was when the blocks were added."""
        return message is self.bare or message.key == self.bare.key

    def added(self, entry: Entry) -> Entry:
        """Return the entry with the blocks at its end."""
        return replace(entry, message=self.message, block=True)

    @property
    def note_alone(self) -> Attached | None:
        """The same with its note alone; None: it has none."""
        return replace(self, block="", lasting="") if self.note else None

    def without_block(self) -> Attached | None:
        """Return the part that must stay; None if nothing must."""
        return replace(self, block="", tokens=0) if self.lasting or self.note else None


@dataclass(frozen=True, slots=True)
class WithBlocks:
    """The entries of a call with the blocks that it has.

    `attached` are the blocks by occurrence, to be kept once the call was made. `older` are the
    occurrences of those of earlier calls, by the entry's position; `gone` is how many of them were
    taken away. `own`: the last entry has a block of this call.
    """

    entries: tuple[Entry, ...]
    attached: Mapping[str, Attached]
    older: Mapping[int, str]
    gone: int = 0
    own: bool = False


def takes_blocks(message: Message) -> bool:
    """Return whether blocks may be added to a message."""
    return message.role in ("user", "tool")


def with_blocks(entries: Sequence[Entry], attached: Mapping[str, Attached]) -> WithBlocks:
    """Return the entries with the blocks of earlier calls; the last gets that of its own call."""
    shown, older = list(entries), dict[int, str]()
    for at, entry in enumerate(shown[:-1]) if attached else ():
        block = attached.get(entry.item.id)
        if block is not None and block.stands_on(entry.message):
            older[at], shown[at] = entry.item.id, block.added(entry)
    return WithBlocks(tuple(shown), attached, older)


def let_go(entries: Sequence[Entry], before: WithBlocks, start: int) -> WithBlocks:
    """Return the same without older blocks from the position `start` on."""
    attached = dict(before.attached)
    gone = 0
    for at, ident in before.older.items():
        if at >= start and attached[ident].block:
            gone += 1
            stays = attached.pop(ident).without_block()
            if stays is not None:
                attached[ident] = stays
    if not gone:
        return before
    return replace(with_blocks(entries, attached), gone=before.gone + gone)


def with_own_block(
    before: WithBlocks, block: str, lasting: str, size: Callable[[str], int], note: str = ""
) -> WithBlocks:
    """The same with the call's own blocks at the end of the last message, if it may have any.

    `size` are the tokens of a text.
    """
    last = before.entries[-1]
    if not (block or lasting or note) or not takes_blocks(last.message):
        return before
    own = Attached(last.message, block, lasting, size(block), size(lasting) + size(note), note)
    entries = (*before.entries[:-1], own.added(last))
    return replace(
        before, entries=entries, attached={**before.attached, last.item.id: own}, own=True
    )


@dataclass(frozen=True, slots=True)
class BlockTokens:
    """The blocks in the last request: positions of their messages, ascending, and their tokens.

    `sums` are those of the blocks in front of each place, and of all; `new` are those that the
    request itself brought, at its end.
    """

    places: tuple[int, ...] = ()
    sums: tuple[int, ...] = (0,)
    new: int = 0

    @classmethod
    def of(cls, tokens: Mapping[int, int], sent: int) -> BlockTokens:
        """Return tokens by position, of a request that ended before position `sent`."""
        places = sorted(at for at in tokens if at < sent)
        sums = accumulate((tokens[at] for at in places), initial=0)
        return cls(tuple(places), tuple(sums), tokens.get(sent - 1, 0))

    @property
    def total(self) -> int:
        """Tokens of all blocks."""
        return self.sums[-1]

    def before(self, at: int) -> int:
        """Return tokens of the blocks in front of a position: those that stand if it changes."""
        return self.sums[bisect_left(self.places, at)]


NOTHING = BlockTokens()
