"""Bills of requests with a prompt cache, computed by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.caching.requests import bill_stream
from windlass.caching.meter import Meter, Segments, SharedStream
from windlass.caching.prices import Prices
from windlass.errors import UsageError

ROUND = Prices(read=0.1, write=1.25, minimum=1_024, step=1, ttl_s=300)


@pytest.mark.parametrize(
    "wrong",
    [
        {"read": -0.1},
        {"write": float("nan")},
        {"write_long": float("inf")},
        {"minimum": -1},
        {"step": 0},
        {"ttl_s": 0},
        {"tiers": ((200, 2.0), (100, 3.0))},
        {"tiers": ((200, -2.0),)},
    ],
)
def test_prices_that_cannot_be(wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        replace(ROUND, **wrong)  # type: ignore[arg-type]


def test_a_stream_by_hand() -> None:
    first = [("a", 1_000), ("b", 500)]
    billed = bill_stream(
        ROUND,
        [
            first,
            [*first, ("c", 300)],
            [("a", 1_000), ("c", 300)],  # shares 1,000 < 1,024: nothing is read
            [*first, ("d", 10)],  # shared with a request further back
        ],
    )
    assert [(one.tokens, one.cached) for one in billed] == [
        (1_500, 0),
        (1_800, 1_500),
        (1_300, 0),
        (1_510, 1_500),
    ]
    assert [one.units for one in billed] == pytest.approx(
        [1_500 * 1.25, 1_500 * 0.1 + 300 * 1.25, 1_300 * 1.25, 1_500 * 0.1 + 10 * 1.25]
    )


def test_a_short_request_is_not_cached_at_all() -> None:
    (one,) = bill_stream(ROUND, [[("a", 1_023)]])
    assert one.units == pytest.approx(1_023)
    (one,) = bill_stream(replace(ROUND, minimum=1_023), [[("a", 1_023)]])
    assert one.units == pytest.approx(1_023 * 1.25)


def test_a_shared_prefix_below_the_models_own_minimum_is_not_read() -> None:
    twice = [[("a", 4_000)], [("a", 4_000), ("b", 200)]]
    assert [one.cached for one in bill_stream(ROUND, twice)] == [0, 4_000]
    dear = bill_stream(replace(ROUND, minimum=4_096), twice)
    assert [one.cached for one in dear] == [0, 0]
    assert [one.units for one in dear] == pytest.approx([4_000, 4_200 * 1.25])


def test_a_hit_is_cut_to_whole_steps() -> None:
    (_, second) = bill_stream(replace(ROUND, step=128), [[("a", 1_300)], [("a", 1_300)]])
    assert second.cached == 1_280
    assert second.units == pytest.approx(1_280 * 0.1 + 20 * 1.25)
    (_, second) = bill_stream(replace(ROUND, step=2_048), [[("a", 1_300)], [("a", 1_300)]])
    assert second.cached == 0


def test_a_prefix_expires_unless_it_is_used() -> None:
    same = [[("a", 2_000)]] * 4
    told = bill_stream(ROUND, same, [0.0, 300.0, 600.0, 901.0])
    assert [one.cached for one in told] == [0, 2_000, 2_000, 0]
    assert bill_stream(replace(ROUND, ttl_s=None), same, [0.0, 1e3, 1e6, 1e9])[-1].cached == 2_000


def test_long_requests_are_billed_at_their_tier() -> None:
    tiered = replace(ROUND, tiers=((2_000, 2.0), (4_000, 3.0)))
    told = bill_stream(tiered, [[("a", 2_000)], [("a", 2_000), ("b", 1)], [("c", 4_001)]])
    assert [one.units for one in told] == pytest.approx(
        [2_000 * 1.25, 2 * (2_000 * 0.1 + 1.25), 3 * 4_001 * 1.25]
    )


def test_without_a_cache_nothing_is_read() -> None:
    plain = Prices(1.0, 1.0, 0, 1, None)
    told = bill_stream(plain, [[("a", 2_000)]] * 2)
    assert [(one.cached, one.units) for one in told] == [(0, 2_000.0)] * 2


def test_only_the_last_eight_requests_are_looked_at() -> None:
    shared = [("a", 2_000)]
    others = [[(f"x{number}", 2_000)] for number in range(8)]
    assert bill_stream(ROUND, [shared, *others[:7], shared])[-1].cached == 2_000
    assert bill_stream(ROUND, [shared, *others, shared])[-1].cached == 0


def test_what_stands_behind_the_last_mark_is_fresh_and_found_by_no_later_request() -> None:
    meter = Meter(ROUND)
    head, result, reply = ("head", 2_000), ("result", 3_000), ("reply", 100)
    first = meter.bill([head, result], written=1)
    assert (first.cached, first.units) == (0, 2_000 * 1.25 + 3_000)
    second = meter.bill([head, result, reply], written=3)
    assert (second.cached, second.units) == (2_000, 2_000 * 0.1 + 3_100 * 1.25)
    assert second.goes_on
    third = meter.bill([head, result, reply], written=1)
    assert (third.cached, third.units) == (5_100, 5_100 * 0.1)


def test_a_mark_before_the_shortest_prefix_writes_nothing() -> None:
    meter = Meter(ROUND)
    assert meter.bill([("head", 500), ("result", 3_000)], written=1).units == 3_500


def test_an_empty_stream() -> None:
    assert bill_stream(ROUND, []) == []
    assert bill_stream(ROUND, [[]])[0].tokens == 0


@given(
    steps=st.lists(
        st.tuples(st.integers(0, 6), st.lists(st.sampled_from("abc"), max_size=4)), max_size=20
    ),
    ttl=st.sampled_from([None, 2.0]),
)
def test_a_stream_told_by_what_is_new_costs_what_a_meter_bills(
    steps: list[tuple[int, list[str]]], ttl: float | None
) -> None:
    prices = replace(ROUND, minimum=2, ttl_s=ttl)
    stream, meter = SharedStream(prices), Meter(prices)
    last: Segments = []
    for at, (kept, names) in enumerate(steps):
        stand = min(kept, len(last))
        more = [(name, 1 + ord(name) - ord("a")) for name in names]
        last = [*last[:stand], *more]
        assert stream.bill(stand, more, list(names), float(at)) == meter.bill(last, float(at))
