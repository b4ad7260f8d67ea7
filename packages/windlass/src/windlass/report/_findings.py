"""What of a session's bill could have been less, in words, with the setting that helps.

Each figure is a difference from what was billed. What windows would save is what `windlass replay`
says of the same calls, with the same range, and nothing is advised that it does not find.

The requests of a session as a policy would have shortened them: windows, made anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from windlass.caching.prices import Prices
from windlass.caching.rates import cost, many, money, rate
from windlass.history.base import BORN
from windlass.history.lanes import Lane
from windlass.importing.storing import IMPORTED
from windlass.ledger.windows import NewSegments
from windlass.replays.outcomes import Span
from windlass.report.account import TOOLS, Account, CallCharge, Requests, SentRequests
from windlass.report.advice import advise
from windlass.report.calls import Call, SessionRecord
from windlass.report.contents import what_is
from windlass.text.tokens import FamilyCounter
from windlass.window.conversation import Conversation
from windlass.window.entries import Entry, Item
from windlass.window.options import Policy
from windlass.window.steps import holds_thinking, planner_of, steps
from windlass.window.window_rules import WindowRules

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
    """Something that cost more than it had to. Money is in US dollars.

    What findings of a session save adds up: each counts on top of those above it.
    """

    text: str
    """What it is, in a sentence."""
    setting: str
    """What helps."""
    dollars: float
    """What it cost, with the settings of those above it."""
    would_be: float
    """What it would cost with this setting as well, at least."""
    most: float | None = None
    """What it would cost at most (None: `would_be` is exact)."""
    parts: tuple[Finding, ...] = ()
    """The messages on which most of it is saved."""

    @property
    def saved(self) -> float:
        """Return what the setting would save for sure."""
        return self.dollars - (self.would_be if self.most is None else self.most)


def findings_of(accounts: Iterable[tuple[str, Account]]) -> list[Finding]:
    """Return what could have been less in sessions, what would save most first.

    Accounts come with what stands before the names of their phases.
    """
    listed = list(accounts)
    worth = max(_WORTH, _WORTH * sum(account.billed for _, account in listed))
    found = [
        finding
        for prefix, account in listed
        for finding in _OnTop(prefix, account, worth).findings()
    ]
    return sorted(found, key=lambda finding: finding.saved, reverse=True)[:_MOST]


@dataclass(frozen=True, slots=True)
class _Remedy:
    """A setting that helps: the share of the session's bill that is left with it alone."""

    setting: str
    left: Span
    say: Callable[[str, str, str], str]
    """Says it: what it cost, the setting with what stands behind it, and what it would cost."""
    of: float = 1.0
    """The share of the bill that it is about."""


class _OnTop:
    """What a session's bill could be less by, remedy by remedy, each on top of those before it."""

    def __init__(self, prefix: str, account: Account, worth: float) -> None:
        self._prefix = prefix
        self._worth = worth
        self._account = account
        self._totals: dict[tuple[bool, bool], float] = {}

    def findings(self) -> Iterator[Finding]:
        """Yield the findings that are worth it, what saves most first."""
        left, before = self._account.billed, list[_Remedy]()
        remedies = sorted(self._remedies(), key=lambda remedy: remedy.left.high)
        for remedy in remedies:
            low, high = (left * share for share in self._share(remedy, before))
            if left - high >= self._worth:
                yield self._finding(remedy, left, Span(low, high), is_first=not before)
                left, before = high, [*before, remedy]

    def _finding(
        self, remedy: _Remedy, dollars: float, would_be: Span, *, is_first: bool
    ) -> Finding:
        is_windows = remedy.setting in (AUTO, WINDOWS)
        saved = dollars - would_be.low
        parts = tuple(self._messages(remedy.setting, saved)) if is_windows and is_first else ()
        beside = dollars * (1 - remedy.of)
        low, high = would_be.low - beside, would_be.high - beside
        cost, also = money(dollars - beside), ""
        if not is_first:
            cost, also = f"{cost} without what those above save", " as well"
        text = remedy.say(cost, f"{remedy.setting}{also}", in_range(low, high))
        return Finding(
            text, remedy.setting, dollars - beside, low, high if is_windows else None, parts
        )

    def _share(self, remedy: _Remedy, before: Sequence[_Remedy]) -> Span:
        """Return the share that a remedy leaves of what those before it left.

        Windows and fewer messages save on the same tokens: what both leave is simulated.
        """
        names = {one.setting for one in before}
        other = MINIMAL if remedy.setting in (AUTO, WINDOWS) else AUTO
        if remedy.setting in (AUTO, MINIMAL) and other in names:
            alone = self._total(minimal=other == MINIMAL, windows=other != MINIMAL)
            both = self._total(minimal=True, windows=True)
            least = both / alone if alone else 1.0
            spread = remedy.left.high / remedy.left.low if remedy.left.low else 1.0
            low = max(least, remedy.left.low)
            return Span(min(1.0, low), min(1.0, low * spread))
        return remedy.left

    def _total(self, *, minimal: bool, windows: bool) -> float:
        """Give the bill of the session's calls by our count under both settings or one of them."""
        key = minimal, windows
        if key not in self._totals:
            self._totals[key] = self._account.simulated(
                lambda record, counter, prices: _requests(
                    record, counter, prices, minimal=minimal, windows=windows
                )
            ).total
        return self._totals[key]

    def _remedies(self) -> Iterator[_Remedy]:
        yield from self._minimal()
        yield from self._cache()
        if self._account.record.has_windows:
            yield from self._lost()
        else:
            yield from self._windows()

    def _minimal(self) -> Iterator[_Remedy]:
        """Yield what it cost that phases were sent all that was said before them."""
        account, record = self._account, self._account.record
        if IMPORTED in record.start.cascade:
            return
        firsts = {call.row.phase: call for call in reversed(account.calls)}
        phases = [phase for phase, call in firsts.items() if _carried(record, call)]
        if phases and (sent := account.sent.total):
            left = self._total(minimal=True, windows=False) / sent
            names = f"phase {self._prefix}{phases[0]}"
            names = names if len(phases) == 1 else f"{len(phases)} phases"
            yield _Remedy(
                MINIMAL,
                Span(left, left),
                lambda cost, setting, would_be: (
                    f"{names} had what was said before sent with each call: the session's calls"
                    f" cost {cost}; with {setting}, which hands on the output of the phase before,"
                    f" it would be {would_be}"
                ),
            )

    def _lost(self) -> Iterator[_Remedy]:
        """Yield what windows cost beside sending everything."""
        if billed := self._account.billed:
            left = self._account.snowball.total / billed
            yield _Remedy(
                f"{AUTO}: false",
                Span(left, left),
                lambda cost, _, would_be: (
                    f"windows cost more than they saved: the calls cost {cost}; without {AUTO} it"
                    f" would be {would_be}"
                ),
            )

    def _cache(self) -> Iterator[_Remedy]:
        """Yield what it cost that the provider did not read from its cache what it could hold."""
        account, paid, held_paid = self._account, 0.0, 0.0
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
                written = min(call.tokens_written, call.tokens_in - held)
                whole = _listed(call, call.tokens_cached, call.tokens_written, call.tokens_out)
                factor = (call.dollars or 0.0) / whole if whole else 0.0
                paid += factor * _listed(call, call.tokens_cached, call.tokens_written)
                held_paid += factor * _listed(call, held, written)
                expected, reported = expected + held, reported + call.tokens_cached
        if paid > held_paid:
            left = 1 - (paid - held_paid) / account.billed
            where = f"windlass report {account.record.session_id} --prefix"
            yield _Remedy(
                where,
                Span(left, left),
                lambda cost, _, would_be: (
                    f"of {expected:,} tokens that stood in the cache {reported:,} were read from"
                    f" it: {cost} for the input of these calls; with all of them it would be"
                    f" {would_be} ({where} shows where requests part)"
                ),
                paid / account.billed,
            )

    def _windows(self) -> Iterator[_Remedy]:
        """Yield what windows would save."""
        account = self._account
        if not any(rate(name) for name in account.names.values()):
            return
        setting = WINDOWS if IMPORTED in account.record.start.cascade else AUTO
        left = _replayed(account, "default")
        if left.high < 1:
            calls = many(len(account.calls), "call")
            of = self._prefix.removesuffix(" > ") or "the session"
            yield _Remedy(
                setting,
                left,
                lambda cost, setting, would_be: (
                    f"the {calls} of {of} cost {cost}; with {setting} it would be {would_be}"
                ),
            )

    def _messages(self, setting: str, most: float) -> Iterator[Finding]:
        """Yield what windows would save on single messages, together `most` US dollars at most.

        Of messages that are to be kept none is told.
        """
        account, record = self._account, self._account.record
        shortened = account.simulated(
            lambda record, counter, prices: _requests(
                record, counter, prices, minimal=False, windows=True
            )
        )
        sent = account.sent.messages
        saved = {name: share.paid - shortened.paid(name).paid for name, share in sent.items()}
        # The messages share what the whole would save, so that no sum of them is more than that.
        all_saved = sum(saved.values())
        part = min(1.0, most / all_saved) if all_saved > 0 else 0.0
        kept = advise(record, _last_name(account)).kept
        dearest = sorted(saved.keys() - kept - {TOOLS}, key=lambda name: (-saved[name], name))
        for name in dearest[:_MESSAGES]:
            share, stored = sent[name], record.by_id[name]
            size = 0 if stored.row.message is None else stored.row.message.chars
            would_be = share.paid - part * saved[name]
            if share.paid - would_be < self._worth:
                return
            text = (
                f"{what_is(stored, record)} in {self._prefix}{record.line(stored.row)}, {size:,}"
                f" characters, was sent in {many(share.calls, 'later call')}: {money(share.paid)};"
                f" with {setting} it would be {money(would_be)}"
            )
            yield Finding(text, setting, share.paid, would_be)


def _listed(call: CallCharge, cached: int, written: int, tokens_out: int = 0) -> float:
    """Return what a call costs at list prices in US dollars, by what the cache held and took in."""
    long = min(written, call.tokens_written_long)
    usage = (call.tokens_in, tokens_out, cached, written)
    return cost(call.model, *usage, tokens_written_long=long) or 0.0


def _last_name(account: Account) -> str:
    """Return the model at whose prices the last call is told."""
    calls = account.record.sent_calls
    return account.names.get(calls[-1].model, account.price_as) if calls else account.price_as


def _replayed(account: Account, policy: str) -> Span:
    """Return the share of everything that a policy comes to on the account's calls."""
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
        (under,) = replayed.outlays
        for at in (0, 1):
            paid[at] += 0.0 if under.dollars is None else under.dollars[at]
            whole[at] += 0.0 if under.everything_dollars is None else under.everything_dollars[at]
    return Span.of(one / of if of else 1.0 for one, of in zip(paid, whole, strict=True))


def in_range(low: float, high: float) -> str:
    """Return US dollars from the least to the most, for people."""
    one, other = money(low), money(high)
    return one if one == other else f"{one} - {other}"


def _requests(
    record: SessionRecord,
    counter: FamilyCounter,
    prices: Prices,
    *,
    minimal: bool,
    windows: bool,
) -> Requests:
    """The requests of a session with windows, with fewer messages of earlier phases, or both."""
    from windlass.window.options import Policy

    requests: Requests = SentRequests(record, counter)
    if windows:
        requests = ShortenedRequests(record, counter, Policy.of("default"), prices)
    return _MinimalRequests(requests) if minimal else requests


class _MinimalRequests(Requests):
    """Requests where each phase sees of those before it the last one's output."""

    def __init__(self, requests: Requests) -> None:
        super().__init__(requests.record, requests.counter)
        self._requests = requests
        traces = {stored.row.trace_id: stored.id for stored in self.record.rows}
        self._output: dict[str, str | None] = {}
        before: str | None = None
        for outcome in self.record.store.outcomes(self.record.session_id):
            if outcome.phase is not None:
                self._output.setdefault(outcome.phase, before)
                before = traces.get(outcome.output_trace or "")

    def new(self, call: Call) -> NewSegments:
        """Return what is new in the request of a call."""
        carried = _carried(self.record, call) - {self._output.get(call.row.phase or "")}
        shown = [each for each in call.shown if each.message_id not in carried]
        return self._requests.new(replace(call, sent=replace(call.sent, shown=tuple(shown))))


def _carried(record: SessionRecord, call: Call) -> set[str | None]:
    """Return the messages that a call was sent and that were said in other phases."""
    rows = ((shown.message_id, record.by_id[shown.message_id].row) for shown in call.shown)
    phase = call.row.phase
    return {name for name, row in rows if row.phase != phase and row.node_type in BORN}


class ShortenedRequests(Requests):
    """What was sent, shortened by a policy as the phases' windows would have been.

    A conversation goes on as long as calls are sent all that the one before was.
    """

    def __init__(
        self, record: SessionRecord, counter: FamilyCounter, policy: Policy, prices: Prices
    ) -> None:
        super().__init__(record, counter)
        self._policy = policy
        self._prices = prices
        self._of_lanes: dict[Lane, _Appended] = {}
        self._entries: Sequence[Entry] = ()

    def new(self, call: Call) -> NewSegments:
        """Return what is new in the request of a call."""
        has_same_head = self.is_same_head(call.tools)
        known = self._conversation_of(call)
        if not has_same_head:
            known.conversation.cool()
        at = None if call.free else call.row.timestamp
        for shown in call.shown[len(known.ids) :]:
            row = self.record.by_id[shown.message_id].row
            message = self.record.sent(shown)[1]
            item = Item(shown.message_id, message, row.node_type, row.phase, row.turn, row.attempt)
            known.conversation.append(item, at=at)
            known.ids.append(shown.message_id)
        entries = known.conversation.window().entries
        pairs = enumerate(zip(entries, self._entries, strict=False))
        differing = (at for at, (now, was) in pairs if now is not was)
        same = next(differing, min(len(entries), len(self._entries))) if has_same_head else 0
        self._entries = entries
        pieces = [self.weighed(each.message.key, each.message) for each in entries[same:]]
        return self.with_head(
            same, pieces, [each.item.id for each in entries[same:]], same=has_same_head
        )

    def _conversation_of(self, call: Call) -> _Appended:
        """The conversation that the call goes on with: its lane's, or that which this continues."""
        ids = [shown.message_id for shown in call.shown]
        known = next(
            (self._of_lanes[lane] for lane in call.lane.chain() if lane in self._of_lanes), None
        )
        if known is None or known.ids != ids[: len(known.ids)]:
            known = _Appended(self._conversation(call.row.model or ""), [])
        self._of_lanes[call.lane] = known
        return known

    def _conversation(self, model: str) -> Conversation:
        return Conversation(
            steps(self._policy, prices=self._prices),
            planner_of(self._policy, self._prices),
            WindowRules(holds=holds_thinking(self._policy, model)),
        )


class _Appended(NamedTuple):
    """A conversation, and the ids of what was appended to it."""

    conversation: Conversation
    ids: list[str]
