"""Each strategy: what it finds, what it asks, what it makes of an answer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.selection.talks import FILLER, Meanings, index_of, picked
from windlass import select
from windlass.errors import UsageError
from windlass.messages import user
from windlass.selection.index import Query
from windlass.selection.menu import MenuAnswer, menu_of, read_answer
from windlass.selection.options import Selection
from windlass.selection.scoring import Picked, SelectionRequest, score
from windlass.selection.vectors import Vectors

HIT = "The harbour crane broke its cable at dawn."
TALK = [user(text) for text in (*FILLER[:12], HIT, *FILLER[12:])]


def chosen(found: Picked) -> list[int]:
    units = found.scored.request.index.units
    return [units[at].first for at in found.choice.chosen]


def answered(answer: Any, task: str = "crane cable", talk: Any = None, **options: Any) -> Picked:
    embedder = options.pop("embedder", None)
    told = Selection(**{"strategy": "llm", "max_tokens": 60, **options})
    wanted = SelectionRequest(index_of(talk or TALK), Query.of(task), told, embedder)
    menu = menu_of(score(wanted), alone=told.strategy == "llm")
    assert menu is not None
    return menu.pick(answer(menu.question) if callable(answer) else answer)


def lines(question: str) -> list[tuple[str, str]]:
    """The names on a menu, and the lines."""
    found = [line for line in question.splitlines() if line.startswith("[")]
    return [(line[1:].partition("]")[0], line) for line in found]


def naming(*words: str) -> Any:
    """A selector that picks the lines that hold a word."""

    def answer(question: str) -> str:
        names = [name for name, line in lines(question) if any(word in line for word in words)]
        return json.dumps({"selected": names, "reasoning": "they hold it"})

    return answer


@pytest.mark.req("AC-75", "AC-98")
class Likeness:
    """Vectors of texts that say how like they are to `Like 1`; all others are like nothing."""

    name = "likeness"
    dimensions = 400

    def __init__(self) -> None:
        self.places: dict[str, int] = {}

    def embed(self, texts: Sequence[str]) -> Vectors:
        rows = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            like = float(text.split()[1]) if text.startswith("Like ") else 0.0
            row[0] = like
            row[self.places.setdefault(text, len(self.places) + 1)] = (1 - like**2) ** 0.5
        return rows


class TestSemantic:
    model = Meanings("crane hoist lift cable", "violins cello")

    def test_without_a_model_says_what_to_install(self) -> None:
        with pytest.raises(UsageError, match=r"'semantic' .*windlass\[embeddings\]"):
            picked(TALK, "a hoist", strategy="semantic")


@pytest.mark.req("AC-76", "AC-98")
class TestLlm:
    @given(st.lists(st.integers(1, 30), min_size=1, max_size=12), st.integers(20, 120))
    def test_of_picks_that_do_not_all_fit_those_that_fill_the_budget(
        self, sizes: list[int], budget: int
    ) -> None:
        talk = [user(f"tea{at} " + "word " * size) for at, size in enumerate(sizes)]
        found = answered(naming("tea"), task="crane", talk=talk, max_tokens=budget)
        units = found.scored.request.index.units
        sums = {0}
        for at in range(len(talk)):
            sums |= {one + units[at].tokens for one in sums}
        assert found.choice.tokens == max(one for one in sums if one <= budget)

    @pytest.mark.req("AC-83")
    @pytest.mark.parametrize(
        "answer",
        [
            "I would take the one about the crane.",
            "",
            "[1, 2]",
            '{"selected": "all of them"}',
            '{"selected": [broken',
            "{" * 5_000,
            None,
            {"selected": []},
        ],
    )
    def test_falls_back_to_the_scores_with_the_reason(self, answer: Any) -> None:
        found = answered(answer)
        assert chosen(found) == chosen(
            picked(TALK, "crane cable", strategy="hybrid", max_tokens=60)
        )
        assert found.strategy == "heuristic"
        assert "the selector answered" in found.note
        assert "chosen by score alone" in found.note

    def test_without_a_model_says_how_to_give_one(self) -> None:
        with pytest.raises(UsageError, match="'llm' asks a model: pass helper="):
            select([{"role": "user", "content": "The crane."}], "crane", strategy="llm")


class TestAnswers:
    @pytest.mark.parametrize(
        "told",
        [
            '{"selected": ["aaaa0001"], "reasoning": "r"}',
            '```json\n{"selected": ["[AAAA0001]"], "reasoning": "r"}\n```',
            'Sure! {"selected": ["aaaa0001ffff0000", "aaaa0001"], "reasoning": "r"} There.',
        ],
    )
    def test_are_read_out_of_what_stands_around(self, told: str) -> None:
        assert read_answer(told, {"aaaa0001": 4}) == MenuAnswer((4,), (), "r")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"strategy": "best"}, "unknown strategy 'best'; known: heuristic, hybrid, llm, semantic"),
        ({"strategy": "hybird"}, "did you mean 'hybrid'"),
        ({"max_tokens": 0}, "max_tokens 0 is not a whole number of at least 1"),
        ({"max_tokens": 1.5}, "max_tokens 1.5 is not a whole number"),
        ({"max_messages": True}, "max_messages True is not a whole number"),
        ({"recency_weight": -1}, "recency_weight -1 is not a number of at least 0"),
        ({"recency_weight": 0, "keyword_weight": 0, "callout_weight": 0}, "nothing is left"),
        ({"similarity_threshold": 3}, "similarity_threshold 3 is neither"),
    ],
)
def test_wrong_options_are_told_in_a_sentence(options: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        Selection(**options)


@pytest.mark.req("AC-57", "AC-58")
def test_the_defaults_are_those_of_the_document() -> None:
    options = Selection()
    assert (options.max_tokens, options.max_messages) == (30_000, 50)
