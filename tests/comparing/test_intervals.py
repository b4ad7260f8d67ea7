"""The statistics against values worked out otherwise, and what must hold for all numbers."""

from __future__ import annotations

import itertools
import math
import random
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.text.intervals import (
    bootstrap,
    holm,
    inputs_for_no_worse,
    inputs_needed,
    paired_rates,
    sign_test,
    wilson,
)

COUNTS = st.integers(0, 60)
P_VALUES = st.lists(st.floats(0, 1), min_size=1, max_size=8)


def by_counting(better: int, worse: int) -> Fraction:
    """The p-value by every way in which fair coins can fall."""
    n = better + worse
    far = abs(better - worse)
    ways = itertools.product((1, -1), repeat=n)
    return Fraction(sum(abs(sum(way)) >= far for way in ways), 2**n)


class TestSignTest:
    @pytest.mark.parametrize(("better", "worse"), [*itertools.product(range(7), range(7))])
    def test_is_the_share_of_coin_falls_as_uneven(self, better: int, worse: int) -> None:
        assert sign_test(better, worse) == pytest.approx(float(by_counting(better, worse)))

    def test_published_values(self) -> None:
        assert sign_test(9, 25) == pytest.approx(0.0090, abs=5e-5)
        assert sign_test(1, 9) == pytest.approx(22 / 1024)

    @given(COUNTS, COUNTS)
    def test_is_symmetric_and_a_probability(self, better: int, worse: int) -> None:
        p = sign_test(better, worse)
        assert p == sign_test(worse, better)
        assert 0 < p <= 1

    @given(st.integers(0, 60), st.integers(0, 59))
    def test_a_more_uneven_split_is_rarer(self, n: int, less: int) -> None:
        less = min(less, n // 2)
        if less:
            assert sign_test(n - less + 1, less - 1) <= sign_test(n - less, less)

    def test_thousands_of_pairs_are_no_trouble(self) -> None:
        assert sign_test(10_000, 10_000) == 1.0
        assert sign_test(20_000, 1) < 1e-300


class TestHolm:
    def test_the_example_of_the_paper(self) -> None:
        assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])

    @given(P_VALUES)
    def test_raises_every_value_and_keeps_their_order(self, values: list[float]) -> None:
        raised = holm(values)
        assert all(before <= after <= 1 for before, after in zip(values, raised, strict=True))
        pairs = sorted(zip(values, raised, strict=True))
        assert [after for _, after in pairs] == sorted(raised)
        assert max(raised) <= min(1.0, max(values) * len(values))

    @given(P_VALUES, st.integers(0, 7), st.floats(0, 1))
    def test_a_smaller_value_makes_none_larger(
        self, values: list[float], at: int, smaller: float
    ) -> None:
        at %= len(values)
        before = holm(values)
        after = holm([*values[:at], min(values[at], smaller), *values[at + 1 :]])
        assert all(a <= b for a, b in zip(after, before, strict=True))

    @given(P_VALUES, st.randoms())
    def test_the_order_in_which_they_stand_does_not_matter(
        self, values: list[float], chance: random.Random
    ) -> None:
        order = list(range(len(values)))
        chance.shuffle(order)
        assert holm([values[at] for at in order]) == [holm(values)[at] for at in order]


class TestWilson:
    def test_published_values(self) -> None:  # Newcombe, Statistics in Medicine 17 (1998), table I
        assert wilson(81, 263) == pytest.approx((0.2553, 0.3662), abs=5e-5)
        assert wilson(15, 148) == pytest.approx((0.0624, 0.1605), abs=5e-5)
        assert wilson(0, 20) == pytest.approx((0.0, 0.1611), abs=5e-5)
        assert wilson(1, 29) == pytest.approx((0.0061, 0.1718), abs=5e-5)

    def test_of_nothing_all_is_possible(self) -> None:
        assert wilson(0, 0) == (0.0, 1.0)

    @given(COUNTS, COUNTS)
    def test_holds_the_rate_and_is_symmetric(self, successes: int, failures: int) -> None:
        of = successes + failures
        low, high = wilson(successes, of)
        assert 0 <= low <= high <= 1
        if of:
            assert low <= successes / of <= high
        assert wilson(failures, of) == pytest.approx((1 - high, 1 - low))

    @pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
    def test_holds_the_truth_in_19_of_20_cases(self, rate: float) -> None:
        n = 40
        covered = 0.0
        for k in range(n + 1):  # every outcome, by how likely it is
            low, high = wilson(k, n)
            likely = math.comb(n, k) * rate**k * (1 - rate) ** (n - k)
            covered += likely * (low <= rate <= high)
        assert 0.92 < covered < 0.98


class TestPairedRates:
    @given(COUNTS, COUNTS, COUNTS)
    def test_is_symmetric(self, better: int, worse: int, same: int) -> None:
        pairs = better + worse + same
        low, high = paired_rates(better, worse, pairs)
        assert -1 <= low < high <= 1
        assert paired_rates(worse, better, pairs) == pytest.approx((-high, -low))

    def test_pairs_that_never_differ_leave_doubt_that_shrinks(self) -> None:
        few, many = paired_rates(0, 0, 5), paired_rates(0, 0, 500)
        assert few.high > 0.2
        assert many.high < 0.005

    def test_holds_the_truth_in_19_of_20_cases(self) -> None:
        n, gains, losses = 50, 0.2, 0.1
        covered = 0.0
        for better in range(n + 1):
            for worse in range(n + 1 - better):
                low, high = paired_rates(better, worse, n)
                ways = math.comb(n, better) * math.comb(n - better, worse)
                likely = (
                    gains**better * losses**worse * (1 - gains - losses) ** (n - better - worse)
                )
                covered += ways * likely * (low <= gains - losses <= high)
        assert 0.93 < covered < 0.98


class TestBootstrap:
    def test_the_same_numbers_give_the_same_answer(self) -> None:
        values = [1.0, 2.0, 5.0, 0.5]
        assert bootstrap(values) == bootstrap(values)

    @given(st.floats(-1e6, 1e6), st.integers(1, 20))
    def test_of_equal_values_it_is_the_value(self, value: float, n: int) -> None:
        assert bootstrap([value] * n) == pytest.approx((value, value))

    def test_a_change_is_a_share_of_what_stands_beside(self) -> None:
        assert bootstrap([3.0, 6.0, 9.0], [4.0, 8.0, 12.0]) == pytest.approx((-0.25, -0.25))

    def test_what_is_free_beside_is_no_trouble(self) -> None:
        low, high = bootstrap([0.0, 1.0], [0.0, 2.0])
        assert (low, high) == pytest.approx((-0.5, -0.5))

    def test_many_values_are_no_trouble(self) -> None:
        low, high = bootstrap([float(n % 2) for n in range(20_000)])
        assert 0.49 < low < 0.5 < high < 0.51

    def test_holds_the_truth_in_about_19_of_20_cases(self) -> None:
        chance = random.Random(7)
        covered = 0
        times = 200
        for _ in range(times):
            low, high = bootstrap([chance.expovariate(0.5) for _ in range(40)])
            covered += low <= 2.0 <= high
        assert 0.88 < covered / times < 0.99


class TestInputsNeeded:
    def test_is_by_the_formula(self) -> None:
        # Half a case more in each direction: 31 of 102 pairs differ; the difference is 0.1.
        root = 1.959964 * math.sqrt(31 / 102) + 0.841621 * math.sqrt(31 / 102 - 0.01)
        assert inputs_needed(20, 10, 100, least=0.05, tests=1) == math.ceil((root / 0.1) ** 2)

    def test_so_many_inputs_show_the_difference_four_times_in_five(self) -> None:
        gains, losses = 0.3, 0.1
        n = inputs_needed(30, 10, 100, least=0.05, tests=1)
        chance = random.Random(3)
        times, shown = 400, 0
        for _ in range(times):
            drawn = [chance.random() for _ in range(n)]
            better = sum(each < gains for each in drawn)
            worse = sum(gains <= each < gains + losses for each in drawn)
            shown += sign_test(better, worse) < 0.05
        assert 0.7 < shown / times < 0.9

    @given(st.integers(0, 30), st.integers(0, 30), st.integers(0, 30), st.integers(1, 5))
    def test_is_more_than_there_were_and_more_for_more_tests(
        self, better: int, worse: int, same: int, tests: int
    ) -> None:
        pairs = better + worse + same + 1
        one = inputs_needed(better, worse, pairs, least=0.05, tests=1)
        assert pairs < one <= inputs_needed(better, worse, pairs, least=0.05, tests=tests)

    def test_a_smaller_difference_takes_more(self) -> None:
        counts = [inputs_needed(0, 0, 10, least=least, tests=1) for least in (0.2, 0.1, 0.05)]
        assert counts == sorted(counts)


class TestInputsForNoWorse:
    def test_ties_take_as_many_as_leave_no_doubt(self) -> None:
        # Of n ties the interval ends at 1.959964 / (n + 2): from 38 on below 0.05.
        assert inputs_for_no_worse(0, 0, 12, margin=0.05, most=269) == 38
        assert paired_rates(0, 0, 38).low > -0.05 > paired_rates(0, 0, 37).low

    @given(st.integers(0, 20), st.integers(0, 20), st.integers(0, 20), st.floats(0.02, 0.3))
    def test_the_same_shares_of_so_many_are_no_worse(
        self, better: int, worse: int, same: int, margin: float
    ) -> None:
        pairs, most = better + worse + same + 1, 2_000
        needed = inputs_for_no_worse(better, worse, pairs, margin=margin, most=most)
        assert pairs < needed <= max(most, pairs + 1)
        if needed < most:
            share = needed / pairs
            assert paired_rates(better * share, worse * share, needed).low > -margin
