"""The card of a message: what it is known by when it is chosen for a task.

A card belongs to one occurrence of a message (its id) and carries the content hash; cards of
equal bodies share summary and embedding, not phase or turn. It is made of the message alone,
so that it can be made anew at any time. Where cards are kept is not its affair.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from windlass.messages import Message
from windlass.selection.summary import SUMMARY_CHARS, summary_of
from windlass.selection.words import keywords
from windlass.tokens import CHARS_A_TOKEN
from windlass.window.entries import Item
from windlass.window.names import whole_names

BY_RULE: Final = "rule"
"""The `generator_model` of a summary that no model wrote."""
CHUNK_TOKENS: Final = 500
SHORTEST: Final = 20
"""Messages of fewer characters get a card only for an identifier in them."""
INDEXED_HEAD: Final = 75_000
INDEXED_TAIL: Final = 25_000
"""Characters of a text from its beginning and to its end that keywords and vectors are made of."""
_OWN_KINDS: Final = frozenset({"context_selection", "decision", "recall"})
"""Kinds of rows that repeat what other rows hold."""


@dataclass(frozen=True, slots=True)
class Card:
    """A short view of one message.

    `tokens` are those of the original. `embedding` is the unit vector of the message in the
    space of `embedding_model`; vectors of different models are never compared. `callout` is
    the name under which it was marked as important (None: it was not; empty: without a name).
    `is_anchor`: a rule or a user pins it. `generator_model` wrote the summary. `generated_at`
    is when the card was made, in whole seconds since 1970 (0: it is not kept anywhere).

    The embedding of a message of several chunks is the mean of theirs, of length 1 too.
    """

    id: str
    content_hash: str
    summary: str
    keywords: tuple[str, ...]
    tokens: int
    role: str
    phase: str | None = None
    turn: int | None = None
    is_anchor: bool = False
    callout: str | None = None
    embedding: Sequence[float] = field(default=(), hash=False)
    embedding_model: str = ""
    generator_model: str = BY_RULE
    generated_at: int = 0

    @property
    def is_callout(self) -> bool:
        """Whether the message was marked as important."""
        return self.callout is not None


def card_of(
    item: Item,
    tokens: int,
    *,
    tool: str | None = None,
    is_anchor: bool = False,
    callout: str | None = None,
    chars: int = SUMMARY_CHARS,
) -> Card:
    """The card of an occurrence, by rule alone. `tool` is the tool whose result it is.

    The summary has at most `chars` characters.
    """
    message = item.message
    text = searched_text(message)
    head, middle, tail = indexed(text)
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
        is_anchor=is_anchor,
        callout=callout,
    )


def wants_card(item: Item) -> bool:
    """Whether a card of it is worth keeping.

    Not of system prompts, of records of choosing, of originals brought back, nor of a few
    words that hold no identifier: these are found by what stands around them.
    """
    message = item.message
    if message.is_system or item.node in _OWN_KINDS:
        return False
    text = searched_text(message)[:INDEXED_HEAD]
    return bool(message.pictures) or len(text) >= SHORTEST or bool(whole_names(text))


def searched_text(message: Message) -> str:
    """What of a message is searched: its text, its calls, the names of its pictures."""
    calls = (f"{call.name} {call.arguments}" for call in message.tool_calls)
    pictures = (picture.describe() for picture in message.pictures)
    return "\n".join(part for part in (message.text, *calls, *pictures) if part)


def indexed(text: str) -> tuple[str, str, str]:
    """What of a text is indexed, its beginning and its end, and between them what is not.

    Of most texts all is beginning. The work on one message has a bound so; in the middle words are
    looked for as they are asked for.
    """
    if len(text) <= INDEXED_HEAD + INDEXED_TAIL:
        return text, "", ""
    return text[:INDEXED_HEAD], text[INDEXED_HEAD:-INDEXED_TAIL], text[-INDEXED_TAIL:]


def chunks(text: str, tokens: int = CHUNK_TOKENS) -> Iterator[str]:
    """A text in pieces of at most so many tokens (4 characters each).

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
