"""Making cards: by rule of the message alone, and with a model's summary and a vector.

Says which messages a model is asked about, what it is asked, and what of its answer is taken.
Who asks, and when, is not its affair.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from windlass.messages import Message
from windlass.selection._words import keywords
from windlass.selection.card import Card
from windlass.selection.card_settings import CardOptions
from windlass.selection.summary import (
    SUMMARY_CHARS,
    VERBATIM,
    sentences,
    summary_of,
    told_text,
)
from windlass.selection.vectors import Vectors
from windlass.text.prompts import card_text, cut_text
from windlass.text.tokens import CHARS_A_TOKEN
from windlass.window.entries import Item
from windlass.window.names import whole_names

CHUNK_TOKENS: Final = 500
SHORTEST: Final = 20
"""Messages of fewer characters get a card only for an identifier in them."""
INDEXED_HEAD: Final = 75_000
INDEXED_TAIL: Final = 25_000
"""Characters of a text from its beginning and to its end that keywords and vectors are made of."""
_OWN_KINDS: Final = frozenset({"context_selection", "decision", "recall"})
"""Kinds of rows that repeat what other rows hold."""
_HEAD: Final = re.compile(r"^\W*(?:here is (?:a|the) )?summary\W*:\W*", re.IGNORECASE)
"""What models write before a summary although nobody asked for it."""


# ---- by rule ----------------------------------------------------------------------------


def card_of(
    item: Item,
    tokens: int,
    *,
    tool: str | None = None,
    chars: int = SUMMARY_CHARS,
) -> Card:
    """Return the card of an occurrence, by rule alone. `tool` is the tool whose result it is.

    The summary has at most `chars` characters.
    """
    message = item.message
    text = searched_text(message)
    head, middle, tail = indexed_parts(text)
    note = ""
    if middle:
        note = f" [indexed: {len(head) + len(tail):,} of {len(text):,} characters]"
    return Card(
        id=item.id,
        content_hash=message.content_hash,
        summary=summary_of(message, tool, max(chars - len(note), 1)) + note,
        keywords=keywords(f"{head}\n{tail}" if middle else text),
        tokens=tokens,
        role=message.role,
        phase=item.phase,
        turn=item.turn,
    )


def wants_card(item: Item) -> bool:
    """Return whether a card of it is worth keeping.

    Not of system prompts, of records of choosing, of originals brought back, nor of a few
    words that hold no identifier: these are found by what stands around them.
    """
    message = item.message
    if message.is_system or item.node in _OWN_KINDS:
        return False
    text = searched_text(message)[:INDEXED_HEAD]
    return bool(message.pictures) or len(text) >= SHORTEST or bool(whole_names(text))


def searched_text(message: Message) -> str:
    """Return what of a message is searched: its text, its calls, the names of its pictures."""
    calls = (f"{call.name} {call.arguments}" for call in message.tool_calls)
    pictures = (picture.describe() for picture in message.pictures)
    return "\n".join(part for part in (message.text, *calls, *pictures) if part)


def indexed_parts(text: str) -> tuple[str, str, str]:
    """Return what of a text is indexed, its beginning and its end, and between them what is not.

    Of most texts all is beginning. The work on one message has a bound so; in the middle words are
    looked for as they are asked for.
    """
    if len(text) <= INDEXED_HEAD + INDEXED_TAIL:
        return text, "", ""
    return text[:INDEXED_HEAD], text[INDEXED_HEAD:-INDEXED_TAIL], text[-INDEXED_TAIL:]


def chunks(text: str, tokens: int = CHUNK_TOKENS) -> Iterator[str]:
    """Yield a text in pieces of at most so many tokens (4 characters each).

    Cut at the end of a line or a word, where there is one in the second half of a piece.
    """
    most = tokens * CHARS_A_TOKEN
    start = 0
    while len(text) - start > most:
        end = start + most
        for mark in ("\n", " "):
            cut = text.rfind(mark, start + most // 2, end)
            if cut > 0:
                end = cut + 1
                break
        yield text[start:end]
        start = end
    yield text[start:]


# ---- with models ------------------------------------------------------------------------


def wants_model(message: Message) -> bool:
    """Whether a model may say better what a message says: a long text that is no tool's result."""
    return message.role != "tool" and len(told_text(message)) >= VERBATIM


def summary_question(message: Message, options: CardOptions) -> str:
    """Return what the model is asked about a message."""
    return card_text(message.role, cut_text(told_text(message), options.input_chars))


def summary_in(answer: str, options: CardOptions) -> str | None:
    """Return the summary in a model's answer, in one line; None: it says nothing.

    What is too long is cut at the end of a sentence.
    """
    line = _HEAD.sub("", " ".join(answer.split()))
    return sentences(line, options.summary_chars) or None


def mean_vector(rows: Vectors) -> array[float]:
    """Return the vector that stands for a message: that of its only chunk, else the mean of all."""
    if len(rows) == 1:
        return array("f", rows[0].tobytes())
    mean = rows.mean(axis=0)
    length = float(np.linalg.norm(mean))
    return array("f", (mean / length if length else mean).astype(np.float32).tobytes())


def with_shared_parts(card: Card, same: Card) -> Card:
    """Return the card with what it shares with one of an equal body: words, summary and vector."""
    return replace(
        card,
        summary=same.summary,
        keywords=same.keywords,
        embedding=same.embedding,
        embedding_model=same.embedding_model,
        generator_model=same.generator_model,
    )
