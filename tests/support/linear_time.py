"""How long work takes as its text grows: in proportion, and no longer."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from windlass.context.bound import forget

CHARS = 200_000
TIMES = 4
MOST_TIMES = 8
"""How much longer so many times the text may take: what grows with the square takes 16 times."""
UNMEASURED_S = 0.1
CEILING_S = 5.0
TRIES = 3


def seconds(work: Callable[[str], object], text: str) -> float:
    forget()
    before = time.process_time()
    work(text)
    return time.process_time() - before


def assert_linear(
    work: Callable[[str], object], shape: Callable[[int], str], chars: int = CHARS
) -> None:
    """Time grows as the text does; the least of several tries counts, for the machine is shared."""
    small = large = float("inf")
    for _ in range(TRIES):
        small = min(small, seconds(work, shape(chars // TIMES)))
        assert small < CEILING_S
        large = min(large, seconds(work, shape(chars)))
        if large >= CEILING_S:
            break
        if large <= MOST_TIMES * small + UNMEASURED_S:
            return
    pytest.fail(f"{chars // TIMES:,} characters take {small:.2f} s, {chars:,} take {large:.2f} s")


def repeated(unit: str, *, before: str = "", behind: str = "") -> Callable[[int], str]:
    def shape(chars: int) -> str:
        return before + (unit * (chars // len(unit) + 1))[:chars] + behind

    return shape
