"""Blocks at the end of messages: what is added to the last message of a call.

A sent block stays in place, byte for byte, as long as its message is shown unchanged; an edit of
the message removes it. It is removed on purpose only where that costs nothing: after the first
place at which the request differs from the one before.

For the planner, a block is unplanned tokens at the end of a message. Removing it is free as soon as
something changes before it or in its message, because everything after that is written again
anyway. Until then it is read from the cache like the rest. The block of the planned call is not
known yet, and does not count.

Blocks to messages: one assembler, one order.

    selective:        system, input, sources in their order, the phase's own messages
    snowball, start:  system, sources, all that was said before, the phase's own
    snowball, end:    system, all that was said before, sources, the phase's own

The user context, where injectors bring one, stands behind the system prompt. The phase's own
messages begin with its instructions. There is one system prompt and it stands first, so that a
snowball keeps its prefix from phase to phase.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Literal

from windlass.messages import Message, Text, ToolSpec
from windlass.window.entries import Entry


@dataclass(frozen=True, slots=True)
class Attachment:
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
        """Return the blocks in their order; what may be taken away stands last."""
        return tuple(filter(None, (self.note, self.lasting, self.block)))

    def stands_on(self, message: Message) -> bool:
        """Return whether the message is shown as it was when the blocks were added."""
        return message is self.bare or message.key == self.bare.key

    def added(self, entry: Entry) -> Entry:
        """Return the entry with the blocks at its end."""
        return replace(entry, message=self.message, block=True)

    @property
    def note_alone(self) -> Attachment | None:
        """Return the same with its note alone; None: it has none."""
        return replace(self, block="", lasting="") if self.note else None

    def without_block(self) -> Attachment | None:
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
    attached: Mapping[str, Attachment]
    older: Mapping[int, str]
    gone: int = 0
    own: bool = False


def takes_blocks(message: Message) -> bool:
    """Return whether blocks may be added to a message."""
    return message.role in ("user", "tool")


def with_blocks(entries: Sequence[Entry], attached: Mapping[str, Attachment]) -> WithBlocks:
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
    """Give the same with the call's own blocks at the end of the last message, if it may have any.

    `size` are the tokens of a text.
    """
    last = before.entries[-1]
    if not (block or lasting or note) or not takes_blocks(last.message):
        return before
    own = Attachment(last.message, block, lasting, size(block), size(lasting) + size(note), note)
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
        """Return tokens of all blocks."""
        return self.sums[-1]

    def before(self, at: int) -> int:
        """Return tokens of the blocks in front of a position: those that stand if it changes."""
        return self.sums[bisect_left(self.places, at)]


NOTHING = BlockTokens()


@dataclass(frozen=True, slots=True)
class Blocks:
    """What a request is made of before its order is fixed; each is empty where there is none."""

    system: tuple[Entry, ...] = ()
    input: tuple[Entry, ...] = ()
    sources: tuple[Entry, ...] = ()
    snowball: tuple[Entry, ...] = ()
    position: Literal["start", "end"] = "start"
    context: tuple[Entry, ...] = ()


def assemble(blocks: Blocks, own: Sequence[Entry]) -> tuple[Entry, ...]:
    """Return the entries of a request, in order.

    A reply that said nothing and called nothing is left out: no provider takes it back.
    """
    if blocks.position == "end":
        middle = blocks.snowball + blocks.sources
    else:
        middle = blocks.sources + blocks.snowball
    entries = blocks.system + blocks.context + blocks.input + middle + tuple(own)
    return tuple(entry for entry in entries if not says_nothing(entry.message))


def says_nothing(message: Message) -> bool:
    """Return whether it is a reply without words and calls."""
    return message.role == "assistant" and not message.parts and not message.tool_calls


def tools_needed(
    allowed: Sequence[ToolSpec], messages: Sequence[Message], definitions: dict[str, ToolSpec]
) -> tuple[ToolSpec, ...]:
    """Return the tools a request must define: the phase's, then those its messages call.

    A provider refuses a call in the history whose tool the request does not define
    (Anthropic), so replayed and snowballed calls bring their definitions along.
    `known` holds definitions by name; a tool that is no longer known gets a bare one.
    """
    named = {spec.name: spec for spec in allowed}
    for message in messages:
        for call in message.tool_calls:
            if call.name not in named:
                bare = ToolSpec(call.name, "Used earlier in this session.", {"type": "object"})
                named[call.name] = definitions.get(call.name, bare)
    return tuple(named.values())
