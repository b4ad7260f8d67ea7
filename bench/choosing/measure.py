"""How much of the evidence is among what was chosen: as messages, and as their tokens."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from bench.choosing.contestants import Contestant, Windlass
from bench.choosing.talks import Question, Talk

BUDGETS = (500, 1_000, 2_000, 4_000)


@dataclass
class Score:
    """What a contestant found in one set: shares by budget, one a question."""

    messages: list[list[float]] = field(default_factory=lambda: [[] for _ in BUDGETS])
    tokens: list[list[float]] = field(default_factory=lambda: [[] for _ in BUDGETS])
    menu: list[list[float]] = field(default_factory=lambda: [[] for _ in BUDGETS])
    """The most that the menu of a selector could give, as a share of tokens."""
    seconds: float = 0.0
    over: int = 0
    """How often a budget was passed."""

    def add(self, talk: Talk, question: Question, found: Sequence[Sequence[int]]) -> None:
        """What was found for one question."""
        whole = sum(talk.tokens[at] for at in question.evidence)
        for at, (budget, places) in enumerate(zip(BUDGETS, found, strict=True)):
            hit = question.evidence.intersection(places)
            self.messages[at].append(len(hit) / len(question.evidence))
            self.tokens[at].append(sum(talk.tokens[place] for place in hit) / whole)
            self.over += sum(talk.tokens[place] for place in places) > budget

    def add_menu(self, talk: Talk, question: Question, offered: Sequence[set[int]]) -> None:
        """The most tokens of evidence that the menus could give, in whole messages."""
        whole = sum(talk.tokens[at] for at in question.evidence)
        for at, (budget, places) in enumerate(zip(BUDGETS, offered, strict=True)):
            sums = {0.0}
            for place in question.evidence & places:
                sums |= {one + talk.tokens[place] for one in sums}
                sums = {one for one in sums if one <= budget}
            self.menu[at].append(max(sums) / whole)

    def row(self) -> dict[str, Any]:
        """The means, as numbers to be written."""
        return {
            "questions": len(self.messages[0]),
            "messages": [round(fmean(one), 4) for one in self.messages],
            "tokens": [round(fmean(one), 4) for one in self.tokens],
            **({"menu": [round(fmean(one), 4) for one in self.menu]} if self.menu[0] else {}),
            "ms": round(1000 * self.seconds / len(self.messages[0]) / len(BUDGETS), 3),
            "over": self.over,
        }


def run(contestant: Contestant, talks: Sequence[tuple[Talk, list[Question]]]) -> dict[str, Score]:
    """One contestant over a sample: scores of all questions, and of those whose evidence is far.

    The time is that of answering all budgets, indexes included.
    """
    scores = {"all": Score(), "far": Score()}
    for talk, questions in talks:
        began = time.perf_counter()
        contestant.begin(talk)
        scores["all"].seconds += time.perf_counter() - began
        for question in questions:
            began = time.perf_counter()
            found = contestant.choose(question, BUDGETS)
            took = time.perf_counter() - began
            for name in ("all", "far") if question.far else ("all",):
                scores[name].add(talk, question, found)
                scores[name].seconds += took
                if isinstance(contestant, Windlass) and len(contestant.offered) == len(BUDGETS):
                    scores[name].add_menu(talk, question, contestant.offered)
    return {name: score for name, score in scores.items() if score.messages[0]}
