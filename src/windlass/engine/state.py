"""What is in hand while a cascade runs: the session's part and the phase's part.

Plain holders; the story is told in `turn.py`, `phase.py` and `cascade.py`.
"""

from __future__ import annotations

import copy
import json
from collections import UserDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from windlass.caching.breakpoints import Sent
from windlass.caching.rates import cost, search_fee
from windlass.cascade.model import Cascade, Phase
from windlass.engine.events import Event
from windlass.engine.injecting.injected import Injected, PhaseInjected
from windlass.engine.meters import ModelCache, Net
from windlass.engine.recall import recall_original
from windlass.engine.record import Recorder
from windlass.errors import ToolError
from windlass.history.base import StateChange
from windlass.messages import Message, ToolSpec
from windlass.providers.base import ModelInfo, Provider
from windlass.rules import Rule
from windlass.settings import Settings
from windlass.templates import PhaseOutput
from windlass.tools.base import TIMEOUT_S, Spent, Tool, ToolContext, WebSearch
from windlass.tools.registry import Registry
from windlass.window.assemble import Blocks, tools_needed
from windlass.window.course import Course
from windlass.window.entries import Edit, Entry, Item
from windlass.window.planner import Planner
from windlass.wire.base import Usage

if TYPE_CHECKING:
    from windlass.cards.embeddings import Embedder
    from windlass.engine.carding.beside import Beside
    from windlass.engine.choosing.known import Known


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

    def changes(self, phase: str) -> tuple[StateChange, ...]:
        """The keys this attempt set, or changed inside, as they are recorded."""
        inside = [key for key, value in self._before.items() if self.data.get(key) != value]
        keys = [key for key in dict.fromkeys([*self.touched, *inside]) if key in self.data]
        return tuple(StateChange(phase, key, self.data[key]) for key in keys)


@dataclass(frozen=True, slots=True)
class Generation:
    """How a phase's replies are asked for: its own settings over the cascade's."""

    model: str
    max_output_tokens: int
    tool_choice: str
    temperature: float | None = None
    reasoning_effort: str | None = None
    output_schema: Mapping[str, Any] | None = None


@dataclass(slots=True)
class Run:
    """One session in hand.

    `resolve` turns `provider/model` into its provider and what is known of the model.
    `readable` are folders and files that tools may read beside their own; `results` is where
    the originals of shortened tool results lie; `closed` is the store, where nothing else is
    open to tools. `edits` are the committed edits of messages born in the session, by
    occurrence. `search` is the provider's search of the web that `web_search` has, if it has
    one. `callouts` are the names of messages that were marked as important, by id.
    `sent` is where the cache marks of the last request were; `assumed` are models of
    whose cache something is assumed, and told.
    `caches` is what is known of each model's cache, `net` what windows saved and cost, `calls`
    the number of calls, `injected` what injectors have in hand. `cards` makes cards beside the
    run (None: it makes none). `known` is the session's index, by the model that counts its tokens,
    `embedder` what makes its vectors (None: not asked for yet, or none).
    `last` is the phase before the one in hand (None: there was none).
    `previous` is the last request as (identity, tokens), tools first: what a
    provider's cache may still hold.
    """

    cascade: Cascade
    record: Recorder
    input: Mapping[str, Any]
    resolve: Callable[[str], tuple[Provider, ModelInfo]]
    registry: Registry
    emit: Callable[[Event], None]
    settings: Settings
    readable: tuple[Path, ...] = ()
    results: Path = Path()
    closed: Path | None = None
    search: WebSearch | None = None
    state: dict[str, Any] = field(default_factory=dict[str, Any])
    outputs: dict[str, PhaseOutput] = field(default_factory=dict[str, PhaseOutput])
    edits: dict[str, Edit] = field(default_factory=dict[str, Edit])
    callouts: dict[str, str] = field(default_factory=dict[str, str])
    previous: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    sent: Sent | None = None
    assumed: set[str] = field(default_factory=set[str])
    caches: dict[str, ModelCache] = field(default_factory=dict[str, ModelCache])
    net: Net = field(default_factory=Net)
    injected: Injected = field(default_factory=Injected)
    known: dict[str, Known] = field(default_factory=dict)
    embedder: Embedder | None = None
    last: PhaseRun | None = None
    calls: int = 0
    usage: Usage = field(default_factory=lambda: Usage(0, 0))
    cost: float | None = 0.0
    saved_tokens: int = 0
    cards: Beside | None = None

    def definitions(
        self, allowed: Sequence[ToolSpec], messages: Sequence[Message]
    ) -> tuple[ToolSpec, ...]:
        """The tools a request must define: those it allows, and those its messages call."""
        known = {name: self.registry.get(name).spec for name in self.registry.names()}
        return tools_needed(allowed, messages, known)

    def recall(self, ref: str) -> str:
        """The original text behind a reference of this session. Raises KeyError."""
        return recall_original(self.record, ref)

    def with_timeout(self, tool: Tool) -> Tool:
        """The tool under the user's time limit, where it has none of its own."""
        if tool.timeout_s != TIMEOUT_S:
            return tool  # it says its own
        return replace(tool, timeout_s=self.settings.tool_timeout_s)

    def let_read(self, file: Path) -> None:
        """Let the tools of this phase and of later ones read a file outside their folder."""
        if file not in self.readable:
            self.readable = (*self.readable, file)

    def charge(self, info: ModelInfo, usage: Usage, *, saved: int) -> float | None:
        """Add a call to the session's totals and return its cost in US dollars."""
        self.saved_tokens += saved
        return self._add(usage, 0.0 if info.free else _cost(info.name, usage))

    def charge_tool(self, spent: Spent) -> float | None:
        """The same for what a tool's own call of a model used."""
        price = spent.dollars
        if price is None:
            tokens, fee = _cost(spent.model, spent.usage), search_fee(spent.model, spent.searches)
            price = None if tokens is None or fee is None else tokens + fee
        return self._add(spent.usage, price)

    def _add(self, usage: Usage, price: float | None) -> float | None:
        self.usage = self.usage.plus(usage)
        # One call without a price makes the sum unknown; it is never counted as zero.
        self.cost = None if self.cost is None or price is None else self.cost + price
        return price


def _cost(model: str, usage: Usage) -> float | None:
    told = (usage.tokens_in, usage.tokens_out, usage.tokens_cached, usage.tokens_written)
    return cost(model, *told, tokens_written_long=usage.tokens_written_long)


@dataclass(slots=True)
class PhaseRun:
    """One phase in hand.

    `own` holds the phase's messages so far, its instructions first; `injected` the
    messages its sources brought that it may expire; `edits` what it has committed of
    them. `turn` and `attempt` count from 1. `newest_within` is the limit in tokens of
    a sliding context. `replanned`: a provider found the phase too long, and it slides
    from then on. `repaired`: the attempt has had its turn to mend an output that does
    not match the schema. `forced_done`: a tool that the phase forces has been called.
    `kept` are the messages that were called out and stay whole, with their tokens.
    `course` decides what each call sees (None: all of it), `planner` when, where the cache
    holds; `fed` messages of `own` it has
    been handed; `asked` are the texts that a model was asked for; `brought` what it brought in
    unasked, as it stands in the record. `chosen` are the messages that it chose at its start,
    with their tokens, and `whole` what a snowball would have shown before it (None: it does
    not choose); `chose`: what it sees is its choice, and no snowball. `position_cost` is what the
    place of injected sources costs, and the other would. `injection` is what it has of injectors.
    """

    phase: Phase
    rule: Rule
    generation: Generation
    provider: Provider
    info: ModelInfo
    tools: Mapping[str, Tool]
    blocks: Blocks
    own: list[Item]
    injected: tuple[Item, ...]
    trace_id: str
    state: StateCopy
    context: ToolContext
    newest_within: int
    edits: dict[str, Edit] = field(default_factory=dict[str, Edit])
    kept: dict[str, int] = field(default_factory=dict[str, int])
    course: Course | None = None
    planner: Planner | None = None
    fed: int = 0
    asked: set[str] = field(default_factory=set[str])
    brought: dict[str, Item] = field(default_factory=dict[str, Item])
    chosen: dict[str, int] = field(default_factory=dict[str, int])
    whole: tuple[Entry, ...] | None = None
    chose: bool = False
    turn: int = 0
    attempt: int = 1
    forced_done: bool = False
    replanned: bool = False
    repaired: bool = False
    position_cost: Mapping[str, Any] | None = None
    injection: PhaseInjected | None = None

    @property
    def instructions(self) -> Item:
        """The phase's instructions, as they occurred."""
        return self.own[0]

    @property
    def allowed(self) -> tuple[ToolSpec, ...]:
        """What the model is told of the phase's tools."""
        return tuple(tool.spec for tool in self.tools.values())
