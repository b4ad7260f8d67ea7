"""What windows write of themselves is no finding: notes list no marks, and tell true sizes."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import windlass
from tests.support.context_documented_windows import called, idle, result, user
from tests.window.stepping import items_of
from windlass.caching.prices import UNCACHED
from windlass.messages import Message, ToolCall, assistant, tool
from windlass.messages import user as said_by_user
from windlass.window.conversation import Conversation
from windlass.window.names import whole_names
from windlass.window.options import Policy
from windlass.window.originals import part_of
from windlass.window.steps import steps

NAMES = st.sampled_from(
    ["order_17", "src/a.py:40", "4-164", "user_3@x.org", "#A1042", "https://x.org/7", "2026-11-01"]
)
LINE = st.lists(st.one_of(NAMES, st.sampled_from(["is", "late", "and", "well"])), max_size=8)
MARKS = (
    "[... lines 14-1164 ...]",
    "[... line 1040 ...]",
    "[14-1164 of result_bdee0d22, read_file a.py]",
    "[Same as read_file a.py, result_bdee0d22]",
    "[Cut from 33,755 characters: windlass recall --store '/a_b/c' result_bdee0d22]",
    "[Cut from 33,755 characters: call read_log again for all of it, result_bdee0d22]",
    "[33755 chars: read lines 1014-1164 again with Read, result_bdee0d22]",
    "[Truncated 33755 chars] Full data: /a_b/storage/tool_results/result_" + "ab" * 32 + ".json",
    "[Tool text result, 33755 chars, hash=bdee0d22; recall result_bdee0d22]",
)
"""What earlier windows, a hook and a cascade may have written into a text."""


@st.composite
def nested(draw: st.DrawFn) -> str:
    """A result that itself has notes: of a hook, of a window that was handed on."""
    lines = [" ".join(words) for words in draw(st.lists(LINE, min_size=40, max_size=120))]
    for mark in draw(st.lists(st.sampled_from(MARKS), min_size=1, max_size=6)):
        lines.insert(draw(st.integers(0, len(lines))), mark)
    return "\n".join(lines * draw(st.sampled_from([1, 3])))


LISTS = re.compile(r"(?:Also in it|Also named): (.*)")
SIZES = re.compile(r"\[Cut from ([\d,]+) characters:|\[(\d+) chars:")
TOOLS = ("read_log", "run_sql", "grep", "list_files", "fetch_url", "get_orders")


def listed(shown: str, original: str) -> list[str]:
    """The names that a note lists, and those of a digest below its first line."""
    own = shown.removeprefix(original)
    names = [name for match in LISTS.finditer(own) for name in match[1].split()]
    head, _, rest = own.partition("\n")
    return [*names, *rest.split()] if re.match(r"\[\d+ chars: ", head) else names


def check(shown: str, original: str, marks: Sequence[str] = MARKS) -> None:
    """Hold that what is listed stands in what was said, not in marks, and that sizes are true."""
    plain = original
    for mark in marks:
        plain = plain.replace(mark, " ")
    known = {*whole_names(plain), *plain.split()}
    assert set(listed(shown, original)) <= known
    size = SIZES.search(shown) if shown != original else None
    if size is not None and size[0] not in original:
        assert int((size[1] or size[2]).replace(",", "")) == len(original)


@pytest.mark.parametrize("profile", ["default", "lean", "careful", "spec"])
@given(st.lists(st.tuples(st.sampled_from(TOOLS), nested()), min_size=1, max_size=3))
def test_marks_in_a_text_are_no_names(profile: Any, results: list[tuple[str, str]]) -> None:
    """As cascades have it, which shorten a text that another program shortened before."""
    messages: list[Message] = [said_by_user("Go.")]
    for number, (name, text) in enumerate(results):
        call = ToolCall(f"c{number}", name, json.dumps({"number": number}))
        messages += [assistant(calls=[call]), tool(call, text)]
    messages += [assistant("So."), said_by_user("On."), assistant("So."), said_by_user("On.")]
    policy = Policy(profile=profile, commit="at_once")
    conversation = Conversation(steps(policy, prices=UNCACHED))
    originals = {f"id{at}": each.text for at, each in enumerate(messages) if each.role == "tool"}
    for item in items_of(messages):
        conversation.append(item)
        for entry in conversation.window().entries:
            if entry.item.id in originals:
                check(entry.message.text, originals[entry.item.id])


@given(st.lists(st.lists(LINE, min_size=60, max_size=200), min_size=1, max_size=4), st.booleans())
def test_notes_of_a_loop_tell_true_sizes_and_no_marks(
    texts: list[list[list[str]]], recalls: bool
) -> None:
    """Call by call: lines are referred to, then cut, then digested; what is recalled comes too."""
    context = windlass.Context(policy={"commit": "at_once"}, recall=recalls)
    context.append(user("Go."))
    originals = ["\n".join(" ".join(words) for words in text) for text in texts]
    originals += [f"{originals[0]}\n{text}" for text in originals]
    for number, text in enumerate(originals):
        for message in (called(number, "read_log", {"number": number}), result(number, text)):
            context.append(message)
        for shown, original in zip(context.window().messages[2::2], originals, strict=False):
            check(shown["content"], original)
    recalled = part_of(originals[0], lines="2-40")
    for message in (called(90, "recall", {"ref": "x"}), result(90, recalled), *idle(3)):
        context.append(message)
    for shown, original in zip(
        context.window().messages[2::2], [*originals, recalled], strict=False
    ):
        check(shown["content"], original)


def test_a_cut_that_is_digested_says_the_size_of_the_original_and_none_of_its_marks() -> None:
    log = "\n".join(f"2026-11-{at % 28 + 1:02} order {at * 13} left" for at in range(1_500))
    said = [user("Go."), called(1, "read_log", {"number": 1}), result(1, log), *idle(2)]
    shown = windlass.bound(said, policy={"commit": "at_once"}, recall=True).messages[2]["content"]
    head, _, names = shown.partition("\n")
    assert head.startswith(f"[{len(log)} chars: recall result_")
    assert names
    assert set(names.split()) <= set(log.split())
