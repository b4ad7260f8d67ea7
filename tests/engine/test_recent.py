"""`context_strategy: recent`: what is carried over the boundary of a phase."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import conversations
from windlass.messages import Message
from windlass.window.entries import Item, show
from windlass.window.replayed import last_turns, turns
from windlass.wire.openai import check_sequence


@pytest.mark.req("CA-6")
@given(conversations(), st.integers(1, 5))
def test_what_is_left_is_whole_and_begins_with_the_user(messages: list[Message], n: int) -> None:
    entries = show([Item(str(at), one, "x") for at, one in enumerate(messages)], "said")
    kept = last_turns(entries, n)
    assert [entry for entry in entries if entry in kept] == list(kept)
    assert kept[-1] == entries[-1]
    if len(turns(entries)) > n:
        assert kept[0].message.role == "user"
        assert len(turns(kept)) == n
    check_sequence([entry.message for entry in kept], None)
