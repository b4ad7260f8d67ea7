"""The cards of one session in memory, and how well each message matches a task.

Pure: it is handed messages and cards, in their order, and answers scores. An index grows with
its session; nothing in it changes any more. Keywords and vectors are taken from the content in
chunks of 500 tokens (the best chunk counts) and from a summary that a model wrote. Who
speaks, which tool answered and in which phase stand in the indexed text, the speaker with
more weight than a word.
"""

from __future__ import annotations

import math
import re
from array import array
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Final, cast

import numpy as np
from numpy.typing import NDArray

from windlass.messages import Message
from windlass.selection.card import BY_RULE, Card
from windlass.selection.making import card_of, chunks, indexed_parts, searched_text
from windlass.selection.rank import Mentions, Scores, Units
from windlass.selection.vectors import TASK_CHARS, Embedder, Vectors, embed_texts, is_remote
from windlass.selection.words import SHORTEST_KEYWORD, Kind, question_in, task_terms, term_counts
from windlass.window.entries import Item

_SATURATION: Final = 1.6
"""BM25's k1: how soon saying a word once more stops counting."""
_LENGTH: Final = 0.3
"""BM25's b: how much longer texts count less. Low, because a long message that says a word
is worth its tokens where whole messages are chosen."""
_SPEAKER: Final = 3.0
"""How many times a word counts that names who speaks."""
_HEAD: Final = re.compile(r"\s*(?:<([^<>\s]{1,32})>|([^\s:][^:\n]{0,31}):)\s")
"""A speaker at the head of a text: `<ann> yes`, `Ann Lee: yes`."""
_HEAD_WORDS: Final = 4
_LONGEST_RUN: Final = 500
"""Characters without a blank from which on a run is data."""
_ASIDE: Final = 0.25
"""What a term counts that a task says beside its question."""
_MENTIONED: Final = 24
"""Words of a task that are looked for around a message."""
_REPEATED: Final = 200
"""Characters from which on a text that was said before is not chosen twice."""


@dataclass(slots=True)
class _Postings:
    """Where a term occurs: rows, and how often it is said there."""

    rows: array[int]
    counts: array[float]


@dataclass(frozen=True, slots=True)
class Query:
    """What is to be done, as an index compares it: its terms, each with the word it came from.

    `kind` is what it asks of the talk; `aside` are the terms of a survey or question that stand in
    other sentences than the one that asks.
    """

    text: str
    terms: Mapping[str, str]
    kind: Kind
    aside: frozenset[str] = frozenset()

    @classmethod
    def of(cls, text: str) -> Query:
        """Return the task that a text says."""
        kind, sentence = question_in(text)
        terms = task_terms(text, kind)
        asking = task_terms(sentence, kind) if kind is not Kind.REMARK else {}
        return cls(text, terms, kind, frozenset(terms.keys() - asking) if asking else frozenset())

    def weight(self, term: str) -> float:
        """Return how much a term counts."""
        return _ASIDE if term in self.aside else 1.0


@dataclass(slots=True)
class _ModelVectors:
    """The vectors of one embedding model, by row."""

    given: dict[int, Sequence[float]] = field(default_factory=dict[int, Sequence[float]])
    """Those that came with cards."""
    means: dict[int, Sequence[float]] = field(default_factory=dict[int, Sequence[float]])
    """The same for every row of a message: of its chunks the mean."""
    rows: Vectors | None = None
    """One of each row so far (None: nothing was embedded yet)."""


class Index:
    """The messages of a session, to be searched. `units` says what is chosen together."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.places: dict[str, int] = {}
        """The place of each message by its id."""
        self.units = Units()
        self.callouts: set[int] = set()
        """Places of the messages whose cards are marked as important."""
        self._postings: dict[str, _Postings] = {}
        self._cards: dict[int, Card] = {}
        self._tools: dict[str, str] = {}
        """The names of tools by the ids of their calls."""
        self._lengths = array("f")
        self._firsts = array("q")
        """The first row of each message; a row is a chunk, or a summary."""
        self._tokens = array("f")
        self._answers = array("b")
        self._texts: list[str] = []
        """What of each row an embedding model would see."""
        self._vectors: dict[str, _ModelVectors] = {}
        """By the name of the embedding model."""
        self._middles: dict[int, str] = {}
        """What of long messages is not indexed, case folded."""

    def __len__(self) -> int:
        return len(self.items)

    def append(self, item: Item, tokens: int, card: Card | None = None) -> None:
        """The next message of the session, its tokens, and its card where there is one already.

        A tool's result belongs to the unit of the call before it.
        """
        message = item.message
        head, pieces, middle = _indexed_pieces(message)
        self._tools.update((call.id, call.name) for call in message.tool_calls)
        tool = self._tool_of(message) or ""
        fields = _fields(head, f"{message.role} {item.phase or ''} {tool}")
        row = len(self._lengths)
        self._firsts.append(row)
        if middle:
            self._middles[len(self.items)] = middle.casefold()
        if card is not None:
            self._cards[len(self.items)] = card
            if card.is_callout:
                self.callouts.add(len(self.items))
            if card.embedding and len(pieces) == 1:
                self._vectors_by(card.embedding_model).given[row] = card.embedding
            if card.generator_model != BY_RULE and card.summary:
                pieces.append(card.summary)
            if card.embedding:
                means = self._vectors_by(card.embedding_model).means
                means.update((row + at, card.embedding) for at in range(len(pieces)))
        for piece in pieces:
            self._add_row(piece, fields, _with_speaker(head, piece))
        joins = message.role == "tool" and bool(self.items)
        said = message.text if len(message.text) >= _REPEATED else ""
        self.units.append(tokens, joins=joins, said=said)
        before = self.items[-1].message.role if self.items else None
        self._answers.append(message.role == "assistant" and before == "user")
        self.places[item.id] = len(self.items)
        self.items.append(item)
        self._tokens.append(tokens)

    def card(self, place: int) -> Card:
        """Return the card of a message; made by rule where none came with it."""
        card = self._cards.get(place)
        if card is None:
            item = self.items[place]
            tool = self._tool_of(item.message)
            card = self._cards[place] = card_of(item, self.tokens_at(place), tool=tool)
        return card

    def _tool_of(self, message: Message) -> str | None:
        """The tool whose result it is: by its own name, since a later call may have that id."""
        own = message.name if message.role == "tool" else None
        return own or self._tools.get(message.tool_call_id or "")

    def _add_row(self, text: str, fields: Mapping[str, float], embeddable: str) -> None:
        row = len(self._lengths)
        said: dict[str, float] = {**term_counts(text)}
        self._lengths.append(sum(said.values()))
        self._texts.append(embeddable)
        for term, weight in fields.items():
            said[term] = said.get(term, 0.0) + weight
        postings = self._postings
        for term, count in said.items():
            found = postings.get(term)
            if found is None:
                found = postings[term] = _Postings(array("q"), array("f"))
            found.rows.append(row)
            found.counts.append(count)

    @property
    def tokens(self) -> Scores:
        """Tokens of each message."""
        return np.array(self._tokens, dtype=np.float32)

    @property
    def answers(self) -> NDArray[np.bool_]:
        """Of each message, whether it is the assistant's answer to the user's before it."""
        return np.array(self._answers, dtype=np.bool_)

    def together(self, place: int) -> range:
        """Return the places of all that is chosen together with the message at `place`."""
        return self.units[self.units.holding(place)].places

    def tokens_at(self, place: int) -> int:
        """Return tokens of one message."""
        return int(self._tokens[place])

    def by_keywords(self, task: Query) -> Scores:
        """How well the words of each message match the task's: BM25 of its best chunk, from 0.

        Robertson and Zaragoza, "The Probabilistic Relevance Framework" (2009), eq. 3.15, with
        the idf of Lucene, which is never negative.
        """
        scores = np.zeros(len(self._lengths), dtype=np.float32)
        if not len(scores):
            return scores
        lengths = np.array(self._lengths, dtype=np.float32)
        mean = max(float(lengths.mean()), 1.0)
        least = np.float32(_SATURATION) * (1 - _LENGTH + _LENGTH / np.float32(mean) * lengths)
        for term in task.terms:
            found = self._postings.get(term)
            if found is None:
                continue
            rows = np.array(found.rows)
            counts = np.array(found.counts, dtype=np.float32)
            rarity = self._rarity(len(found.rows)) * task.weight(term)
            weight = np.float32(rarity * (_SATURATION + 1))
            scores[rows] += weight * counts / (counts + least[rows])
        best = self._best_chunk(scores)
        for place, middle in self._middles.items():
            best[place] = max(best[place], self._score_of_middle(middle, task, float(least.mean())))
        return best

    def _score_of_middle(self, middle: str, task: Query, least: float) -> float:
        """Return what a text scores whose words are looked for one by one: each counts once."""
        score = 0.0
        for term in _said_in(middle, task):
            rarity = self._rarity(len(self._postings[term].rows) if term in self._postings else 0)
            score += task.weight(term) * rarity * (_SATURATION + 1) / (1 + least)
        return score

    def mentions(self, task: Query) -> Mentions:
        """Where the task's words are said; of a long task's the rarest."""
        known = (term for term in task.terms if term in self._postings)
        found = [(self._postings[term], task.weight(term)) for term in known]
        found.sort(key=lambda pair: (-pair[1], len(pair[0].rows)))
        firsts = np.array(self._firsts)
        lengths = np.array(self._lengths, dtype=np.float32)
        chunked = len(lengths) > len(firsts)
        words: list[tuple[NDArray[np.int64], Scores, float]] = []
        for postings, weight in found[:_MENTIONED]:
            rows = np.array(postings.rows)
            counts = np.array(postings.counts, dtype=np.float32)
            if chunked:
                places = np.searchsorted(firsts, rows, "right") - 1
                rows, starts = np.unique(places, return_index=True)
                counts = np.add.reduceat(counts, starts)
            words.append((rows, counts, weight))
        if chunked:
            lengths = np.add.reduceat(lengths, firsts)
        return Mentions(words, lengths)

    def by_vectors(self, task: Query, embedder: Embedder) -> Scores:
        """Return the cosine of each message's best chunk with the task, by one model's vectors.

        Rows that this model has not seen are embedded now and kept; those of other models
        are never compared with it.
        """
        rows = self._rows_of(embedder)
        if not len(rows):
            return np.zeros(0, dtype=np.float32)
        asked = embed_texts(embedder, [task.text[:TASK_CHARS]])[0]
        # In one thread: the threads of a matrix product wait for each other on a busy machine.
        return self._best_chunk(np.vecdot(rows, asked))

    def matched(self, task: Query, place: int, most: int = 3) -> list[str]:
        """Return the task's words that a message says, the rarest first."""
        first = self._firsts[place]
        last = self._firsts[place + 1] if place + 1 < len(self) else len(self._lengths)
        found: list[tuple[float, str]] = []
        for term, word in task.terms.items():
            postings = self._postings.get(term)
            if postings is None:
                continue
            at = bisect_left(postings.rows, first)
            if at < len(postings.rows) and postings.rows[at] < last:
                found.append((-self._rarity(len(postings.rows)), word))
        if middle := self._middles.get(place):
            found += [(0.0, task.terms[term]) for term in _said_in(middle, task)]
        return list(dict.fromkeys(word for _, word in sorted(found)))[:most]

    def _rarity(self, seen: int) -> float:
        count = len(self._lengths)
        return math.log(1 + (count - seen + 0.5) / (seen + 0.5))

    def _best_chunk(self, rows: Scores) -> Scores:
        if len(rows) == len(self.items):
            return rows
        return cast("Scores", np.maximum.reduceat(rows, np.array(self._firsts)))

    def _vectors_by(self, model: str) -> _ModelVectors:
        return self._vectors.setdefault(model, _ModelVectors())

    def _rows_of(self, embedder: Embedder) -> Vectors:
        """One vector a row by this model: those that came with cards, the rest embedded now."""
        width, own = embedder.dimensions, self._vectors_by(embedder.name)
        known = np.zeros((0, width), dtype=np.float32) if own.rows is None else own.rows
        done = len(known)
        if done < len(self._texts):
            given = own.given
            if is_remote(embedder):  # a mean at hand is worth more than a question for each chunk
                given = {**own.means, **given}
            new = np.zeros((len(self._texts) - done, width), dtype=np.float32)
            missing: list[int] = []
            for row in range(done, len(self._texts)):
                vector = given.get(row, ())
                if len(vector) == width:
                    new[row - done] = vector
                elif not _is_data(self._texts[row]):
                    missing.append(row)
            if missing:
                places = np.array(missing) - done
                new[places] = embed_texts(embedder, [self._texts[row] for row in missing])
            known = own.rows = np.concatenate((known, new))
        return known


def embeddable(message: Message) -> list[str]:
    """Return what of a message an embedding model sees: its chunks, each with who speaks."""
    head, pieces, _ = _indexed_pieces(message)
    return [_with_speaker(head, piece) for piece in pieces]


def _indexed_pieces(message: Message) -> tuple[str, list[str], str]:
    """Who speaks, the chunks of the message, and what between them is not indexed."""
    head, text = _speaker(message)
    beginning, middle, end = indexed_parts(text)
    return head, [*chunks(beginning), *(chunks(end) if middle else ())], middle


def _with_speaker(head: str, piece: str) -> str:
    return f"{head}: {piece}" if head else piece


def _is_data(text: str) -> bool:
    """Whether a text is mostly one run without blanks, such as base64, which has no meaning."""
    longest = max(map(len, text.split()), default=0)
    return longest > _LONGEST_RUN and longest > len(text) / 2 and text.isascii()


def _said_in(middle: str, task: Query) -> list[str]:
    """Return the terms of a task whose words stand in a text that is not indexed."""
    return [
        term
        for term, word in task.terms.items()
        if len(word) >= SHORTEST_KEYWORD and word.casefold() in middle
    ]


def _speaker(message: Message) -> tuple[str, str]:
    """Who speaks, as far as the message says, and the rest of what is searched."""
    text = searched_text(message)
    if message.name and message.role != "tool":
        return message.name, text
    if message.role in ("user", "assistant"):
        found = _HEAD.match(text)
        head = (found[1] or found[2]) if found else ""
        if found and 0 < len(head.split()) <= _HEAD_WORDS:
            return head, text[found.end() :]
    return "", text


@lru_cache(maxsize=4_096)
def _fields(head: str, around: str) -> Mapping[str, float]:
    """Return the terms of what stands around a text: who speaks, and role, phase and tool."""
    weighed: dict[str, float] = {}
    for text, weight in ((head, _SPEAKER), (around, 1.0)):
        for term, count in term_counts(text).items():
            weighed[term] = weighed.get(term, 0.0) + weight * count
    return MappingProxyType(weighed)
