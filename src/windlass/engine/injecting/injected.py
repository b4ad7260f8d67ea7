"""What a run and a phase hold of injectors; `begin.py`, `context.py` and `blocks.py` fill it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from windlass.caching.meter import Meter
from windlass.history.details import BlockDetails
from windlass.injectors.base import BlockItem, FailedCall, Situation
from windlass.injectors.orchestrate import Block, Placed
from windlass.messages import Message
from windlass.window.blocks import Attached
from windlass.window.entries import Item as Occurrence


@dataclass(frozen=True, slots=True)
class RecordedBlock:
    """A block that is in the record: its row's id (None: it has no text)."""

    block: Block
    id: str | None = None

    def details(self, message: int | None = None, part: int | None = None) -> BlockDetails:
        """What a call's record tells of it, with its place in the request (None: it has none)."""
        block = self.block
        details: BlockDetails = {
            "injector": block.injector,
            "version": block.version,
            "tier": str(block.tier),
            "priority": block.priority,
            "cap": block.cap,
            "full_cap": block.full_cap,
            "tokens": block.tokens,
            "cut": list(block.cut),
            "id": self.id,
        }
        if message is not None and part is not None:
            details["message"], details["part"] = message, part
        return details


@dataclass(slots=True)
class UserContext:
    """The message of the SESSION tier as it stands, and what the model knows by it.

    `head` identifies the beginning of the request before it. `item` and `message` are None where
    there was nothing to say. `known` are the items that were shown in it or told since, by
    injector; `news` are the occurrences at whose end something of it was told.
    """

    head: str
    item: Occurrence | None
    message: Message | None
    told: tuple[RecordedBlock, ...]
    known: dict[str, tuple[BlockItem, ...]]
    news: set[str] = field(default_factory=set[str])


@dataclass(slots=True)
class Injected:
    """What lasts for the session.

    `placed` are injectors that were made, by what they were made of. `attached` are the blocks
    at the end of messages, by occurrence. `failures` are calls that failed, `touched` what each
    was about; `skills` those that the model asked for. `kept` and `dropped` meter the requests, by
    model, with all older blocks in place and without them. `described` is what the model said of
    pictures and files, by reference; `files` are those that tools wrote; `warned` what was told
    already.
    """

    placed: dict[str, Placed] = field(default_factory=dict[str, Placed])
    attached: dict[str, Attached] = field(default_factory=dict[str, Attached])
    failures: tuple[FailedCall, ...] = ()
    touched: dict[FailedCall, frozenset[str]] = field(
        default_factory=dict[FailedCall, frozenset[str]]
    )
    skills: tuple[str, ...] = ()
    context: UserContext | None = None
    kept: dict[str, Meter] = field(default_factory=dict[str, Meter])
    dropped: dict[str, Meter] = field(default_factory=dict[str, Meter])
    described: dict[str, str] = field(default_factory=dict[str, str])
    files: list[str] = field(default_factory=list[str])
    warned: set[str] = field(default_factory=set[str])

    def fork(self) -> Injected:
        """A copy for a sounding; injectors that were made and what was told are shared."""
        return replace(
            self,
            attached=dict(self.attached),
            touched=dict(self.touched),
            context=copy.deepcopy(self.context),
            kept=copy.deepcopy(self.kept),
            dropped=copy.deepcopy(self.dropped),
            described=dict(self.described),
            files=list(self.files),
        )

    def for_task(self) -> Injected:
        """What a task begins with, which goes on with nothing that was said before."""
        return Injected(placed=self.placed, warned=self.warned)

    def adopt(self, taken: Injected) -> None:
        """Take over all that the sounding that was taken holds."""
        self.attached = taken.attached
        self.failures, self.touched = taken.failures, taken.touched
        self.skills, self.context = taken.skills, taken.context
        self.kept, self.dropped = taken.kept, taken.dropped
        self.described, self.files = taken.described, taken.files


@dataclass(slots=True)
class PhaseInjected:
    """What lasts for a phase.

    `look` gives what its injectors may look at, but for what its calls bring about. `role` is the
    template of its system prompt and `where` its place; `moved` are the expressions of values that
    were moved out of it, by name; with `in_place` its values are made anew at each call. `stable`
    are the blocks of the head. `changes` is what must be told of the user context at the next
    call. `turn` is the call for which the DYNAMIC blocks `now` were made; `text` is what they say
    and `lasting` the changes told with them.
    """

    placed: tuple[Placed, ...]
    look: Callable[[], Situation]
    role: str = ""
    where: str = ""
    vary: bool = False
    in_place: bool = False
    moved: Mapping[str, str] = field(default_factory=dict[str, str])
    stable: tuple[RecordedBlock, ...] = ()
    changes: str = ""
    turn: int = 0
    now: tuple[RecordedBlock, ...] = ()
    text: str = ""
    lasting: str = ""

    @property
    def reserve(self) -> int:
        """The most tokens that its DYNAMIC blocks take at one call."""
        return sum(one.cap for one in self.placed if one.tier == "DYNAMIC")
