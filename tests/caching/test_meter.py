"""Bills of requests with a prompt cache, computed by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
