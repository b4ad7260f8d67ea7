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
from windlass.ledger.charges import Charge, charge_of, charges_of, sums_by, usage_of
from windlass.report.account import Account, AccountTree, ComparedCharge, free_calls
from windlass.report.calls import without_numbers


@dataclass(slots=True)
class PhaseCost(ComparedCharge):
    """The line of a phase: its calls, and the summaries that its windows asked for."""

    phase: str


@dataclass(slots=True)
class TaskCost(Charge):
    """The line of a task."""

    task: str
    runs: int = 0
    """How often the task ran."""


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
    """Say what each phase of a session cost; models that cost nothing at the prices of `price_as`.

    Those of its sub-cascades stand behind the phase that ran them, as `PHASE > CASCADE > PHASE`,
    and those of soundings of the whole cascade at the end, as `sounding 0 > PHASE`.
    Raises UsageError for an unknown session.
    """
    return cost_of(AccountTree.read(store, session_id, price_as))


def cost_of(tree: AccountTree) -> SessionCost:
    """Return the same of accounts that were read."""
    whole = _own_cost(tree.account)
    for below in tree.under:
        whole = _with_child(whole, below.prefix, cost_of(below))
    return whole


def _with_child(whole: SessionCost, prefix: str, child: SessionCost) -> SessionCost:
    """Return the cost of a session with that of a sub-cascade, whose lines get the prefix."""
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
    """Return the same without its sub-cascades."""
    record = account.record
    charges: list[tuple[str, Charge]] = [(call.phase, call) for call in account.costs]
    charges += [(record.line(row), charge) for row, charge in asked_beside(account)]
    phases = sums_by(charges, PhaseCost)
    total = PhaseCost("all phases")
    for line in phases.values():
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
        is_everything=all(call.snowball_tokens == call.sent_tokens for call in account.calls),
    )


def task_costs(store: Store, session_id: str, price_as: str) -> tuple[list[TaskCost], TaskCost]:
    """Return each task of a session in the order of its first call, and the sum of all.

    Inner tasks and groups of a reduction are one line. It goes over the rows once, so that a reduce
    of ten thousand inputs takes no longer than reading it.
    """
    lines: dict[str, TaskCost] = {}
    total = TaskCost("all tasks")
    begun: dict[str, str] = {}
    for row, charge in charges_of(store, [session_id], price_as, free_calls(store, price_as)):
        name = without_numbers(row["phase_name"] or "-")
        line = lines.setdefault(name, TaskCost(name))
        new = charge.calls and begun.get(name) != row["phase_name"]
        begun[name] = row["phase_name"] if charge.calls else begun.get(name, "")
        for each in (line, total):
            each.runs += bool(new)
            each.add(charge)
    return list(lines.values()), total


def asked_beside(account: Account) -> Iterator[tuple[Row, ComparedCharge]]:
    """What models were asked beside the calls of a session, which sending everything would not."""
    for row in _summaries(account.record.rows):
        charge = charge_of(str(row.model), row.cost, usage_of(row), account.price_as, is_call=False)
        yield row, ComparedCharge(**asdict(charge), simulated_dollars=charge.dollars)


def _summaries(rows: Iterable[StoredRow]) -> Iterator[Row]:
    """Yield what models were asked beside a phase's calls.

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
