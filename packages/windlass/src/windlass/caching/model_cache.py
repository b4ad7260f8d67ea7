"""What is known about the prompt cache of one model, call by call.

What the previous call sent, when it began, and what the provider reported determine how much of the
next request the cache should hold. Whoever makes calls keeps one `CacheState` for each model.

Pure: times are passed in; no clock is read.

How far a provider's cache can be relied on, by its reports of each call.

A plan assumes that what the previous call sent is still cached. If a report shows much less, the
provider routed the call elsewhere, dropped the entry, or caches nothing. The plan then relies on no
cache until a report shows that it holds again.

Pure: knows tokens expected and tokens reported, no prices, no messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from windlass.caching.breakpoints import Breakpoints, Outlook, Place, Tools, mark_rules, marks
from windlass.caching.meter import Clearing
from windlass.caching.pauses import Lifetime, Pauses
from windlass.caching.prices import Prices
from windlass.messages import Message, ToolSpec

SHARE: Final = 0.5
"""A report falls short under this share of what was expected. Hits and misses are far apart
(all or nothing, or an older entry), counts of unknown vocabularies are not exact."""
GIVEN_UP: Final = 3
"""After so many calls in a row that fell short, plans assume no cache at all."""


@dataclass(frozen=True, slots=True)
class Trust:
    """What the reports say so far.

    `missed` is the number of calls in a row whose report fell short; `clause` describes the last of
    them (empty: the cache holds).
    """

    missed: int = 0
    clause: str = ""

    @property
    def cold(self) -> bool:
        """Return whether the next call is planned as though nothing were cached."""
        return self.missed > 0

    @property
    def absent(self) -> bool:
        """Return whether calls are planned as though there were no cache at all."""
        return self.missed >= GIVEN_UP

    def heard(
        self,
        call: int,
        *,
        expected: float,
        total: float,
        cached: int,
        tokens_in: int,
        goes_on: bool,
    ) -> Trust:
        """Return the trust after a report of the call with this number.

        Of `total` tokens by our count `expected` should have been cached; the provider read
        `cached` of `tokens_in`. Shares are compared, so that the two may count differently.
        `goes_on`: the call began with all that the one before was sent. After an edit, reading less
        than expected means nothing, because no entry needs to end there.
        """
        if expected <= 0 or total <= 0 or tokens_in <= 0:
            return self
        should = expected / total * tokens_in
        if cached >= SHARE * should:
            return Trust()
        if not goes_on:
            return self
        clause = f"call {call} read {cached:,} tokens from the cache where about {should:,.0f} were"
        return Trust(self.missed + 1, f"{clause} expected")

    @property
    def assumed(self) -> str:
        """What is assumed for the next call, in one sentence without its end; empty: nothing."""
        if self.absent:
            return f"no cache is counted on, for {self.missed} calls in a row: {self.clause}"
        return f"planned as cold: {self.clause}" if self.cold else ""


@dataclass(frozen=True, slots=True)
class SentRequest:
    """A request with its marks, for comparison with the next one.

    The first `shared` messages are those of the request before; `goes_on`: they are all it had. Of
    these the first `held` were written to the cache then; now the first `written` are (None: all,
    because it takes no marks). `weight` describes its tools for marks (None: it has none, or they
    are not marked).
    """

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...]
    marks: Breakpoints = field(default_factory=Breakpoints)
    weight: Tools | None = None
    shared: int = 0
    held: int = 0
    written: int | None = None
    goes_on: bool = True

    @property
    def places(self) -> tuple[Place, ...]:
        """Return the request's marks, in order."""
        return self.marks.places


@dataclass
class CacheState:
    """The cache of one model.

    Args:
        model: `provider/model`, whose rules its marks keep to.
        prices: What it charges.
        assumed: What is assumed about the prices, in a sentence (empty: nothing).
        calls: How many were made.
        trust: How far the reports so far confirm it.
        pauses: When the last call began and was answered, and when the next was asked for.
        lifetime: How long the head of the requests is kept.
        sent: The last request (None: none was sent).
        cleared: What the provider cleared from it before its model read it.
        written: Tokens that calls wrote to the cache, as reported.
        written_long: Those of them that are kept for the longer time.
    """

    model: str
    prices: Prices
    assumed: str = ""
    calls: int = 0
    trust: Trust = field(default_factory=Trust)
    pauses: Pauses = field(default_factory=Pauses)
    lifetime: Lifetime = field(default_factory=Lifetime)
    sent: SentRequest | None = None
    cleared: Clearing = field(default_factory=Clearing)
    written: int = 0
    written_long: int = 0

    def __post_init__(self) -> None:
        provider, _, name = self.model.partition("/")
        self._rules = mark_rules(provider, name) if self.prices.caches else None

    def note_writes(self, written: int, written_long: int) -> None:
        """Note the tokens that a call wrote to the cache, and those kept for the longer time."""
        self.written += written
        self.written_long += written_long

    @property
    def planned_prices(self) -> Prices:
        """Return the prices of the time for which most of what was written so far is kept."""
        long, rules = self.prices.write_long, self._rules
        if rules is None or long is None or 2 * self.written_long <= self.written:
            return self.prices
        if self.lifetime.long:
            return self.prices  # only the head was written so, by us
        return replace(self.prices, write=long, ttl_s=rules.ttl_long_s)

    @property
    def takes_marks(self) -> bool:
        """Return whether its requests are marked, so that only what precedes a mark is written."""
        return self._rules is not None

    def written_anew(
        self, messages: tuple[Message, ...], tools: Sequence[ToolSpec], gap: float | None
    ) -> tuple[int, str]:
        """Return the position from which a request is written again in any case, and why.

        Empty: it continues the last request, all of which is cached.
        """
        if not self.prices.caches:
            return 0, "nothing is cached"
        if self.trust.absent:
            return 0, "the provider's cache is not counted on"
        if self.prices.lapsed(gap) or self.trust.cold:
            return 0, "the cache is cold"
        return self.differs(messages, tools)

    def differs(self, messages: tuple[Message, ...], tools: Sequence[ToolSpec]) -> tuple[int, str]:
        """Where a request begins to differ from the last one, and how (empty: it only appends)."""
        if self.sent is None or self.sent.tools != tuple(tools):
            return 0, "the head of the request is another one"
        shared = same_until(messages, self.sent.messages)
        if shared == len(self.sent.messages):
            return len(messages), ""
        return shared, f"message {shared} is another one"

    def next_lifetime(self, gap: float | None, calls: float) -> Lifetime:
        """Return how long to keep the head of the next call if `calls` more are expected."""
        if self._rules is None:
            return self.lifetime
        return self.lifetime.at_call(
            gap,
            calls_made=self.calls,
            calls=calls,
            prices=self.prices,
            ttl_s=self._rules.ttl_s,
            ttl_long_s=self._rules.ttl_long_s,
        )

    def mark(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec],
        outlook: Outlook = Outlook(),  # noqa: B008 - frozen
    ) -> SentRequest:
        """Return the next request with its marks."""
        sent, offered = tuple(messages), tuple(tools)
        before = self.sent
        if before is None or before.tools != offered:  # nothing is shared with the request before
            before = SentRequest((), offered, weight=Tools.of(offered) if self._rules else None)
        shared = same_until(sent, before.messages)
        placed, written = Breakpoints(), None
        if self._rules is not None:
            placed = marks(
                sent,
                self._rules,
                before.marks,
                outlook,
                shared=shared,
                tools=before.weight,
            )
            written = placed.places[-1][0] + 1 if placed.places else 0
        goes_on = shared == len(before.messages)
        held = shared if before.written is None else min(shared, before.written)
        return SentRequest(sent, offered, placed, before.weight, shared, held, written, goes_on)


def same_until(messages: tuple[Message, ...], before: tuple[Message, ...]) -> int:
    """Return how many messages at the beginning of a request are those of the request before."""
    least, most = 0, min(len(messages), len(before))
    same = most  # the usual case
    while least < most:
        if messages[least:same] == before[least:same]:
            least = same
        else:
            most = same - 1
        same = (least + most + 1) // 2
    return least
