"""References: short, and never taken for another message."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.messages import assistant
from windlass.window.originals import meant, reference

HASHES = ["1a2b3c4d5e6f7081", "1a2b3c4d5e000000", "ffff000011112222"]


def test_two_that_begin_alike_are_both_named_and_told_apart_by_more() -> None:
    with pytest.raises(KeyError, match=f"several have it: result_{HASHES[0]}, result_{HASHES[1]}"):
        meant("result_1a2b3c4d5e", HASHES)
    assert meant("result_1a2b3c4d5e6", HASHES) == HASHES[0]
    assert meant(f"result_{HASHES[1]}", HASHES) == HASHES[1]


@given(st.lists(st.text(max_size=3), min_size=1, max_size=30))
def test_every_message_is_found_by_its_reference(texts: list[str]) -> None:
    messages = [assistant(text) for text in texts if text]
    hashes = [message.content_hash for message in messages]
    for message in messages:
        assert meant(reference(message), hashes) == message.content_hash
