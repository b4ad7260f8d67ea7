"""Old words of the assistant."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import conversations
from tests.window.stepping import holds_for_every_window, windows
from windlass.messages import Message, Opaque, Text, ToolCall, assistant, tool, user
from windlass.window.policies.reasoning import MARKER, Reasoning

CALL = ToolCall("c", "look", '{"at": "here"}')
LONG = "First I look. Then I think about it at length. And so on without an end " * 3
SIGNED = Opaque("anthropic", "thinking", '{"type": "thinking", "thinking": "t", "signature": "s"}')


@pytest.mark.req("AC-36", "AC-42")
def test_old_words_are_cut_at_the_end_of_a_sentence_with_the_marker() -> None:
    said = [user("Go"), assistant(LONG, calls=[CALL]), tool(CALL, "ok"), assistant("x"), user("y")]
    seen = windows(said, Reasoning(window=1, reasoning_max_chars=60))
    assert seen[1].messages[1].text == LONG
    cut = seen[2].messages[1]
    kept = "First I look. Then I think about it at length."
    assert cut.text == (
        f"{kept}\n[... truncated for context efficiency ...]\n"
        f"[{len(LONG) - len(kept)} more characters; result_{said[1].content_hash[:8]}]"
    )
    assert MARKER in cut.text
    assert cut.tool_calls == (CALL,)


def test_words_within_the_limit_and_words_of_users_stay() -> None:
    said = [user(LONG * 9), assistant("short"), user(LONG), assistant("x"), user("y")]
    assert windows(said, Reasoning(window=1, reasoning_max_chars=100))[-1].messages == tuple(said)


def test_an_open_code_block_is_closed() -> None:
    text = "Here it is.\n```py\n" + "x = 1\n" * 40
    said = [user("Go"), assistant(text), user("b"), assistant("c"), user("d")]
    cut = (
        windows(said, Reasoning(window=1, reasoning_max_chars=100))[-1]
        .messages[1]
        .text.split(MARKER)[0]
    )
    assert cut.count("```") == 2


def test_signed_thinking_stays_whole_and_waits_for_a_user_in_an_open_loop() -> None:
    said = [user("Go"), assistant(SIGNED, LONG, calls=[CALL]), tool(CALL, "ok")]
    said += [assistant("x", calls=[CALL]), tool(CALL, "ok")]
    policy = Reasoning(window=1, reasoning_max_chars=60)
    assert windows(said, policy)[-1].messages == tuple(said)
    said += [assistant("done"), user("more"), assistant("y"), user("z")]
    cut = windows(said, policy)[-1].messages[1]
    assert cut.parts[0] == SIGNED
    assert isinstance(cut.parts[1], Text)
    assert MARKER in cut.text


@given(conversations(max_turns=6), st.integers(1, 3), st.integers(1, 30))
def test_every_window_is_valid_small_sticky_and_replayed(
    messages: list[Message], after: int, chars: int
) -> None:
    longer = [
        m.with_parts(*m.parts, Text("Words. " * 40)) if m.role == "assistant" else m
        for m in messages
    ]
    for window in holds_for_every_window(
        longer, Reasoning(window=after, reasoning_max_chars=chars)
    ):
        for entry in window.entries:
            assert entry.message.tool_calls == entry.item.message.tool_calls
