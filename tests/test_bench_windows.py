"""The ruler of the windows, on examples small enough to be reckoned by hand."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from bench.windows.contestants import Everything, make
from bench.windows.measure import Bench, Outcome
from bench.windows.prices import VECTORS
from bench.windows.recordings import Chat
from bench.windows.signed import KEY
from bench.windows.strict import Marked, end_marks, marked, marked_cost
from bench.windows.table import choices, frontier, margins, mean, row
from bench.windows.validity import Validity, chat_problems

from tests.support.bench_windows import RUN, calls, recording, result, user
from windlass.caching.meter import SharedPrefix
from windlass.replays.measure import (
    NeededText,
    needs_and_own,
    needs_of,
    results_to_fetch,
    values_in,
)
from windlass.replays.numbered import NumberedMessages, count_tokens, searchable_text
from windlass.replays.pricing import Vector, measure_calls

ANTHROPIC, NEWER, _, AUTOMATIC, NONE = VECTORS
PICTURE = "data:image/png;base64," + base64.b64encode(
    b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x02\x00\x00\x00\x02"
).decode("ascii")


class Shows(Everything):
    """A contestant out of a function."""

    def __init__(self, window: Callable[[Sequence[Chat]], list[Chat]]) -> None:
        self._window = window

    def window(self, messages: Sequence[Chat], new_from: int) -> list[Chat]:
        return self._window(messages)


class TestTheNeutralCount:
    def test_a_message_is_four_tokens_and_a_quarter_a_character(self) -> None:
        assert count_tokens(user("x" * 40)) == 14

    def test_names_and_arguments_of_calls_are_characters(self) -> None:
        chat = calls("1", "abcd", q="")  # 4 characters, `bash`, `{"q": ""}`
        assert count_tokens(chat) == 4 + (4 + 4 + 9) / 4

    def test_a_picture_is_1105_tokens_whatever_its_bytes(self) -> None:
        part = {"type": "image_url", "image_url": {"url": PICTURE}}
        chat = {"role": "user", "content": [{"type": "text", "text": "abcd"}, part]}
        assert count_tokens(chat) == 4 + 1 + 1_105

    def test_equal_messages_share_a_number_and_others_do_not(self) -> None:
        shown = NumberedMessages()
        assert shown.number(result("1", "a")) == shown.number(result("1", "a"))
        assert shown.number(result("1", "a")) != shown.number(result("2", "a"))
        assert shown.number(result("1", "a")) != shown.number({**result("1", "a"), "x": 1})


class TestTheBill:
    def bill(self, *windows: list[Chat]) -> list[SharedPrefix]:
        shown = NumberedMessages()
        return measure_calls([[shown.number(chat) for chat in window] for window in windows], shown)

    def test_what_the_call_before_began_with_is_shared(self) -> None:
        a, b = user("a" * 4_000), user("b" * 400)
        assert self.bill([a], [a, b]) == [SharedPrefix(1_004, 0), SharedPrefix(1_108, 1_004)]

    def test_text_counts_up_to_the_first_differing_character(self) -> None:
        a, b = user("a" * 4_000), user("a" * 400 + "b")
        assert self.bill([a], [b])[1].shared == 100

    def test_a_message_of_another_call_shares_no_text(self) -> None:
        assert self.bill([result("1", "a" * 400)], [result("2", "a" * 400)])[1].shared == 0

    def test_the_longest_of_the_eight_calls_before_counts_and_no_older_one(self) -> None:
        long, others = user("a" * 4_000), [[user(str(n))] for n in range(8)]
        assert self.bill([long], *others[:7], [long])[-1].shared == 1_004
        assert self.bill([long], *others, [long])[-1].shared == 0

    def test_reads_and_writes_have_their_prices(self) -> None:
        assert SharedPrefix(3_000, 2_000).units(ANTHROPIC) == 2_000 * 0.1 + 1_000 * 1.25
        assert SharedPrefix(3_000, 2_000).units(NONE) == 3_000

    def test_a_cache_in_steps_holds_whole_steps_only(self) -> None:
        assert SharedPrefix(3_000, 2_000).units(AUTOMATIC) == 1_920 * 0.1 + 1_080

    def test_a_prefix_under_the_minimum_is_not_read(self) -> None:
        assert SharedPrefix(3_000, 1_023).units(ANTHROPIC) == 3_000 * 1.25
        assert SharedPrefix(3_000, 1_024).units(ANTHROPIC) == 1_024 * 0.1 + 1_976 * 1.25

    def test_a_call_under_the_minimum_writes_nothing(self) -> None:
        assert SharedPrefix(1_000, 0).units(ANTHROPIC) == 1_000


class TestTheStrictBill:
    def bill(self, *calls: tuple[list[Chat], Sequence[int]]) -> list[Marked]:
        shown = NumberedMessages()
        windows = [[shown.number(chat) for chat in window] for window, _ in calls]
        return marked(windows, [marks for _, marks in calls], shown, ANTHROPIC.minimum)

    def test_what_ends_at_a_mark_is_written_and_read_by_the_next(self) -> None:
        a, b, c = (user(letter * 4_000) for letter in "abc")
        said = self.bill(([a, b], [1]), ([a, b, c], [2]))
        assert said == [Marked(2_008, 0, 2_008), Marked(3_012, 2_008, 1_004)]
        assert marked_cost(said[1], ANTHROPIC) == 2_008 * 0.1 + 1_004 * 1.25

    def test_what_stands_behind_the_last_mark_is_neither(self) -> None:
        a, b, c = (user(letter * 5_000) for letter in "abc")
        said = self.bill(([a, b], [0]), ([a, b, c], [1]))
        assert said == [Marked(2_508, 0, 1_254), Marked(3_762, 1_254, 1_254)]
        assert marked_cost(said[0], ANTHROPIC) == 1_254 * 1.25 + 1_254

    @pytest.mark.parametrize(("count", "read"), [(20, 2_004), (21, 0)])
    def test_a_prefix_is_found_twenty_blocks_before_a_mark(self, count: int, read: int) -> None:
        a, more = user("a" * 8_000), [user(f"{number}" * 40) for number in range(count)]
        assert self.bill(([a], [0]), ([a, *more], [count]))[1].read == read

    def test_a_short_prefix_is_not_kept(self) -> None:
        a, b = user("a" * 400), user("b" * 8_000)
        assert self.bill(([a, b], [0]), ([a, b], [0])) == [Marked(2_108, 0, 0)] * 2

    def test_of_more_than_four_marks_the_last_four_count(self) -> None:
        window = [user(letter * 8_000) for letter in "abcdef"]
        other = [*window[:2], user("x" * 4_000)]
        assert self.bill((window, range(6)), (other, [1]))[1].read == 0
        assert self.bill((window, range(1, 5)), (other, [1]))[1].read == 4_008

    def test_who_sets_no_marks_has_them_on_the_last_message_and_three_before(self) -> None:
        assert end_marks(range(6)) == (2, 5)
        said = [user("go"), *(turn for n in "1234" for turn in (calls(n), result(n, n * 8_000)))]
        outcome = Bench(recording(*said)).run(Everything())["anthropic"]
        assert outcome.strict_own == outcome.strict_end == outcome.strict_everything > 0


class TestNeeds:
    def test_the_values_a_recording_names_are_taken_if_they_are_values(self) -> None:
        run = recording(
            user("go"),
            calls("1", q="list"),
            result("1", "orders: A-17, Emma, x1"),
            calls("2", q="show A-17 for Emma x1"),
            used={3: ("A-17", "Emma", "x1")},  # no digit or mark, and too short
        )
        assert needs_of(run) == {3: [NeededText("value", "A-17", (2,), (2,))]}

    def test_values_are_found_where_the_recording_names_none(self) -> None:
        run = recording(
            user("see /etc/hosts"),
            calls("1", q="ls"),
            result("1", "/etc/hosts src/main.py"),
            calls("2", q="cat /etc/hosts src/main.py src/other.py"),
        )
        assert [need.text for need in needs_of(run)[3]] == ["src/main.py"]

    def test_what_only_the_assistant_had_said_is_its_own(self) -> None:
        line = "print('a line that nobody else says')"
        run = recording(
            user("write a program"),
            calls("1", file="a.py", text=line),
            result("1", "written to out_7.log"),
            calls("2", file="b.py", text=line, log="out_7.log"),
            result("2", "written"),
        )
        needs, own = needs_and_own(run)
        assert [need.text for need in needs[3]] == ["out_7.log"]
        assert own == {3: [NeededText("line", line, (1,), ())]}
        everything = Bench(run).run(Everything(), [ANTHROPIC])["anthropic"]
        assert (everything.own, everything.own_seen) == (1, 1)
        assert row("x", "anthropic", "s", [everything]).own == 1
        hidden = Bench(run).run(Shows(lambda said: list(said[:1])), [ANTHROPIC])["anthropic"]
        assert (hidden.own, hidden.own_seen, hidden.lines_seen) == (1, 0, 0)

    @pytest.mark.parametrize(
        ("text", "found"),
        [
            ("cat src/a_b.py", {"src/a_b.py"}),
            ("SELECT id FROM t WHERE no = 'HAT136'", {"HAT136"}),
            ("just plain words", set()),
        ],
    )
    def test_a_value_is_a_marked_word(self, text: str, found: set[str]) -> None:
        assert set(values_in(text)) == found

    def test_lines_are_whole_long_and_an_earlier_results(self) -> None:
        held = "    return self.colnames[position]"
        run = recording(
            user("mend it"),
            calls("1", q="cat f"),
            result("1", f"  12 {held}\nshort"),
            calls("2", q=f"{held}\n    return self.columns_of_mine[position]\nshort"),
            used={},
        )
        assert [need.text for need in needs_of(run)[3]] == [held]

    def test_what_a_user_had_said_is_no_need(self) -> None:
        run = recording(
            user("order A-17"),
            calls("1", q="list"),
            result("1", "A-17"),
            calls("2", q="A-17"),
        )
        assert needs_of(run) == {}

    def test_quoted_code_is_found_in_escaped_arguments(self) -> None:
        assert 'say "a_1"' in searchable_text(calls("1", q='say "a_1"'))

    def test_of_the_results_that_hold_it_the_latest_is_fetched_and_each_once(self) -> None:
        needs = [
            NeededText("value", "a_1", (2, 4), (2, 4)),
            NeededText("value", "a_2", (2, 4), (2, 4)),
            NeededText("value", "a_3", (2,), (2,)),
        ]
        assert results_to_fetch(needs) == [4, 2]


def hide(messages: Sequence[Chat]) -> list[Chat]:
    """The same messages, the long ones hidden."""
    return [
        {**chat, "content": "hidden"} if len(str(chat["content"])) > 1_000 else chat
        for chat in messages
    ]


class TestAContestantOnARecording:
    def test_everything_costs_one_and_sees_all(self) -> None:
        outcome = Bench(RUN).run(Everything())["anthropic"]
        assert (outcome.calls, outcome.ratio, outcome.misses, outcome.invalid) == (2, 1.0, 0, 0)
        assert (outcome.values, outcome.values_seen) == (1, 1)

    def test_what_is_hidden_and_needed_is_fetched_again(self) -> None:
        outcome = Bench(RUN).run(Shows(hide))["anthropic"]
        # The third call sees: go; two calls of `bash` with `{"q": "list"}` (13 characters) and
        # `{"q": "wait"}`; two results, `hidden` and `done`.
        window = 5 * 4 + (2 + 2 * (4 + 13) + 6 + 4) / 4
        fetched_result = 4 + 5_000 / 4
        assert (outcome.values, outcome.values_seen, outcome.misses) == (1, 0, 1)
        assert outcome.again == pytest.approx(
            window * 0.1 + 60 * 5 + fetched_result * (1.25 + 3 * 0.1)
        )

    def test_a_digest_that_names_it_keeps_it_in_view(self) -> None:
        def digest(messages: Sequence[Chat]) -> list[Chat]:
            shown = hide(messages)
            return [
                {**chat, "content": "[A-17]"} if chat["content"] == "hidden" else chat
                for chat in shown
            ]

        outcome = Bench(RUN).run(Shows(digest))["anthropic"]
        assert (outcome.values_seen, outcome.again) == (1, 0)

    def test_a_call_that_says_it_keeps_it_in_view(self) -> None:
        run = recording(*RUN.messages[:6], result("3", "fine"), calls("4", q="A-17"))
        outcome = Bench(run).run(Shows(hide))["anthropic"]
        assert (outcome.values, outcome.values_seen) == (2, 1)

    def test_who_knows_the_future_reads_a_result_until_its_last_use(self) -> None:
        bench = Bench(recording(*RUN.messages, calls("4", q="bye")))
        outcome = bench.run(Everything())["anthropic"]
        go, first, result_, second, done, third, fine = (
            bench.shown.tokens[number] for number in bench.originals[:7]
        )
        written, read = go + first + result_, math.floor(go + first + result_)
        assert outcome.clairvoyant == pytest.approx(
            written * 1.25
            + read * 0.1
            + (written - read + second + done) * 1.25
            # The long result and `done` are dropped; what is left is under the minimum: fresh.
            + (go + first + second + third + fine)
        )

    def test_a_window_without_its_results_is_invalid(self) -> None:
        drop = Shows(lambda messages: [c for c in messages if c["role"] != "tool"])
        outcome = Bench(RUN).run(drop)["anthropic"]
        assert outcome.invalid == 2
        assert "call 0" in outcome.problems[0]

    def test_a_row_divides_sums_and_the_mean_weighs_sources_alike(self) -> None:
        whole = Bench(RUN).run(Everything())["none"]
        less = Bench(RUN).run(Shows(hide))["none"]
        rows = [row("x", "none", "a", [whole, whole]), row("x", "none", "b", [less])]
        assert rows[0].bill == 1
        assert rows[1].bill == pytest.approx(less.bill / less.everything)
        assert rows[1].misses == 50
        assert mean(rows).total == pytest.approx((1 + less.ratio) / 2)
        paid = 2 * whole.everything + less.ratio * less.everything
        assert mean(rows).weighted == pytest.approx(paid / (3 * whole.everything))

    def test_the_strict_bill_is_by_the_prices_and_the_minimum_of_each_model(self) -> None:
        # The first call has some 700 tokens: it is cached where 512 are enough.
        said = [user("a" * 2_800), calls("1"), result("1", "b" * 40), calls("2")]
        said += [result("2", "c" * 40), calls("3")]
        made = Bench(recording(*said)).run(Everything(), VECTORS)
        first, second = (sum(count_tokens(chat) for chat in said[:at]) for at in (3, 5))
        assert first > NEWER.minimum
        newer = first * 1.25 + first * 0.05 + (second - first) * 1.25
        assert made["anthropic.05"].strict_end == pytest.approx(newer)
        assert made["anthropic"].strict_end == first + second

    def test_on_the_frontier_stands_who_is_not_beaten(self) -> None:
        def half(messages: Sequence[Chat]) -> list[Chat]:
            return [
                {**chat, "content": "A-17 " * 500} if len(str(chat["content"])) > 1_000 else chat
                for chat in messages
            ]

        bench = Bench(RUN)
        contestants = {
            "whole": Everything(),
            "half": Shows(half),
            "none": Shows(lambda messages: [messages[0]]),
        }
        rows = [
            replace(row(name, "none", "a", [bench.run(one)["none"]]), total=total)
            for (name, one), total in zip(contestants.items(), (1.0, 0.6, 0.1), strict=True)
        ]
        lines = frontier(rows).splitlines()[2:]
        assert [line[:7].rstrip() for line in lines] == ["  whole", "* half", "* none"]

    def test_of_each_source_the_others_choose(self) -> None:
        """On `b` only the dear one keeps enough in view; `a` has no need of it."""
        one = row("", "none", "", [Bench(RUN).run(Everything())["none"]])
        rows = [
            replace(one, contestant=name, source=source, lines=lines, strict=strict)
            for name, source, lines, strict in (
                ("dear", "a", 1.0, 0.9),
                ("dear", "b", 0.99, 0.9),
                ("cheap", "a", 1.0, 0.5),
                ("cheap", "b", 0.97, 0.5),
            )
        ]
        _, of_a, of_b, *_ = choices(rows).splitlines()
        assert (of_a.split()[0], of_a.split()[-1]) == ("a", "dear")
        assert of_b.split()[:2] == ["b", "0.9700"]
        assert of_b.split()[-1] == "cheap"

    def test_margins_name_the_source_that_carries_a_difference(self) -> None:
        one = row("", "none", "", [Bench(RUN).run(Everything())["none"]])
        rows = [
            replace(one, contestant=name, source=source, total=total, lines=lines)
            for name, source, total, lines in (
                ("base", "a", 0.80, 1.0),
                ("base", "b", 0.50, 1.0),
                ("base", "c", 0.40, 1.0),
                ("other", "a", 0.81, 1.0),
                ("other", "b", 0.51, 0.99),
                ("other", "c", 0.35, 1.0),
            )
        ]
        _, said, *_ = margins(rows).splitlines()
        name, _, whole, least, most, _, lines, *carried = said.split()
        assert (name, whole, least, most, lines) == ("other", "-1.00", "-2.00", "1.00", "-0.010")
        assert carried == ["c", "-5.00", "carried"]


class TestBoundThinking:
    run = recording(
        user("go"),
        *(each for n in range(5) for each in (calls(str(n)), result(str(n), f"{n} " * 2_000))),
        user("more"),
        {"role": "assistant", "content": "done"},
    )

    def of(self, window: Callable[[Sequence[Chat]], list[Chat]]) -> Outcome:
        return Bench(self.run).run(Shows(window), VECTORS[:2])["anthropic"]

    @staticmethod
    def masked(messages: Sequence[Chat], newest: int = 2) -> list[Chat]:
        return [
            {**chat, "content": "hidden"} if chat["role"] == "tool" and at < newest else chat
            for at, chat in enumerate(messages, start=-len(messages) + 2 * newest)
        ]

    @staticmethod
    def bare(chat: Chat) -> Chat:
        return {key: each for key, each in chat.items() if key != KEY}

    def test_all_calls_that_send_everything_are_accepted(self) -> None:
        told = self.of(list)
        assert (told.calls, told.legal, told.epochs) == (5, 5, 0)
        assert told.blocks == told.blocks_made == 15
        assert row("x", "anthropic", "s", [told]).thoughts == 1
        assert told.ratio == pytest.approx(1)

    def test_whoever_rewrites_old_results_is_refused_from_then_on(self) -> None:
        told = self.of(self.masked)
        assert (told.legal, told.epochs, told.blocks) == (1, 0, 15)
        assert row("x", "anthropic", "s", [told]).legal == 1 / 5

    def test_whoever_takes_the_thinking_away_with_an_edit_is_accepted_and_pays(self) -> None:
        def stripped(messages: Sequence[Chat]) -> list[Chat]:
            return [*map(self.bare, messages)]

        def once(messages: Sequence[Chat]) -> list[Chat]:
            return list(messages) if len(messages) < 8 else stripped(messages)

        assert (self.of(stripped).legal, self.of(stripped).blocks) == (5, 0)
        told = self.of(once)
        assert (told.legal, told.epochs) == (5, 2)
        # What stands behind the first block that went is written anew, and the text is the same.
        assert told.bill > self.of(list).bill
        assert told.tokens == self.of(list).tokens

    def test_none_may_be_missing_in_the_middle(self) -> None:
        def without(messages: Sequence[Chat]) -> list[Chat]:
            late = len(messages) > 8
            return [self.bare(c) if late and at == 3 else c for at, c in enumerate(messages)]

        assert self.of(without).legal == 3

    def test_windlass_is_handed_thinking_for_a_model_that_binds_it(self) -> None:
        contestants = {name: make(f"windlass:lean{name}", ANTHROPIC) for name in ("", "@bound")}
        told = {
            name: Bench(self.run).run(one, VECTORS[:1])["anthropic"]
            for name, one in contestants.items()
        }
        rows = {name: row(name, "anthropic", "s", [each]) for name, each in told.items()}
        assert (rows[""].legal, rows["@bound"].legal, rows["@bound"].thoughts) == (None, 1, 1)
        lines = frontier([*rows.values()]).splitlines()[2:4]
        assert sorted(" - " in line for line in lines) == [False, True]
        with pytest.raises(ValueError, match="@bound"):
            make("windlass:lean@free", ANTHROPIC)


class TestValidity:
    def test_the_chat_rule_needs_each_result_at_its_call(self) -> None:
        good = [user("go"), calls("1"), result("1", "a")]
        assert chat_problems(good) == []
        assert chat_problems([good[0], good[2]])
        assert chat_problems([good[0], good[1]])
        assert chat_problems([good[1], good[0], good[2]])
        assert chat_problems([])

    def test_words_do_not_change_a_shape_and_blanks_ids_and_pictures_do(self) -> None:
        shown = NumberedMessages()
        validity = Validity(shown)
        one, other, blank, else_ = (
            [shown.number(result(id_, text))]
            for id_, text in (("1", "a"), ("1", "b"), ("1", " "), ("2", "a"))
        )
        assert validity.same_shape(one, other)
        assert not validity.same_shape(one, blank)
        assert not validity.same_shape(one, else_)

    def test_the_providers_are_asked_too(self) -> None:
        shown = NumberedMessages()
        window = [shown.number(chat) for chat in (user("go"), calls("1"), result("1", "a"))]
        assert Validity(shown).problems(window) == []
        broken = [shown.number(chat) for chat in (user("go"), result("9", "a"))]
        assert {wrong.partition(":")[0] for wrong in Validity(shown).problems(broken)} > {"chat"}


def test_vectors_are_those_of_the_definitions() -> None:
    assert (
        Vector(0.10, 1.25, 1_024, 1, name="anthropic"),
        Vector(0.05, 1.25, 512, 1, name="anthropic.05"),
        Vector(0.025, 1.25, 512, 1, name="anthropic.025"),
        Vector(0.10, 1.00, 1_024, 128, name="automatic"),
        Vector(1.0, 1.0, 0, 1, name="none"),
    ) == VECTORS
