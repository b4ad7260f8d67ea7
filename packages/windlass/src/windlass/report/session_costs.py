"""What a session cost, call by call and message by message: the values behind `windlass report`.

`costs.py` has its phases; here stand how they grew, what the calls' contexts were made of, the
messages that were paid for most, and what was saved by not sending some of them.

What a session's journal adds to its bill: calls that never came back, and inherited ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final

from windlass.history.base import NodeType, Store, StoredRow
from windlass.history.decisions import ThinkingLeftOut, text_of
from windlass.history.row_details import (
    CallAnswered,
    CallFailed,
    CallSent,
    ReplyDetails,
    details_of,
)
from windlass.history.step import Step
from windlass.report._findings import Finding, findings_of
from windlass.report.account import Account, AccountTree, CallCharge
from windlass.report.contents import (
    ContextReport,
    MessageCost,
    ToolCost,
    call_report_of,
    costs_by_tool,
    dearest_messages,
)
from windlass.report.costs import SessionCost, asked_beside, cost_of
from windlass.report.provider_edits import session_sentences


@dataclass(frozen=True, slots=True)
class UnbilledCalls:
    """What a session's bill does not tell, with the sessions under it.

    `unanswered` calls were sent and never answered: they may have been billed. `inherited` calls
    of so many input tokens were paid for in the session `origin` that it was forked from.
    """

    unanswered: int = 0
    inherited: int = 0
    inherited_tokens: int = 0
    origin: str = ""


def unbilled(tree: AccountTree) -> UnbilledCalls:
    """Return what the bill of a session does not tell."""
    accounts = [account for _, account in tree.walk()]
    replies = [call.reply_details for account in accounts for call in account.calls]
    inherited = [reply.inherited for reply in replies if reply.inherited is not None]
    return UnbilledCalls(
        sum(_unanswered(account.record.rows) for account in accounts),
        len(inherited),
        sum(each.usage[0] for each in inherited),
        inherited[0].session if inherited else "",
    )


def _unanswered(rows: Iterable[StoredRow]) -> int:
    """Return the calls that were sent and never came back."""
    open_steps: Counter[Step] = Counter()
    for stored in rows:
        match details_of(stored.row):
            case CallSent(step=step):
                open_steps[step] += 1
            case CallAnswered(step=step) | CallFailed(step=step):
                open_steps[step] -= 1
            case ReplyDetails(step=Step() as step, inherited=None):
                open_steps[step] -= 1
            case _:
                pass
    return sum(open_steps.values())


@dataclass(frozen=True, slots=True)
class PhaseGrowth:
    """How the input of a phase's calls grew, in tokens as the provider reported them.

    `agent` are the calls that the phase's own words asked for, `follow_ups` those after tool
    results. `delta` is the last call less the first (None: there is only one).
    """

    phase: str
    agent: tuple[int, ...]
    follow_ups: tuple[int, ...]
    delta: int | None


@dataclass(frozen=True, slots=True)
class Saving:
    """What a kind of edit saved beside a snowball: tokens that were not sent, US dollars.

    `kind` is an edit's name, or what else makes the requests differ from a snowball's. Negative
    where it cost more.
    """

    kind: str
    messages: int
    tokens: int
    dollars: float


@dataclass(frozen=True, slots=True)
class SessionReport:
    """A session with all sessions under it."""

    session_id: str
    costs: SessionCost
    unbilled: UnbilledCalls
    """What the bill does not tell."""
    growth: tuple[PhaseGrowth, ...]
    dearest: ContextReport | None
    """The call that cost most (None: none was answered)."""
    messages: tuple[MessageCost, ...]
    """The messages that were paid for most."""
    tools: tuple[ToolCost, ...]
    """What the results of each tool were paid for."""
    savings: tuple[Saving, ...]
    """Against a snowball, adding up to the whole difference; empty where nothing else was sent."""
    findings: tuple[Finding, ...]
    thinking: tuple[str, ...] = ()
    """Whose thinking was left out, and why, in sentences."""
    by_provider: tuple[str, ...] = ()
    """What providers did to the contexts of calls, in sentences."""
    missing: int = 0
    """Tokens in front of each request of which an imported session has no record."""
    calls: tuple[CallCharge, ...] = field(default=(), repr=False)


def session_report(store: Store, session_id: str, price_as: str) -> SessionReport:
    """Return what a session cost; models that cost nothing at the prices of `price_as`.

    Raises UsageError for an unknown session.
    """
    return report_of(AccountTree.read(store, session_id, price_as))


def report_of(tree: AccountTree) -> SessionReport:
    """Return the same of accounts that were read."""
    accounts = list(tree.walk())
    costs = cost_of(tree)
    calls = tuple(tree.calls())
    dearest = max(calls, key=_weight, default=None)
    by_session = {account.record.session_id: (prefix, account) for prefix, account in accounts}
    missing = max(account.missing for _, account in accounts)
    return SessionReport(
        session_id=tree.account.record.session_id,
        costs=costs,
        unbilled=unbilled(tree),
        growth=tuple(_growth(calls)),
        dearest=None
        if dearest is None
        else call_report_of(*by_session[dearest.session_id], dearest),
        messages=tuple(dearest_messages(accounts)),
        tools=tuple(costs_by_tool(accounts)),
        savings=_savings(accounts),
        findings=tuple(findings_of(accounts)),
        thinking=tuple(_thinking(accounts)),
        by_provider=tuple(
            session_sentences(
                call.reply_details.provider_edits
                for _, account in accounts
                for call in account.calls
            )
        ),
        missing=missing,
        calls=calls,
    )


def _thinking(accounts: Iterable[tuple[str, Account]]) -> Iterator[str]:
    for prefix, account in accounts:
        for stored in account.record.rows:
            if ThinkingLeftOut.read(stored.row) is not None:
                yield f"{prefix}{text_of(stored.row)}"


def _weight(call: CallCharge) -> tuple[float, int]:
    return call.dollars or 0.0, call.tokens_in or call.sent_tokens


def _growth(calls: Sequence[CallCharge]) -> Iterator[PhaseGrowth]:
    for phase in dict.fromkeys(call.phase for call in calls):
        own = [call for call in calls if call.phase == phase]
        follow_ups = tuple(call.tokens_in for call in own if call.node_type == NodeType.FOLLOW_UP)
        yield PhaseGrowth(
            phase,
            tuple(call.tokens_in for call in own if call.node_type != NodeType.FOLLOW_UP),
            follow_ups,
            own[-1].tokens_in - own[0].tokens_in if len(own) > 1 else None,
        )


# ---- savings ------------------------------------------------------------------------

NOT_SHOWN: Final = "not shown"
"""Messages of other phases that a phase's context leaves out."""
BROUGHT_IN: Final = "brought in"
"""What is sent and was not said: sources, summaries, blocks."""
AS_SAID: Final = "sent as said"
"""Messages as they were said: what is left out before them changes what the cache holds of them."""
ASKED: Final = "asked of models"
"""What models were asked for windows and choices."""


def _savings(accounts: Iterable[tuple[str, Account]]) -> tuple[Saving, ...]:
    sums: dict[str, list[float]] = {}

    def add(kind: str, messages: int, tokens: int, dollars: float) -> None:
        total = sums.setdefault(kind, [0, 0, 0.0])
        for at, amount in enumerate((messages, tokens, dollars)):
            total[at] += amount

    for _, account in accounts:
        record, sent, snowball = account.record, account.sent, account.snowball
        edits = record.store.edits(record.session_id)
        because = {edit.message_id: edit.because for edit in edits} | account.edited
        for name in {**snowball.messages, **sent.messages}:
            mine, whole = sent.paid(name), snowball.paid(name)
            tokens, dollars = whole.tokens - mine.tokens, whole.paid - mine.paid
            if name in because and tokens:
                add(because[name], 1, tokens, dollars)
            elif name not in snowball.messages or whole.calls < mine.calls:
                add(BROUGHT_IN, 1, tokens, dollars)
            elif mine.calls < whole.calls:
                add(NOT_SHOWN, 1, tokens, dollars)
            elif abs(dollars) > _NOTHING:
                add(AS_SAID, 1, tokens, dollars)
        for _, charge in asked_beside(account):
            add(ASKED, 1, -charge.tokens_in, -(charge.dollars or 0.0))
    savings = (Saving(kind, int(n), int(tokens), usd) for kind, (n, tokens, usd) in sums.items())
    return tuple(sorted(savings, key=attrgetter("dollars"), reverse=True))


_NOTHING: Final = 1e-9
"""US dollars below which two bills are the same."""
