"""For how long the head of the requests is cached, by the pauses between calls."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import windlass
from tests.support.context_bound import lookup
from tests.validators import anthropic as rules
from windlass.caching.pauses import Lifetime, Pauses
from windlass.caching.prices import Prices

ANTHROPIC = Prices(0.1, 1.25, 1_024, 1, 300, write_long=2.0)


def after(before: Lifetime, gap: float | None, made: int, calls: float = 10) -> Lifetime:
    told = {"ttl_s": 300.0, "ttl_long_s": 3_600.0}
    return before.at_call(gap, calls_made=made, calls=calls, prices=ANTHROPIC, **told)


@pytest.mark.req("CE-25")
class TestLifetime:
    @pytest.mark.parametrize("gap", [None, -5.0, 10.0, 300.0])
    def test_without_a_pause_nothing_is_decided(self, gap: float | None) -> None:
        assert after(Lifetime(), gap, 9) == Lifetime()

    def test_the_dearer_write_is_paid_where_the_sum_says_so(self) -> None:
        # Pauses to come * (1.25 - 0.1) > 2 - 1.25: from 0.652 on.
        assert after(Lifetime(), 400.0, 10, 6.6) == Lifetime(
            long=True, pauses=1, calls=10, to_come=0.66
        )
        assert after(Lifetime(), 400.0, 10, 6.5) == Lifetime(
            long=False, pauses=1, calls=10, to_come=0.65
        )

    def test_it_stays_while_the_entry_is_there(self) -> None:
        long = after(Lifetime(), 400.0, 2)
        assert long.long
        assert after(long, 10.0, 500) == long
        later = after(long, 400.0, 500)
        assert later.long
        assert later.pauses == 2

    def test_after_more_than_an_hour_it_is_decided_anew(self) -> None:
        long = after(Lifetime(), 400.0, 2)
        assert not after(long, 4_000.0, 500).long
        assert after(long, 4_000.0, 5).long

    def test_a_pause_longer_than_both_tells_nothing_for_it(self) -> None:
        assert after(Lifetime(), 4_000.0, 1) == Lifetime(calls=1)

    def test_where_there_is_no_longer_time_none_is_asked_for(self) -> None:
        short = Prices(0.1, 1.0, 1_024, 128, 300)
        told: dict[str, Any] = {"calls_made": 2, "calls": 10, "ttl_s": 300.0}
        assert Lifetime().at_call(400.0, prices=short, ttl_long_s=None, **told) == Lifetime()
        assert Lifetime().at_call(400.0, prices=short, ttl_long_s=3_600.0, **told) == Lifetime()

    @given(st.lists(st.one_of(st.none(), st.floats(-10, 10_000)), max_size=30))
    def test_it_is_dear_only_where_it_pays(self, gaps: list[float | None]) -> None:
        now = Lifetime()
        for made, gap in enumerate(gaps, start=1):
            was, now = now, after(now, gap, made)
            if now.long and not was.long:
                assert now.to_come * 1.15 > 0.75
                assert gap is not None
                assert gap > 300


def test_the_gap_is_between_the_starts_of_two_calls() -> None:
    pauses = Pauses()
    assert pauses.gap is None
    pauses.note(5.0, answer=False)
    assert pauses.gap is None
    pauses.note(10.0, answer=True)
    assert pauses.gap is None  # nothing was said since
    pauses.note(400.0, answer=False)
    pauses.note(None, answer=False)
    assert pauses.gap == 395.0
    assert not pauses.assumed
    pauses.note(None, answer=True)
    assert pauses.gap is None
    pauses.note(450.0, answer=False)
    assert pauses.gap == 50.0  # the start is known, whatever is known of the answer


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


def test_a_request_that_is_older_than_the_answer_before_it_is_no_pause() -> None:
    pauses = Pauses()
    pauses.note(5.0, answer=False)
    pauses.note(10.0, answer=True)
    pauses.note(7.0, answer=False)
    assert pauses.assumed == "the request is 3 s older than the answer before it: taken as no pause"
    assert pauses.gap == -3.0


@pytest.mark.req("CE-25")
class TestWindow:
    @staticmethod
    def talk(pause: float) -> windlass.Context:
        """A loop with a long system prompt and one pause in its third turn."""
        context = windlass.Context("anthropic/claude-sonnet-4-5")
        context.append({"role": "system", "content": "Be careful. " * 900})
        context.append({"role": "user", "content": "Compare.", "at": 0.0})
        now = 0.0
        for number in range(4):
            call, result = lookup(number, "short")
            now += 5
            context.append({**call, "at": now})
            now += pause if number == 2 else 5
            context.append({**result, "at": now})
        return context

    def test_the_head_is_marked_for_an_hour_after_a_long_pause(self) -> None:
        window = self.talk(900.0).window()
        assert window.long_breakpoints == ((0, 0),)
        assert window.long_breakpoints[0] in window.breakpoints
        body = window.wire("anthropic")
        assert body["system"][0]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
        assert rules.problems({**body, "model": "claude-sonnet-4-5", "max_tokens": 9}) == []

    def test_what_an_answer_takes_is_counted(self) -> None:
        """An entry lives from the start of the request that used it, not from its answer."""
        for answer, wait, lives in ((5.0, 200.0, True), (200.0, 150.0, False), (350.0, 1.0, False)):
            context = windlass.Context("anthropic/claude-sonnet-5-5")
            context.append({"role": "system", "content": "Be careful. " * 900})
            context.append({"role": "user", "content": "Compare.", "at": 0.0})
            call, result = lookup(0, "short")
            context.append({**call, "at": answer})
            context.append({**result, "at": answer + wait})
            assert bool(context.window().planned.expected) is lives, (answer, wait)

    @pytest.mark.parametrize("pause", [5.0, 200.0, 5_000.0])
    def test_else_for_minutes(self, pause: float) -> None:
        window = self.talk(pause).window()
        assert window.long_breakpoints == ()
        assert "ttl" not in str(window.wire("anthropic")["system"])
