"""Keywords and terms: one list of stop words, identifiers whole, stems, pieces."""

from __future__ import annotations

import pytest
from hypothesis import given

from tests.strategies import rough_texts
from windlass.selection.words import (
    MOST_KEYWORDS,
    STOP_WORDS,
    Kind,
    keywords,
    question_in,
    term_counts,
)


@pytest.mark.req("AC-78")
class TestKeywords:
    def test_are_at_most_twenty_of_three_characters_or_more(self) -> None:
        found = keywords(" ".join(f"wo{chr(97 + at)}d ab x" for at in range(26)))
        assert len(found) == MOST_KEYWORDS
        assert all(len(word) >= 3 for word in found)

    @given(rough_texts())
    def test_of_any_text_are_few_folded_and_no_stop_words(self, text: str) -> None:
        found = keywords(text)
        assert len(found) <= MOST_KEYWORDS
        assert len(set(found)) == len(found)
        assert STOP_WORDS.isdisjoint(found)
        assert keywords(text) == found


class TestTerms:
    @pytest.mark.parametrize(
        ("said", "asked"),
        [
            ("the results were computed", "compute the result"),
            ("call getUserName() first", "user name"),
            ("max_input_tokens is 5", "input tokens"),
            ("HTTPServer", "http server"),
            ("HTTPServer", "HTTPServer"),
            ("parse src/mixer.c", "mixer"),
            ("parse src/mixer.c", "src/mixer.c"),
            ("since v0.4.1.", "v0.4.1"),
            ("天気予報を確認する", "予報"),
        ],
    )
    def test_meet_where_people_write_otherwise(self, said: str, asked: str) -> None:
        assert set(term_counts(asked)) <= set(term_counts(said))


SURVEYS = (
    "Summarize the discussion about the budget",
    "Please summarize what Ann bought",
    "What did Ann think of it?",
    "Did Ann agree?",
    "What did you say of it?",
    "Compare the two proposals",
    "What did the team buy?",
    "Why did they disagree with Ann?",
    "Give me an overview of the rivers. Keep it short.",
)
QUESTIONS = (
    "When did the build fail?",
    "Is the cache shared by all workers?",
    "What did Dr. J. Smith buy?",
    "In which town did Ann live?",
    "With regard to the harbour crane, who broke it?",
)
REMARKS = (
    "I think they said no",
    "Ann: what did they buy?",
    "When did you fix the build?",
    "Could you mend the parser?",
    "Why did it fail? Could you mend it?",
    "bob: use sudo",
    "Look through the notes.",
    "",
)
KINDS = [
    *((task, Kind.SURVEY) for task in SURVEYS),
    *((task, Kind.QUESTION) for task in QUESTIONS),
    *((task, Kind.REMARK) for task in REMARKS),
]


@pytest.mark.parametrize(("task", "kind"), KINDS)
def test_a_task_is_a_survey_a_question_or_a_remark(task: str, kind: Kind) -> None:
    assert question_in(task)[0] is kind


@given(rough_texts())
def test_any_text_is_of_some_kind(text: str) -> None:
    assert question_in(text)[0] in Kind
