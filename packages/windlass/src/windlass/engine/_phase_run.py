"""One phase of a run: what it was set up with, and the holders of what it comes to.

The story is told in `turn/turn.py` and `phase/phase.py`.
"""

from __future__ import annotations

import copy
import json
from collections import UserDict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from windlass.cascade.model import Phase
from windlass.cascade.rules import Rule
from windlass.engine.injecting.injected import PhaseInjected
from windlass.errors import ToolError
from windlass.history.base import NodeType, Row, StateChange
from windlass.history.details import PositionDetails
from windlass.messages import Message, Text, ToolSpec
from windlass.providers.base import ModelInfo, Provider
from windlass.tools.base import Tool, ToolContext
from windlass.window.blocks import Blocks, assemble
from windlass.window.conversation import Conversation
from windlass.window.driver import Driver
from windlass.window.entries import Edit, Entry, Item, show
from windlass.wire.editing import ServerClear


@dataclass(frozen=True, slots=True)
class Generation:
    """How a phase's replies are asked for: its own settings over the cascade's."""

    model: str
    max_output_tokens: int
    tool_choice: str
    wanted: str = ""
    """The tool that is asked for in words (`required`: any), where the model cannot be forced."""
    temperature: float | None = None
    reasoning_effort: str | None = None
    output_schema: Mapping[str, Any] | None = None


class StateCopy(UserDict[str, Any]):
    """An attempt's own copy of the state; `touched` are the keys it set, in order.

    The winner's copy is taken over; a failed attempt leaves no trace in the state.
    """

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.touched: dict[str, None] = {}
        self._before = dict(values)
        super().__init__(copy.deepcopy(self._before))  # or a list would be appended to for all
        self.touched.clear()

    def __setitem__(self, key: str, item: Any) -> None:
        try:
            json.dumps(item)
        except (TypeError, ValueError, RecursionError) as error:
            raise ToolError(f"state {key!r} must be a JSON value ({error})") from error
        super().__setitem__(key, item)
        self.touched[key] = None

    def snapshot(self) -> dict[str, str]:
        """Return each value as JSON text, by its key."""
        return {key: json.dumps(value, default=str) for key, value in self.data.items()}

    def changed_since(self, before: Mapping[str, str]) -> dict[str, Any]:
        """Return the values that are other ones than in a snapshot."""
        now = self.snapshot()
        return {key: self.data[key] for key, text in now.items() if before.get(key) != text}

    def changes(self, phase: str) -> tuple[StateChange, ...]:
        """Return the keys this attempt set, or changed inside, as they are recorded."""
        inside = [key for key, value in self._before.items() if self.data.get(key) != value]
        keys = [key for key in dict.fromkeys([*self.touched, *inside]) if key in self.data]
        return tuple(StateChange(phase, key, self.data[key]) for key in keys)


@dataclass(slots=True)
class PhaseMessages:
    """The messages of a phase, as they came."""

    blocks: Blocks
    """Its view of what was said before, in blocks."""
    own: list[Item] = field(default_factory=list[Item])
    """The messages said in it, its instructions first."""
    injected: tuple[Item, ...] = ()
    """The messages that its sources brought and that it may let expire."""
    task: str = ""
    """Its instructions as its cascade words them."""
    position_cost: PositionDetails | None = None
    """The cost of the place of injected sources, and of the other place."""

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The messages of both, unedited."""
        return assemble(self.blocks, show(self.own, ""))

    def of_attempt(self, attempt: int) -> list[Item]:
        """Return the messages said in an attempt."""
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
    route: str | None = None
    """What the attempt's model chose to come next (None: nothing)."""

    def begin_attempt(self, state: StateCopy) -> None:
        """Begin the next attempt on a fresh copy of the state; turns go on counting."""
        self.state = state
        self.attempt += 1
        self.forced_done = self.repaired = False
        self.route = None


@dataclass(slots=True)
class PhaseTools:
    """The tools of a phase, and what they may use."""

    context: ToolContext
    """The context that its tools run in."""
    by_name: Mapping[str, Tool] = field(default_factory=dict[str, Tool])
    """Its tools by name."""
    approve: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Tools that need a person's approval, each with the names that its phase gives it."""

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """Their definitions for the model."""
        return tuple(tool.spec for tool in self.by_name.values())

    def use_state(self, state: StateCopy) -> None:
        """Let them read and set this copy of the state from now on."""
        self.context = replace(self.context, state=state)

    def let_read(self, readable: tuple[Path, ...]) -> None:
        """Let them read these folders and files besides their own."""
        self.context = replace(self.context, readable=readable)


@dataclass(slots=True)
class PhaseWindow:
    """The edits of a phase's messages, and the conversation that makes them."""

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


@dataclass(slots=True)
class ContextChoice:
    """The choice that a phase made of its context, if it chooses."""

    made: bool = False
    """Whether it sees what it chose, and no snowball."""
    chosen: dict[str, int] = field(default_factory=dict[str, int])
    """The messages that it chose, with their tokens."""
    whole: tuple[Entry, ...] | None = None
    """The snowball that it could have seen (None: the phase does not choose)."""
    text: str = ""
    """The choice in a sentence, until its first call is planned: then its tokens are known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BarePhase:
    """A phase in hand, before a model is asked in it."""

    phase: Phase
    """The phase as the cascade declares it."""
    now: TurnState
    """Where it is: its attempt and its turn."""
    tools: PhaseTools
    """Its tools, and what they may use."""

    @property
    def asked(self) -> str:
        """The first text of its instructions (empty: nothing was asked)."""
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseRun(BarePhase):
    """One phase of a run: what it was set up with, and what it has come to."""

    rule: Rule
    """The compiled rule of what it may see."""
    generation: Generation
    """How its replies are asked for."""
    provider: Provider
    """Who is called."""
    info: ModelInfo
    """The model that is called."""
    trace_id: str
    """The row of its instructions."""
    messages: PhaseMessages
    """Its messages, as they came."""
    window: PhaseWindow
    """The edits of its messages, and the conversation that makes them."""
    choice: ContextChoice = field(default_factory=ContextChoice)
    """The choice that it made of its context."""
    injection: PhaseInjected | None = None
    """Its injectors and their state (None: it has none)."""
    server_clear: ServerClear | None = None
    """The tool uses that the provider is asked to clear (None: none)."""
    ends_run: bool = False
    """Whether the run is over with its last reply: then its last call has nothing to cache."""

    @property
    def instructions(self) -> Item:
        """The phase's instructions, as they occurred."""
        return self.messages.own[0]

    @property
    def asked(self) -> str:
        """The first text of its instructions."""
        first = next(iter(self.instructions.message.parts), None)
        return first.text if isinstance(first, Text) else ""

    def row(self, node: NodeType, message: Message | None = None) -> Row:
        """Return a row at the place where it is."""
        now = self.now
        return Row(node, message=message, phase=self.phase.name, turn=now.turn, attempt=now.attempt)

    @property
    def room(self) -> int:
        """Input tokens that its model takes with a reply of the most tokens."""
        return self.info.input_room(self.generation.max_output_tokens)

    @property
    def conversation(self) -> Conversation:
        """The messages that each call is made of, with their edits."""
        return self.window.driver.conversation

    @property
    def allowed(self) -> tuple[ToolSpec, ...]:
        """The definitions of its tools for the model."""
        return self.tools.specs
