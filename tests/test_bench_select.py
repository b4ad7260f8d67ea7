"""The benchmark of choosing: what it reads, counts and divides by."""

from __future__ import annotations

import json
from typing import Any

import pytest
from bench.choosing.contestants import make, within
from bench.choosing.measure import BUDGETS, Score, run
from bench.choosing.runs import read_run
from bench.choosing.sets import LEADS, led, plain, sampled
from bench.choosing.talks import Question, Talk, read, tokens_of
from bench.windows.recordings import Recording

TOLD: dict[str, Any] = {
    "id": "t/1",
    "messages": [
        {"id": f"m{at}", "speaker": "ann" if at % 2 else "bob", "content": text}
        for at, text in enumerate(
            [
                "The harbour crane broke its cable.",
                "Order a new cable then.",
                *(f"Remark {number} on gardens and weather." for number in range(60)),
                "It is raining again.",
            ]
        )
    ],
    "questions": [
        {"question": "<ann> which crane cable?", "evidence": ["m0", "m1"], "at": "m60"},
        {"question": "What broke?", "evidence": ["m0"]},
        {"question": "Not yet said", "evidence": ["m5"], "at": "m2"},
    ],
}


class TestReading:
    def test_makes_messages_of_speakers_and_leaves_out_what_was_not_said(self) -> None:
        talk, questions = read(TOLD)
        assert talk.messages[0] == {
            "role": "user",
            "content": "bob: The harbour crane broke its cable.",
            "id": "m0",
        }
        assert talk.tokens[0] == tokens_of("bob: The harbour crane broke its cable.")
        assert [(one.text, one.at) for one in questions] == [
            ("<ann> which crane cable?", 60),
            ("What broke?", 63),
        ]

    def test_tells_far_evidence(self) -> None:
        _, questions = read(TOLD)
        assert all(one.far for one in questions)
        near = {"question": "Rain?", "evidence": ["m62"]}
        assert not read({**TOLD, "questions": [near]})[1][0].far

    def test_samples_evenly_over_the_set(self) -> None:
        pair = read(TOLD)
        kept = list(sampled(iter([pair] * 5), 4))
        assert [len(questions) for _, questions in kept] == [1, 1, 1]

    def test_puts_the_same_questions_behind_what_leads_up_to_them(self) -> None:
        (_, questions), *_ = led(iter([read(TOLD)] * len(LEADS)))
        assert [one.text for one in questions] == [
            "Look through the notes. <ann> which crane cable?",
            "Here is a question about the conversation above. What broke?",
        ]
        assert [one.evidence for one in questions] == [one.evidence for one in read(TOLD)[1]]

    def test_reads_every_eighth_question_as_a_plain_one(self) -> None:
        kept = [one for _, questions in plain(iter([read(TOLD)] * 8)) for one in questions]
        assert [one.plain for one in kept] == [True, True]


class TestQuestionsOfRuns:
    def run(self, *lines: str) -> Recording:
        """A run of long messages, one of which says a value in these words."""
        chats = [
            {"role": "user", "content": f"Remark {at} " + "on gardens and weather " * 40}
            for at in range(40)
        ]
        for at, line in enumerate(lines, 7):
            chats[at] = {"role": "user", "content": line}
        return Recording("r/1", "r", ({"role": "system", "content": "Be kind."}, *chats))

    def test_ask_for_a_value_in_the_words_of_its_neighbours(self) -> None:
        line = "The harbour crane stands where pier-4711 was"
        talk, questions = read_run(self.run("Look for cranes", line, "Understood"))
        assert [one.text for one in questions] == [
            "What was the stands crane harbour cranes understood?"
        ]
        assert [talk.messages[at]["content"] for at in questions[0].evidence] == [line]
        assert (questions[0].at, questions[0].far) == (40, True)

    def test_do_not_ask_for_what_two_messages_say(self) -> None:
        line = "The harbour crane stands where pier-4711 was"
        assert not read_run(self.run(line, "Which one is pier-4711 again"))[1]

    def test_do_not_ask_on_a_run_that_any_budget_holds(self) -> None:
        line = "The harbour crane stands where pier-4711 was"
        short = Recording("r/1", "r", ({"role": "user", "content": line},) * 3)
        assert not read_run(short)[1]


class TestMeasuring:
    talk = Talk("t", tuple({"role": "user", "content": c} for c in "abc"), (10.0, 20.0, 30.0))

    def test_counts_messages_and_tokens(self) -> None:
        score = Score()
        question = Question("q", frozenset({0, 2}), 3, far=False)
        score.add(self.talk, question, [[0], [2], [0, 2], [1]])
        score.add_menu(self.talk, question, [{0}, {0, 2}, {1}, set()])
        row = score.row()
        assert row["messages"] == [0.5, 0.5, 1, 0]
        assert row["tokens"] == [0.25, 0.75, 1, 0]
        assert row["menu"] == [0.25, 1, 0, 0]
        assert row["over"] == 0

    def test_sees_a_budget_that_was_passed(self) -> None:
        score = Score()
        score.add(
            Talk("t", self.talk.messages, (600.0, 1.0, 1.0)),
            Question("q", frozenset({0}), 3, far=False),
            [[0], [0], [0], [0]],
        )
        assert score.row()["over"] == 1

    def test_within_passes_over_what_does_not_fit(self) -> None:
        assert within([2, 0, 1], self.talk, 35) == [2]
        assert within([1, 2, 0], self.talk, 35) == [1, 0]


@pytest.mark.parametrize(
    "name", ["bm25", "fts5", "sketch", "heuristic", "hybrid", "llm:careless", "llm:perfect"]
)
def test_each_contestant_finds_what_is_easy_to_find(name: str) -> None:
    talk, questions = read(TOLD)
    scores = run(make(name), [(talk, questions[:1])])
    assert scores["far"].row()["messages"] == [1.0] * len(BUDGETS)
    assert scores["all"].row()["over"] == 0
    assert ("menu" in scores["all"].row()) is name.startswith("llm")


def test_a_question_read_as_a_plain_one_has_no_part_in_the_newest() -> None:
    (talk, questions), *_ = plain(iter([read(TOLD)]))
    contestant = make("heuristic")
    contestant.begin(talk)
    read_so, as_it_is = (
        contestant.choose(one, [40])[0] for one in (questions[0], read(TOLD)[1][0])
    )
    assert read_so != as_it_is


def test_the_perfect_selector_names_the_evidence_alone() -> None:
    talk, questions = read(TOLD)
    contestant: Any = make("llm:perfect")
    contestant.begin(talk)
    answer = json.loads(contestant._answering(questions[0])("[0badc0de] user (~9 tok): x"))
    assert answer["selected"] == []
