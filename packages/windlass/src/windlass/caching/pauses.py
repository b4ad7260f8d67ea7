"""The pauses between calls, and how long the head of the requests should be cached for them.

A cache drops an entry that no request used during its lifetime t, which begins with the start of
the request that wrote or read it, and not with the answer (platform.claude.com, prompt caching): an
answer that takes four minutes leaves one of five. Some keep an entry for a longer time T at a
dearer write: Anthropic for an hour in place of five minutes. For the head of the requests (tools,
system prompt), which every call sends, that pays where pauses longer than t are to be expected:
with r, w and l the prices of a read, a write and a long write of a token, each such pause costs w -
r where the entry is short, and nothing where it is long; the long write costs l - w more, once. So
the head is written for long where

    pauses to come * (w - r) > l - w,    pauses to come = pauses seen / calls made * N

and N is the planner's number of calls to come. This is decided whenever the head must be written
anyway: at the first call, and after a pause in which the entry expired.

Pure: times are those that messages bring; no clock is read.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from windlass.caching.prices import Prices


@dataclass(frozen=True, slots=True)
class Lifetime:
    """How long the head of the requests is cached, and the figures behind it.

    `long`: for the longer time. `pauses` are those seen so far that are longer than the short
    time and no longer than the long one; `calls` those made when it was decided; `to_come` the
    pauses that were expected then.
    """

    long: bool = False
    pauses: int = 0
    calls: int = 0
    to_come: float = 0.0

    def at_call(
        self,
        gap: float | None,
        *,
        calls_made: int,
        calls: float,
        prices: Prices,
        ttl_s: float | None,
        ttl_long_s: float | None,
    ) -> Lifetime:
        """Return the lifetime at the next call.

        `gap` are the seconds since the last call was begun (None: not known), `calls_made` the
        calls made, `calls` N; the lifetimes are in seconds (None: there is no such kind).
        """
        if prices.write_long is None or ttl_s is None or ttl_long_s is None or not calls_made:
            return self
        if gap is None or gap <= ttl_s:
            return self
        now = replace(self, pauses=self.pauses + 1) if gap <= ttl_long_s else self
        if self.long and gap <= ttl_long_s:
            return now  # it is still there
        to_come = now.pauses / calls_made * calls
        pays = to_come * (prices.write - prices.read) > prices.write_long - prices.write
        return Lifetime(pays, now.pauses, calls_made, to_come)


@dataclass(slots=True)
class Pauses:
    """The times at which the last call began and was answered, and of the messages since.

    A call begins when the last of the messages that it answers was said. Seconds from any moment;
    None: it is not known.
    """

    begun: float | None = None
    answered: float | None = None
    called: float | None = None

    def note(self, at: float | None, *, answer: bool) -> None:
        """Note the time of the next message (None: it has none)."""
        if answer:
            # Where one of the two is not known, the other is the nearest that is.
            known = [time for time in (self.called, at) if time is not None]
            self.begun = min(known, default=None)
            self.answered, self.called = at, None
        elif at is not None:
            self.called = at

    def answered_at(self, at: float | None) -> None:
        """Note the time of the last answer, whose message had none."""
        self.answered = at
        self.begun = at if self.begun is None else self.begun

    def gap_at(self, at: float) -> float | None:
        """Return seconds from the start of the last call to `at` (None: not known).

        If `at` is before the answer, which makes no sense, the pause is 0.
        """
        if self.answered is not None and at < self.answered:
            return at - self.answered
        return None if self.begun is None else at - self.begun

    @property
    def gap(self) -> float | None:
        """Return seconds between the starts of the last call and the next one (None: not known)."""
        return None if self.called is None else self.gap_at(self.called)

    @property
    def assumed(self) -> str:
        """Return what is assumed if the times make no sense; empty if they do, or are not known."""
        if self.answered is None or self.called is None or self.called >= self.answered:
            return ""
        early = self.answered - self.called
        return f"the request is {early:g} s older than the answer before it: taken as no pause"
