"""A reference stands for exactly what it replaced, and what it refers to is in view."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.window.reading_back import padded, resolve
from windlass.messages import Message, Opaque, Text, ToolCall, assistant, tool, user
from windlass.window._pending import WindowPolicy
from windlass.window.conversation import Conversation, Window
from windlass.window.entries import Item
from windlass.window.names import names_said
from windlass.window.originals import reference
from windlass.window.policies.compress import Compress
from windlass.window.policies.lossless import Lossless
from windlass.window.policies.rare import Masking
from windlass.window.policies.repeats import Repeats
from windlass.window.window_rules import WindowRules
from windlass.wire.openai import check_sequence

BLOCKS = [
    "\n".join(f"line {block}.{at} says {'something ' * (block + 2)}" for at in range(3 + 4 * block))
    for block in range(4)
]


def run(results: Sequence[Sequence[str]], policies: Sequence[WindowPolicy]) -> list[Window]:
    """The windows of a conversation in which each turn's calls have these results."""
    conversation = Conversation(policies)
    spoken: list[Message] = [user("go")]
    for turn, texts in enumerate(results):
        calls = [ToolCall(f"c{turn}_{at}", "peek", f'{{"at": {at}}}') for at in range(len(texts))]
        spoken.append(assistant(f"turn {turn}", calls=calls))
        spoken += [tool(call, text) for call, text in zip(calls, texts, strict=True)]
    windows: list[Window] = []
    for at, message in enumerate(spoken):
        if message.role == "assistant":
            windows.append(conversation.window())
        conversation.append(Item(str(at), message, "x"))
    return [*windows, conversation.window()]


def listed(block: str, first: int, form: str) -> str:
    """A block as a tool shows the lines of a file."""
    return "\n".join(form.format(first + at, line) for at, line in enumerate(block.split("\n")))


def numbered_texts() -> st.SearchStrategy[str]:
    """Results that show the same lines with numbers, others each time, and odd lines between."""
    forms = st.sampled_from(["{:6d}→{}", "{}:{}", "{:6d}\t{}", "{} | {}", "{:03d}:{}", "{:2d}|{}"])
    shown = st.builds(
        listed, st.sampled_from(BLOCKS), st.sampled_from([1, 3, 95, 98, 999, 2**70]), forms
    )
    odd = st.sampled_from(["", "7:", "x", "     8→"])
    return st.lists(shown | odd, max_size=4).map("\n".join)


def texts() -> st.SearchStrategy[str]:
    """Results made of few blocks, so that they repeat one another in part and whole."""
    odd = st.sampled_from(["", "x", "a line between", "[6 lines: same as", "y" * 90])
    return st.lists(st.sampled_from(BLOCKS) | odd, max_size=5).map("\n".join)


def resolved(window: Window) -> None:
    """Each reference of the window leads to what was said."""
    sources: dict[str, str] = {}
    for entry in window.entries:
        said = entry.item.message
        if said.role == "tool":
            if entry.because == "repeat":
                assert resolve(padded(entry.message.text), sources) == said.text
            sources[reference(said)] = said.text
        elif len(said.tool_calls) == 1:
            for name, value in json.loads(said.tool_calls[0].arguments).items():
                sources[f"{reference(said)} {name}"] = str(value)


class TestRepeats:
    @settings(max_examples=60)
    @given(st.lists(st.lists(texts(), min_size=1, max_size=3), min_size=1, max_size=5))
    def test_every_reference_leads_to_what_was_said(self, results: list[list[str]]) -> None:
        for window in run(results, [Repeats()]):
            check_sequence(window.messages, None)
            resolved(window)

    @settings(max_examples=30)
    @given(st.lists(st.lists(texts(), min_size=1, max_size=2), min_size=1, max_size=6))
    def test_what_is_referred_to_is_shown_for_three_calls(self, results: list[list[str]]) -> None:
        windows = run(
            results, [Lossless(), Repeats(), Masking(mask_observations_after=1, min_masked_chars=0)]
        )
        for window in windows:
            shown = {
                reference(e.item.message): e.because
                for e in window.entries
                if e.item.message.role == "tool"
            }
            for entry in window.entries:
                if entry.because == "repeat" and entry.item.id in {
                    edit.id for edit in window.edits if hasattr(edit, "id")
                }:
                    for ref, because in shown.items():
                        if ref in entry.message.text:
                            assert because != "mask"

    def test_a_whole_result(self) -> None:
        window = run([["x" * 400], ["x" * 400]], [Repeats()])[-1]
        first = window.entries[2].item.message
        assert window.messages[2] == first
        assert window.messages[4].text == (f"[Same as peek 0, result_{first.content_hash[:8]}]")

    def test_a_run_of_lines(self) -> None:
        new = f"before\n{BLOCKS[2]}\nafter"
        window = run([[f"head\n{BLOCKS[2]}"], [new]], [Repeats()])[-1]
        ref = reference(window.entries[2].item.message)
        assert window.messages[4].text == (f"before\n[2-12 of {ref}, peek 0]\nafter")

    @given(st.integers(0, 9), st.integers(0, 9), st.integers(6, 14), st.integers(0, 9))
    def test_a_run_is_found_wherever_it_stands(
        self, before: int, other: int, count: int, behind: int
    ) -> None:
        lines = [f"{at} {'x' * 30}" for at in range(count)]
        source = [f"a{at}" for at in range(before)] + lines + ["end"] * behind
        new = [f"b{at}" for at in range(other)] + lines + ["other"]
        window = run([["\n".join(source)], ["\n".join(new)]], [Repeats()])[-1]
        told = f"[{before + 1}-{before + count} of result_"
        assert told in window.messages[4].text
        resolved(window)

    @given(st.lists(st.lists(numbered_texts(), max_size=3), max_size=4))
    @settings(max_examples=60)
    def test_other_numbers_lead_to_what_was_said(self, results: list[list[str]]) -> None:
        for window in run(results, [Repeats()]):
            resolved(window)

    @pytest.mark.parametrize("form", ["{:6d}→{}", "{}:{}", "{:6d}\t{}"])
    def test_lines_of_a_changed_file_have_other_numbers(self, form: str) -> None:
        before = listed(BLOCKS[2], 94, form)
        after = "\n".join([form.format(1, "a new line"), listed(BLOCKS[2], 97, form), ""])
        shown = run([[before], [after]], [Repeats()])[-1].entries[-1].message.text
        count = BLOCKS[2].count("\n") + 1
        assert f"[1-{count} as 97-{96 + count} of result_" in shown
        assert shown.startswith(form.format(1, "a new line"))

    @pytest.mark.parametrize(("before", "found"), [(500, True), (5_000, False)])
    def test_numbers_count_where_a_text_begins_with_such_lines(
        self, before: int, found: bool
    ) -> None:
        """A log is not searched for them to its end."""
        first, second = (listed(BLOCKS[2], at, "{}:{}") for at in (10, 30))
        after = "x" * before + f"\n{second}"
        shown = run([[first], [after]], [Repeats()])[-1].entries[-1].message.text
        assert (" as 30-" in shown) == found

    def test_lines_with_other_numbers_between_them_are_no_run(self) -> None:
        before = listed(BLOCKS[2], 10, "{}:{}")
        lines = BLOCKS[2].split("\n")
        after = "\n".join(f"{30 + 2 * at}:{line}" for at, line in enumerate(lines))
        assert run([[before], [after]], [Repeats()])[-1].entries[-1].message.text == after

    @pytest.mark.parametrize(("count", "because"), [(1, None), (2, "repeat")])
    def test_two_lines_are_a_run_and_one_is_none(self, count: int, because: str | None) -> None:
        short = "\n".join(f"{at} " + "x" * 200 for at in range(count))
        window = run([[f"a\n{short}\nb"], [f"c\n{short}\nd"]], [Repeats()])[-1]
        assert window.entries[4].because == because
        resolved(window)

    @pytest.mark.parametrize(("more", "because"), [(300, "repeat"), (3_000, None)])
    def test_a_short_run_refers_only_to_a_short_result(
        self, more: int, because: str | None
    ) -> None:
        state = f"(Open file: {'/src' * 30})\n(Current directory: {'/src' * 20})\n\nbash-$"
        first, second = f"{'x' * more}\n{state}", f"done\n{state}"
        window = run([[first], [second]], [Repeats()])[-1]
        assert window.entries[4].because == because
        if because:
            assert window.entries[4].message.text.startswith("done\n[2-5 of result_")

    @pytest.mark.parametrize(("keeps", "because"), [(True, "repeat"), (False, None)])
    def test_a_short_run_refers_to_any_result_that_bound_thinking_keeps(
        self, keeps: bool, because: str | None
    ) -> None:
        block = {"type": "thinking", "thinking": "Well.", "signature": "sig"}
        thought = Opaque("anthropic", "thinking", json.dumps(block), "claude-opus-5")
        lines = [f"state {at}: {'x' * 40}" for at in range(200)]
        conversation = Conversation([Repeats()], rules=WindowRules(holds=keeps))
        said = [user("go")]
        for at, text in enumerate(["\n".join(lines), "\n".join(["done", *lines[7:10]])]):
            call = ToolCall(f"c{at}", "peek", "{}")
            said += [assistant(thought, calls=[call]), tool(call, text)]
        for at, message in enumerate(said):
            if message.role == "assistant":
                conversation.window()
            conversation.append(Item(str(at), message, "x"))
        window = conversation.window()
        assert window.entries[4].because == because
        resolved(window)

    def test_lines_keep_their_numbers_behind_a_reference(self) -> None:
        """What a partly replaced result shows itself is numbered as in the whole."""
        second = f"{BLOCKS[3]}\nbetween\n{BLOCKS[2]}"
        window = run([[BLOCKS[3]], [second], [f"now\n{BLOCKS[2]}"]], [Repeats()])[-1]
        resolved(window)
        assert "[17-27 of" in window.messages[6].text

    def test_results_of_one_turn(self) -> None:
        window = run([[BLOCKS[3], BLOCKS[3]]], [Repeats()])[-1]
        assert window.entries[2].because is None
        assert window.entries[3].because == "repeat"
        resolved(window)

    def test_what_is_masked_is_no_source(self) -> None:
        results = [[BLOCKS[3]], ["a"], ["b"], [BLOCKS[3]]]
        window = run(results, [Masking(mask_observations_after=1), Repeats()])[-1]
        assert window.entries[2].because == "mask"
        assert window.entries[8].because is None

    def test_the_source_is_pinned(self) -> None:
        results = [[BLOCKS[3]], [BLOCKS[3]], ["a"], ["b"], ["c"], ["d"]]
        windows = run(results, [Repeats(keep=3), Masking(mask_observations_after=2)])
        kept = [window.entries[2].because for window in windows[2:]]
        assert kept[:4] == [None] * 4  # the call of the reference, and three more

    def test_what_a_reference_names_is_no_name_of_the_text(self) -> None:
        lines = "[15-44 of result_1a2b, run_tests a_1]"
        assert list(names_said(f"one_name\n{lines}\nother_name")) == ["one_name", "other_name"]
        assert not names_said("[Same as run_tests a_1, result_1a2b]")
        assert "result_1a2b" in names_said("see result_1a2b, the same as before")

    def test_a_text_that_looks_like_a_reference_gets_none(self) -> None:
        told = f"[1-7 of result_ab, x]\n{BLOCKS[3]}"
        window = run([[BLOCKS[3]], [told]], [Repeats()])[-1]
        assert window.messages[4].text == told

    def test_pictures_and_further_parts_stay(self) -> None:
        call, other = ToolCall("a", "peek", "{}"), ToolCall("b", "peek", "[1]")
        conversation = Conversation([Repeats()])
        two = tool(other, "short", BLOCKS[3])
        spoken = (user("go"), assistant(calls=[call, other]), tool(call, BLOCKS[3]), two)
        for at, message in enumerate(spoken):
            conversation.append(Item(str(at), message, "x"))
        entry = conversation.window().entries[3]
        assert entry.message.parts[0] == Text("short")
        assert entry.because == "repeat"

    def test_asking_again_gives_the_same(self) -> None:
        conversation = Conversation([Lossless(), Repeats(), Compress()])
        spoken = [user("go")]
        for turn in range(4):
            call = ToolCall(f"c{turn}", "peek", "{}")
            spoken += [assistant(calls=[call]), tool(call, BLOCKS[3])]
        once = Conversation([Lossless(), Repeats(), Compress()])
        for at, message in enumerate(spoken):
            conversation.append(Item(str(at), message, "x"))
            once.append(Item(str(at), message, "x"))
            assert conversation.window().messages == conversation.window().messages
        assert conversation.window().messages == once.window().messages

    def test_a_text_that_repeats_itself_takes_no_longer(self) -> None:
        text = "the same line\n" * 30_000
        window = run([[text], [f"{text}and one more"], [f"first\n{text}"]], [Repeats()])[-1]
        resolved(window)
        assert sum(len(message.text) for message in window.messages[3:]) < 1_000

    def test_an_unknown_source_is_an_error(self) -> None:
        with pytest.raises(KeyError):
            resolve("[Same as x, result_ab]", {})
