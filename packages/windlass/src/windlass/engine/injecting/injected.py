"""The state of injectors in a session and in a phase."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from windlass.caching.meter import Meter
from windlass.injectors.base import BlockItem, FailedCall, Situation
from windlass.injectors.orchestrate import Block, Placed
from windlass.window.blocks import Attachment
from windlass.window.entries import Entry


@dataclass(slots=True)
class UserContext:
    """The message of the SESSION tier as it stands, and what the model knows by it."""

    head: str
    """Identifies the beginning of the request before it."""
    entry: Entry | None
    """Its occurrence in the record, as it is shown (None: there was nothing to say)."""
    told: tuple[Block, ...]
    """The blocks that it is made of."""
    known: dict[str, tuple[BlockItem, ...]]
    """The items that were shown in it or told since, by injector."""
    news: set[str] = field(default_factory=set[str])
    """Occurrences of messages at whose end a change of it was told."""


@dataclass(slots=True)
class Injected:
    """The state of injectors that lasts for the session."""

    placed: dict[str, Placed] = field(default_factory=dict[str, Placed])
    """Injectors that were made, by their declaration."""
    attached: dict[str, Attachment] = field(default_factory=dict[str, Attachment])
    """The blocks at the end of messages, by occurrence."""
    failures: tuple[FailedCall, ...] = ()
    """Calls of tools that failed."""
    touched: dict[FailedCall, frozenset[str]] = field(
        default_factory=dict[FailedCall, frozenset[str]]
    )
    """The names that each of them was about."""
    skills: tuple[str, ...] = ()
    """Skills that the model asked for."""
    context: UserContext | None = None
    """The message of the SESSION tier (None: there is none yet)."""
    kept: dict[str, Meter] = field(default_factory=dict[str, Meter])
    """Bills requests with all older blocks in place, by model."""
    dropped: dict[str, Meter] = field(default_factory=dict[str, Meter])
    """Bills requests without older blocks, by model."""
    described: dict[str, str] = field(default_factory=dict[str, str])
    """Descriptions that the model gave of pictures and files, by reference."""
    files: list[str] = field(default_factory=list[str])
    """Files that tools wrote."""
    warned: set[str] = field(default_factory=set[str])
    """Warnings that are not told again."""

    def fork(self) -> Injected:
        """Return a copy for a sounding; injectors that were made and what was told are shared."""
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
        """Return the state for a task, which continues nothing that was said before."""
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
    """The state of injectors that lasts for a phase."""

    placed: tuple[Placed, ...]
    """Its injectors, in order."""
    look: Callable[[], Situation]
    """Gives the situation that they look at, without what its calls change."""
    role: str = ""
    """The template of its system prompt."""
    where: str = ""
    """The place of that template in the cascade."""
    vary: bool = False
    """Whether the form of blocks varies from call to call."""
    in_place: bool = False
    """Whether the values of the system prompt are rendered again at each call."""
    moved: Mapping[str, str] = field(default_factory=dict[str, str])
    """Expressions of values that were moved out of the system prompt, by name."""
    stable: tuple[Block, ...] = ()
    """The blocks of the head."""
    changes: str = ""
    """Changes of the user context that the next call must be told."""
    turn: int = 0
    """The call for which the DYNAMIC blocks were made."""
    now: tuple[Block, ...] = ()
    """Those blocks."""
    text: str = ""
    """Their text."""
    lasting: str = ""
    """The changes told with them."""

    @property
    def reserve(self) -> int:
        """The most tokens that its DYNAMIC blocks take at one call."""
        return sum(one.cap for one in self.placed if one.tier == "DYNAMIC")
