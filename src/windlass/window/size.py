"""The neutral size of a message: what edits are compared by where no tokenizer is given."""

from __future__ import annotations

from typing import Final

from windlass.messages import Message, Opaque

CHARS_A_TOKEN: Final = 4
MESSAGE_TOKENS: Final = 4
PICTURE_TOKENS: Final = 1_105
"""A picture of 1,024 x 1,024 costs 765 tokens with OpenAI's formula and 1,398 with Anthropic's;
this is what OpenAI's asks for one twice as wide."""


def size(message: Message) -> int:
    """Tokens of a message by a neutral count: characters / 4, 4 a message, 1,105 a picture."""
    return _chars(message) // CHARS_A_TOKEN + _frame(message)


def size_up(message: Message) -> int:
    """The same count rounded up: a budget holds also where others count parts of tokens."""
    return -(-_chars(message) // CHARS_A_TOKEN) + _frame(message)


def _chars(message: Message) -> int:
    # No generators: this is asked of every message several times.
    chars = message.chars + sum([len(call.name) for call in message.tool_calls])
    return chars + sum([len(part.data) for part in message.parts if isinstance(part, Opaque)])


def _frame(message: Message) -> int:
    return MESSAGE_TOKENS + PICTURE_TOKENS * len(message.pictures)
