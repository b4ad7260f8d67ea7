"""What a session's phases and tasks sent and cost, beside what a snowball would have.

A call of a hosted model cost what its reported usage cost; the record has it. A call of
a model that costs nothing is told at the prices of a hosted one. Beside either stand two
simulated bills, made alike: the requests as they were sent, and the requests a plain
snowball would have sent at the same calls, each at the prices of its model and with that
model's prompt cache (`meter.MeteredStream`), counted by that model's own counter.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import repeat
from typing import Any, Final

from windlass.caching.meter import MeteredStream, Weighed
from windlass.caching.rates import (
    cost,
    input_dollars,
    is_local,
    output_dollars,
    priced_as,
    prices_of,
    rate,
)
from windlass.history.base import (
    BORN,
    CONTINUES,
    EVALUATION,
    SAVINGS,
    SOUNDING,
    SOUNDINGS,
    NodeType,
    Row,
    SessionFilter,
    ShownMessage,
    Store,
    StoredRow,
    continued,
)
from windlass.messages import Message, ToolSpec, canonical_json
from windlass.report.show import without_numbers
from windlass.tokens import FamilyCounter


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
    (empty: none had a price, or the session has not ended). `status` and `reason` say how it
    ended (`running`: it has not, or was killed).
    """

    phases: tuple[PhaseCost, ...]
    total: PhaseCost
    priced_as: Mapping[str, str]
    billed: bool
    search: SearchCost | None = None
    windows: Mapping[str, Any] = field(default_factory=dict[str, Any])
    status: str = "running"
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class _Call:
    """One call: its reply, what it sent, and what a snowball would have.

    That is the system prompt, and the first `born` messages of those `said` in the session: to a
    sounding nothing is said in the others.
    """

    row: Row
    model: str
    tools: Sequence[Mapping[str, Any]]
    shown: Sequence[ShownMessage]
    prompt: Message | None
    said: Sequence[Message]
    born: int
    full_tokens: int

    @property
    def free(self) -> bool:
        """Whether it cost nothing because the model is not sold, rather than sold for nothing."""
        return self.row.cost == 0 and (is_local(self.model) or rate(self.model) is None)


_ADDED: Final = ("calls", "saved", "spent", "net")
"""What is added up of windows."""


def session_cost(store: Store, session_id: str, price_as: str) -> SessionCost:
    """What each phase of a session cost; models that cost nothing at the prices of `price_as`.

    Those of its sub-cascades stand behind the phase that ran them, as `PHASE > CASCADE > PHASE`,
    and those of soundings of the whole cascade at the end, as `sounding 0 > PHASE`.
    Raises UsageError for an unknown session.
    """
    whole = _own_cost(store, session_id, price_as)
    for info in store.sessions(SessionFilter(under=(session_id,)))[::-1]:
        child = session_cost(store, info.session_id, price_as)
        above = f"{info.parent_phase} > {info.cascade_id}"
        if info.sounding_index is not None:
            above = f"sounding {info.sounding_index}"
        whole = _with_child(whole, f"{above} > ", child)
    return whole


def _with_child(whole: SessionCost, prefix: str, child: SessionCost) -> SessionCost:
    """The cost of a session with that of a sub-cascade, whose lines get the prefix."""
    lines, phase = list(whole.phases), prefix.partition(" > ")[0]
    of_phase = [at for at, line in enumerate(lines) if line.phase.split(" > ")[0] == phase]
    at = of_phase[-1] + 1 if of_phase else len(lines)
    lines[at:at] = [replace(line, phase=prefix + line.phase) for line in child.phases]
    total, more = whole.total, child.total
    total = PhaseCost(
        total.phase,
        total.calls + more.calls,
        total.tokens_in + more.tokens_in,
        total.tokens_cached + more.tokens_cached,
        total.tokens_out + more.tokens_out,
        total.snowball + more.snowball,
        _sum(total.dollars, more.dollars),
        _sum(total.simulated_dollars, more.simulated_dollars),
        _sum(total.snowball_dollars, more.snowball_dollars),
    )
    searches = [each.search for each in (whole, child) if each.search is not None]
    windows = dict(whole.windows or child.windows)
    if whole.windows and child.windows:
        windows |= {key: whole.windows[key] + child.windows[key] for key in _ADDED}
    return replace(
        whole,
        phases=tuple(lines),
        total=total,
        priced_as={**whole.priced_as, **child.priced_as},
        billed=whole.billed or child.billed,
        search=_searches_together(searches),
        windows=windows,
    )


def _searches_together(searches: Sequence[SearchCost]) -> SearchCost | None:
    if len(searches) < 2:  # noqa: PLR2004 - one, or none
        return searches[0] if searches else None
    one, other = searches
    models = [*one.model.split(", "), *other.model.split(", ")]
    return SearchCost(
        ", ".join(dict.fromkeys(models)),
        one.searches + other.searches,
        one.tokens_in + other.tokens_in,
        one.tokens_out + other.tokens_out,
        _sum(one.dollars, other.dollars),
    )


def _own_cost(store: Store, session_id: str, price_as: str) -> SessionCost:
    """The same without its sub-cascades."""
    record = _Record(store, session_id)
    calls = list(record.calls())
    streams: dict[str, list[_Call]] = defaultdict(list)  # calls of one model share a cache
    for call in calls:
        streams[call.model].append(call)
    free = {model: all(call.free for call in stream) for model, stream in streams.items()}
    names = {model: priced_as(model, price_as, free=free[model]) for model in streams}
    bills = {
        model: iter(_bill(record, stream, names[model], free=free[model]))
        for model, stream in streams.items()
    }
    phases: dict[str, PhaseCost] = {}
    total = PhaseCost("all phases")
    for call in calls:
        simulated, snowball = next(bills[call.model])
        paid = simulated if free[call.model] else call.row.cost
        name = record.line(call.row)
        for line in (phases.setdefault(name, PhaseCost(name)), total):
            line.calls += 1
            line.tokens_in += call.row.tokens_in or 0
            line.tokens_cached += call.row.tokens_cached or 0
            line.tokens_out += call.row.tokens_out or 0
            line.snowball += call.full_tokens
            line.dollars = _sum(line.dollars, paid)
            line.simulated_dollars = _sum(line.simulated_dollars, simulated)
            line.snowball_dollars = _sum(line.snowball_dollars, snowball)
    for row in _summaries(record.rows):
        model = str(row.model)
        name, tokens = names.get(model, model), (row.tokens_in or 0, row.tokens_out or 0)
        simulated = cost(name, *tokens)
        paid = simulated if free.get(model) else row.cost
        label = record.line(row)
        for line in (phases.setdefault(label, PhaseCost(label)), total):
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
        search=_searches(record.rows),
        windows=ended[-1].details.get(SAVINGS, {}) if ended else {},
        status=ended[-1].status if ended else "running",
        reason=ended[-1].reason if ended else None,
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
    record: _Record, calls: Sequence[_Call], name: str, *, free: bool
) -> Iterator[tuple[float | None, float | None]]:
    """The simulated dollars of each request at the prices of `name`, and a snowball's."""
    price = rate(name)
    if price is None:
        yield from repeat((None, None), len(calls))
        return
    counter = FamilyCounter(name)
    # What is assumed of a model is told where the model is asked for.
    prices = prices_of(name, warn=lambda _: None)
    sent, snowball = _Sent(record, counter), _Snowball(record, counter)
    simulated, whole = MeteredStream(prices), MeteredStream(prices)
    for call in calls:
        # A cache of a model that did not run was not waited for: nothing expires in it.
        at = None if free else call.row.timestamp
        kept, more = sent.new(call)
        bills = [simulated.bill(kept, more, at)]
        kept, more = snowball.new(call)
        bills.append(whole.bill(kept, more, at))
        out = 0 if call.row.message is None else counter.message(call.row.message)
        if CONTINUES in call.row.metadata:  # it has the text of two replies
            out = min(out, call.row.tokens_out or out)
        mine, snowballs = (
            input_dollars(price, bill.units) + output_dollars(price, bill.tokens, out)
            for bill in bills
        )
        yield mine, snowballs


class _Requests:
    """The requests of a model, each told as what is new against the one before."""

    def __init__(self, record: _Record, counter: FamilyCounter) -> None:
        self._record = record
        self._counter = counter
        self._tools: Sequence[Mapping[str, Any]] | None = None
        self._head = ("", 0)

    def _weighed(self, key: str, message: Message) -> tuple[str, int]:
        return key, self._counter.message(message)

    def _is_same_head(self, tools: Sequence[Mapping[str, Any]]) -> bool:
        """Whether the tools, which stand first, are those of the request before."""
        if self._tools is not None and (tools is self._tools or tools == self._tools):
            return True
        self._tools, self._head = tools, _weighed_tools(self._counter, tools)
        return False


class _Sent(_Requests):
    """What was sent."""

    _shown: Sequence[ShownMessage] = ()

    def new(self, call: _Call) -> tuple[int, Weighed]:
        """How many pieces of the last request stand, and the others."""
        same = 0
        if has_same_head := self._is_same_head(call.tools):
            pairs = zip(call.shown, self._shown, strict=False)
            differing = (at for at, (now, was) in enumerate(pairs) if now is not was and now != was)
            same = next(differing, min(len(call.shown), len(self._shown)))
        self._shown = call.shown
        pieces = [self._weighed(*self._record.sent(shown)) for shown in call.shown[same:]]
        return (1 + same, pieces) if has_same_head else (0, [self._head, *pieces])


class _Snowball(_Requests):
    """What a snowball would have sent."""

    _prompt: Message | None = None
    _born = 0
    _said: Sequence[Message] = ()

    def new(self, call: _Call) -> tuple[int, Weighed]:
        """How many pieces of the last request stand, and the others."""
        goes_on = self._is_same_head(call.tools) and call.prompt == self._prompt
        goes_on = goes_on and call.said is self._said
        prompt = [] if call.prompt is None else [call.prompt]
        begin = self._born if goes_on else 0
        pieces = [self._weighed(message.key, message) for message in call.said[begin : call.born]]
        self._prompt, self._born, self._said = call.prompt, call.born, call.said
        if goes_on:
            return 1 + len(prompt) + begin, pieces
        return 0, [self._head, *(self._weighed(each.key, each) for each in prompt), *pieces]


def _summaries(rows: Iterable[StoredRow]) -> Iterator[Row]:
    """What models were asked beside a phase's calls.

    That are texts for old turns, what to choose, and which sounding is the best.
    """
    for stored in rows:
        row = stored.row
        kind = row.metadata.get("kind") if row.node_type == NodeType.DECISION else None
        summary = kind == "summary" or (kind == EVALUATION and row.tokens_in is not None)
        chose = row.node_type == NodeType.CONTEXT_SELECTION and row.tokens_in is not None
        if summary or chose:
            yield row


def _searches(stored_rows: Iterable[StoredRow]) -> SearchCost | None:
    rows = [
        stored.row
        for stored in stored_rows
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


class _Record:
    """A session, read once: its rows, its messages by key, and those said in it in order."""

    def __init__(self, store: Store, session_id: str) -> None:
        store.start(session_id)  # an unknown session is told here
        self._store = store
        self._calls = {call.trace_id: call for call in store.calls(session_id)}
        self.rows = list(store.rows(session_id))
        self._refined = {
            (stored.row.phase, stored.row.sounding_index)
            for stored in self.rows
            if stored.row.metadata.get("kind") == SOUNDING and stored.row.metadata["round"]
        }
        self._keys: dict[str, str] = {}
        self._messages = {body.key: body for call in self._calls.values() for body in call.bodies}
        for stored in self.rows:
            message = stored.row.message
            if message is not None and stored.id is not None and stored.key is not None:
                self._messages[stored.key] = message
                self._keys[stored.id] = stored.key

    def calls(self) -> Iterator[_Call]:
        """The session's calls in order."""
        system: Row | None = None
        said: list[Message] = []
        apart: dict[tuple[str | None, int], list[Message]] = {}
        replaced = continued(self.rows)
        for stored in self.rows:
            row, index = stored.row, stored.row.sounding_index
            if row.node_type == NodeType.SYSTEM:
                system = row
            if index is not None and (row.phase, index) not in apart:
                apart[row.phase, index] = said.copy()
            call = self._calls.get(row.trace_id)
            if call is not None and row.message is not None:
                prompt = system.message if system and system.phase == row.phase else None
                now = said if index is None else apart[row.phase, index]
                shown = call.shown
                yield _Call(
                    row, call.model, call.tools, shown, prompt, now, len(now), call.full_tokens
                )
            is_said = row.node_type in BORN and stored.id not in replaced
            if is_said and row.message is not None:
                (said if index is None else apart[row.phase, index]).append(row.message)
            if row.node_type == NodeType.DECISION and row.metadata.get("kind") == SOUNDINGS:
                said = apart.get((row.phase, row.metadata.get("winner", -1)), said)

    def line(self, row: Row) -> str:
        """The line that a row counts in: soundings, refinements and evaluations stand apart."""
        name = row.phase or "-"
        if row.sounding_index is not None:
            refined = (row.phase, row.sounding_index) in self._refined
            return f"{name}, {'reforge' if refined else 'soundings'}"
        return f"{name}, evaluator" if row.metadata.get("kind") == EVALUATION else name

    def sent(self, shown: ShownMessage) -> tuple[str, Message]:
        """What was sent for an entry of a window, and its key."""
        key = shown.shown_as or self._keys[shown.message_id]
        message = self._messages.get(key)
        if message is None:
            message = self._messages[key] = self._store.message(key)
        return key, message


def _weighed_tools(counter: FamilyCounter, tools: Sequence[Mapping[str, Any]]) -> tuple[str, int]:
    specs = [ToolSpec(**tool["function"]) for tool in tools]
    return "tools:" + canonical_json(list(tools)), counter.tools(specs) + counter.opening
