"""Trying again: how often, how long, and what is raised in the end."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from windlass.errors import ProviderError, RateLimited
from windlass.providers._pace import Patience, TransientError


class Failing:
    """Fails so many times, then answers; its patience sleeps without sleeping."""

    def __init__(self, times: int, after: float | None = None, takes: float = 0.0) -> None:
        self.left, self.after, self.takes = times, after, takes
        self.tries = 0
        self.slept: list[float] = []
        self.time = 0.0
        self.patience = Patience(sleep=self.sleep, random=lambda: 1.0, clock=lambda: self.time)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds

    async def __call__(self) -> str:
        self.tries += 1
        self.time += self.takes
        if self.left:
            self.left -= 1
            raise TransientError(RateLimited("slow down"), self.after)
        return "done"


async def test_waits_double() -> None:
    failing = Failing(4)
    assert await failing.patience.retry(failing) == "done"
    assert failing.slept == [0.5, 1.0, 2.0, 4.0]


async def test_each_wait_is_told_before_it_begins() -> None:
    failing = Failing(2, after=7)
    told: list[tuple[float, str, int, int]] = []

    def hear(seconds: float, because: str, number: int) -> None:
        told.append((seconds, because, number, len(failing.slept)))

    await failing.patience.retry(failing, hear)
    assert told == [(7, "slow down", 2, 0), (7, "slow down", 3, 1)]
    told.clear()
    failing = Failing(99)
    with pytest.raises(RateLimited):
        await failing.patience.retry(failing, hear)
    assert [number for _, _, number, _ in told] == [2, 3, 4, 5]  # none after the last try


async def test_chance_takes_up_to_half_of_a_wait() -> None:
    lucky = Failing(4)
    patience = replace(lucky.patience, random=random.Random(7).random)
    await patience.retry(lucky)
    for wait, most in zip(lucky.slept, [0.5, 1.0, 2.0, 4.0], strict=True):
        assert most / 2 <= wait < most
    assert lucky.slept != [0.5, 1.0, 2.0, 4.0]


async def test_at_most_five_tries_then_the_error_itself() -> None:
    failing = Failing(99)
    with pytest.raises(RateLimited, match=r"^slow down \(tried 5 times\)$"):
        await failing.patience.retry(failing)
    assert failing.tries == 5
    assert len(failing.slept) == 4


async def test_what_the_provider_asks_for_goes_before_up_to_a_minute() -> None:
    failing = Failing(2, after=7)
    await failing.patience.retry(failing)
    assert failing.slept == [7, 7]
    greedy = Failing(1, after=3_600)
    await greedy.patience.retry(greedy)
    assert greedy.slept == [60]


async def test_the_whole_of_it_has_an_end() -> None:
    slow = Failing(99, takes=120)
    with pytest.raises(ProviderError, match=r"tried 3 times"):
        await slow.patience.retry(slow)
    assert slow.time <= 300 + 120


async def test_other_errors_are_not_tried_again() -> None:
    tries = 0

    async def fail() -> None:
        nonlocal tries
        tries += 1
        raise ProviderError("no")

    with pytest.raises(ProviderError, match=r"^no$"):
        await Patience().retry(fail)
    assert tries == 1


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("12", 12.0),
        ("1.5", 1.5),
        ("-3", 0.0),
        ("Wed, 21 Oct 2026 07:28:30 GMT", 30.0),
        ("Wed, 21 Oct 2026 07:28:30", 30.0),
        ("Wed, 21 Oct 2020 07:28:00 GMT", 0.0),
        ("soon", None),
        ("", None),
        ("nan", None),
        ("inf", None),
    ],
)
def test_retry_after_is_seconds_or_a_date(header: str | None, seconds: float | None) -> None:
    patience = Patience(now=lambda: 1_792_567_680.0)  # 21 October 2026, 07:28:00 UTC
    assert patience.seconds_after(header) == seconds
