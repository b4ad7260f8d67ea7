"""Conversations with labelled questions: gzipped JSON lines, as the data folder has them.

Knows the format, which questions a run asked for, and how tokens are counted; nothing of who
chooses.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

LABELLED: Final = ("qmsum", "irc")
"""The sets that are files."""
NEWEST: Final = 500
"""Tokens of the newest messages outside of which evidence counts as far."""


@dataclass(frozen=True)
class Talk:
    """One conversation, as chat messages `speaker: text`; `tokens` are those of each."""

    id: str
    messages: tuple[dict[str, Any], ...]
    tokens: tuple[float, ...]


@dataclass(frozen=True)
class Question:
    """A question; `evidence` are places of messages, `at` how many messages were said by then.

    `far`: all its evidence lies outside the newest 500 tokens.
    """

    text: str
    evidence: frozenset[int]
    at: int
    far: bool
    plain: bool = False
    """Whether it is to be read as a plain question, whatever it says."""


def tokens_of(text: str) -> float:
    """The bench's count: characters / 4, and 4 a message."""
    return len(text) / 4 + 4


def load(folder: Path, name: str) -> Iterator[tuple[Talk, list[Question]]]:
    """The conversations of a set, each with its questions in the order of the conversation."""
    with gzip.open(folder / "memory" / f"{name}.jsonl.gz", "rt", encoding="utf-8") as file:
        for line in file:
            yield read(json.loads(line))


def read(told: dict[str, Any]) -> tuple[Talk, list[Question]]:
    """One line of a file. Questions whose evidence was not said before them are left out."""
    texts = [f"{one['speaker']}: {one['content']}" for one in told["messages"]]
    messages = tuple(
        {"role": "user", "content": text, "id": one["id"]}
        for text, one in zip(texts, told["messages"], strict=True)
    )
    talk = Talk(told["id"], messages, tuple(map(tokens_of, texts)))
    place = {one["id"]: at for at, one in enumerate(told["messages"])}
    questions: list[Question] = []
    for asked in told["questions"]:
        at = place[asked["at"]] if asked.get("at") is not None else len(messages)
        evidence = frozenset(place[one] for one in asked["evidence"] if place[one] < at)
        if evidence:
            far = is_far(talk, evidence, at)
            questions.append(Question(asked["question"], evidence, at, far))
    return talk, sorted(questions, key=lambda one: one.at)


def is_far(talk: Talk, evidence: frozenset[int], at: int) -> bool:
    """Whether all evidence lies outside the newest 500 tokens of what was said by then."""
    return sum(talk.tokens[max(evidence) : at]) > NEWEST
