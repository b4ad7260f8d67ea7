"""The neutral size of a message: what edits are compared by where no tokenizer is given."""

from __future__ import annotations

from typing import Final

from windlass.messages import Message, Opaque, Picture, Text

CHARS_A_TOKEN: Final = 4
MESSAGE_TOKENS: Final = 4
PICTURE_TOKENS: Final = 1_105
"""A picture of 1,024 x 1,024 costs 765 tokens with OpenAI's formula and 1,398 with Anthropic's;
this is what OpenAI's asks for one twice as wide."""


def size(message: Message) -> int:
    """Tokens of a message by a neutral count: characters / 4, 4 a message, 1,105 a picture."""
    parts = message.parts
    if len(parts) == 1 and not message.tool_calls and isinstance(parts[0], Text):
        # Most are one text; this is asked of every message several times.
        return len(parts[0].text) // CHARS_A_TOKEN + MESSAGE_TOKENS
    return _chars(message) // CHARS_A_TOKEN + _frame(message)


def size_up(message: Message) -> int:
    """The same count rounded up: a budget holds also where others count parts of tokens."""
    return -(-_chars(message) // CHARS_A_TOKEN) + _frame(message)


def _chars(message: Message) -> int:
    chars = message.chars
    for call in message.tool_calls:
        chars += len(call.name)
    for part in message.parts:
        if isinstance(part, Opaque):
            chars += len(part.data)
    return chars


def _frame(message: Message) -> int:
    tokens = MESSAGE_TOKENS
    for part in message.parts:
        if isinstance(part, Picture):
            tokens += PICTURE_TOKENS
    return tokens
