"""A sliding window of turns."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import conversations
from tests.window.stepping import holds_for_every_window
from windlass.messages import Message
from windlass.window.policies.sliding import Sliding


@given(conversations(max_turns=6), st.integers(1, 3))
def test_every_window_is_valid_small_sticky_and_replayed(messages: list[Message], n: int) -> None:
    seen = holds_for_every_window(messages, Sliding(keep_recent_turns=n))
    if seen:
        answers = [m for m in seen[-1].messages if m.role == "assistant"]
        assert len(answers) <= n
