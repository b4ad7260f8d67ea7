"""Banks of a store, with a clock that the test sets."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count

from windlass.history.base import Store
from windlass.memory.banks import Banks


@dataclass
class Clock:
    """A clock that stands still until it is moved."""

    now: float = 1_000.0

    def __call__(self) -> float:
        return self.now


def banks_of(store: Store, clock: Clock, prefix: str = "m") -> Banks:
    """The banks of a store; traces are the prefix and a number."""
    numbers = count(1)
    return Banks(store, clock, lambda: f"{prefix}{next(numbers)}")
