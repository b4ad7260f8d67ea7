"""Tool pair folding, and what survives of a pair."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import conversations
from tests.window.stepping import holds_for_every_window, windows
from windlass.messages import Message, Opaque, Text, ToolCall, assistant, tool, user
from windlass.window._survive import call_text, first_sentence, outcome, to_sentence_end
from windlass.window.policies.rare import Folding

SEARCH = ToolCall("c1", "web_search", '{"query": "Python sorting algorithms"}')
FOUND = json.dumps(
    {"results": [{"title": t, "text": "x" * 200} for t in ("quicksort", "mergesort", "TimSort")]}
)


def test_calls_made_at_once_fold_to_a_line_each() -> None:
    calls = [ToolCall("a", "read", '{"path": "a.py", "limit": 9}'), ToolCall("b", "run", "{}")]
    said = [user("Go"), assistant("", calls=calls), tool(calls[1], "Error: no such file\n" * 30)]
    said += [tool(calls[0], "import os\n" * 40), assistant("x"), user("y")]
    told = windows(said, Folding(fold_after=1))[-1].messages[1].text.split("\n")
    assert told[0].startswith(
        '[Turn 1] read(path="a.py", limit=9) -> import os (40 lines); result_'
    )
    assert told[1].startswith("[Turn 1] run() -> Error: no such file; result_")


def test_a_pair_that_is_pinned_or_signed_waits() -> None:
    sign = Opaque("anthropic", "thinking", "{}")
    said = [user("Sort"), assistant(sign, "I search.", calls=[SEARCH]), tool(SEARCH, FOUND)]
    call = ToolCall("c2", "look", "{}")
    said += [assistant("x", calls=[call]), tool(call, "ok")]
    assert windows(said, Folding(fold_after=1))[-1].messages == tuple(said)
    said += [assistant("x"), user("y"), assistant("z"), user("w")]
    assert windows(said, Folding(fold_after=1))[-1].messages[1].parts[0] != sign


def test_a_small_pair_stays() -> None:
    call = ToolCall("c2", "look", "{}")
    said = [user("a"), assistant("", calls=[call]), tool(call, "ok"), assistant("x"), user("y")]
    assert windows(said, Folding(fold_after=1))[-1].messages == tuple(said)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no output"),
        ("[]", "0 results"),
        ('["one.py", "two.py"]', "2 results, most relevant: one.py; two.py"),
        ('{"id": 7}', '{"id": 7}'),
        ("---\nfirst line\nsecond", "first line (3 lines)"),
        ("Traceback (most recent call last):\n x\nValueError: bad", "ValueError: bad"),
    ],
)
def test_what_came_out_in_a_line(text: str, told: str) -> None:
    assert outcome(tool("c", text)) == told


def test_small_cuts() -> None:
    assert call_text(ToolCall("c", "f", "not json")) == "f(not json)"
    assert first_sentence("It is so. And more.", 50) == "It is so."
    assert to_sentence_end("One two three four five", 12) == "One two"


@given(conversations(max_turns=6), st.integers(1, 3), st.sampled_from([0, 40]))
def test_every_window_is_valid_small_sticky_and_replayed(
    messages: list[Message], after: int, names: int
) -> None:
    longer = [
        m.with_parts(*m.parts, Text("name_1 path/to/file.py text " * 20)) if m.role == "tool" else m
        for m in messages
    ]
    for window in holds_for_every_window(
        longer, Folding(fold_after=after, names_chars=names, min_chars=0)
    ):
        for entry in window.entries:
            text = entry.item.message.text
            if entry.item.message.role == "assistant" and text:
                assert entry.message.text.startswith(text)
