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


async def test_without_limits_nobody_waits() -> None:
    assert {at for at, _ in await started(None, None, [10**9] * 50)} == {0.0}


async def test_a_wait_is_told_once_before_it_begins() -> None:
    time = Time()
    limiter = Limiter(1, None, clock=time.clock, sleep=time.sleep)
    told: list[tuple[float, float]] = []

    async def one() -> None:
        await limiter.take(1, lambda seconds: told.append((time.now, seconds)))

    async with asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(one())
        group.create_task(time.run())
    assert told == [(0, MINUTE), (0, 2 * MINUTE)]


async def test_requests_a_minute() -> None:
    went = await started(2, None, [1] * 5)
    assert [at for at, _ in went] == [0, 0, MINUTE, MINUTE, 2 * MINUTE]


async def test_tokens_a_minute_and_a_request_larger_than_them_goes_alone() -> None:
    went = await started(None, 100, [60, 40, 1, 500, 10])
    assert went == [(0, 60), (0, 40), (60, 1), (120, 500), (180, 10)]


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


async def test_what_a_request_did_cost_counts_for_those_to_come() -> None:
    time = Time()
    limiter = Limiter(None, 100, clock=time.clock, sleep=time.sleep)
    slot = await limiter.take(90)
    limiter.settle(slot, 20)
    await limiter.take(80)
    assert time.now == 0
