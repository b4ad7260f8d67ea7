"""What can be said of pairs: tests, intervals, and how many inputs a sure answer takes.

Nothing in here knows what was compared, and the same numbers always give the same answer.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from statistics import NormalDist
from typing import Final, NamedTuple

ALPHA: Final = 0.05
"""How often a test may call a difference what is none; intervals hold in all other cases."""
POWER: Final = 0.8
"""How often the number of inputs that would do shows the difference that it is computed for."""
RESAMPLES: Final = 10_000
"""How often a bootstrap draws."""
_DRAWN: Final = 2_000
"""How often each of two samples is drawn."""
_AT_ONCE: Final = 500_000
"""Numbers of a bootstrap that are in memory at a time."""
_SEED: Final = 20_240_924


class Interval(NamedTuple):
    """From where to where a figure lies, in 95 of 100 cases."""

    low: float
    high: float


def sign_test(better: int, worse: int) -> float:
    """Return the two-sided p-value of so many pairs for and so many against; ties say nothing.

    With two outcomes a pair this is the exact test of McNemar (Psychometrika 12, 1947), else the
    sign test of Dixon and Mood (JASA 41, 1946). Both ask how likely so uneven a split is when each
    pair falls either way by a fair coin: twice the binomial tail, 1 at most.
    """
    n, ways, tail = better + worse, 1, 0
    for k in range(min(better, worse) + 1):
        tail += ways
        ways = ways * (n - k) // (k + 1)
    p: float = 2 * tail / 2**n
    return min(1.0, p)


def holm(values: Sequence[float]) -> list[float]:
    """Return the p-values of several tests, so raised that any of them errs as rarely as one would.

    Holm, Scandinavian Journal of Statistics 6 (1979): the smallest times how many there are, the
    next times one less, and none below the one before it.
    """
    raised, least = [0.0] * len(values), 0.0
    for rank, at in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        least = max(least, min(1.0, (len(values) - rank) * values[at]))
        raised[at] = least
    return raised


def wilson(successes: int, of: int) -> Interval:
    """Return the interval of a rate: Wilson, JASA 22 (1927).

    It holds for few cases and for none lost.
    """
    if of == 0:
        return Interval(0.0, 1.0)
    z, rate = _z(ALPHA / 2), successes / of
    middle = rate + z * z / (2 * of)
    half = z * math.sqrt(rate * (1 - rate) / of + z * z / (4 * of * of))
    whole = 1 + z * z / of
    low, high = (middle - half) / whole, (middle + half) / whole
    # At the ends it is exact, and rounding would miss it.
    return Interval(low if successes else 0.0, high if successes < of else 1.0)


def paired_rates(better: float, worse: float, pairs: int) -> Interval:
    """Return the interval of the difference of two rates of the same cases.

    Agresti and Min, Statistics in Medicine 24 (2005): Wald's, with half a case more in each of the
    four cells, so that pairs that never differ still leave doubt.
    """
    n = pairs + 2
    difference = (better - worse) / n
    error = math.sqrt(better + worse + 1 - (better - worse) ** 2 / n) / n
    half = _z(ALPHA / 2) * error
    return Interval(max(-1.0, difference - half), min(1.0, difference + half))


def bootstrap(values: Sequence[float], beside: Sequence[float] | None = None) -> Interval:
    """Return the interval of the mean, or of the change from the sum of what stands `beside` it.

    The change is a share of that sum, which must be above 0. Each value is of one input, and inputs
    are drawn whole, so that what belongs together stays together. The percentile
    bootstrap of Efron and Tibshirani, An Introduction to the Bootstrap (1993), chapter 13, with a
    fixed seed.
    """
    import numpy as np

    draw, n = np.random.default_rng(_SEED), len(values)
    own = np.asarray(values, dtype=float)
    base = None if beside is None else np.asarray(beside, dtype=float)
    figures = []
    at_once = max(1, _AT_ONCE // n)
    for begin in range(0, RESAMPLES, at_once):
        drawn = draw.integers(0, n, (min(at_once, RESAMPLES - begin), n))
        if base is None:
            figures.append(own[drawn].mean(axis=1))
        else:
            sums = base[drawn].sum(axis=1)
            figures.append(own[drawn].sum(axis=1)[sums > 0] / sums[sums > 0] - 1)
    low, high = np.quantile(np.concatenate(figures), (ALPHA / 2, 1 - ALPHA / 2))
    return Interval(float(low), float(high))


def difference_of_means(values: Sequence[float], others: Sequence[float]) -> Interval:
    """Give the interval of the mean of some values less that of others, which are no pairs of them.

    The bootstrap of two samples (Efron and Tibshirani, chapter 8): each is drawn by itself. Raises
    ValueError where one of them is empty.
    """
    import numpy as np

    draw = np.random.default_rng(_SEED)
    means = []
    for sample in (np.asarray(values, dtype=float), np.asarray(others, dtype=float)):
        drawn = [sample[draw.integers(0, len(sample), len(sample))].mean() for _ in range(_DRAWN)]
        means.append(np.asarray(drawn))
    low, high = np.quantile(means[0] - means[1], (ALPHA / 2, 1 - ALPHA / 2))
    return Interval(float(low), float(high))


def inputs_needed(better: int, worse: int, pairs: int, *, least: float, tests: int) -> int:
    """Say how many inputs would show the difference that was seen, or `least` where that is larger.

    Connor, Biometrics 43 (1987), for the test of McNemar: `better` and `worse` of so many `pairs`
    say how often pairs differ at all. `tests` are made, and share the chance of an error.
    """
    difference = max(abs(better - worse) / pairs, least)
    # Half a case each: pairs that never differed yet may do so.
    differing = max((better + worse + 1) / (pairs + 2), difference)
    one, other = _z(ALPHA / tests / 2), _z(1 - POWER)
    root = one * math.sqrt(differing) + other * math.sqrt(differing - difference**2)
    return max(pairs + 1, math.ceil((root / difference) ** 2))


def inputs_for_no_worse(better: int, worse: int, pairs: int, *, margin: float, most: int) -> int:
    """Return how many inputs bring the interval of the difference of two rates above `-margin`.

    More than there were, and `most` at most: pairs that never differed take few, since nothing but
    their number leaves doubt.
    """

    def shows(n: int) -> int:
        share = n / pairs
        return int(paired_rates(better * share, worse * share, n).low > -margin)

    numbers = range(pairs + 1, most)
    return pairs + 1 + bisect_left(numbers, 1, key=shows)


def _z(tail: float) -> float:
    """Return where the normal distribution leaves so much above it."""
    return NormalDist().inv_cdf(1 - tail)
