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
    recency,
    relevance,
)

scores = st.lists(st.floats(0, 1, width=32), max_size=200).map(
    lambda values: np.array(values, dtype=np.float32)
)


def hit(count: int, *places: int) -> Scores:
    hits = np.zeros(count, dtype=np.float32)
    hits[list(places)] = 1
    return hits


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

    def test_reaches_further_forward_and_for_wide_tasks(self) -> None:
        narrow, wide = (Spreading(short(41), shape).of(hit(41, 20)) for shape in (NARROW, WIDE))
        assert narrow[21] > narrow[19] > narrow[18] > 0
        assert wide[30] > narrow[30]

    def test_fades_over_long_messages(self) -> None:
        tokens = short(5)
        tokens[2] = 9_000
        assert Spreading(tokens, NARROW).of(hit(5, 2))[3] < 0.2


class TestRelevance:
    def test_without_a_hit_is_recency(self) -> None:
        found = relevance(hit(30), short(30), NARROW)
        assert not found.own.any()
        assert not found.passage.any()
        assert (np.diff(found.recent) > 0).all()

    def test_of_a_task_about_the_talk_is_that_of_passages(self) -> None:
        hits = hit(200, 40, 120, 122, 124)
        hits[120:125:2] = 0.8
        wide, plain, narrow = (
            relevance(hits, short(200), shape) for shape in (WIDE, PLAIN, NARROW)
        )
        assert 120 <= np.argmax(wide.own + wide.passage) <= 124
        assert not wide.own.any()
        assert np.argmax(narrow.own + narrow.passage) == 40
        ends = [found.passage[110] / found.passage[122] for found in (narrow, plain, wide)]
        assert ends == sorted(ends)

    @pytest.mark.req("AC-74")
    def test_counts_the_newest_where_the_task_goes_on_with_them(self) -> None:
        going_on = relevance(hit(80, 5, 78), short(80), NARROW)
        elsewhere = relevance(hit(80, 5), short(80), NARROW)
        assert going_on.recent[-1] > 5 * elsewhere.recent[-1]

    def test_of_nothing_is_nothing(self) -> None:
        assert len(relevance(hit(0), short(0), WIDE).recent) == 0

    def test_recency_goes_by_position(self) -> None:
        values = recency(300)
        assert values[-1] == 1
        assert (np.diff(values) >= 0).all()
        assert values[-1 - 40] > 0.2
        assert values[0] < 1e-6

    @given(scores)
    def test_normal_scores_have_a_top_of_one(self, values: Scores) -> None:
        found = normalised(values)
        assert float(found.max(initial=0)) in (0, 1)


def said(count: int, *words: tuple[int, ...]) -> Mentions:
    """Where each word is said, once a place, among messages of ten words."""
    places = [(np.array(at), np.ones(len(at), dtype=np.float32), 1.0) for at in words]
    return Mentions(places, np.full(count, 10, dtype=np.float32))


class TestLikelihood:
    def test_is_highest_where_all_words_are_said(self) -> None:
        fits = likelihood(said(200, (30, 100), (32, 150)), Spreading(short(200), WIDE))
        assert 28 <= int(np.argmax(fits)) <= 34
        assert fits[100] < fits[31]
        assert fits[70] < fits[100]
        assert float(fits.max()) == 1

    @given(st.lists(st.lists(st.integers(0, 99), min_size=1, unique=True), min_size=1, max_size=40))
    def test_is_a_share_for_however_many_words(self, words: list[list[int]]) -> None:
        mentions = said(100, *(tuple(sorted(at)) for at in words))
        fits = likelihood(mentions, Spreading(short(100), NARROW))
        assert np.isfinite(fits).all()
        assert float(fits.max()) == 1
        assert float(fits.min()) > 0

    def test_lifts_the_passage_that_says_more_of_the_task(self) -> None:
        hits = hit(200, 40, 120)
        mentions = said(200, (40, 120), (121,), (123,))
        found = relevance(hits, short(200), WIDE, mentions=mentions)
        assert found.passage[120] > 1.2 * found.passage[40]
        assert found.own[120] == found.own[40]


class TestCloseness:
    def test_counts_what_is_near_around_a_message(self) -> None:
        near = hit(200, *range(60, 80))
        fits = closeness(near, short(200), Spreading(short(200), WIDE), words=2)
        assert 60 <= int(np.argmax(fits)) < 80
        assert fits[150] < fits[85] < 1

    def test_counts_less_where_many_words_say_what_is_meant(self) -> None:
        spreading = Spreading(short(50), WIDE)
        few, many = (closeness(hit(50, 3), short(50), spreading, words) for words in (2, 12))
        assert few[49] < many[49] < 1

    @given(scores)
    def test_of_any_nearness_is_a_share(self, near: Scores) -> None:
        fits = closeness(near, short(len(near)), Spreading(short(len(near)), NARROW), words=1)
        assert ((fits > 0) & (fits <= 1)).all()


def units_of(*tokens: int) -> Units:
    units = Units()
    for count in tokens:
        units.append(count, joins=False)
    return units


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

    def test_passes_over_what_does_not_fit_and_says_so(self) -> None:
        choice = fill_budget(iter([0, 1, 2]), units_of(90, 20, 10), 50)
        assert (choice.chosen, choice.left_out, choice.tokens) == ((1, 2), (0,), 30)

    def test_takes_what_is_first_first(self) -> None:
        choice = fill_budget(iter([0, 1, 2]), units_of(10, 10, 10), 20, first=[2])
        assert choice.chosen == (0, 2)

    def test_takes_one_of_those_that_say_the_same(self) -> None:
        units = units_of(5, 5, 5)
        units.said = ["same", "", "same"]
        choice = fill_budget(iter([2, 0, 1]), units, 50)
        assert choice.chosen == (1, 2)

    def test_a_result_joins_its_call(self) -> None:
        units = Units()
        for tokens, joins in ((5, False), (6, False), (7, True), (8, True), (9, False)):
            units.append(tokens, joins=joins)
        assert len(units) == 3
        assert (units[1].first, units[1].last, units[1].tokens) == (1, 3, 21)


class TestOrder:
    @given(st.lists(st.integers(0, 5), max_size=3_000))
    def test_is_best_first_and_the_later_of_equal_ones_first(self, values: list[int]) -> None:
        found = list(best_first(np.array(values, dtype=np.float32)))
        wanted = sorted(range(len(values)), key=lambda at: (-values[at], -at))
        assert found == [at for at in wanted if values[at] > 0]

    def test_holds_for_many_with_few_values(self) -> None:
        values = np.array([at % 7 for at in range(20_000)], dtype=np.float32)
        found = list(best_first(values))
        assert found == sorted(np.flatnonzero(values).tolist(), key=lambda at: (-values[at], -at))
