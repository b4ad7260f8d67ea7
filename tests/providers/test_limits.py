"""Requests and tokens a minute, with a clock that only moves when somebody sleeps."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.providers._pace import MINUTE, Limiter


class Time:
    """A clock, and sleepers woken in the order of their times."""

    def __init__(self) -> None:
        self.now = 0.0
        self._sleeping: list[tuple[float, int, asyncio.Event]] = []

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        woken = asyncio.Event()
        entry = (self.now + seconds, len(self._sleeping), woken)
        self._sleeping.append(entry)
        try:
            await woken.wait()
        finally:
            self._sleeping = [other for other in self._sleeping if other is not entry]

    async def run(self) -> None:
        """Let everything happen that is going to."""
        for _ in range(10_000):
            for _ in range(5):
                await asyncio.sleep(0)
            if not self._sleeping:
                return
            at, _, woken = min(self._sleeping, key=lambda entry: entry[:2])
            self.now = max(self.now, at)
            woken.set()
        raise AssertionError("somebody sleeps for ever")


async def started(
    requests: int | None, tokens: int | None, wanted: list[int]
) -> list[tuple[float, int]]:
    """When each request went, all of them asked for at once."""
    time = Time()
    limiter = Limiter(requests, tokens, clock=time.clock, sleep=time.sleep)
    went: list[tuple[float, int]] = []

    async def one(size: int) -> None:
        await limiter.take(size)
        went.append((time.now, size))

    async with asyncio.TaskGroup() as group:
        for size in wanted:
            group.create_task(one(size))
        group.create_task(time.run())
    return went


@given(
    st.one_of(st.none(), st.integers(1, 5)),
    st.one_of(st.none(), st.integers(1, 60)),
    st.lists(st.integers(0, 80), max_size=12),
)
def test_no_minute_has_more_than_the_limits_and_who_asks_first_goes_first(
    requests: int | None, tokens: int | None, wanted: list[int]
) -> None:
    went = asyncio.run(started(requests, tokens, wanted))
    assert [size for _, size in went] == wanted
    for at, _ in went:
        within = [size for other, size in went if at <= other < at + MINUTE]
        assert requests is None or len(within) <= requests
        assert tokens is None or sum(within) <= tokens or len(within) == 1


async def test_a_request_that_is_cancelled_gives_its_place() -> None:
    time = Time()
    limiter = Limiter(1, None, clock=time.clock, sleep=time.sleep)
    await limiter.take(1)
    waiting = asyncio.create_task(limiter.take(1))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    third = asyncio.create_task(limiter.take(1))
    await time.run()
    assert (await third).time == MINUTE
