"""What a phase has come to so far: its messages, its turns, its tools, its window, its choice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from windlass.engine._session_state import StateCopy
from windlass.messages import ToolSpec
from windlass.tools.base import Tool, ToolContext
from windlass.window.assemble import Blocks, assemble
from windlass.window.driver import Driver
from windlass.window.entries import Edit, Entry, Item, show


@dataclass(slots=True)
class PhaseMessages:
    """The messages of a phase, as they came."""

    blocks: Blocks
    """What it sees of what was said before, in blocks."""
    own: list[Item]
    """What was said in it, its instructions first."""
    position_cost: Mapping[str, Any] | None = None
    """What the place of injected sources costs, and what the other would."""

    @property
    def instructions(self) -> Item:
        """The phase's instructions."""
        return self.own[0]

    @property
    def entries(self) -> tuple[Entry, ...]:
        """What it sees of before, and all that was said in it, unedited."""
        return assemble(self.blocks, show(self.own, ""))

    def of_attempt(self, attempt: int) -> list[Item]:
        """What was said in an attempt."""
        return [item for item in self.own if item.attempt == attempt]


@dataclass(slots=True)
class TurnState:
    """Where a phase is: its attempt, its turn, and what the next call is allowed."""

    state: StateCopy
    """The attempt's own copy of the cascade's state."""
    turn: int = 0
    """Its calls so far, the one that is being made included."""
    attempt: int = 1
    """The attempt, from 1."""
    forced_done: bool = False
    """Whether a tool that the phase forces was called in the attempt."""
    closing: bool = False
    """Whether the turns are used up, so that the next call answers without tools."""
    repaired: bool = False
    """Whether the attempt had its turn to mend an output that does not match the schema."""

    def begin_attempt(self, state: StateCopy) -> None:
        """Begin the next attempt on a fresh copy of the state; turns go on counting."""
        self.state = state
        self.attempt += 1
        self.forced_done = self.repaired = False


@dataclass(slots=True)
class PhaseTools:
    """The tools of a phase, and what they may use."""

    context: ToolContext
    """What its tools may use."""
    by_name: Mapping[str, Tool] = field(default_factory=dict[str, Tool])
    """Its tools by name."""
    approve: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Those that run only when a person says so, each with what its phase calls it."""

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """What the model is told of them."""
        return tuple(tool.spec for tool in self.by_name.values())

    def use_state(self, state: StateCopy) -> None:
        """Let them read and set this copy of the state from now on."""
        self.context = replace(self.context, state=state)

    def let_read(self, readable: tuple[Path, ...]) -> None:
        """Let them read these folders and files besides their own."""
        self.context = replace(self.context, readable=readable)


@dataclass(slots=True)
class PhaseWindow:
    """What decides which of its messages a phase's calls see."""

    driver: Driver
    """Drives its conversation, which has nothing in it until what the phase sees is fixed."""
    newest_within: int
    """The most tokens of a context that slides."""
    replanned: bool = False
    """Whether a provider refused a call as too long, so that the context slides from then on."""
    edits: dict[str, Edit] = field(default_factory=dict[str, Edit])
    """The edits in force for it, by occurrence."""
    kept: dict[str, int] = field(default_factory=dict[str, int])
    """Messages that were called out and stay whole, with their tokens."""
    fed: int = 0
    """How many of its own messages the conversation was handed."""
    requested: set[str] = field(default_factory=set[str])
    """The texts that a model was asked for, by key."""
    inserted: dict[str, Item] = field(default_factory=dict[str, Item])
    """What the conversation brought in unasked, as it stands in the record."""


@dataclass(slots=True)
class ContextChoice:
    """What a phase that chooses its context chose at its start."""

    made: bool = False
    """Whether it sees what it chose, and no snowball."""
    chosen: dict[str, int] = field(default_factory=dict[str, int])
    """The messages that it chose, with their tokens."""
    whole: tuple[Entry, ...] | None = None
    """What a snowball would have shown (None: the phase does not choose)."""
    text: str = ""
    """The choice in a sentence, until its first call is planned: then its tokens are known."""
