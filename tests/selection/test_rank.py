"""Ranking: spreading, recency, filling a budget; all of it pure arithmetic."""

from __future__ import annotations

import math
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.selection.rank import (
    NARROW,
    PLAIN,
    REACH,
    WIDE,
    Mentions,
    Scores,
    Spreading,
    SpreadShape,
    Units,
    best_first,
    closeness,
    fill_budget,
    likelihood,
    normalised,
)

scores = st.lists(st.floats(0, 1, width=32), max_size=200).map(
    lambda values: np.array(values, dtype=np.float32)
)


def short(count: int) -> Scores:
    return np.full(count, 20, dtype=np.float32)


class TestSpreading:
    @given(scores, st.sampled_from([NARROW, PLAIN, WIDE]))
    def test_is_the_sum_over_all_neighbours(self, values: Scores, shape: SpreadShape) -> None:
        tokens = (np.arange(len(values), dtype=np.float32) * 37) % 900
        short = np.minimum(tokens, 60)
        rest = tokens - short
        found = Spreading(tokens, shape).of(values)
        steps = [0.0, *((short[1:] + short[:-1]) / 2).tolist()]
        rests = [0.0, *((rest[1:] + rest[:-1]) / 4_000).tolist()]
        for place in range(0, len(values), 17):
            wanted = float(values[place])
            for weight, length, step in ((1.0, shape.forward, -1), (shape.back, shape.backward, 1)):
                left, at = weight, place
                for _ in range(REACH):
                    if not 0 <= at + step < len(values):
                        break
                    later = max(at, at + step)
                    left *= math.exp(-rests[later] - steps[later] / length)
                    at += step
                    wanted += left * float(values[at])
            assert found[place] == pytest.approx(wanted, rel=1e-3, abs=1e-5)


class TestRelevance:
    @given(scores)
    def test_normal_scores_have_a_top_of_one(self, values: Scores) -> None:
        found = normalised(values)
        assert float(found.max(initial=0)) in (0, 1)


def said(count: int, *words: tuple[int, ...]) -> Mentions:
    """Where each word is said, once a place, among messages of ten words."""
    places = [(np.array(at), np.ones(len(at), dtype=np.float32), 1.0) for at in words]
    return Mentions(places, np.full(count, 10, dtype=np.float32))


class TestLikelihood:
    @given(st.lists(st.lists(st.integers(0, 99), min_size=1, unique=True), min_size=1, max_size=40))
    def test_is_a_share_for_however_many_words(self, words: list[list[int]]) -> None:
        mentions = said(100, *(tuple(sorted(at)) for at in words))
        fits = likelihood(mentions, Spreading(short(100), NARROW))
        assert np.isfinite(fits).all()
        assert float(fits.max()) == 1
        assert float(fits.min()) > 0


class TestCloseness:
    @given(scores)
    def test_of_any_nearness_is_a_share(self, near: Scores) -> None:
        fits = closeness(near, short(len(near)), Spreading(short(len(near)), NARROW), words=1)
        assert ((fits > 0) & (fits <= 1)).all()


class TestFilling:
    @given(
        st.lists(st.tuples(st.integers(1, 50), st.booleans()), max_size=40),
        st.integers(1, 300),
        st.none() | st.integers(1, 20),
        st.randoms(use_true_random=False),
    )
    def test_holds_every_bound(
        self, told: list[tuple[int, bool]], budget: int, most: int | None, rnd: Random
    ) -> None:
        units = Units()
        for tokens, joins in told:
            units.append(tokens, joins=joins)
        order = list(range(len(units)))
        rnd.shuffle(order)
        choice = fill_budget(iter(order), units, budget, most)
        assert list(choice.chosen) == sorted(set(choice.chosen))
        assert choice.tokens == sum(units[at].tokens for at in choice.chosen) <= budget
        count = sum(units[at].last - units[at].first + 1 for at in choice.chosen)
        assert most is None or count <= most
        assert not set(choice.left_out) & set(choice.chosen)


class TestOrder:
    @given(st.lists(st.integers(0, 5), max_size=3_000))
    def test_is_best_first_and_the_later_of_equal_ones_first(self, values: list[int]) -> None:
        found = list(best_first(np.array(values, dtype=np.float32)))
        wanted = sorted(range(len(values)), key=lambda at: (-values[at], -at))
        assert found == [at for at in wanted if values[at] > 0]
