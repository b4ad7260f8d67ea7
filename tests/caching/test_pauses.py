"""For how long the head of the requests is cached, by the pauses between calls."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.caching.pauses import Lifetime, Pauses
from windlass.caching.prices import Prices

ANTHROPIC = Prices(0.1, 1.25, 1_024, 1, 300, write_long=2.0)


def after(before: Lifetime, gap: float | None, made: int, calls: float = 10) -> Lifetime:
    told = {"ttl_s": 300.0, "ttl_long_s": 3_600.0}
    return before.at_call(gap, calls_made=made, calls=calls, prices=ANTHROPIC, **told)


@pytest.mark.req("CE-25")
class TestLifetime:
    def test_it_stays_while_the_entry_is_there(self) -> None:
        long = after(Lifetime(), 400.0, 2)
        assert long.long
        assert after(long, 10.0, 500) == long
        later = after(long, 400.0, 500)
        assert later.long
        assert later.pauses == 2

    @given(st.lists(st.one_of(st.none(), st.floats(-10, 10_000)), max_size=30))
    def test_it_is_dear_only_where_it_pays(self, gaps: list[float | None]) -> None:
        now = Lifetime()
        for made, gap in enumerate(gaps, start=1):
            was, now = now, after(now, gap, made)
            if now.long and not was.long:
                assert now.to_come * 1.15 > 0.75
                assert gap is not None
                assert gap > 300


def test_where_no_start_is_known_the_gap_is_from_the_answer() -> None:
    pauses = Pauses()
    pauses.note(None, answer=False)
    pauses.note(10.0, answer=True)
    pauses.note(400.0, answer=False)
    assert pauses.gap == 390.0
    pauses.note(None, answer=True)
    pauses.answered_at(420.0)  # told later; the start is known
    pauses.note(500.0, answer=False)
    assert pauses.gap == 100.0
