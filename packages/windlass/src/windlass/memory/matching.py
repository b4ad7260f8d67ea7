"""Which texts belong to a task: by the words they share, weighed by how rare they are.

The index is SQLite's FTS5 in memory (Porter's stems, accents folded); common words are left
out. A text matches when it holds a share of the weight of the task's words that is large
enough: `SHARE / sqrt(words)`, at least `LEAST`. So one shared word is enough for a task of one
or two, and not for one of ten; of a long task some part must be there. There is no order
and no score that anybody sees.
"""

from __future__ import annotations

import math
import re
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Generic, Self, TypeVar

from windlass.tools.searching import STOP_WORDS

SHARE: Final = 0.6
"""Share of the weight of a task of one word that a text must hold (see above)."""
LEAST: Final = 0.12
"""The share below which no text matches, however long the task is."""
BESIDE: Final = 0.25
"""What words count that stand beside the task only (its inherited context, earlier outputs)."""
STRICTER: Final = 1.25
"""By how much the share rises where more match than are wanted."""

_Item = TypeVar("_Item")

_WORD: Final = re.compile(r"\w+")
_LONGEST: Final = 64
"""Characters above which a run of letters is data, no word."""
_MOST_WORDS: Final = 2_000
"""Words of a task that are looked at: its beginning says what it is about."""


class WordIndex(Generic[_Item]):
    """Items by the words in their texts. Not for several threads at once; close it after use.

    `said` gives the text of an item, `items` are those it begins with.
    """

    def __init__(self, said: Callable[[_Item], str], items: Iterable[_Item] = ()) -> None:
        self._said = said
        self._items: dict[int, _Item] = {}
        self._next = 0
        self._db = sqlite3.connect(":memory:", check_same_thread=False)
        for table in ("texts", "task"):
            self._db.execute(
                f"CREATE VIRTUAL TABLE {table} USING fts5(said, content = '', "
                "tokenize = 'porter unicode61')"
            )
        self._db.execute("CREATE VIRTUAL TABLE words USING fts5vocab(texts, instance)")
        self._db.execute("CREATE VIRTUAL TABLE asked USING fts5vocab(task, row)")
        for item in items:
            self.add(item)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self._items)

    def close(self) -> None:
        """Let the index go."""
        self._db.close()

    def add(self, item: _Item) -> int:
        """Add an item; returns the number by which it is taken out again."""
        number = self._next = self._next + 1
        words = _content_words(self._said(item))
        self._db.execute("INSERT INTO texts (rowid, said) VALUES (?, ?)", (number, words))
        self._items[number] = item
        return number

    def remove(self, number: int) -> None:
        """Take an item out again, by its number."""
        words = _content_words(self._said(self._items.pop(number)))
        self._db.execute(
            "INSERT INTO texts (texts, rowid, said) VALUES ('delete', ?, ?)", (number, words)
        )

    def match(self, task: str, *, beside: str = "", most: int | None = None) -> list[_Item]:
        """Return the items that belong to a task, in the order in which they were added.

        Words of `beside` lift a text that shares some word with the task; alone they find
        nothing. Where more than `most` would match, more of the task is asked of each until
        they fit: those that are left hold more of the task than those that are not.
        """
        shares, need = self._shares(task, beside)
        chosen = {number for number, share in shares.items() if share >= need}
        while most is not None and len(chosen) > most:
            need = max(need * STRICTER, min(shares[number] for number in chosen) * 1.001)
            stricter = {number for number in chosen if shares[number] >= need}
            if not stricter:  # all of them hold the same of it: any of them will do
                break
            chosen = stricter
        return [self._items[number] for number in sorted(chosen)[:most]]

    def _shares(self, task: str, beside: str = "") -> tuple[dict[int, float], float]:
        """The share of the weight of the task's words that each text holds, and the least needed.

        Texts without any word of the task are left out.
        """
        stems = self._stems(task)
        if not stems or not self._items:
            return {}, LEAST
        weights, total = self._weights(stems)
        need = max(LEAST, SHARE / math.sqrt(len(stems)))
        if extra := self._stems(beside) - stems:
            lifted, all_of_them = self._weights(extra)
            for number in weights:
                weights[number] += BESIDE * total * lifted.get(number, 0.0) / all_of_them
        return {number: weight / total for number, weight in weights.items()}, need

    def best(self, task: str, threshold: float | None = None) -> list[_Item]:
        """Return the items that belong to a task, the best first; of equal ones the first added.

        `threshold` is the share of the task's words, weighed by rarity, that a text must hold
        (None: the share that `match` asks for).
        """
        shares, need = self._shares(task)
        least = need if threshold is None else threshold
        ordered = sorted(shares.items(), key=lambda entry: (-entry[1], entry[0]))
        return [self._items[number] for number, share in ordered if share >= least]

    def _stems(self, text: str) -> frozenset[str]:
        words = _content_words(text, _MOST_WORDS)
        self._db.execute("INSERT INTO task (task) VALUES ('delete-all')")
        self._db.execute("INSERT INTO task (rowid, said) VALUES (1, ?)", (words,))
        return frozenset(term for (term,) in self._db.execute("SELECT term FROM asked"))

    def _weights(self, stems: Iterable[str]) -> tuple[dict[int, float], float]:
        """Return how much of the stems each text holds, and how much they are all together.

        The weight of a stem is ln(1 + texts / texts with it); one that no text has counts as
        if half a text had it.
        """
        held: defaultdict[int, float] = defaultdict(float)
        total = 0.0
        for stem in stems:
            texts = {
                number
                for (number,) in self._db.execute("SELECT doc FROM words WHERE term = ?", (stem,))
            }
            weight = math.log1p(len(self._items) / (len(texts) or 0.5))
            total += weight
            for number in texts:
                held[number] += weight
        return dict(held), total


def matches(
    task: str, items: Iterable[_Item], said: Callable[[_Item], str], most: int | None = None
) -> list[_Item]:
    """Return those of the items that belong to a task by their texts, in their order."""
    with WordIndex(said, items) as index:
        return index.match(task, most=most)


def best_matches(
    task: str, items: Iterable[_Item], said: Callable[[_Item], str], threshold: float | None = None
) -> list[_Item]:
    """Return those of the items that belong to a task by their texts, the best first."""
    with WordIndex(said, items) as index:
        return index.best(task, threshold)


def fitting(
    items: Iterable[_Item], fits: Callable[[Sequence[_Item]], bool]
) -> tuple[list[_Item], list[_Item]]:
    """Return the items that fit together, in order, and those that are passed over for later ones.

    `fits` says of several whether they do.
    """
    taken: list[_Item] = []
    passed: list[_Item] = []
    for item in items:
        (taken if fits([*taken, item]) else passed).append(item)
    return taken, passed


def _content_words(text: str, most: int | None = None) -> str:
    words = [
        word
        for word in _WORD.findall(text)
        if len(word) <= _LONGEST and word.casefold() not in STOP_WORDS
    ]
    return " ".join(words[:most])
