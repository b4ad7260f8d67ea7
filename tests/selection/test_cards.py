"""Cards by rule: summaries, which messages get one, chunks."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import strategies
from tests.strategies import rough_texts
from windlass.messages import Message, tool
from windlass.selection.making import SUMMARY_CHARS, chunks, summary_of


class TestSummary:
    @pytest.mark.req("AC-90")
    @pytest.mark.parametrize(
        ("result", "told"),
        [
            (json.dumps({"error": "no such table: x"}), "Result of sql: error: no such table: x"),
            (json.dumps({"images": ["a", "b"]}), "Result of sql: 2 image(s)"),
            (
                json.dumps(dict.fromkeys("abcdefg", 1)),
                "Result of sql with keys: a, b, c, d, e",
            ),
            ("42 rows", "Result of sql: 42 rows"),
            ("x" * 500, f"Result of sql: {'x' * 100}... (500 characters)"),
        ],
    )
    def test_of_a_result_goes_by_rule(self, result: str, told: str) -> None:
        assert summary_of(tool("c1", result), "sql") == told

    def test_of_what_ran_tells_its_error_and_of_a_file_its_head(self) -> None:
        ran = "<returncode>1</returncode>\n" + "ok\n" * 90 + "ValueError: bad date\n"
        assert "error: ValueError: bad date" in summary_of(tool("c1", ran))
        source = "def parse(text):\n    raise ValueError(text)\n" * 20
        assert "error:" not in summary_of(tool("c1", source))

    @given(strategies.messages())
    def test_of_any_message_is_one_short_line(self, message: Message) -> None:
        told = summary_of(message)
        assert len(told) <= SUMMARY_CHARS
        assert "\n" not in told


@pytest.mark.req("AC-94")
class TestChunks:
    @given(rough_texts(), st.integers(1, 8))
    def test_are_the_text_in_pieces_of_so_many_tokens(self, text: str, tokens: int) -> None:
        pieces = list(chunks(text, tokens))
        assert "".join(pieces) == text
        assert all(len(piece) <= 4 * tokens for piece in pieces)
        assert len(pieces) <= 1 or all(pieces)
