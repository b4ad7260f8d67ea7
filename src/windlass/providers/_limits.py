"""Requests and tokens per minute, shared by everything that runs at once with one provider.

A request reserves its time when it asks, without a lock: whoever asks first goes first, and no span
of 60 seconds exceeds the limits.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

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
