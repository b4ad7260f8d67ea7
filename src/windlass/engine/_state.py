"""What is in hand while a cascade runs: the session's part and the phase's part.

Plain holders; the story is told in `turn.py`, `phase.py` and `cascade.py`.
"""

from __future__ import annotations

import copy
import json
from collections import UserDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from windlass.caching.rates import cost, search_fee
from windlass.cascade.rules import Rule
from windlass.engine._meters import ModelCache, Net, cache_of_model
from windlass.engine.events import Event, Noted
from windlass.engine.injecting.injected import Injected, PhaseInjected
from windlass.engine.people.questions import AnswerSource
from windlass.engine.resume.journal import Journal
from windlass.engine.turn.record import Recorder
from windlass.errors import ToolError
from windlass.history.base import StateChange
from windlass.history.row_details import RowDetails
from windlass.messages import Message, ToolSpec
from windlass.providers.base import ModelInfo, Provider
from windlass.providers.spending import Allowance
from windlass.text.templates import PhaseOutput
from windlass.tools.base import Spent, Tool, ToolContext, WebSearch
from windlass.tools.registry import Registry
from windlass.window.assemble import Blocks, tools_needed
from windlass.window.conversation import Conversation
from windlass.window.driver import Driver
from windlass.window.entries import Edit, Entry, Item
from windlass.window.options import plain
from windlass.window.thoughts import Thoughts
from windlass.wire.base import Usage
from windlass.wire.editing import ServerClear, clears_tool_uses


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
        """Each value as JSON text, by its key."""
        return {key: json.dumps(value, default=str) for key, value in self.data.items()}

    def changed_since(self, before: Mapping[str, str]) -> dict[str, Any]:
        """The values that are other ones than in a snapshot."""
        now = self.snapshot()
        return {key: self.data[key] for key, text in now.items() if before.get(key) != text}

    def changes(self, phase: str) -> tuple[StateChange, ...]:
        """The keys this attempt set, or changed inside, as they are recorded."""
        inside = [key for key, value in self._before.items() if self.data.get(key) != value]
        keys = [key for key in dict.fromkeys([*self.touched, *inside]) if key in self.data]
        return tuple(StateChange(phase, key, self.data[key]) for key in keys)


class CallPhase(Protocol):
    """What a call needs of what its phase says."""

    @property
    def name(self) -> str:
        """What the phase is called."""

    @property
    def callouts(self) -> Mapping[str, str]:
        """Patterns of messages that are called out, by the name that these get."""


class CallSettings(Protocol):
    """What a call needs of the user's settings."""

    @property
    def root(self) -> Path:
        """The folder that tools work in."""

    @property
    def tripped(self) -> bool:
        """Whether windows are off because they lost money."""


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


@dataclass(slots=True)
class RunProgress:
    """What a session has come to so far."""

    readable: tuple[Path, ...] = ()
    """Folders and files that tools may read beside their own."""
    state: dict[str, Any] = field(default_factory=dict[str, Any])
    """The cascade's state, as the attempts that won left it."""
    outputs: dict[str, PhaseOutput] = field(default_factory=dict[str, PhaseOutput])
    """What the phases that ended said last, by their names."""
    edits: dict[str, Edit] = field(default_factory=dict[str, Edit])
    """The edits of messages that stand for good, by occurrence."""
    callouts: dict[str, str] = field(default_factory=dict[str, str])
    """The names of messages that were marked as important, by occurrence."""
    previous: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    """The last request as (identity, tokens), tools first: what a provider's cache may hold."""
    assumed: set[str] = field(default_factory=set[str])
    """Models of whose cache something is assumed, and the user was told."""
    told: set[str] = field(default_factory=set[str])
    """What was told once and is not told again."""
    no_schemas: set[str] = field(default_factory=set[str])
    """Models whose provider took no `output_schema`."""
    choosing: object | None = None
    """What choosing keeps of the session; `choosing/session.py` makes it and knows its type."""
    remembered: list[Callable[[], object]] = field(default_factory=list[Callable[[], object]])
    """What a sounding asked to keep in memory banks: it is kept if the sounding wins."""
    said_in: Recorder | None = None
    """Where its outputs were said: in the session of the sounding taken (None: in its own)."""
    last: PhaseRun | None = None
    """The phase before the one that runs (None: there was none)."""
    calls: int = 0
    """Calls of models so far."""
    usage: Usage = field(default_factory=lambda: Usage(0, 0))
    """Tokens that were billed."""
    cost: float | None = 0.0
    """US dollars (None: a call had no known price)."""
    saved_tokens: int = 0
    """Tokens that a snowball would have sent beyond what was sent."""


@dataclass(frozen=True, slots=True)
class Run:
    """One session: what it was set up with, and its progress."""

    record: Recorder
    """Where rows go."""
    input: Mapping[str, Any]
    """The user's input, as JSON values."""
    resolve: Callable[[str], tuple[Provider, ModelInfo]]
    """Turns `provider/model` into its provider and what is known of the model."""
    registry: Registry
    """The tools by name."""
    emit: Callable[[Event], None]
    """Where events go."""
    settings: CallSettings
    """The user's settings."""
    results: Path = Path()
    """The folder with the originals of shortened tool results."""
    closed: Path | None = None
    """The store, where nothing else is open to tools."""
    search: WebSearch | None = None
    """The provider's search of the web that `web_search` has, if it has one."""
    caches: dict[str, ModelCache] = field(default_factory=dict[str, ModelCache])
    """What is known of each model's prompt cache."""
    net: Net = field(default_factory=Net)
    """What windows saved and cost."""
    injected: Injected = field(default_factory=Injected)
    """What injectors hold for the session."""
    journal: Journal = field(default_factory=Journal)
    """The steps that the record of a resumed session knows."""
    thoughts: Thoughts = field(default_factory=Thoughts)
    """What stood before each reply, for models that bind their thinking to it."""
    progress: RunProgress = field(default_factory=RunProgress)
    """What the session has come to so far."""
    allowances: tuple[Allowance, ...] = ()
    """What is left of the limits that hold for it; `resolve` counts against them."""

    answers: AnswerSource = field(default_factory=AnswerSource)
    """Where answers of a person come from."""

    def definitions(
        self, allowed: Sequence[ToolSpec], messages: Sequence[Message]
    ) -> tuple[ToolSpec, ...]:
        """The tools a request must define: those it allows, and those its messages call."""
        registered = {name: self.registry.get(name).spec for name in self.registry.names()}
        return tools_needed(allowed, messages, registered)

    def cache_of(self, info: ModelInfo) -> ModelCache:
        """What the run knows of the prompt cache of a model."""
        if info.name not in self.caches:
            self.caches[info.name] = cache_of_model(info)
        return self.caches[info.name]

    def template_values(self) -> dict[str, Any]:
        """What templates see: the input, the state, the outputs of earlier phases."""
        progress = self.progress
        return {"input": self.input, "state": progress.state, "outputs": progress.outputs}

    def tell(self, phase: str, text: str, details: RowDetails, *, detail: bool = False) -> None:
        """Record a decision, and tell it to who watches; `detail` as in `Noted`."""
        self.record.decide(phase, text, details)
        self.emit(Noted(phase, text, detail))

    def tell_once(self, phase: str, text: str, details: RowDetails) -> None:
        """The same, but for what was told before in this run."""
        if text not in self.progress.told:
            self.progress.told.add(text)
            self.tell(phase, text, details)

    def check_time(self) -> None:
        """Raise RunLimitReached where no step may begin any more."""
        for allowance in self.allowances:
            allowance.check_time()

    def let_read(self, file: Path) -> None:
        """Let the tools of this phase and of later ones read a file outside their folder."""
        if file not in self.progress.readable:
            self.progress.readable = (*self.progress.readable, file)

    def charge(self, info: ModelInfo, usage: Usage, *, saved: int) -> float | None:
        """Add a call to the session's totals and return its cost in US dollars."""
        self.progress.saved_tokens += saved
        return self.add_up(usage, 0.0 if info.free else cost(info.name, **asdict(usage)))

    def charge_tool(self, spent: Spent) -> float | None:
        """The same for what a tool's own call of a model used."""
        price = spent.dollars
        if price is None:
            tokens, fee = (
                cost(spent.model, **asdict(spent.usage)),
                search_fee(spent.model, spent.searches),
            )
            price = None if tokens is None or fee is None else tokens + fee
        return self.add_up(spent.usage, price)

    def add_up(self, usage: Usage, price: float | None) -> float | None:
        """Add tokens and US dollars to the session's totals; returns the dollars."""
        self.progress.usage = self.progress.usage.plus(usage)
        # One call without a price makes the sum unknown; it is never counted as zero.
        self.progress.cost = (
            None if self.progress.cost is None or price is None else self.progress.cost + price
        )
        return price


@dataclass(slots=True)
class PhaseProgress:
    """What a phase has come to so far."""

    blocks: Blocks
    """What it sees of what was said before, in blocks."""
    own: list[Item]
    """The messages said in it, its instructions first."""
    state: StateCopy
    """The attempt's own copy of the state."""
    context: ToolContext
    """What its tools may use."""
    newest_within: int
    """The most tokens of a context that slides."""
    driver: Driver
    """Drives its conversation, which has nothing in it until what the phase sees is fixed."""
    tools: Mapping[str, Tool] = field(default_factory=dict[str, Tool])
    """Its tools by name."""
    approve: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Those that run only when a person says so, each with what its phase calls it."""
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
    chosen: dict[str, int] = field(default_factory=dict[str, int])
    """The messages that it chose at its start, with their tokens."""
    whole: tuple[Entry, ...] | None = None
    """What a snowball would have shown at its start (None: it does not choose)."""
    chose: bool = False
    """Whether it sees what it chose, and no snowball."""
    choice_text: str = ""
    """What it chose in a sentence, until its first call is planned: then its tokens are known."""
    turn: int = 0
    """Its calls so far, the one that is made included."""
    attempt: int = 1
    """The attempt, from 1."""
    forced_done: bool = False
    """Whether a tool that it forces was called."""
    replanned: bool = False
    """Whether a provider refused it as too long, so that it slides from then on."""
    closing: bool = False
    """Whether its turns are used up, so that the next call answers without tools."""
    repaired: bool = False
    """Whether the attempt had its turn to mend an output that does not match the schema."""
    position_cost: Mapping[str, Any] | None = None
    """What the place of injected sources costs, and what the other would."""


@dataclass(frozen=True, slots=True)
class PhaseRun:
    """One phase of a run: what it was set up with, and its progress."""

    phase: CallPhase
    """The phase as the cascade declares it."""
    rule: Rule
    """What it may see, compiled."""
    generation: Generation
    """How its replies are asked for."""
    provider: Provider
    """Who is called."""
    info: ModelInfo
    """What is known of the model."""
    injected: tuple[Item, ...]
    """The messages that its sources brought and that it may let expire."""
    trace_id: str
    """The row of its instructions."""
    progress: PhaseProgress
    """What it has come to so far."""
    injection: PhaseInjected | None = None
    """What it holds of injectors (None: it has none)."""
    ends_run: bool = False
    """Whether the run is over with its last reply: then its last call has nothing to cache."""

    @property
    def instructions(self) -> Item:
        """The phase's instructions, as they occurred."""
        return self.progress.own[0]

    @property
    def conversation(self) -> Conversation:
        """What was said, and what each call sees of it."""
        return self.progress.driver.conversation

    @property
    def server_clear(self) -> ServerClear | None:
        """What the provider is asked to clear of its calls (None: nothing)."""
        policy = self.rule.policy
        if policy is None or not policy.enabled or not clears_tool_uses(self.info.name):
            return None
        wanted = policy.server_clear
        return None if wanted is None else ServerClear(**plain(wanted))

    @property
    def allowed(self) -> tuple[ToolSpec, ...]:
        """What the model is told of the phase's tools."""
        return tuple(tool.spec for tool in self.progress.tools.values())
