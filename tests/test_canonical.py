"""Canonical JSON made quickly: letter for letter what the standard library's encoder writes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import strategies as some
from windlass.canonical import text_json, told_json
from windlass.messages import Message, Text, ToolCall, canonical_json, to_dict

LONG = "a line of a long text\n" * 20


class TestTextJson:
    @pytest.mark.parametrize("code", [*range(256), 0x2028, 0xD800, 0xDFFF, 0x1F600])
    def test_every_character_is_escaped_as_the_encoder_does_it(self, code: int) -> None:
        for text in (chr(code), LONG + chr(code), chr(code) * 3 + LONG):
            assert text_json(text) == json.dumps(text)

    @given(st.text(st.sampled_from('\\"\n\t\r/bnt u0'), max_size=60), some.rough_texts())
    def test_what_is_escaped_may_stand_side_by_side(self, dense: str, rough: str) -> None:
        for text in (dense, rough, LONG + dense, dense + LONG + rough):
            assert text_json(text) == json.dumps(text)


class TestToldJson:
    @given(some.messages(foreign=True))
    def test_it_is_the_canonical_json_of_a_message(self, message: Message) -> None:
        assert told_json(to_dict(message)) == canonical_json(to_dict(message))

    @given(st.lists(some.texts(), max_size=3), some.texts(), some.names())
    def test_long_texts_make_no_difference(self, texts: list[str], more: str, name: str) -> None:
        message = Message(
            "assistant",
            tuple(Text(LONG + text) for text in texts),
            (ToolCall(name, name, LONG + more), ToolCall("2", name, more)),
            name=name,
        )
        assert told_json(to_dict(message)) == canonical_json(to_dict(message))
