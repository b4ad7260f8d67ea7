"""What conversations are called by: whose words, and how much of them."""

from __future__ import annotations

import pytest

from windlass.messages import Message, assistant, user
from windlass.text.titles import dated, first_words

SKILL = "Base directory for this skill: ~/.claude/skills/review\n\n# Review\nLook at all."
NAMED = (
    "<command-message>review is running…</command-message>\n<command-name>/review</command-name>\n"
    "<command-args>{}</command-args>"
)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ([user("Fix the\n  parser.")], "Fix the parser."),
        ([assistant("Hello"), user("Fix it.")], "Fix it."),
        ([user("<command-name>/init</command-name>"), user("Fix it.")], "Fix it."),
        ([user("<command-name>/init")], "/init"),
        ([user("<user_query>\nFix it.")], "Fix it."),
        ([user("a" * 99)], "a" * 59 + "…"),
        ([assistant("I begin.")], "I begin."),
        ([], ""),
        ([user(SKILL), user("Fix it.")], "Fix it."),
        ([user(SKILL)], ""),
        ([user(SKILL), assistant("I begin.")], "I begin."),
        ([user("(Re-invocation of /review — already loaded)"), user("Fix it.")], "Fix it."),
        ([user("<skill>\n<name>review</name>\n# Review"), user("Fix it.")], "Fix it."),
        ([user('<skill_content name="review">\n# Review'), user("Fix it.")], "Fix it."),
        ([user(NAMED.format("17")), user(SKILL), assistant("I look.")], "/review 17"),
        ([user(NAMED.format("")), user(SKILL), assistant("I look.")], "/review"),
        ([user(NAMED.format("")), user(SKILL), user("Go on.")], "Go on."),
        ([user(NAMED.format("17")), user("# Review\n\nLook at $1.")], "/review 17"),
        ([user("<command-name>/clear</command-name>"), user("Fix it\nnow.")], "Fix it now."),
        (
            [user(NAMED.format("")), user("<local-command-stdout>"), user("Fix it\nat once.")],
            "Fix it at once.",
        ),
    ],
)
def test_the_users_own_first_words(said: list[Message], words: str) -> None:
    assert first_words(said) == words


def test_the_day_stands_before_them() -> None:
    assert dated("Fix it.", 1_769_000_000.0) == "2026-01-21 Fix it."


def test_words_behind_those_of_a_client_in_one_message_are_the_users() -> None:
    said = user("<system-reminder>\nAttribution for commits", "Fix the parser.")
    assert first_words([said]) == "Fix the parser."
