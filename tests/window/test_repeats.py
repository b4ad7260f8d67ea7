"""A reference stands for exactly what it replaced, and what it refers to is in view."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.window.reading_back import padded, resolve
from windlass.messages import Message, ToolCall, assistant, tool, user
from windlass.window._pending import WindowPolicy
from windlass.window.conversation import Conversation, Window
from windlass.window.entries import Item
from windlass.window.originals import reference
from windlass.window.policies.lossless import Lossless
from windlass.window.policies.rare import Masking
from windlass.window.policies.repeats import Repeats
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

    def test_an_unknown_source_is_an_error(self) -> None:
        with pytest.raises(KeyError):
            resolve("[Same as x, result_ab]", {})
