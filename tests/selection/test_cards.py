"""Cards by rule: summaries, which messages get one, chunks."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import strategies
from tests.strategies import png, rough_texts
from windlass.messages import Message, ToolCall, assistant, system, tool, user
from windlass.selection.making import (
    CHUNK_TOKENS,
    SUMMARY_CHARS,
    VERBATIM,
    card_of,
    chunks,
    summary_of,
    wants_card,
)
from windlass.text.pictures import picture
from windlass.window.entries import Item

CALL = ToolCall("c1", "read_file", '{"path": "a.py"}')


def item(message: Message, node: str = "user") -> Item:
    return Item("m1", message, node, "look", 2)


class TestSummary:
    @pytest.mark.req("AC-91")
    def test_of_a_short_message_is_the_message(self) -> None:
        assert summary_of(user("Make it\n  blue, please.")) == "Make it blue, please."

    @pytest.mark.req("AC-93")
    def test_of_a_long_one_is_its_first_whole_sentences(self) -> None:
        text = "The plan has three steps. " * 5 + "And then " + "very " * 200 + "long."
        told = summary_of(user(text))
        assert told == ("The plan has three steps. " * 5).strip()

    def test_of_one_long_sentence_is_its_beginning(self) -> None:
        told = summary_of(assistant("word " * 400))
        assert len(told) <= SUMMARY_CHARS
        assert told.endswith("…")

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

    def test_names_pictures_and_calls(self) -> None:
        chart = picture(png(4, 5), name="chart.png")
        assert summary_of(tool("c1", chart), "plot").endswith("[picture: chart.png, 4x5]")
        assert summary_of(assistant("I look.", calls=[CALL])) == (
            'I look. [calls read_file({"path": "a.py"})]'
        )

    @given(strategies.messages())
    def test_of_any_message_is_one_short_line(self, message: Message) -> None:
        told = summary_of(message)
        assert len(told) <= SUMMARY_CHARS
        assert "\n" not in told

    def test_short_enough_to_stand_for_itself_means_under_200(self) -> None:
        assert summary_of(user("x" * (VERBATIM - 1))) == "x" * (VERBATIM - 1)


class TestCard:
    @pytest.mark.req("AC-11", "AC-12", "AC-13", "AC-15", "AC-16", "AC-17", "AC-18")
    def test_has_the_columns_of_the_document(self) -> None:
        message = user("The parser in src/parse.py fails on dates.")
        card = replace(card_of(item(message), 14), callout="the cause")
        assert (card.id, card.content_hash) == ("m1", message.content_hash)
        assert card.summary == message.text
        assert card.keywords[0] == "src/parse.py"
        assert (card.tokens, card.role, card.phase, card.turn) == (14, "user", "look", 2)
        assert (card.is_anchor, card.is_callout, card.callout) == (False, True, "the cause")
        assert (card.embedding, card.embedding_model, card.generator_model) == ((), "", "rule")

    @pytest.mark.req("AC-113")
    def test_is_the_same_whenever_it_is_made(self) -> None:
        message = assistant("Done: see report.md.", calls=[CALL])
        assert card_of(item(message), 9) == card_of(item(message), 9)

    @pytest.mark.req("AC-95")
    @pytest.mark.parametrize(
        ("message", "node", "wanted"),
        [
            (user("Why does the build fail?"), "user", True),
            (assistant("", calls=[CALL]), "agent", True),
            (tool("c1", "see order_4711"), "tool_result", True),
            (user(picture(png())), "context_injection", True),
            (user("ok"), "user", False),
            (user("#4711"), "user", True),
            (system("You are a careful assistant."), "system", False),
            (user("A record of what was chosen."), "context_selection", False),
            (tool("c1", "An original brought back again."), "recall", False),
        ],
    )
    def test_is_wanted_of_what_says_something(
        self, message: Message, node: str, wanted: bool
    ) -> None:
        assert wants_card(item(message, node)) is wanted


@pytest.mark.req("AC-94")
class TestChunks:
    @given(rough_texts(), st.integers(1, 8))
    def test_are_the_text_in_pieces_of_so_many_tokens(self, text: str, tokens: int) -> None:
        pieces = list(chunks(text, tokens))
        assert "".join(pieces) == text
        assert all(len(piece) <= 4 * tokens for piece in pieces)
        assert len(pieces) <= 1 or all(pieces)

    def test_are_cut_at_lines(self) -> None:
        text = "".join(f"line {number} of the log\n" for number in range(400))
        pieces = list(chunks(text))
        assert len(pieces) > 1
        assert all(piece.endswith("\n") for piece in pieces[:-1])
        assert all(len(piece) > 2 * CHUNK_TOKENS for piece in pieces[:-1])
