"""Retries after temporary failures: how long to wait, how often, and when to give up."""

from __future__ import annotations

import asyncio
import random
import time
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
        """The result of `attempt`, retried after each TransientError.

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
        """Seconds to wait after try `number` (from 1): as asked, else doubling, partly random.

        Half of the wait is random, so that requests that failed together do not return together.
        """
        if after is None:
            after = _FIRST_WAIT_S * 2 ** (number - 1) * (1 + self.random()) / 2
        return min(max(after, 0.0), self.longest_wait_s)

    def seconds_after(self, retry_after: str | None) -> float | None:
        """The seconds that a `Retry-After` header asks for: a number, or a date."""
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
    """The error, with the number of tries in its text."""
    if tries == 1:
        return error
    return type(error)(f"{error} (tried {tries} times)")
