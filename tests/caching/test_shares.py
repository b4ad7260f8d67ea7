"""The shares of what each piece of requests paid add up to the bill."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.caching.meter import Meter, SharedStream
from windlass.caching.prices import UNCACHED, Prices

CACHED = Prices(read=0.1, write=1.25, minimum=100, step=1, ttl_s=300)
TIERED = Prices(read=0.1, write=1.0, minimum=64, step=32, ttl_s=None, tiers=((500, 2.0),))

WEIGHTS = {"a": 0, "b": 1, "c": 40, "d": 99, "e": 130, "f": 200}
PIECES = st.lists(st.sampled_from(sorted(WEIGHTS.items())), max_size=8)
REQUESTS = st.lists(
    st.tuples(st.integers(0, 8), PIECES, st.sampled_from([1.0, 400.0])), min_size=1, max_size=12
)


@given(REQUESTS, st.sampled_from([CACHED, TIERED, UNCACHED]))
def test_shares_add_up_to_the_bill_and_count_calls(
    requests: list[tuple[int, list[tuple[str, int]], float]], prices: Prices
) -> None:
    shared, metered = SharedStream(prices), Meter(prices)
    now, units, at = list[tuple[str, int]](), 0.0, 0.0
    calls, tokens = Counter[str](), Counter[str]()
    for kept, more, pause in requests:
        here = min(kept, len(now))
        now, at = now[:here] + more, at + pause
        bill = shared.bill(here, more, [name for name, _ in more], at)
        whole = metered.bill(now, at)
        assert (bill.tokens, bill.cached, bill.units) == (whole.tokens, whole.cached, whole.units)
        units += bill.units
        for name, count in now:
            calls[name] += 1
            tokens[name] += count
    shares = shared.shares()
    assert sum(share.paid for share in shares.values()) == pytest.approx(units)
    assert {name: share.calls for name, share in shares.items() if share.calls} == calls
    assert {name: share.tokens for name, share in shares.items() if share.tokens} == +tokens
    assert shared.shares() == shares
