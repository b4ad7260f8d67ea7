"""Making cards: by rule of the message alone, and with a model's summary and a vector.

Says which messages a model is asked about, what it is asked, and what of its answer is taken; who
asks, and when, is not its affair. By rule a message of less than 200 characters is its own summary;
a tool's result is told by its error, its pictures, its keys or its beginning, other texts by their
first sentences.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from windlass.messages import Message
from windlass.safety.foreign import parse_json
from windlass.selection.card import Card
from windlass.selection.options import CardOptions
from windlass.selection.vectors import Vectors
from windlass.selection.words import keywords
from windlass.text.prompts import card_text, cut_text
from windlass.text.tokens import CHARS_A_TOKEN
from windlass.window.digests import error_lines
from windlass.window.entries import Item
from windlass.window.kinds import look_of
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
VERBATIM: Final = 200
"""Texts of fewer characters stand for themselves."""
RESULT_HEAD: Final = 100
SUMMARY_CHARS: Final = 300
"""The most characters of a summary."""
_KEYS: Final = 5
_RAN: Final = ("command", "log")
_PARSED: Final = 200_000
"""JSON of more characters is not parsed for its keys."""
_SENTENCE: Final = re.compile(r"[.!?][\"')\]]*\s")
_SPACE: Final = re.compile(r"\s+")


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


def summary_of(message: Message, tool: str | None = None, chars: int = SUMMARY_CHARS) -> str:
    """Return what a message says, in one line of at most `chars` characters.

    `tool` is the name of the tool whose result it is, where that is known.
    """
    text = told_text(message)
    if message.role == "tool":
        return _cut(_of_result(message, text, tool or message.name), chars)
    called = _of_calls(message)
    if len(text) < VERBATIM:
        return _cut(" ".join(part for part in (_line(text), called) if part), chars)
    room = chars - len(called) - 1 if called else chars
    told = sentences(text, max(room, VERBATIM))
    return _cut(f"{told} {called}".strip(), chars)


def told_text(message: Message) -> str:
    """Return what a summary is made of: the text, and what its pictures are."""
    seen = [f"[picture: {picture.describe()}]" for picture in message.pictures]
    return "\n".join(part for part in (message.text, *seen) if part)


def _of_calls(message: Message) -> str:
    if not message.tool_calls:
        return ""
    told = ", ".join(f"{call.name}({_cut(call.arguments, 60)})" for call in message.tool_calls)
    return _line(f"[calls {told}]")


def _of_result(message: Message, text: str, tool: str | None) -> str:
    head = f"Result of {_line(tool)}" if tool else "Tool result"
    if message.pictures and not message.text:
        count = len(message.pictures)
        return f"{head}: {count} picture{'s' if count > 1 else ''}: {_line(text)}"
    value = _json(message.text)
    if isinstance(value, Mapping):
        if value.get("error"):
            return f"{head}: error: {_cut(_line(str(value['error'])), RESULT_HEAD)}"
        if isinstance(value.get("images"), list):
            return f"{head}: {len(value['images'])} image(s)"
        return f"{head} with keys: {_line(', '.join(list(value)[:_KEYS]))}"
    if len(text) < VERBATIM:
        return f"{head}: {_line(text)}"
    # A file that is read names errors too; what ran, and what was logged, reports them.
    failed = error_lines(message.text, VERBATIM) if look_of(message.text) in _RAN else ""
    if failed:
        return f"{head} ({len(text):,} characters): error: {_line(failed)}"
    return f"{head}: {_line(text[:RESULT_HEAD])}... ({len(text):,} characters)"


def _json(text: str) -> Any:
    if text[:1] != "{" or len(text) > _PARSED:
        return None
    try:
        return parse_json(text)
    except ValueError:
        return None


def sentences(text: str, room: int) -> str:
    """Whole sentences from the beginning of a text that fit, or else its beginning."""
    line = _line(text[: 4 * room])
    if len(line) <= room:
        return line
    ends = [found.end() for found in _SENTENCE.finditer(line, 0, room)]
    return line[: ends[-1]].rstrip() if ends and ends[-1] > room // 3 else _cut(line, room)


def _line(text: str) -> str:
    return _SPACE.sub(" ", text).strip()


def _cut(text: str, chars: int) -> str:
    return text if len(text) <= chars else text[: chars - 1].rstrip() + "…"


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
