"""What a session's phases and tasks sent and cost, beside what a snowball would have.

A call of a hosted model cost what its reported usage cost; the record has it. A call of
a model that costs nothing is told at the prices of a hosted one. Two bills are made alike by our
count, at the prices of the model and with its prompt cache (`shares.SharedStream`): of the
requests as they were sent, and of those a plain snowball would have sent. What a snowball would
have cost is so many times what was billed as the second is of the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from windlass.history.base import NodeType, Row, Store, StoredRow
from windlass.history.decisions import Evaluation, Summary, ValidatorAsked
from windlass.history.row_details import ToolResult
from windlass.ledger.charges import CALLS, Charge, charge_of, charges_of
from windlass.report.account import Account, AccountTree, CallCost, told_calls
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

    def add(self, charge: Charge, calls: int) -> None:
        """Count the charge of a call in, or of what was asked beside calls (`calls`: 0)."""
        is_priced = self.calls > self.unpriced or bool(self.dollars)
        self.calls += calls
        self.tokens_in += charge.tokens_in
        self.tokens_cached += charge.tokens_cached
        self.tokens_out += charge.tokens_out
        self.unpriced += charge.dollars is None
        if charge.dollars is not None:
            self.dollars = (self.dollars or 0.0) + charge.dollars
        elif not is_priced:
            self.dollars = None


@dataclass(frozen=True, slots=True)
class SessionCost:
    """A session's phases in order, and their sum.

    `priced_as` tells of each model that ran at whose prices it is told: its own, where it
    is hosted. `billed`: whether any of it was really paid for. `windows` is what its windows
    `saved`, `spent` on models and netted in US dollars, beside the same calls without windows
    (empty: none had a price, or the session has not ended). `status` and `reason` say how it
    ended or stands (one of `STATES`). `is_everything`: each call was sent everything, so
    that there is nothing beside the bill.
    """

    phases: tuple[PhaseCost, ...]
    total: PhaseCost
    priced_as: Mapping[str, str]
    billed: bool
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
    windows = dict(whole.windows or child.windows)
    if whole.windows and child.windows:
        windows |= {key: whole.windows[key] + child.windows[key] for key in _ADDED}
    return replace(
        whole,
        phases=tuple(lines),
        total=total,
        priced_as={**whole.priced_as, **child.priced_as},
        billed=whole.billed or child.billed,
        windows=windows,
        is_everything=whole.is_everything and child.is_everything,
    )


def _own_cost(account: Account) -> SessionCost:
    """The same without its sub-cascades."""
    record = account.record
    phases: dict[str, PhaseCost] = {}
    total = PhaseCost("all phases")
    lines = [PhaseCost.of(call) for call in account.costs]
    for row in summaries(record.rows):
        charge = charge_of(row, account.price_as)
        lines.append(
            PhaseCost(
                record.line(row),
                tokens_in=charge.tokens_in,
                tokens_cached=charge.tokens_cached,
                tokens_out=charge.tokens_out,
                dollars=charge.dollars,
                simulated_dollars=charge.dollars,
                snowball_dollars=0.0,
                unpriced=int(charge.dollars is None),
            )
        )
    for line in lines:
        phases.setdefault(line.phase, PhaseCost(line.phase)).add(line)
        total.add(line)
    outcomes = record.store.outcomes(record.session_id)
    ended = [outcome for outcome in outcomes if outcome.phase is None]
    savings = ended[-1].details.windows if ended else None
    stands = record.store.session_status(record.session_id)
    return SessionCost(
        tuple(phases.values()),
        total,
        account.names,
        billed=not all(account.free.values()),
        windows={} if savings is None else asdict(savings),
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
    for row, charge in charges_of(store, [session_id], price_as, told_calls(store, price_as)):
        name = without_numbers(row["phase_name"] or "-")
        line = lines.setdefault(name, TaskCost(name))
        is_call = row["node_type"] in CALLS
        new = is_call and begun.get(name) != row["phase_name"]
        begun[name] = row["phase_name"] if is_call else begun.get(name, "")
        for each in (line, total):
            each.runs += new
            each.add(charge, calls=int(is_call))
    return list(lines.values()), total


def summaries(rows: Iterable[StoredRow]) -> Iterator[Row]:
    """What models were asked beside a phase's calls.

    That are texts for old turns, what to choose, which sounding is the best, verdicts, and searches
    of the web by tools.
    """
    for stored in rows:
        row = stored.row
        if row.model is None:
            continue
        judged = Evaluation.read(row) or ValidatorAsked.read(row)
        asked = judged is not None or row.node_type == NodeType.CONTEXT_SELECTION
        told = Summary.read(row) is not None or ToolResult.read(row) is not None
        if told or (asked and row.tokens_in is not None):
            yield row


def _sum(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other
