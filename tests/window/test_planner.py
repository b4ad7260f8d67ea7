"""The planner's sums by hand, its free moments, its bounds, and what it says of what waits.

A token is a character here, so that every number can be worked out from the messages.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from math import inf
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import windlass
from tests.caching.requests import bill_stream
from tests.support.window_planner import ANTHROPIC, CHARS, Shorten, _chars, _said
from tests.window.conversations import chats
from windlass.caching.prices import Prices, fetch_cost
from windlass.caching.rates import prices_of
from windlass.messages import Message, Opaque, tool
from windlass.window._decision import Decision, Offer
from windlass.window.conversation import Conversation, Window
from windlass.window.entries import Item
from windlass.window.planner import Planner, Planning
from windlass.window.window_rules import WindowRules

AUTOMATIC = Prices(read=0.1, write=1.0, minimum=1_024, step=128, ttl_s=None)
NONE = Prices(read=1, write=1, minimum=0, step=1, ttl_s=None)
LOCAL = Prices(read=0, write=1, minimum=0, step=1, ttl_s=None)
RUN = json.loads(
    (Path(__file__).parents[1] / "data" / "tau2_retail.json").read_text(encoding="utf-8")
)["messages"]


def _windows(
    said: Sequence[Message],
    policy: Shorten,
    prices: Prices = ANTHROPIC,
    times: Sequence[float | None] = (),
    holds: bool = False,
    **options: Any,
) -> list[Window]:
    """The window of each call; the last one sees everything."""
    planner = Planner(prices, tells=True, **options)
    conversation = Conversation((policy,), planner, WindowRules(count=_chars, holds=holds))
    seen: list[Window] = []
    for number, message in enumerate(said):
        if message.role == "assistant":
            seen.append(conversation.window())
        at = times[number] if times else None
        conversation.append(Item(f"i{number}", message, message.role), at=at)
    return [*seen, conversation.window()]


def _thinking(said: Sequence[Message]) -> list[Message]:
    """The same, each call with signed thinking."""
    block = json.dumps({"type": "thinking", "thinking": "Well.", "signature": "s"})
    thought = Opaque("anthropic", "thinking", block, "claude-opus-5-5")
    return [
        message.with_parts(thought, *message.parts) if message.tool_calls else message
        for message in said
    ]


def _decided(window: Window) -> Decision:
    assert window.decision is not None
    return window.decision


class TestSums:
    @given(
        st.lists(st.integers(20, 4_000), min_size=3, max_size=7),
        st.lists(st.tuples(st.integers(2, 7), st.integers(0, 5)), max_size=5),
    )
    def test_the_ledger_holds_what_the_windows_cost(
        self, results: list[int], cuts: list[tuple[int, int]]
    ) -> None:
        listed: dict[int, list[tuple[int, int]]] = {}
        for call, number in cuts:
            if number < call - 1:
                listed.setdefault(call, []).append((2 + 2 * number, 15))
        conversation = Conversation(
            (Shorten(listed),), Planner(ANTHROPIC, least_calls=40, over=9), CHARS
        )
        bill = 0.0
        before: tuple[Message, ...] = ()
        for number, message in enumerate(_said(*results)):
            shown = conversation.window().messages if message.role == "assistant" else ()
            conversation.append(Item(f"i{number}", message, message.role))  # the call was made
            if shown:
                same = takewhile(lambda pair: pair[0] == pair[1], zip(shown, before, strict=False))
                kept = sum(_chars(one) for one, _ in same)
                kept = kept if kept >= ANTHROPIC.minimum else 0
                total = sum(map(_chars, shown))
                bill += 0.1 * kept + 1.25 * (total - kept)
                before = shown
                assert conversation.ledger.bill == pytest.approx(bill)

    def test_an_edit_that_gains_is_made_with_its_numbers(self) -> None:
        third = _windows(_said(3_000, 50), Shorten({3: [(2, 200)]}))[2]
        one = _decided(third)
        # Nothing that was sent stands behind position 2; the assistant's word was not sent.
        assert (one.verdict, one.position, one.stay, one.put) == ("commit", 2, 0, 200)
        assert (one.removed, one.calls, one.read, one.write) == (2_800, 10, 0.1, 1.25)
        assert one.gain == pytest.approx(10 * 0.1 * 2_800 - 1.15 * (0 + 200))
        assert one.setup == pytest.approx(230)
        assert len(third.messages[2].text) == 200
        assert one.waits == ()

    def test_an_edit_that_does_not_is_left_with_its_numbers(self) -> None:
        fourth = _windows(_said(3_000, 3_000, 50), Shorten({4: [(2, 2_500)]}))[3]
        one = _decided(fourth)
        # The assistant's 100 and 3,000 characters of the next result would be written again.
        assert (one.verdict, one.position, one.stay, one.put) == ("defer", 2, 3_100, 2_500)
        assert one.gain == pytest.approx(10 * 0.1 * 500 - 1.15 * (3_100 + 2_500))
        assert fourth.edits == ()
        # 1.3 times the set-up of 6,440 is earned by 50 a call after 167.4 calls; half of the
        # calls made are so many at call 337.
        (wait,) = one.waits
        assert (wait.position, wait.because, wait.calls, wait.call) == (2, "digest", 168, 337)

    def test_what_waits_is_made_together_with_what_comes_later_and_not_before_it_pays(
        self,
    ) -> None:
        said = _said(4_000, 100, 4_000, 50)
        alone = _windows(said, Shorten({4: [(2, 3_000)]}))
        assert [w.decision and w.decision.verdict for w in alone[3:]] == ["defer", "defer"]
        later = _windows(said, Shorten({4: [(2, 3_000)], 5: [(6, 200)]}))
        one = _decided(later[4])
        assert (one.verdict, one.position, one.waiting) == ("commit", 6, 2)  # the suffix that pays
        assert [wait.position for wait in one.waits] == [2]

    def test_an_edit_from_further_back_comes_along_when_the_whole_suffix_gains_more(self) -> None:
        said = _said(4_000, 100, 4_000, 50)
        one = _decided(_windows(said, Shorten({5: [(2, 200), (6, 200)]}), over=9)[4])
        assert (one.verdict, one.position) == ("commit", 2)
        assert (one.stay, one.put, one.removed) == (300, 400, 7_600)

    def test_a_deeper_edit_in_the_place_of_an_earlier_one_is_priced_as_new(self) -> None:
        said = _said(4_000, 100, 50)
        fourth = _windows(said, Shorten({3: [(2, 1_000)], 4: [(2, 200)]}), margin=0, over=9)[3]
        one = _decided(fourth)
        assert (one.removed, one.put, one.stay) == (800, 200, 200)
        assert len(fourth.messages[2].text) == 200

    def test_in_a_higher_tier_the_rest_gets_cheaper_too(self) -> None:
        prices = Prices(0.1, 1.25, 1_024, 1, 300, tiers=((6_000, 2.0),))
        said = _said(3_000, 3_000, 50)
        one = _decided(_windows(said, Shorten({4: [(2, 100)]}), prices, over=9)[3])
        total = 2_000 + 3 * 100 + 3_000 + 3_000 + 50
        assert one.removed == 2_900 + (2 - 1) * total
        assert one.verdict == "commit"

    @pytest.mark.parametrize(
        "model",
        [
            "anthropic/claude-haiku-5-5",
            "openai/gpt-6.1-sol",
            "x-ai/grok-4.7",
            "gemini/gemini-3.1-pro-preview",
            "minimax/minimax-m3",
            "bedrock/us.anthropic.claude-haiku-5-5",
        ],
    )
    def test_getting_below_the_step_of_a_models_price_pays(self, model: str) -> None:
        prices = prices_of(model)
        (above, factor) = prices.tiers[0]
        said = _said(3_000, above - 4_000, 50)  # just above the step, until the first is cut
        total = 2_000 + 3 * 100 + 3_000 + above - 4_000 + 50
        shorten = Shorten({4: [(2, 100)]})
        one = _decided(_windows(said, shorten, prices, over=9, least_calls=40)[3])
        assert one.verdict == "commit"
        assert one.removed == pytest.approx(2_900 + (factor - 1) * total)
        flat = replace(prices, tiers=())
        assert _decided(_windows(said, shorten, flat, over=9, least_calls=40)[3]).verdict == "defer"

    @given(
        st.lists(
            st.tuples(st.integers(20, 4_000), st.none() | st.integers(10, 3_000)),
            min_size=4,
            max_size=9,
        ),
        st.integers(1, 40),
        st.sampled_from(
            [
                ANTHROPIC,
                replace(ANTHROPIC, tiers=((6_000, 2.0), (9_000, 3.0))),
                Prices(read=0.9, write=0.5, minimum=0, step=1, ttl_s=None),
            ]
        ),
    )
    @settings(max_examples=150)
    def test_sets_that_are_not_looked_at_would_not_be_chosen(
        self, results: list[tuple[int, int | None]], calls: int, prices: Prices
    ) -> None:
        said, last = _said(*[chars for chars, _ in results]), len(results) + 1
        kept = [(2 + 2 * at, keep) for at, (_, keep) in enumerate(results) if keep is not None]
        options: dict[str, Any] = {"least_calls": calls, "share": 0, "over": 9, "margin": 0.0}

        def decided() -> list[tuple[Decision | None, tuple[Message, ...]]]:
            seen = _windows(said, Shorten({last: kept}), prices, **options)
            return [(one.decision, one.messages) for one in seen]

        found, sets = decided(), Planning._sets

        def all_sets(plan: Planning, waiting: Sequence[Offer]) -> Iterator[Any]:
            for one in sets(plan, waiting):
                yield one._replace(most=inf)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Planning, "_sets", all_sets)
            assert decided() == found


class TestFreeMoments:
    def test_without_a_cache_everything_is_made_at_once(self) -> None:
        fourth = _windows(_said(3_000, 3_000, 50), Shorten({4: [(2, 2_500)]}), NONE)[3]
        assert (fourth.decision, len(fourth.edits)) == (None, 1)

    def test_where_reading_costs_nothing_nothing_that_was_sent_changes(self) -> None:
        policy = Shorten({3: [(2, 200), (4, 20)]})
        third = _windows(_said(3_000, 500), policy, LOCAL)[2]
        assert [len(m.text) for m in third.messages] == [2_000, 100, 3_000, 100, 20]
        (wait,) = _decided(third).waits
        assert (wait.calls, wait.call) == (None, None)

    @pytest.mark.parametrize(
        ("called", "now", "verdict"),
        [
            (100.0, 401.0, "cold"),
            (100.0, 400.0, "defer"),
            (None, 900.0, "defer"),
            (100.0, None, "defer"),
            (900.0, 100.0, "defer"),
        ],
    )
    def test_a_cache_is_cold_only_after_a_gap_that_is_known_to_be_long(
        self, called: float | None, now: float | None, verdict: str
    ) -> None:
        said = _said(3_000, 3_000, 50)
        times = [None] * 5 + [called, now]
        one = _decided(_windows(said, Shorten({4: [(2, 2_500)]}), times=times)[3])
        assert one.verdict == verdict

    def test_without_a_time_to_live_no_gap_is_long(self) -> None:
        times = [None] * 5 + [0.0, 1e9]
        policy = Shorten({4: [(2, 2_500)]})
        one = _decided(_windows(_said(3_000, 3_000, 50), policy, AUTOMATIC, times)[3])
        assert one.verdict == "defer"

    def test_what_was_never_sent_is_free(self) -> None:
        second = _windows(_said(3_000), Shorten({2: [(2, 200)]}))[1]
        assert (second.decision, len(second.messages[2].text)) == (None, 200)

    def test_behind_a_forced_edit_the_others_are_free(self) -> None:
        said = _said(3_000, 3_000, 50)
        forced = Shorten({4: [(0, 1_500)]}, must=True)
        conversation = Conversation(
            (forced, Shorten({4: [(2, 2_500)]}, name="other")),
            planner=Planner(ANTHROPIC, tells=True),
            rules=CHARS,
        )
        for number, message in enumerate(said):
            conversation.append(Item(f"i{number}", message, message.role))
        window = conversation.window()
        one = _decided(window)
        assert (one.verdict, one.position, one.stay, one.put) == ("commit", 2, 0, 0)
        assert [len(m.text) for m in window.messages[:3]] == [1_500, 100, 2_500]

    def test_a_forced_edit_alone_is_said(self) -> None:
        forced = Shorten({4: [(2, 10)]}, must=True)
        one = _decided(_windows(_said(3_000, 3_000, 50), forced)[3])
        assert (one.verdict, one.position, one.waits) == ("forced", 2, ())


class TestBoundThinking:
    """Where thinking is bound to what stands before it."""

    def test_what_stands_before_it_stays(self) -> None:
        said = _thinking(_said(5_110, 50, 50))
        cut = Shorten({4: [(2, 100)]})
        assert _decided(_windows(said, cut, least_calls=40)[3]).verdict == "commit"
        assert _decided(_windows(said, cut, holds=True, least_calls=40)[3]).verdict == "held"

    def test_also_where_the_cache_is_cold(self) -> None:
        said = _thinking(_said(5_100, 9_000, 50))
        late = [None, 0, 0, 10, 10, 900, 900]  # a pause before the fourth call
        held = _windows(said, Shorten({4: [(2, 100)]}), times=late, holds=True)[3]
        assert _decided(held).verdict == "held"
        assert not held.entries[2].edited


class TestBounds:
    def test_a_prefix_too_short_to_be_found_is_written_again_and_counted(self) -> None:
        one = _decided(_windows(_said(3_000, 50, first=600), Shorten({3: [(2, 1_200)]}))[2])
        assert one.stay == 600 + 100  # the user's word and the assistant's

    @pytest.mark.parametrize(
        ("first", "verdict"),
        # 1,536 tokens are one and a half times the minimum.
        [(1_135, "quiet"), (1_136, "defer")],
    )
    def test_a_short_window_stays_as_it_is(self, first: int, verdict: str) -> None:
        said = _said(100, 50, first=first, words=100)[:-1]
        said.append(tool(said[-1].tool_calls[0], "z" * 100))
        window = _windows(said, Shorten({3: [(2, 50)]}), floor=1, quiet=1.5)[2]
        assert sum(len(m.text) for m in window.messages) == first + 400
        assert _decided(window).verdict == verdict

    def test_no_edit_leaves_less_than_can_be_cached(self) -> None:
        policy = Shorten({3: [(2, 10)]})
        window = _windows(_said(3_000, 50, first=500), policy)[2]
        (wait,) = _decided(window).waits
        assert (_decided(window).verdict, wait.call) == ("defer", None)

    def test_a_gain_that_is_small_for_its_set_up_waits(self) -> None:
        policy = Shorten({3: [(2, 1_500)]})  # gains 1,500 less a set-up of 1,725
        said = _said(3_000, 50)
        assert _decided(_windows(said, policy)[2]).gain < 0
        gains = Shorten({3: [(2, 1_300)]})  # gains 1,700 less 1,495: 205
        assert _decided(_windows(said, gains, over=9)[2]).verdict == "defer"
        assert _decided(_windows(said, gains, over=9, margin=0.1)[2]).verdict == "commit"

    def test_the_bill_stays_under_the_guard(self) -> None:
        policy = Shorten({3: [(2, 200)]})
        # Both cost 2,000 * 1.25 and 2,000 * 0.1 + 3,100 * 1.25 by then; the set-up is 230.
        everything = 2_500 + 200 + 3_875
        said = _said(3_000, 50)
        # And the text that is hidden may have to be fetched again.
        again = fetch_cost(5_100, 3_000, read=0.1, write=1.25)
        reached = 1 + (230 + again) / everything
        assert _decided(_windows(said, policy, guard=reached - 0.001)[2]).verdict == "defer"
        assert _decided(_windows(said, policy, guard=reached + 0.001)[2]).verdict == "commit"
        short = 230 / everything - 0.001
        assert _decided(_windows(said, policy, over=short, sure=0)[2]).verdict == "defer"
        assert _decided(_windows(said, policy, over=short, sure=1)[2]).verdict == "commit"

    def test_under_a_guard_what_saves_less_than_a_step_of_the_cache_waits(self) -> None:
        # A window that is some tokens shorter may end in another step: .9 * 127 are at stake.
        small, large = Shorten({2: [(2, 2_950)]}), Shorten({2: [(2, 2_800)]})
        said = _said(3_000, 50)

        def made(policy: Shorten, guard: float | None) -> bool:
            window = _windows(said, policy, AUTOMATIC, guard=guard)[1]
            return window.entries[2].edited

        assert made(small, None)
        assert not made(small, 1.01)
        assert made(large, 1.01)

    def test_a_read_that_is_dearer_than_a_write_never_makes_an_edit_dearer_than_free(self) -> None:
        odd = Prices(read=0.9, write=0.5, minimum=0, step=1, ttl_s=None)
        one = _decided(_windows(_said(3_000, 3_000, 50), Shorten({4: [(2, 2_500)]}), odd)[3])
        assert one.verdict == "commit"


def _billed(said: Sequence[Mapping[str, Any]], prices: Prices, policy: Any) -> tuple[float, float]:
    """What the windows of all calls cost, and what sending everything costs, each at `prices`."""
    context = windlass.Context(policy=policy, prices=prices)
    sent: list[list[tuple[str, int]]] = []
    whole: list[list[tuple[str, int]]] = []

    def told(messages: Sequence[Mapping[str, Any]]) -> list[tuple[str, int]]:
        texts = [json.dumps(message, sort_keys=True) for message in messages]
        return [(text, len(text) // 4) for text in texts]

    for number, message in enumerate(said):
        if message["role"] == "assistant" and number:
            sent.append(told(context.window().messages))
            whole.append(told(said[:number]))
        context.append(message)
    return (
        sum(one.units for one in bill_stream(prices, sent)),
        sum(one.units for one in bill_stream(prices, whole)),
    )


class TestOverWholeRuns:
    @pytest.mark.parametrize("prices", [ANTHROPIC, AUTOMATIC, NONE], ids=["5m", "automatic", "no"])
    @pytest.mark.parametrize("profile", ["default", "lean", "careful"])
    def test_a_run_never_costs_much_more_than_sending_everything(
        self, prices: Prices, profile: str
    ) -> None:
        for length in range(4, len(RUN) + 1):
            ours, everything = _billed(RUN[:length], prices, profile)
            assert ours <= 1.05 * everything

    @given(chats(8), st.sampled_from([ANTHROPIC, AUTOMATIC, LOCAL]))
    def test_a_list_and_message_by_message_give_the_same_bytes(
        self, said: list[dict[str, Any]], prices: Prices
    ) -> None:
        context = windlass.Context(policy="default", prices=prices)
        for message in said:
            context.append(message)
            if message["role"] != "assistant":
                context.window()
        once = windlass.bound(said, policy="default", prices=prices)
        again = windlass.bound(said, policy="default", prices=prices)
        assert context.window().messages == once.messages == again.messages
