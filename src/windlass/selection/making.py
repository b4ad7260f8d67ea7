"""How a kept card differs from one made by rule: a model's summary, and a vector.

Says which messages a model is asked about, what it is asked, and what of its answer is taken.
Who asks, and when, is not its affair.
"""

from __future__ import annotations

import re
from array import array
from dataclasses import replace
from typing import Final

import numpy as np

from windlass.messages import Message
from windlass.prompts import card_text, cut_text
from windlass.selection.card import Card
from windlass.selection.embeddings import Vectors
from windlass.selection.kept import CardOptions
from windlass.selection.summary import VERBATIM, sentences, told_text

_HEAD: Final = re.compile(r"^\W*(?:here is (?:a|the) )?summary\W*:\W*", re.IGNORECASE)
"""What models write before a summary although nobody asked for it."""


def wants_model(message: Message) -> bool:
    """Whether a model may say better what a message says: a long text that is no tool's result."""
    return message.role != "tool" and len(told_text(message)) >= VERBATIM


def question(message: Message, options: CardOptions) -> str:
    """What the model is asked about a message."""
    return card_text(message.role, cut_text(told_text(message), options.input_chars))


def summary_in(answer: str, options: CardOptions) -> str | None:
    """The summary in a model's answer, in one line; None: it says nothing.

    What is too long is cut at the end of a sentence.
    """
    line = _HEAD.sub("", " ".join(answer.split()))
    return sentences(line, options.summary_chars) or None


def mean_of(rows: Vectors) -> array[float]:
    """The vector that stands for a message: that of its only chunk, else the mean of all."""
    if len(rows) == 1:
        return array("f", rows[0].tobytes())
    mean = rows.mean(axis=0)
    length = float(np.linalg.norm(mean))
    return array("f", (mean / length if length else mean).astype(np.float32).tobytes())


def shared(card: Card, same: Card) -> Card:
    """The card with what it shares with one of an equal body: words, summary and vector."""
    return replace(
        card,
        summary=same.summary,
        keywords=same.keywords,
        embedding=same.embedding,
        embedding_model=same.embedding_model,
        generator_model=same.generator_model,
    )
