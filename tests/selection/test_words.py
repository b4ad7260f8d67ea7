"""Keywords and terms: one list of stop words, identifiers whole, stems, pieces."""

from __future__ import annotations

import pytest
from hypothesis import given

from tests.strategies import rough_texts
from windlass.selection.words import (
    MOST_KEYWORDS,
    STOP_WORDS,
    asks_about,
    counted,
    keywords,
    surfaces,
)


@pytest.mark.req("AC-78")
class TestKeywords:
    def test_hold_identifiers_whole_and_folded_then_words(self) -> None:
        found = keywords("The Error in src/Foo/bar.py:12 hit order_4711; the error came back.")
        assert found[:2] == ("src/foo/bar.py:12", "order_4711")
        assert found[2] == "error"
        assert "the" not in found
        assert "in" not in found

    def test_are_at_most_twenty_of_three_characters_or_more(self) -> None:
        found = keywords(" ".join(f"wo{chr(97 + at)}d ab x" for at in range(26)))
        assert len(found) == MOST_KEYWORDS
        assert all(len(word) >= 3 for word in found)

    def test_of_a_text_full_of_paths_leave_room_for_words(self) -> None:
        text = " ".join(f"src/f_{at}.py" for at in range(50)) + " parser parser"
        assert "parser" in keywords(text)

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
        assert set(counted(asked)) <= set(counted(said))

    def test_leave_out_stop_words_and_data(self) -> None:
        assert counted("this and that " + "A1b2" * 50) == {}

    def test_are_counted(self) -> None:
        assert counted("tests test tested, and the file")["test"] == 3

    def test_of_a_task_know_the_word_they_came_from(self) -> None:
        assert surfaces("Mixers of Mixer.c") == {
            "mixer": "Mixers",
            "c": "c",
            "mixer.c": "Mixer.c",
        }

    @pytest.mark.parametrize(
        ("task", "left"),
        [
            ("What did the team suggest about the keys?", {"key"}),
            ("Summarize the proposals of the meeting on rubber keys", {"rubber", "key"}),
            ("Why did they disagree with Ann's idea of a speaker?", {"ann", "speaker"}),
            ("When is the next meeting of the rowing team?", {"next", "meet", "row", "team"}),
            ("I suggest that the team makes keys", {"suggest", "team", "make", "key"}),
            ("What did the group agree?", {"group", "agre"}),
        ],
    )
    def test_of_a_question_about_the_talk_say_its_matter(self, task: str, left: set[str]) -> None:
        assert set(surfaces(task)) == left


@pytest.mark.parametrize(
    ("task", "wide"),
    [
        ("Summarize the discussion about the budget", True),
        ("What did Ann think of it?", True),
        ("Compare the two proposals", True),
        ("I think they said no", False),
        ("Ann: what did they say?", False),
        ("When did the build fail?", True),
        ("Is the cache shared by all workers?", True),
        ("When did you fix the build?", False),
        ("Could you mend the parser?", False),
        ("bob: use sudo", False),
        ("", False),
    ],
)
def test_a_task_that_asks_about_the_talk_is_wide(task: str, wide: bool) -> None:
    assert asks_about(task) is wide
