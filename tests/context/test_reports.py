"""What a provider reports of its calls: counts, its cache, and reports that make no sense."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import windlass
from tests.support.context_bound import bytes_of, lookup, loop
from tests.support.window_intake import problems
from tests.window.conversations import chats, policies
from windlass.context.bound import forget
from windlass.wire.base import Usage
from windlass.wire.usage import UsageCount, contradiction, counted, possible

PLAIN = "openai/gpt-4.1"
"""A model whose provider caches all of a request, without marks."""
DEAR = windlass.Prices(read=0.1, write=160, minimum=1_024, step=1, ttl_s=300)
"""Writing is so dear that no edit of what is cached ever pays."""


def usage(tokens: int, cached: int) -> dict[str, Any]:
    """A usage in OpenAI's words."""
    return {"prompt_tokens": tokens, "prompt_tokens_details": {"cached_tokens": cached}}


@dataclass
class Talk:
    """A conversation whose provider reads a share of what it should from its cache."""

    context: windlass.Context
    turns: int = 0

    def go_on(self, share: float) -> Any:
        """Make a call, report it, and answer it; the window that it was sent."""
        if not self.turns:
            self.context.append(loop(0)[0])
        window = self.context.window()
        asked = window.planned
        self.context.report(usage(asked.tokens, int(share * asked.expected)))
        text = "\n".join(f"line {at} of order {self.turns}" for at in range(240))
        for message in lookup(self.turns, text):
            self.context.append(message)
        self.turns += 1
        return window


def shortened(window: Any) -> int:
    return sum(entry.action == "replaced" for entry in window.entries)


class TestCache:
    def test_what_was_not_cached_is_shortened_at_the_next_call(self) -> None:
        talk = Talk(windlass.Context(PLAIN, prices=DEAR))
        for _ in range(5):
            assert shortened(talk.go_on(1.0)) == 0
        talk.go_on(0.0)
        window = talk.context.window()
        assert shortened(window) == 5  # all but the newest
        (told,) = window.assumed
        assert told.startswith("planned as cold: call 6 read 0 tokens from the cache where about ")

    def test_once_it_holds_again_it_is_counted_on(self) -> None:
        talk = Talk(windlass.Context(PLAIN, prices=DEAR))
        for share in (1.0, 1.0, 0.0):
            talk.go_on(share)
        talk.go_on(1.0)  # an edit was made: that it was read all the same shows an entry
        before = shortened(talk.go_on(1.0))
        assert before == shortened(talk.go_on(1.0))
        assert talk.context.window().assumed == ()

    def test_less_than_expected_after_an_edit_says_nothing(self) -> None:
        talk = Talk(windlass.Context(PLAIN, prices=DEAR))
        for share in (1.0, 1.0, 1.0, 0.0):
            talk.go_on(share)
        assert not talk.context.window().planned.goes_on
        before = talk.context.window().assumed
        assert len(before) == 1
        talk.go_on(0.0)
        assert talk.context.window().assumed == before

    def test_a_provider_that_caches_nothing_is_planned_so(self) -> None:
        context = windlass.Context(PLAIN, prices=DEAR, policy={"see_results": None, "see_reads": 3})
        talk = Talk(context)
        for _ in range(6):
            talk.go_on(0.0)
        (told,) = context.window().assumed
        assert told.startswith("no cache is counted on, for ")
        assert context.conversation.planner is not None
        assert not context.conversation.planner.prices.caches
        talk.go_on(1.0)
        assert context.window().assumed == ()
        assert context.conversation.planner.prices == DEAR

    def test_what_expired_is_not_missed(self) -> None:
        context = windlass.Context(PLAIN, prices=DEAR)
        context.append({"role": "user", "content": "x " * 4_000, "at": 0})
        context.append({**lookup(1)[0], "at": 5})
        context.append({**lookup(1)[1], "at": 400})
        assert context.window().planned.expected == 0
        context.report(usage(5_000, 0))
        assert context.window().assumed == ()

    def test_a_usage_that_says_nothing_of_a_cache_changes_nothing(self) -> None:
        talk = Talk(windlass.Context(PLAIN, prices=DEAR))
        talk.go_on(1.0)
        for _ in range(4):
            talk.context.report({"prompt_tokens": talk.context.window().tokens})
            for message in lookup(9):
                talk.context.append(message)
        assert talk.context.window().assumed == ()

    def test_one_call_told_twice_counts_once(self) -> None:
        talk = Talk(windlass.Context(PLAIN, prices=DEAR))
        for _ in range(4):
            talk.go_on(1.0)
        window = talk.context.window()
        for _ in range(5):
            talk.context.report(usage(window.tokens, 0), window)
        (assumed,) = talk.context.window().assumed
        assert assumed.startswith("planned as cold")  # and not without a cache
        talk.context.report(usage(window.tokens, window.planned.expected), window)
        assert talk.context.window().assumed == ()

    def test_it_may_be_told_after_the_answer(self) -> None:
        one, other = (windlass.Context(PLAIN, prices=DEAR) for _ in range(2))
        for context in (one, other):
            talk = Talk(context)
            for _ in range(3):
                talk.go_on(1.0)
        asked = one.window().planned
        assert other.window().planned == asked
        said = usage(asked.tokens, 0)
        one.report(said)
        for message in lookup(3):
            one.append(message)
            other.append(message)
        other.report(said)
        assert bytes_of(one.window()) == bytes_of(other.window())
        assert one.window().assumed == other.window().assumed != ()

    def test_what_was_sent_stands_though_it_is_counted_anew(self) -> None:
        context = windlass.Context(max_input_tokens=16_000, policy={"see_results": 30})
        for message in loop(6):
            context.append(message)
        sent = context.window()
        context.report(usage(sent.tokens * 3, 0))
        context.append({"role": "assistant", "content": "So."})
        first = [entry.action for entry in sent.entries]
        now = context.window()
        assert [one.action for one in now.entries[: len(first)]] != first
        assert now.planned.call == sent.planned.call + 1
        assert now.planned.expected == 0 or not now.planned.goes_on


class TestTimes:
    def test_the_time_of_the_answer_may_come_with_the_report(self) -> None:
        talk = Talk(windlass.Context(PLAIN, prices=DEAR))
        for _ in range(4):
            talk.go_on(1.0)
        context = talk.context
        window = context.window()
        context.report(usage(window.tokens, window.planned.expected), at=100.0)
        call, result = lookup(9)
        context.append(call)
        context.append({**result, "at": 500.0})
        decision = context.conversation.window().decision
        assert decision is not None
        assert decision.verdict == "cold"
        assert context.window().assumed == ()  # it is known, not assumed

    @pytest.mark.parametrize("first", [True, False])
    def test_in_either_order(self, first: bool) -> None:
        talk = Talk(windlass.Context(PLAIN, prices=DEAR))
        for _ in range(4):
            talk.go_on(1.0)
        context, window = talk.context, talk.context.window()
        said = usage(window.tokens, window.planned.expected)
        call, result = lookup(9)
        if first:
            context.report(said, at=100.0)
        context.append(call)
        if not first:
            context.report(said, at=100.0)
        context.append({**result, "at": 500.0})
        decision = context.conversation.window().decision
        assert decision is not None
        assert decision.verdict == "cold"

    def test_times_that_run_backwards_are_no_pause_and_told(self) -> None:
        talk = Talk(windlass.Context(PLAIN, prices=DEAR))
        for _ in range(3):
            talk.go_on(1.0)
        call, result = lookup(9)
        talk.context.append({**call, "at": 1_000.0})
        talk.context.append({**result, "at": 3.5})
        window = talk.context.window()
        assert shortened(window) == 0
        assert window.assumed == (
            "the request is 996.5 s older than the answer before it: taken as no pause",
        )

    def test_a_time_that_is_none_is_refused(self) -> None:
        context = windlass.Context()
        context.append(loop(0)[0])
        with pytest.raises(windlass.WindlassError, match="at nan is no number of seconds"):
            context.report(usage(5, 0), at=float("nan"))


SENSELESS: list[tuple[Any, str]] = [
    ({}, "this one has nothing"),
    ({"total_tokens": 5}, "this one has total_tokens"),
    (usage(10, 11), "11 cached of 10 input tokens cannot be"),
    (usage(-3, 0), "usage.prompt_tokens -3 is no number of tokens"),
    (usage(5, -1), "usage.cached_tokens -1 is no number of tokens"),
    (usage(0, 0), "it has no input tokens"),
    ({"prompt_tokens": "many"}, "usage.prompt_tokens 'many' is no number of tokens"),
    ({"prompt_tokens": 5, "prompt_tokens_details": 3}, "is no dict"),
    ({"input_tokens": 5, "cache_read_input_tokens": -5}, "-5 is no number of tokens"),
    (Usage(5, 0, 6), "6 cached and 0 written of 5 input tokens cannot be"),
    (Usage(5, -2), "-2 output tokens cannot be"),
    (Usage(5, 0, 3, 3), "3 cached and 3 written of 5 input tokens cannot be"),
    ("much", "str is no usage"),
    (None, "NoneType is no usage"),
]


class TestSense:
    @pytest.mark.parametrize(("said", "why"), SENSELESS, ids=lambda one: str(one)[:40])
    def test_what_makes_none_is_left_aside_with_a_reason(self, said: Any, why: str) -> None:
        context, untouched = (
            windlass.Context(PLAIN, prices=DEAR),
            windlass.Context(PLAIN, prices=DEAR),
        )
        for message in loop(3):
            context.append(message)
            untouched.append(message)
        context.report(said)
        window = context.window()
        (told,) = window.assumed
        assert told.startswith("the usage of call 4 is left aside: ")
        assert why in told
        assert bytes_of(window) == bytes_of(untouched.window())
        assert window.tokens == untouched.window().tokens

    def test_a_later_report_takes_the_note_away(self) -> None:
        context = windlass.Context(PLAIN, prices=DEAR)
        context.append(loop(0)[0])
        context.report({})
        assert context.window().assumed
        context.report(usage(9, 0))
        assert not context.window().assumed

    @pytest.mark.parametrize(
        ("said", "read"),
        [
            (usage(90, 64), UsageCount(90, 64)),
            ({"prompt_tokens": 90, "prompt_tokens_details": None}, UsageCount(90, None)),
            ({"input_tokens": 10, "output_tokens": 2}, UsageCount(10, None)),
            (
                {
                    "input_tokens": 10,
                    "cache_read_input_tokens": 50,
                    "cache_creation_input_tokens": 30,
                },
                UsageCount(90, 50),
            ),
            (
                {"input_tokens": 90, "input_tokens_details": {"cached_tokens": 64}},
                UsageCount(90, 64),
            ),
            ({"promptTokenCount": 90, "cachedContentTokenCount": 64}, UsageCount(90, 64)),
            ({"prompt_token_count": 90}, UsageCount(90, None)),
            (Usage(90, 5, 64), UsageCount(90, 64)),
        ],
    )
    def test_each_format_is_read(self, said: Any, read: UsageCount) -> None:
        assert counted(said) == read

    def test_an_object_of_an_sdk_is_read(self) -> None:
        class Said:
            def model_dump(self) -> Mapping[str, Any]:
                return usage(90, 64)

        assert counted(Said()) == UsageCount(90, 64)

    @given(st.builds(Usage, *[st.integers(-9, 99)] * 5))
    def test_what_is_possible_contradicts_nothing(self, said: Usage) -> None:
        assert contradiction(possible(said)) == ""
        if not contradiction(said) and said.tokens_written_long <= said.tokens_written:
            assert possible(said) == said

    def test_a_model_without_prices_is_told(self) -> None:
        with pytest.warns(UserWarning, match="'acme/one' has no price"):
            context = windlass.Context("acme/one")
        for message in loop(3):
            context.append(message)
        window = context.window()
        assert window.assumed[0].startswith("model 'acme/one' has no price in the table")
        assert shortened(window) == 2
        assert windlass.bound(loop(3)).assumed == (
            "no model is named, so no prompt cache is assumed",
        )


@st.composite
def reported(draw: Any) -> list[dict[str, Any]]:
    """A conversation with times, which may run backwards, and usages, which may make no sense."""
    messages: list[dict[str, Any]] = draw(chats())
    clock = 0.0
    for message in messages:
        clock += draw(st.sampled_from([1.0, 20.0, 400.0, -50.0, 4_000.0]))
        if draw(st.booleans()):
            message["at"] = clock
        if message["role"] == "assistant" and draw(st.booleans()):
            tokens, cached = draw(st.integers(-1, 60_000)), draw(st.integers(-1, 60_000))
            message["usage"] = usage(tokens, cached)
    return messages


PRICES = st.sampled_from(
    [
        windlass.Prices(0.1, 1.25, 1_024, 1, 300, write_long=2.0),
        windlass.Prices(0.25, 1.0, 1_024, 128, 300),
        windlass.Prices(1.0, 1.0, 0, 1, None),
        windlass.Prices(0.0, 1.0, 0, 1, None),
    ]
)


@given(reported(), policies(), PRICES, st.sampled_from([None, 3_000]))
def test_whole_lists_single_messages_and_reports_give_the_same(
    messages: list[dict[str, Any]],
    options: dict[str, Any],
    prices: windlass.Prices,
    most: int | None,
) -> None:
    told: dict[str, Any] = {"policy": options, "prices": prices, "max_input_tokens": most}
    appended, reporting = windlass.Context(**told), windlass.Context(**told)
    for count, message in enumerate(messages, start=1):
        bare = {key: value for key, value in message.items() if key != "usage"}
        if message.get("usage") and count > 1:
            reporting.report(message["usage"], reporting.window())
        reporting.append(bare)
        appended.append(message)
        own = appended.window()
        assert problems(own) == []
        assert bytes_of(own) == bytes_of(reporting.window())
        assert own.assumed == reporting.window().assumed
        warm = windlass.bound(messages[:count], **told)
        assert bytes_of(own) == bytes_of(warm)
        assert own.assumed == warm.assumed
        assert own.wire("anthropic") == warm.wire("anthropic")
    forget()
    assert bytes_of(windlass.bound(messages, **told)) == bytes_of(own)
    assert "usage" not in json.dumps(own.wire("openai"))


@given(chats(), chats(), st.data())
def test_a_list_that_is_no_continuation_is_planned_as_a_new_one(
    messages: list[dict[str, Any]], others: list[dict[str, Any]], data: Any
) -> None:
    windlass.bound(messages, prices=DEAR)
    cut = data.draw(st.integers(0, len(messages)))
    changed = [*messages[:cut], *others]
    window = windlass.bound(changed, prices=DEAR)
    assert problems(window) == []
    forget()
    assert bytes_of(windlass.bound(changed, prices=DEAR)) == bytes_of(window)
