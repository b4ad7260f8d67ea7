"""Messages by number: equal ones share a number, their tokens, and their text to search.

The token count is the neutral one: characters / 4, and 4 a message; names and
arguments of calls count as its characters, a picture as 1,105 tokens.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from windlass.context.window import Chat
from windlass.safety.foreign import parse_json

CHARACTERS_A_TOKEN: Final = 4
MESSAGE_TOKENS: Final = 4
PICTURE_TOKENS: Final = 1_105
_PLAIN: Final = frozenset({"role", "content", "tool_calls", "tool_call_id", "name"})


class PictureAddress(str):
    """A picture's address among the pieces of a message."""

    __slots__ = ()


def pieces(chat: Mapping[str, Any]) -> list[str]:
    """What a message says, in order: its texts joined, each picture apart; its calls last."""
    said: list[str] = []

    def add(text: str) -> None:
        if said and not isinstance(said[-1], PictureAddress):
            said[-1] += text
        else:
            said.append(text)

    content = chat.get("content") or ""
    for part in [content] if isinstance(content, str) else content:
        if isinstance(part, str):
            add(part)
        elif part.get("type") == "image_url":
            said.append(PictureAddress(part["image_url"]["url"]))
        else:
            add(part["text"] if part.get("type") == "text" else json.dumps(part))
    for call in chat.get("tool_calls") or ():
        add(call["function"]["name"] + call["function"]["arguments"])
    return said


def tokens(said: Sequence[str]) -> float:
    """Neutral tokens of a message that says these pieces."""
    return MESSAGE_TOKENS + sum(
        PICTURE_TOKENS if isinstance(piece, PictureAddress) else len(piece) / CHARACTERS_A_TOKEN
        for piece in said
    )


def leaves(value: Any) -> Iterator[str]:
    """Every text and number inside a JSON value, keys left out."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from leaves(item)
    elif isinstance(value, str):
        yield value
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield json.dumps(value)


def arguments(call: Mapping[str, Any]) -> list[str]:
    """The texts inside a call's arguments, as the tool is given them."""
    text = call["function"]["arguments"]
    try:
        return list(leaves(parse_json(text)))
    except ValueError:
        return [text]


def searched(chat: Mapping[str, Any]) -> str:
    """All text of a message, to look for values and lines in.

    Arguments stand as written and, where they hold escapes, also as the tool is
    given them: a quoted line of code is in view though its quotes are escaped.
    """
    said = [piece for piece in pieces(chat) if not isinstance(piece, PictureAddress)]
    for call in chat.get("tool_calls") or ():
        if "\\" in call["function"]["arguments"]:
            said += arguments(call)
    return "\n".join(said)


def common(one: Sequence[object], other: Sequence[object]) -> int:
    """How many messages, or characters, two windows or texts have in common at their heads."""
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
    """The messages of one recording's windows. A number stands for content, not for a place."""

    def __init__(self) -> None:
        self.chats: list[Chat] = []
        self.tokens: list[float] = []
        self._numbers: dict[Any, int] = {}
        self._last: dict[int, tuple[Chat, int]] = {}
        """The objects of the last window by their identity, and their numbers."""
        self._searched: dict[int, str] = {}
        self._heads: dict[tuple[int, int], float] = {}
        self._holds: dict[tuple[int, str], bool] = {}

    def numbers(self, window: Iterable[Chat]) -> list[int]:
        """The numbers of a window's messages. Most are objects of the window before."""
        before, self._last = self._last, {}
        numbers: list[int] = []
        for chat in window:
            known = before.get(id(chat)) or (chat, self.number(chat))
            self._last[id(chat)] = known
            numbers.append(known[1])
        return numbers

    def number(self, chat: Chat) -> int:
        """The number of a message; equal content, equal number."""
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
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = len(self.chats)
            self.chats.append(chat)
            self.tokens.append(tokens(pieces(chat)))
        return found

    def head(self, one: int, other: int) -> float:
        """Tokens of text that two different messages have in common at their heads."""
        pair = (one, other) if one < other else (other, one)
        found = self._heads.get(pair)
        if found is None:
            found = self._heads[pair] = self._head(self.chats[one], self.chats[other])
        return found

    @staticmethod
    def _head(one: Chat, other: Chat) -> float:
        if any(one.get(key) != other.get(key) for key in ("role", "tool_call_id", "name")):
            return 0.0
        count = 0.0
        for mine, theirs in zip(pieces(one), pieces(other), strict=False):
            pictures = isinstance(mine, PictureAddress), isinstance(theirs, PictureAddress)
            if pictures == (False, False):
                same = common(mine, theirs)
                count += same / CHARACTERS_A_TOKEN
                if same == len(mine) == len(theirs):
                    continue
                break
            if pictures != (True, True) or mine != theirs:
                break
            count += PICTURE_TOKENS
        return count

    def holds(self, number: int, text: str) -> bool:
        """Whether the message says `text`."""
        found = self._holds.get((number, text))
        if found is None:
            said = self._searched.get(number)
            if said is None:
                said = self._searched[number] = searched(self.chats[number])
            found = self._holds[number, text] = text in said
        return found
