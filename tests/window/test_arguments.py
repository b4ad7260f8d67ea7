"""Long arguments of old calls."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import conversations
from tests.window.stepping import holds_for_every_window, windows
from windlass.messages import Message, Opaque, ToolCall, assistant, tool, user
from windlass.window.policies.rare import Arguments


def said_with(arguments: str, *parts: Opaque) -> list[Message]:
    call = ToolCall("c", "write", arguments)
    said = [user("Go"), assistant("I write.", *parts, calls=[call]), tool(call, "ok")]
    return [*said, assistant("x"), user("y")]


@pytest.mark.parametrize("arguments", ["not json " * 99, "[1, 2]", json.dumps({"n": [1] * 500})])
def test_what_cannot_be_cut_stays(arguments: str) -> None:
    said = said_with(arguments)
    assert windows(said, Arguments(window=1, max_chars=100))[-1].messages == tuple(said)


def test_a_signed_call_stays() -> None:
    said = said_with(json.dumps({"text": "z" * 900}), Opaque("gemini", "call:0", "{}"))
    assert windows(said, Arguments(window=1, max_chars=100))[-1].messages == tuple(said)


@given(conversations(max_turns=6), st.integers(1, 3), st.integers(1, 20))
def test_every_window_is_valid_small_sticky_and_replayed(
    messages: list[Message], after: int, chars: int
) -> None:
    for window in holds_for_every_window(messages, Arguments(window=after, max_chars=chars)):
        for entry in window.entries:
            calls, before = entry.message.tool_calls, entry.item.message.tool_calls
            for call, original in zip(calls, before, strict=True):
                if call != original:
                    assert json.loads(call.arguments).keys() == original.parsed().keys()
