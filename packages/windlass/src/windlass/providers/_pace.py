"""The pace of requests: how many go within a minute, and when one that failed is tried again.

A request reserves its time when it asks, without a lock: whoever asks first goes first, and no span
of 60 seconds exceeds the limits.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final, TypeVar

from windlass.errors import ProviderError

T = TypeVar("T")

TRIES: Final = 5
LONGEST_WAIT_S: Final = 60.0
TOTAL_S: Final = 300.0
"""Seconds after which there is no retry, however many tries are left."""

REFUSED_TRIES: Final = 2
"""Tries if a port refuses connections: waiting longer starts no server."""

_FIRST_WAIT_S: Final = 0.5


class TransientError(Exception):
    """A failure that may pass, before any text was handed on.

    `error` is raised if it does not pass; `after` are the seconds that the provider asked for
    (None: none), `tries` the most tries that are worthwhile (None: all).
    """

    def __init__(
        self, error: ProviderError, after: float | None = None, *, tries: int | None = None
    ) -> None:
        super().__init__(str(error))
        self.error = error
        self.after = after
        self.tries = tries


@dataclass(frozen=True, slots=True)
class Patience:
    """How often and how long a request is tried; clock and randomness are passed in.

    `random` returns a number from 0 up to 1, `clock` monotonic seconds, `now` the seconds since
    1970, for dates in `Retry-After`.
    """

    tries: int = TRIES
    longest_wait_s: float = LONGEST_WAIT_S
    total_s: float = TOTAL_S
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    random: Callable[[], float] = random.random
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], float] = time.time

    async def retry(
        self,
        attempt: Callable[[], Awaitable[T]],
        on_wait: Callable[[float, str, int], None] | None = None,
    ) -> T:
        """Return the result of `attempt`, retried after each TransientError.

        `on_wait` is called before each wait with its seconds, the failure, and the number of the
        next try.

        Raises the error of the last one when the tries or the time are used up.
        """
        started = self.clock()
        for number in range(1, self.tries + 1):
            try:
                return await attempt()
            except TransientError as failed:
                wait = self.wait(number, failed.after)
                late = self.clock() - started + wait > self.total_s
                if number >= min(self.tries, failed.tries or self.tries) or late:
                    raise _after(failed.error, number) from failed.__cause__
                if on_wait is not None:
                    on_wait(wait, str(failed.error), number + 1)
            await self.sleep(wait)
        raise AssertionError("the last try returns or raises")

    def wait(self, number: int, after: float | None) -> float:
        """Give seconds to wait after try `number` (from 1): as asked, else doubling, partly random.

        Half of the wait is random, so that requests that failed together do not return together.
        """
        if after is None:
            after = _FIRST_WAIT_S * 2 ** (number - 1) * (1 + self.random()) / 2
        return min(max(after, 0.0), self.longest_wait_s)

    def seconds_after(self, retry_after: str | None) -> float | None:
        """Return the seconds that a `Retry-After` header asks for: a number, or a date."""
        if retry_after is None:
            return None
        try:
            seconds = float(retry_after)
        except ValueError:
            try:
                date = parsedate_to_datetime(retry_after)
            except ValueError:
                return None
            if date.tzinfo is None:
                date = date.replace(tzinfo=UTC)
            seconds = date.timestamp() - self.now()
        return max(seconds, 0.0) if seconds < float("inf") else None


PATIENCE: Final = Patience()


def _after(error: ProviderError, tries: int) -> ProviderError:
    """Return the error, with the number of tries in its text."""
    if tries == 1:
        return error
    return type(error)(f"{error} (tried {tries} times)")


# ---- requests and tokens within a minute ------------------------------------------------

MINUTE: Final = 60.0


@dataclass(slots=True, eq=False)
class Slot:
    """A request's place: when it goes, and the tokens it is assumed to cost."""

    time: float
    tokens: int


class Limiter:
    """At most so many requests and tokens in any minute (None: any number).

    Args:
        requests_per_minute: Requests that may begin within a minute.
        tokens_per_minute: Tokens, of input and output together, within a minute. A request that is
            larger than this goes alone.
        clock: Monotonic seconds.
        sleep: Waits for a number of seconds.
    """

    def __init__(
        self,
        requests_per_minute: int | None = None,
        tokens_per_minute: int | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._requests = requests_per_minute
        self._tokens = tokens_per_minute
        self._clock = clock
        self._sleep = sleep
        self._slots: deque[Slot] = deque()

    async def take(self, tokens: int, on_wait: Callable[[float], None] | None = None) -> Slot:
        """Wait until a request of `tokens` may go. A cancelled request gives up its place.

        `on_wait` is called with the seconds of a wait before it begins.
        """
        slot = self._reserve(tokens)
        try:
            if on_wait is not None and (wait := slot.time - self._clock()) > 0:
                on_wait(wait)
            while (wait := slot.time - self._clock()) > 0:
                await self._sleep(wait)
        except asyncio.CancelledError:
            self._slots.remove(slot)
            raise
        return slot

    def settle(self, slot: Slot, tokens: int) -> None:
        """Replace the assumed cost of a request by its actual cost, for later ones."""
        slot.tokens = tokens

    def _reserve(self, tokens: int) -> Slot:
        now = self._clock()
        while self._slots and self._slots[0].time + MINUTE <= now:
            self._slots.popleft()
        start = max(now, self._slots[-1].time) if self._slots else now
        for earlier in self._slots:
            if self._fits(start, tokens):
                break
            start = max(start, earlier.time + MINUTE)
        slot = Slot(start, tokens)
        self._slots.append(slot)
        return slot

    def _fits(self, start: float, tokens: int) -> bool:
        within = [slot for slot in self._slots if slot.time + MINUTE > start]
        if self._requests is not None and len(within) >= self._requests:
            return False
        used = sum(slot.tokens for slot in within)
        return self._tokens is None or not within or used + tokens <= self._tokens
