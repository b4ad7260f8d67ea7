"""What a session's phases and tasks sent and cost, beside what a snowball would have.

A call of a hosted model cost what its reported usage cost; the record has it. A call of
a model that costs nothing is told at the prices of a hosted one. Beside either stand two
simulated bills, made alike: the requests as they were sent, and the requests a plain
snowball would have sent at the same calls, each at the prices of its model and with that
model's prompt cache (`prices.bill_stream`), counted by that model's own counter.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from windlass.caching.meter import bill_stream
from windlass.caching.rates import cost, input_dollars, is_local, priced_as, prices_of, rate
from windlass.history.base import BORN, SAVINGS, NodeType, Row, Store
from windlass.messages import Message, ToolSpec, canonical_json
from windlass.report.show import without_numbers
from windlass.tokens import FamilyCounter

Weighed = list[tuple[str, int]]


@dataclass(slots=True)
class PhaseCost:
    """One phase's line. Tokens in, cached and out as the provider reported them.

    `tokens_in`, `tokens_out` and money also count the summaries that its windows asked for.
    `snowball` are the input tokens a snowball would have sent, by the engine's count.
    Money is in US dollars, output included; None: no price is known. `dollars` is what was
    to pay, of a model that costs nothing what the hosted one would have billed;
    `simulated_dollars` and `snowball_dollars` what the requests, and a snowball's, cost by
    our count and the model's rules for its cache.
    """

    phase: str
    calls: int = 0
    tokens_in: int = 0
    tokens_cached: int = 0
    tokens_out: int = 0
    snowball: int = 0
    dollars: float | None = 0.0
    simulated_dollars: float | None = 0.0
    snowball_dollars: float | None = 0.0


@dataclass(slots=True)
class TaskCost:
    """One task's line: how often it ran, its calls, tokens as the provider reported them.

    `dollars` is what was to pay in US dollars; of a model that costs nothing, what `priced_as`
    would have billed for as many tokens (None: no price is known).
    """

    task: str
    runs: int = 0
    calls: int = 0
    tokens_in: int = 0
    tokens_cached: int = 0
    tokens_out: int = 0
    dollars: float | None = 0.0


@dataclass(frozen=True, slots=True)
class SearchCost:
    """What searches of the web took, as it is recorded: they are no calls of a phase's model.

    `model` is `provider/model`, `searches` how often the web was asked; `dollars` are US
    dollars at that model's own price (None: no price known).
    """

    model: str
    searches: int
    tokens_in: int
    tokens_out: int
    dollars: float | None


@dataclass(frozen=True, slots=True)
class SessionCost:
    """A session's phases in order, and their sum.

    `priced_as` tells of each model that ran at whose prices it is told: its own, where it
    is hosted. `billed`: whether any of it was really paid for. `search` are its searches of
    the web, which stand in no phase's line (None: none were made). `windows` is what its windows
    `saved`, `spent` on models and netted in US dollars, beside the same calls without windows
    (empty: none had a price, or the session has not ended).
    """

    phases: tuple[PhaseCost, ...]
    total: PhaseCost
    priced_as: Mapping[str, str]
    billed: bool
    search: SearchCost | None = None
    windows: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(slots=True)
class _Call:
    """One call: what it sent and what a snowball would have, in messages and tools."""

    row: Row
    model: str
    tools: Sequence[Mapping[str, Any]]
    sent: list[tuple[str, Message]]
    snowball: list[tuple[str, Message]]
    full_tokens: int

    @property
    def free(self) -> bool:
        """Whether it cost nothing because the model is not sold, rather than sold for nothing."""
        return self.row.cost == 0 and (is_local(self.model) or rate(self.model) is None)


def session_cost(store: Store, session_id: str, price_as: str) -> SessionCost:
    """What each phase of a session cost; models that cost nothing at the prices of `price_as`.

    Raises UsageError for an unknown session.
    """
    calls = list(_calls(store, session_id))
    streams: dict[str, list[_Call]] = defaultdict(list)  # calls of one model share a cache
    for call in calls:
        streams[call.model].append(call)
    free = {model: all(call.free for call in stream) for model, stream in streams.items()}
    names = {model: priced_as(model, price_as, free=free[model]) for model in streams}
    bills = {
        model: iter(_bill(stream, names[model], free=free[model]))
        for model, stream in streams.items()
    }
    phases: dict[str, PhaseCost] = {}
    total = PhaseCost("all phases")
    for call in calls:
        simulated, snowball = next(bills[call.model])
        paid = simulated if free[call.model] else call.row.cost
        name = call.row.phase or "-"
        for line in (phases.setdefault(name, PhaseCost(name)), total):
            line.calls += 1
            line.tokens_in += call.row.tokens_in or 0
            line.tokens_cached += call.row.tokens_cached or 0
            line.tokens_out += call.row.tokens_out or 0
            line.snowball += call.full_tokens
            line.dollars = _sum(line.dollars, paid)
            line.simulated_dollars = _sum(line.simulated_dollars, simulated)
            line.snowball_dollars = _sum(line.snowball_dollars, snowball)
    for row in _summaries(store, session_id):
        model = str(row.model)
        name, tokens = names.get(model, model), (row.tokens_in or 0, row.tokens_out or 0)
        simulated = cost(name, *tokens)
        paid = simulated if free.get(model) else row.cost
        for line in (phases.setdefault(row.phase or "-", PhaseCost(row.phase or "-")), total):
            line.tokens_in += tokens[0]
            line.tokens_out += tokens[1]
            line.dollars = _sum(line.dollars, paid)
            line.simulated_dollars = _sum(line.simulated_dollars, simulated)
    ended = [outcome for outcome in store.outcomes(session_id) if outcome.phase is None]
    return SessionCost(
        tuple(phases.values()),
        total,
        names,
        billed=not all(free.values()),
        search=_searches(store, session_id),
        windows=ended[-1].details.get(SAVINGS, {}) if ended else {},
    )


def task_costs(store: Store, session_id: str, price_as: str) -> tuple[list[TaskCost], TaskCost]:
    """Each task of a session in the order of its first call, and the sum of all.

    Inner tasks and groups of a reduction are one line. It goes over the rows once, so that a reduce
    of ten thousand inputs takes no longer than reading it.
    """
    lines: dict[str, TaskCost] = {}
    total = TaskCost("all tasks")
    begun: dict[str, str] = {}
    for stored in store.rows(session_id):
        row = stored.row
        if row.node_type not in (NodeType.AGENT, NodeType.FOLLOW_UP) or row.phase is None:
            continue
        name = without_numbers(row.phase)
        line = lines.setdefault(name, TaskCost(name))
        new = begun.get(name) != row.phase
        begun[name] = row.phase
        usage = (row.tokens_in or 0, row.tokens_out or 0, row.tokens_cached or 0)
        price = row.cost or cost(price_as, *usage)
        for each in (line, total):
            each.runs += new
            each.calls += 1
            each.tokens_in += usage[0]
            each.tokens_out += usage[1]
            each.tokens_cached += usage[2]
            each.dollars = _sum(each.dollars, price)
    return list(lines.values()), total


def _bill(
    calls: Sequence[_Call], name: str, *, free: bool
) -> Sequence[tuple[float | None, float | None]]:
    """The simulated dollars of each request at the prices of `name`, and a snowball's."""
    price = rate(name)
    if price is None:
        return [(None, None)] * len(calls)
    # A cache of a model that did not run was not waited for: nothing expires in it.
    times = None if free else [call.row.timestamp for call in calls]
    counter = FamilyCounter(name)
    tools = [_weighed_tools(counter, call.tools) for call in calls]
    # What is assumed of a model is told where the model is asked for.
    prices = prices_of(name, warn=lambda _: None)

    def dollars(requests: Iterable[Sequence[tuple[str, Message]]]) -> list[float]:
        weighed = [
            [head, *((key, counter.message(message)) for key, message in request)]
            for head, request in zip(tools, requests, strict=True)
        ]
        return [
            input_dollars(price, bill.units) + _output(name, counter, call, bill.tokens)
            for bill, call in zip(bill_stream(prices, weighed, times), calls, strict=True)
        ]

    sent = dollars(call.sent for call in calls)
    snowball = dollars(call.snowball for call in calls)
    return list(zip(sent, snowball, strict=True))


def _output(name: str, counter: FamilyCounter, call: _Call, tokens_in: int) -> float:
    """US dollars of the call's reply, at the tier of a request with `tokens_in`."""
    if call.row.message is None:
        return 0.0
    out = counter.message(call.row.message)
    return (cost(name, tokens_in, out) or 0.0) - (cost(name, tokens_in, 0) or 0.0)


def _summaries(store: Store, session_id: str) -> Iterator[Row]:
    """What models were asked beside a phase's calls: texts for old turns, and what to choose."""
    for stored in store.rows(session_id):
        row = stored.row
        summary = row.node_type == NodeType.DECISION and row.metadata.get("kind") == "summary"
        chose = row.node_type == NodeType.CONTEXT_SELECTION and row.tokens_in is not None
        if summary or chose:
            yield row


def _searches(store: Store, session_id: str) -> SearchCost | None:
    rows = [
        stored.row
        for stored in store.rows(session_id)
        if stored.row.node_type == NodeType.TOOL_RESULT and stored.row.model is not None
    ]
    if not rows:
        return None
    costs = [row.cost for row in rows]
    return SearchCost(
        model=", ".join(dict.fromkeys(str(row.model) for row in rows)),
        searches=sum(row.metadata.get("searches", 0) for row in rows),
        tokens_in=sum(row.tokens_in or 0 for row in rows),
        tokens_out=sum(row.tokens_out or 0 for row in rows),
        dollars=None if None in costs else sum(cost for cost in costs if cost is not None),
    )


def _sum(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other


def _calls(store: Store, session_id: str) -> Iterator[_Call]:
    """The session's calls in order, with what they sent and what a snowball would have."""
    store.start(session_id)  # an unknown session is told here
    calls = {call.trace_id: call for call in store.calls(session_id)}
    messages: dict[str, Message] = {}
    keys: dict[str, str] = {}
    system: Row | None = None
    born: list[tuple[str, Message]] = []
    for stored in store.rows(session_id):
        row = stored.row
        if row.message is not None and stored.id is not None and stored.key is not None:
            messages[stored.key] = row.message
            keys[stored.id] = stored.key
        if row.node_type == NodeType.SYSTEM:
            system = row
        call = calls.get(row.trace_id)
        if call is not None and row.message is not None:
            edited = {body.key: body for body in call.bodies}
            shown = [shown.shown_as or keys[shown.message_id] for shown in call.shown]
            sent = [
                (key, messages.get(key) or edited.get(key) or store.message(key)) for key in shown
            ]
            prompt = system.message if system and system.phase == row.phase else None
            whole = [*([(prompt.key, prompt)] if prompt else []), *born]
            yield _Call(row, call.model, call.tools, sent, whole, call.full_tokens)
        if row.node_type in BORN and row.message is not None:
            born.append((row.message.key, row.message))


def _weighed_tools(counter: FamilyCounter, tools: Sequence[Mapping[str, Any]]) -> tuple[str, int]:
    specs = [ToolSpec(**tool["function"]) for tool in tools]
    return "tools:" + canonical_json(list(tools)), counter.tools(specs) + counter.opening
