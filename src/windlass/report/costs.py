"""What a session's phases and tasks sent and cost, beside what a snowball would have.

A call of a hosted model cost what its reported usage cost; the record has it. A call of
a model that costs nothing is told at the prices of a hosted one. Two bills are made alike by our
count, at the prices of the model and with its prompt cache (`shares.SharedStream`): of the
requests as they were sent, and of those a plain snowball would have sent. What a snowball would
have cost is so many times what was billed as the second is of the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from windlass.caching.rates import cost
from windlass.history.base import NodeType, Row, Store, StoredRow
from windlass.history.decisions import Evaluation, Summary, ValidatorAsked
from windlass.history.row_details import ToolResult
from windlass.report.account import Account, AccountTree, CallCost
from windlass.report.call_views import without_numbers

_MONEY: Final = ("dollars", "simulated_dollars", "snowball_dollars")


@dataclass(slots=True)
class PhaseCost:
    """The line of a phase: the sums of its calls, and of the summaries that its windows asked for.

    Tokens in, cached, written and out are those that the provider reported. Money is in US dollars,
    with the output, of what has a price; None: nothing has.
    """

    phase: str
    calls: int = 0
    tokens_in: int = 0
    tokens_cached: int = 0
    tokens_written: int = 0
    tokens_out: int = 0
    snowball: int = 0
    """The input tokens that a snowball would have sent, by the provider's count."""
    dollars: float | None = 0.0
    """What was to pay; of a model that costs nothing, what the hosted one would have billed."""
    simulated_dollars: float | None = 0.0
    """What the requests cost by our count and the rules of the model's cache alone."""
    snowball_dollars: float | None = 0.0
    """What a snowball would have cost."""
    estimated: int = 0
    """Calls whose output was not recorded, and is estimated."""
    unpriced: int = 0
    """Calls without a price, which are in no sum of money."""

    @property
    def fresh(self) -> int:
        """Tokens that were neither read from a cache nor written to one."""
        return max(0, self.tokens_in - self.tokens_cached - self.tokens_written)

    @classmethod
    def of(cls, call: CallCost) -> PhaseCost:
        """The line of one call."""
        return cls(
            call.phase,
            1,
            call.tokens_in,
            call.tokens_cached,
            call.tokens_written,
            call.tokens_out,
            call.snowball,
            call.dollars,
            call.simulated_dollars,
            call.snowball_dollars,
            int(call.estimated),
            int(call.dollars is None),
        )

    def add(self, other: PhaseCost) -> None:
        """Count another line in."""
        is_priced = self.calls > self.unpriced or bool(self.dollars)
        self.calls += other.calls
        self.tokens_in += other.tokens_in
        self.tokens_cached += other.tokens_cached
        self.tokens_written += other.tokens_written
        self.tokens_out += other.tokens_out
        self.snowball += other.snowball
        self.estimated += other.estimated
        if other.dollars is not None:
            none_before = self.dollars is None
            for name in _MONEY:
                amount = getattr(other, name)
                setattr(self, name, amount if none_before else _sum(getattr(self, name), amount))
        elif not is_priced:
            self.dollars = self.simulated_dollars = self.snowball_dollars = None
        self.unpriced += other.unpriced


@dataclass(slots=True)
class TaskCost:
    """The line of a task. Tokens are those that the provider reported."""

    task: str
    runs: int = 0
    """How often the task ran."""
    calls: int = 0
    tokens_in: int = 0
    tokens_cached: int = 0
    tokens_out: int = 0
    dollars: float | None = 0.0
    """What was to pay, in US dollars; of a model that costs nothing, what the hosted one would have
    billed (None: no price is known)."""
    unpriced: int = 0
    """Calls without a price, which are not in `dollars`."""


@dataclass(frozen=True, slots=True)
class SearchCost:
    """What searches of the web took: they are no calls of a phase's model."""

    model: str
    """`provider/model`; several with commas between."""
    searches: int
    """How often the web was asked."""
    tokens_in: int
    tokens_out: int
    dollars: float | None
    """US dollars at that model's own price (None: no price is known)."""


@dataclass(frozen=True, slots=True)
class SessionCost:
    """A session's phases in order, and their sum.

    `priced_as` tells of each model that ran at whose prices it is told: its own, where it
    is hosted. `billed`: whether any of it was really paid for. `search` are its searches of
    the web, which stand in no phase's line (None: none were made). `windows` is what its windows
    `saved`, `spent` on models and netted in US dollars, beside the same calls without windows
    (empty: none had a price, or the session has not ended). `status` and `reason` say how it
    ended or stands (one of `STATES`). `is_everything`: each call was sent everything, so
    that there is nothing beside the bill.
    """

    phases: tuple[PhaseCost, ...]
    total: PhaseCost
    priced_as: Mapping[str, str]
    billed: bool
    search: SearchCost | None = None
    windows: Mapping[str, Any] = field(default_factory=dict[str, Any])
    status: str = "running"
    reason: str | None = None
    is_everything: bool = False


_ADDED: Final = ("calls", "saved", "spent", "net")
"""What is added up of windows."""


def session_cost(store: Store, session_id: str, price_as: str) -> SessionCost:
    """What each phase of a session cost; models that cost nothing at the prices of `price_as`.

    Those of its sub-cascades stand behind the phase that ran them, as `PHASE > CASCADE > PHASE`,
    and those of soundings of the whole cascade at the end, as `sounding 0 > PHASE`.
    Raises UsageError for an unknown session.
    """
    return cost_of(AccountTree.read(store, session_id, price_as))


def cost_of(tree: AccountTree) -> SessionCost:
    """The same of accounts that were read."""
    whole = _own_cost(tree.account)
    for below in tree.under:
        whole = _with_child(whole, below.prefix, cost_of(below))
    return whole


def _with_child(whole: SessionCost, prefix: str, child: SessionCost) -> SessionCost:
    """The cost of a session with that of a sub-cascade, whose lines get the prefix."""
    lines, phase = list(whole.phases), prefix.partition(" > ")[0]
    of_phase = [at for at, line in enumerate(lines) if line.phase.split(" > ")[0] == phase]
    at = of_phase[-1] + 1 if of_phase else len(lines)
    lines[at:at] = [replace(line, phase=prefix + line.phase) for line in child.phases]
    total, more = whole.total, child.total
    total = replace(total)
    total.add(more)
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
        is_everything=whole.is_everything and child.is_everything,
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


def _own_cost(account: Account) -> SessionCost:
    """The same without its sub-cascades."""
    record, free, names = account.record, account.free, account.names
    phases: dict[str, PhaseCost] = {}
    total = PhaseCost("all phases")
    lines = [PhaseCost.of(call) for call in account.costs]
    for row in summaries(record.rows):
        model = str(row.model)
        line = PhaseCost(record.line(row), 0, row.tokens_in or 0, tokens_out=row.tokens_out or 0)
        line.simulated_dollars = cost(names.get(model, model), line.tokens_in, line.tokens_out)
        line.dollars = line.simulated_dollars if free.get(model) else row.cost
        line.unpriced = int(line.dollars is None)
        lines.append(line)
    for line in lines:
        phases.setdefault(line.phase, PhaseCost(line.phase)).add(line)
        total.add(line)
    outcomes = record.store.outcomes(record.session_id)
    ended = [outcome for outcome in outcomes if outcome.phase is None]
    stands = record.store.session_status(record.session_id)
    return SessionCost(
        tuple(phases.values()),
        total,
        names,
        billed=not all(free.values()),
        search=_searches(record.rows),
        windows=ended[-1].details.get("windows", {}) if ended else {},
        status=stands.status,
        reason=stands.reason,
        is_everything=all(call.full_tokens == call.sent_tokens for call in account.calls),
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
            each.unpriced += price is None
            known = None if each.unpriced == each.calls else each.dollars or 0.0
            each.dollars = known if known is None or price is None else known + price
    return list(lines.values()), total


def summaries(rows: Iterable[StoredRow]) -> Iterator[Row]:
    """What models were asked beside a phase's calls.

    That are texts for old turns, what to choose, which sounding is the best, and verdicts.
    """
    for stored in rows:
        row = stored.row
        judged = Evaluation.read(row) or ValidatorAsked.read(row)
        asked = judged is not None or row.node_type == NodeType.CONTEXT_SELECTION
        if Summary.read(row) is not None or (asked and row.tokens_in is not None):
            yield row


def _searches(stored_rows: Iterable[StoredRow]) -> SearchCost | None:
    rows = [
        (stored.row, result)
        for stored in stored_rows
        if stored.row.model is not None and (result := ToolResult.read(stored.row)) is not None
    ]
    if not rows:
        return None
    costs = [row.cost for row, _ in rows]
    return SearchCost(
        model=", ".join(dict.fromkeys(str(row.model) for row, _ in rows)),
        searches=sum(result.searches for _, result in rows),
        tokens_in=sum(row.tokens_in or 0 for row, _ in rows),
        tokens_out=sum(row.tokens_out or 0 for row, _ in rows),
        dollars=None if None in costs else sum(cost for cost in costs if cost is not None),
    )


def _sum(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other
