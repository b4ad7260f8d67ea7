"""Who chooses: each answers, for a question, the places of messages within each budget.

The plain ones share nothing with the package but, where they say so, its stop words; so that
what they find is what anybody's few lines would find.
"""

from __future__ import annotations

import json
import math
import random
import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from functools import cache
from itertools import islice
from typing import Final, Protocol
from unittest.mock import patch

from bench.choosing.talks import Question, Talk

import windlass
from windlass.replays.numbered import searchable_text
from windlass.selection.rank import PLAIN
from windlass.selection.scoring import SelectionRequest
from windlass.selection.words import STOP_WORDS
from windlass.wire.openai import from_openai

Places = list[int]


class Contestant(Protocol):
    """Is told of each talk, then asked its questions in the order of the talk."""

    def begin(self, talk: Talk) -> None:
        """The next questions are about this talk."""

    def choose(self, question: Question, budgets: Sequence[int]) -> list[Places]:
        """The chosen places, for each budget."""


def within(order: Iterable[int], talk: Talk, budget: int) -> Places:
    """The places in this order that fit the budget; what does not is passed over."""
    left, chosen = float(budget), []
    for place in order:
        if talk.tokens[place] <= left:
            left -= talk.tokens[place]
            chosen.append(place)
    return chosen


class Ordered:
    """A contestant that orders the messages by a function of talk and question."""

    def __init__(self, order: Callable[[Talk, Question], Iterable[int]]) -> None:
        self._order = order
        self._talk = Talk("", (), ())

    def begin(self, talk: Talk) -> None:
        """The next questions are about this talk."""
        self._talk = talk

    def choose(self, question: Question, budgets: Sequence[int]) -> list[Places]:
        """The chosen places, for each budget."""
        order = list(self._order(self._talk, question))
        return [within(order, self._talk, budget) for budget in budgets]


def recency(_talk: Talk, question: Question) -> Iterable[int]:
    return range(question.at - 1, -1, -1)


_WORD: Final = re.compile(r"\w+")


@cache
def _stems() -> Callable[[str], str]:
    import Stemmer

    return cache(Stemmer.Stemmer("english").stemWord)


@cache
def _words(text: str) -> tuple[str, ...]:
    found = (word for word in _WORD.findall(text.lower()) if word not in STOP_WORDS)
    return tuple(map(_stems(), found))


def bm25(talk: Talk, question: Question) -> Iterable[int]:
    """BM25 (k1 1.2, b .75) over stems without stop words; ties to the newer message."""
    said = [Counter(_words(searchable_text(one))) for one in talk.messages[: question.at]]
    mean = sum(map(Counter.total, said)) / max(len(said), 1) or 1.0
    scores = [0.0] * len(said)
    for term in set(_words(question.text)):
        holds = [at for at, words in enumerate(said) if term in words]
        rarity = math.log(1 + (len(said) - len(holds) + 0.5) / (len(holds) + 0.5))
        for at in holds:
            times = said[at][term]
            length = 0.25 + 0.75 * said[at].total() / mean
            scores[at] += rarity * times * 2.2 / (times + 1.2 * length)
    return sorted(range(len(said)), key=lambda at: (-scores[at], -at))


class FullText:
    """SQLite FTS5: porter stems, stop words, the question's words joined by OR, its own rank."""

    def __init__(self) -> None:
        self._store = sqlite3.connect(":memory:")

    def __del__(self) -> None:
        self._store.close()

    def begin(self, talk: Talk) -> None:
        """The next questions are about this talk."""
        self._talk = talk
        self._store.execute("DROP TABLE IF EXISTS said")
        self._store.execute("CREATE VIRTUAL TABLE said USING fts5(text, tokenize='porter')")
        rows = enumerate(searchable_text(one) for one in talk.messages)
        self._store.executemany("INSERT INTO said(rowid, text) VALUES (?, ?)", rows)

    def choose(self, question: Question, budgets: Sequence[int]) -> list[Places]:
        """The chosen places, for each budget."""
        words = [word for word in _WORD.findall(question.text.lower()) if word not in STOP_WORDS]
        if not words:
            return [[] for _ in budgets]
        match = " OR ".join(f'"{word}"' for word in dict.fromkeys(words))
        asked = "SELECT rowid FROM said WHERE said MATCH ? AND rowid < ? ORDER BY rank"
        order = [row[0] for row in self._store.execute(asked, (match, question.at))]
        return [within(order, self._talk, budget) for budget in budgets]


_SKETCH_TASK: Final = re.compile(r"\b[a-zA-Z_][a-zA-Z0-9_]{2,}\b")
_SKETCH_CARD: Final = re.compile(r"\b[a-zA-Z_][a-zA-Z0-9_]{3,}\b")
_STOP_TASK: Final = (
    "the and for are but not you all can had her was one our out has have been would could should "
    "this that with they from what which when where will make like just know take into some than "
    "them then only come over"
)
_STOP_CARD: Final = "the and for are but not you all this that with have from been would"
_SKETCH_STOP_TASK: Final = frozenset(_STOP_TASK.split())
_SKETCH_STOP_CARD: Final = frozenset(_STOP_CARD.split())


@cache
def _sketch_card(text: str) -> frozenset[str]:
    summary = text if len(text) < 200 else text[:200] + "..."
    words = dict.fromkeys(_SKETCH_CARD.findall(summary.lower()))
    return frozenset(islice((word for word in words if word not in _SKETCH_STOP_CARD), 20))


def sketch(talk: Talk, question: Question) -> Iterable[int]:
    """The heuristic as the document sketches it: a message a minute, summaries by truncation."""
    task = set(_SKETCH_TASK.findall(question.text.lower())) - _SKETCH_STOP_TASK

    def score(at: int) -> float:
        overlap = len(task & _sketch_card(searchable_text(talk.messages[at])))
        recent = max(0, 100 - (question.at - 1 - at)) / 100
        return overlap * 0.4 * 10 + recent * 0.3 * 50

    return sorted(range(question.at - 1, -1, -1), key=lambda at: -score(at))


class Embedding:
    """The embedded model's cosine alone."""

    def __init__(self) -> None:
        from windlass.selection.vectors import WordLlamaEmbedder

        self._model = WordLlamaEmbedder()

    def begin(self, talk: Talk) -> None:
        """The next questions are about this talk."""
        from windlass.selection.vectors import embed_texts

        self._talk = talk
        self._rows = embed_texts(self._model, [searchable_text(one) for one in talk.messages])

    def choose(self, question: Question, budgets: Sequence[int]) -> list[Places]:
        """The chosen places, for each budget."""
        from windlass.selection.vectors import embed_texts

        scores = self._rows[: question.at] @ embed_texts(self._model, [question.text])[0]
        order = scores.argsort()[::-1].tolist()
        return [within(order, self._talk, budget) for budget in budgets]


class Windlass:
    """`windlass.select` with a strategy; `llm` with a scripted selector.

    `perfect` names the evidence on its menu and nothing else. `careless` names a third of
    it, with it every tenth line whatever it says, ids twice and ids that are not there, and
    answers prose to every fifth question.
    """

    def __init__(self, strategy: str, selector: str = "", **options: object) -> None:
        self._strategy, self._selector, self._options = strategy, selector, options
        self._chance = random.Random(0)
        self.offered: list[set[int]] = []
        """For each budget of the last question the evidence that stood on the menu."""

    def begin(self, talk: Talk) -> None:
        """The next questions are about this talk."""
        self._talk = talk
        self._by_hash: dict[str, set[int]] = {}
        if self._selector:
            for at, one in enumerate(talk.messages):
                said = {key: value for key, value in one.items() if key != "id"}
                name = from_openai(said).content_hash[:8]
                self._by_hash.setdefault(name, set()).add(at)

    def choose(self, question: Question, budgets: Sequence[int]) -> list[Places]:
        """The chosen places, for each budget."""
        read = patch.object(SelectionRequest, "shape", PLAIN) if question.plain else nullcontext()
        with read:
            return self._choose(question, budgets)

    def _choose(self, question: Question, budgets: Sequence[int]) -> list[Places]:
        said = self._talk.messages[: question.at]
        self.offered = []
        found: list[Places] = []
        for budget in budgets:
            chosen = windlass.select(
                said,
                question.text,
                self._strategy,  # type: ignore[arg-type]  # a name out of the table
                budget,
                helper=self._answering(question) if self._selector else None,
                **self._options,  # type: ignore[arg-type]
            )
            found.append([entry.position for entry in chosen.entries if entry.position is not None])
        return found

    def _answering(self, question: Question) -> Callable[[str], str]:
        """The scripted selector's answer to a menu."""

        def answer(text: str) -> str:
            lines = re.findall(r"^\[([0-9a-f.]+)\]", text, re.MULTILINE)
            known = self._by_hash
            holds = {line: known.get(line.partition(".")[0], set()) for line in lines}
            # Equal messages share a hash: of the evidence with it, as many as lines have it.
            told = Counter(line.partition(".")[0] for line in lines)
            evidence = [
                place
                for name, count in told.items()
                for place in sorted(known.get(name, set()) & question.evidence)[:count]
            ]
            self.offered.append(set(evidence))
            right = [line for line in lines if holds[line] & question.evidence]
            if self._selector == "perfect":
                return json.dumps({"selected": right, "reasoning": "they hold the answer"})
            if self._chance.random() < 0.2:
                return "I would look at the messages about this, they seem relevant."
            named = [line for line in right if self._chance.random() < 1 / 3]
            named += [line for line in lines if self._chance.random() < 0.1]
            return json.dumps({"selected": [*named, *named[:2], "0badc0de", 7]})

        return answer


def make(name: str) -> Contestant:
    """The contestant of this name. Raises KeyError for an unknown one."""
    return _MAKERS[name]()


_MAKERS: Final[dict[str, Callable[[], Contestant]]] = {
    "recency": lambda: Ordered(recency),
    "bm25": lambda: Ordered(bm25),
    "fts5": FullText,
    "embedding": Embedding,
    "sketch": lambda: Ordered(sketch),
    "heuristic": lambda: Windlass("heuristic"),
    "semantic": lambda: Windlass("semantic"),
    "hybrid": lambda: Windlass("hybrid"),
    "llm:careless": lambda: Windlass("llm", "careless"),
    "llm:perfect": lambda: Windlass("llm", "perfect"),
    "hybrid:careless": lambda: Windlass("hybrid", "careless"),
    "hybrid:perfect": lambda: Windlass("hybrid", "perfect"),
}
CONTESTANTS: Final = tuple(_MAKERS)
