"""What of a session's bill could have been less, in words, with the setting that helps.

Each figure is a difference from what was billed. What windows would save is what `windlass replay`
says of the same calls, with the same range, and nothing is advised that it does not find.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from windlass.caching.rates import cost, many, money, rate
from windlass.history.base import BORN
from windlass.importing.storing import IMPORTED
from windlass.replays.outcomes import Span
from windlass.report._requests import TOOLS, NewPieces, SentRequests
from windlass.report.account import Account, Simulation
from windlass.report.calls import Call, SessionRecord
from windlass.report.contents import what_is
from windlass.text.tokens import FamilyCounter

AUTO: Final = "auto_context"
MINIMAL: Final = "context_strategy: minimal"
WINDOWS: Final = "windows of Windlass (windlass.Context)"
"""What helps in a session that another program ran."""

_MOST: Final = 5
"""Findings that are told."""
_WORTH: Final = 0.01
"""The share of a bill, and the US dollars, from which on it is told that they could be saved."""
_MESSAGES: Final = 3
"""Messages of a session of which a finding is told."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that cost more than it had to. Money is in US dollars."""

    text: str
    """What it is, in a sentence."""
    setting: str
    """What helps."""
    dollars: float
    """What it cost."""
    would_be: float
    """What it would cost with the setting, at least."""
    most: float | None = None
    """What it would cost at most (None: `would_be` is exact)."""

    @property
    def saved(self) -> float:
        """What the setting would save for sure."""
        return self.dollars - (self.would_be if self.most is None else self.most)


def findings_of(accounts: Iterable[tuple[str, Account]]) -> list[Finding]:
    """What could have been less in sessions, what would save most first.

    Accounts come with what stands before the names of their phases.
    """
    listed = list(accounts)
    worth = max(_WORTH, _WORTH * sum(account.billed for _, account in listed))
    found = [
        finding
        for prefix, account in listed
        for finding in _findings(prefix, account)
        if finding.saved >= worth
    ]
    return sorted(found, key=lambda finding: finding.saved, reverse=True)[:_MOST]


def _findings(prefix: str, account: Account) -> Iterator[Finding]:
    yield from _minimal(prefix, account)
    yield from _cache(account)
    if account.record.has_windows:
        yield from _lost(account)
    else:
        yield from _shortened(prefix, account)


def _replayed(account: Account, policy: str) -> Span:
    """The share of everything that a policy comes to on the account's calls."""
    from windlass.replays.named_policies import policies_of
    from windlass.replays.pricing import find_prices
    from windlass.replays.replayable import conversations_of
    from windlass.replays.replaying import ReplayOrder, replay_recording

    record, paid, whole = account.record, [0.0, 0.0], [0.0, 0.0]
    for recording in conversations_of(record.store, record.session_id):
        prices = (find_prices(account.names[recording.model], recording.model),)
        replayed = replay_recording(ReplayOrder(recording, policies_of([policy]), prices, None))
        if isinstance(replayed, str):
            continue
        (outlay,) = replayed.outlays
        for at in (0, 1):
            paid[at] += 0.0 if outlay.dollars is None else outlay.dollars[at]
            whole[at] += 0.0 if outlay.everything_dollars is None else outlay.everything_dollars[at]
    return Span.of(one / of if of else 1.0 for one, of in zip(paid, whole, strict=True))


def _shortened(prefix: str, account: Account) -> Iterator[Finding]:
    """What windows would save: of all calls, and of single messages."""
    from windlass.report._shortened import ShortenedRequests
    from windlass.window.options import Policy

    record, sent, billed = account.record, account.sent, account.billed
    if not any(rate(name) for name in account.names.values()):
        return
    setting = WINDOWS if IMPORTED in record.start.cascade else AUTO
    share = _replayed(account, "default")
    low, high = (billed * one for one in share)
    if high >= billed:
        return
    text = (
        f"the {many(len(account.calls), 'call')} of {prefix.removesuffix(' > ') or 'the session'}"
        f" cost {money(billed)}; with {setting} it would be {in_range(low, high)}"
    )
    yield Finding(text, setting, billed, low, high)
    policy = Policy.of("default")
    shortened = account.simulated(
        lambda record, counter, prices: ShortenedRequests(record, counter, policy, prices)
    )
    saved = {name: paid.dollars - _dollars(shortened, name) for name, paid in sent.paid.items()}
    # The messages share what the whole would save, so that no sum of them is more than that.
    all_saved = sum(saved.values())
    part = min(1.0, (billed - low) / all_saved) if all_saved > 0 else 0.0
    for name in sorted(saved, key=saved.__getitem__, reverse=True)[:_MESSAGES]:
        if name == TOOLS:
            continue
        paid, stored = sent.paid[name], record.by_id[name]
        size = 0 if stored.row.message is None else stored.row.message.chars
        would_be = paid.dollars - part * saved[name]
        text = (
            f"{what_is(stored, record)} in {prefix}{record.line(stored.row)}, {size:,} characters,"
            f" was sent in {many(paid.calls, 'later call')}: {money(paid.dollars)}; with {setting}"
            f" it would be {money(would_be)}"
        )
        yield Finding(text, setting, paid.dollars, would_be)


def in_range(low: float, high: float) -> str:
    """US dollars from the least to the most, for people."""
    one, other = money(low), money(high)
    return one if one == other else f"{one} - {other}"


def _dollars(simulation: Simulation, name: str) -> float:
    paid = simulation.paid.get(name)
    return 0.0 if paid is None else paid.dollars


class _MinimalRequests(SentRequests):
    """What would have been sent if each phase saw of those before it the last one's output."""

    def __init__(self, record: SessionRecord, counter: FamilyCounter) -> None:
        super().__init__(record, counter)
        traces = {stored.row.trace_id: stored.id for stored in record.rows}
        self._output: dict[str, str | None] = {}
        before: str | None = None
        for outcome in record.store.outcomes(record.session_id):
            if outcome.phase is not None:
                self._output.setdefault(outcome.phase, before)
                before = traces.get(outcome.output_trace or "")

    def new(self, call: Call) -> NewPieces:
        """What is new in the request of a call."""
        phase = call.row.phase or ""
        output = self._output.get(phase)
        carried = _carried(self.record, call) - {output}
        shown = tuple(each for each in call.shown if each.message_id not in carried)
        return super().new(replace(call, sent=replace(call.sent, shown=shown)))


def _carried(record: SessionRecord, call: Call) -> set[str | None]:
    """The messages that a call was sent and that were said in other phases."""
    rows = ((shown.message_id, record.by_id[shown.message_id].row) for shown in call.shown)
    phase = call.row.phase
    return {name for name, row in rows if row.phase != phase and row.node_type in BORN}


def _minimal(prefix: str, account: Account) -> Iterator[Finding]:
    """What it cost that phases were sent all that was said before them."""
    record = account.record
    if IMPORTED in record.start.cascade:
        return
    firsts = {call.row.phase: call for call in reversed(account.calls)}
    phases = [phase for phase, call in firsts.items() if _carried(record, call)]
    if not phases:
        return
    minimal = account.simulated(lambda record, counter, _: _MinimalRequests(record, counter))
    billed = account.billed
    would_be = billed * minimal.total / account.sent.total if account.sent.total else 0.0
    names = f"phase {prefix}{phases[0]}" if len(phases) == 1 else f"{len(phases)} phases"
    text = (
        f"{names} had what was said before sent with each call: the session's calls cost"
        f" {money(billed)}; with {MINIMAL}, which hands on the output of the phase"
        f" before, it would be {money(would_be)}"
    )
    yield Finding(text, MINIMAL, billed, would_be)


def _lost(account: Account) -> Iterator[Finding]:
    """What windows cost beside sending everything."""
    sent, everything = account.billed, account.snowball.total
    text = (
        f"windows cost more than they saved: the calls cost {money(sent)}; without {AUTO} it would"
        f" be {money(everything)}"
    )
    yield Finding(text, f"{AUTO}: false", sent, everything)


def _cache(account: Account) -> Iterator[Finding]:
    """What it cost that the provider did not read from its cache what it could hold."""
    paid = would_be = 0.0
    expected = reported = 0
    before: dict[str, int] = {}
    for call in account.costs:
        price = rate(account.names[call.model])
        if account.free[call.model] or price is None or not call.tokens_in:
            continue
        held = min(call.expected, call.tokens_in)
        if account.missing:  # our count of a transcript is rough: the provider's is not
            held = min(held and before.get(call.model, 0), call.tokens_in)
        before[call.model] = call.tokens_in
        if held > call.tokens_cached:
            usage = (call.tokens_in, 0)
            paid += cost(call.model, *usage, call.tokens_cached, call.tokens_written) or 0.0
            written = min(call.tokens_written, call.tokens_in - held)
            would_be += cost(call.model, *usage, held, written) or 0.0
            expected, reported = expected + held, reported + call.tokens_cached
    name = account.record.session_id
    text = (
        f"of {expected:,} tokens that stood in the cache {reported:,} were read from it:"
        f" {money(paid)} for the input of these calls; with all of them it would be"
        f" {money(would_be)} (windlass report {name} --prefix shows where requests part)"
    )
    yield Finding(text, f"windlass report {name} --prefix", paid, would_be)
