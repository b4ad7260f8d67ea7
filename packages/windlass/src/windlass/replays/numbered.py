"""Messages by number: equal messages share a number, a token count and a text to search.

Tokens are neutral ones: characters / 4, and 4 for each message. Names and arguments of
calls count as characters of their message, a picture as 1,105 tokens.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from windlass.context.lists import Chat
from windlass.safety.foreign import parse_json

CHARACTERS_A_TOKEN: Final = 4
MESSAGE_TOKENS: Final = 4
PICTURE_TOKENS: Final = 1_105
_PLAIN: Final = frozenset({"role", "content", "tool_calls", "tool_call_id", "name"})


class PictureAddress(str):
    """The address of a picture among the pieces of a message."""

    __slots__ = ()


def pieces(chat: Mapping[str, Any]) -> list[str]:
    """Return the texts and pictures of a message, in order.

    Texts side by side are joined, calls last.
    """
    texts: list[str] = []

    def add(text: str) -> None:
        if texts and not isinstance(texts[-1], PictureAddress):
            texts[-1] += text
        else:
            texts.append(text)

    content = chat.get("content") or ""
    for part in [content] if isinstance(content, str) else content:
        if isinstance(part, str):
            add(part)
        elif part.get("type") == "image_url":
            texts.append(PictureAddress(part["image_url"]["url"]))
        else:
            add(part["text"] if part.get("type") == "text" else json.dumps(part))
    for call in chat.get("tool_calls") or ():
        add(call["function"]["name"] + call["function"]["arguments"])
    return texts


def count_tokens(chat: Mapping[str, Any]) -> float:
    """Neutral tokens of a message."""
    return MESSAGE_TOKENS + sum(
        PICTURE_TOKENS if isinstance(piece, PictureAddress) else len(piece) / CHARACTERS_A_TOKEN
        for piece in pieces(chat)
    )


def leaves(value: Any) -> Iterator[str]:
    """Yield every text and number inside a JSON value, without its keys."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from leaves(item)
    elif isinstance(value, str):
        yield value
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield json.dumps(value)


def argument_texts(call: Mapping[str, Any]) -> list[str]:
    """Return the texts inside a call's arguments, as the tool gets them."""
    text = call["function"]["arguments"]
    try:
        return list(leaves(parse_json(text)))
    except ValueError:
        return [text]


def searchable_text(chat: Mapping[str, Any]) -> str:
    """Return all text of a message, in which values and lines are searched for.

    Arguments stand in it as written and, where they hold escapes, also as the tool
    gets them: a quoted line of code is in view even though its quotes are escaped.
    """
    texts = [piece for piece in pieces(chat) if not isinstance(piece, PictureAddress)]
    for call in chat.get("tool_calls") or ():
        if "\\" in call["function"]["arguments"]:
            texts += argument_texts(call)
    return "\n".join(texts)


def common_length(one: Sequence[object], other: Sequence[object]) -> int:
    """How many messages or characters two windows or texts have in common at their beginning."""
    low, high = 0, min(len(one), len(other))
    if one[:high] == other[:high]:
        return high
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


class NumberedMessages:
    """The messages of one recording's windows; equal messages have the same number."""

    def __init__(self) -> None:
        self.chats: list[Chat] = []
        self.tokens: list[float] = []
        self._numbers: dict[Any, int] = {}
        self._last: dict[int, tuple[Chat, int]] = {}
        """The objects of the last window by their identity, and their numbers."""
        self._texts: dict[int, str] = {}
        self._common: dict[tuple[int, int], float] = {}
        self._holds: dict[tuple[int, str], bool] = {}

    def numbers(self, window: Iterable[Chat]) -> list[int]:
        """Return the numbers of a window's messages."""
        before, self._last = self._last, {}
        numbers: list[int] = []
        for chat in window:
            pair = before.get(id(chat)) or (chat, self.number(chat))
            self._last[id(chat)] = pair
            numbers.append(pair[1])
        return numbers

    def number(self, chat: Chat) -> int:
        """Return the number of a message: that of an equal one, or a new one."""
        content = chat.get("content")
        calls = chat.get("tool_calls")
        key = (
            chat["role"],
            content if content is None or isinstance(content, str) else json.dumps(content),
            chat.get("tool_call_id"),
            chat.get("name"),
            tuple(
                (call["id"], call["function"]["name"], call["function"]["arguments"])
                for call in calls
            )
            if calls
            else (),
            None
            if chat.keys() <= _PLAIN
            else json.dumps({name: chat[name] for name in sorted(chat.keys() - _PLAIN)}),
        )
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.chats)
            self.chats.append(chat)
            self.tokens.append(count_tokens(chat))
        return number

    def common_tokens(self, one: int, other: int) -> float:
        """Return tokens that two different messages have in common at their beginning.

        Tools have none.
        """
        if min(one, other) < 0:
            return 0.0
        pair = (one, other) if one < other else (other, one)
        tokens = self._common.get(pair)
        if tokens is None:
            tokens = self._common[pair] = _common_tokens(self.chats[one], self.chats[other])
        return tokens

    def holds(self, number: int, text: str) -> bool:
        """Return whether `text` stands in the message."""
        holds = self._holds.get((number, text))
        if holds is None:
            if number not in self._texts:
                self._texts[number] = searchable_text(self.chats[number])
            holds = self._holds[number, text] = text in self._texts[number]
        return holds


def _common_tokens(one: Chat, other: Chat) -> float:
    if any(one.get(key) != other.get(key) for key in ("role", "tool_call_id", "name")):
        return 0.0
    count = 0.0
    for mine, theirs in zip(pieces(one), pieces(other), strict=False):
        if isinstance(mine, PictureAddress) or isinstance(theirs, PictureAddress):
            if type(mine) is not type(theirs) or mine != theirs:
                break
            count += PICTURE_TOKENS
        else:
            same = common_length(mine, theirs)
            count += same / CHARACTERS_A_TOKEN
            if not same == len(mine) == len(theirs):
                break
    return count
