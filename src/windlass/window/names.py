"""Names: the identifiers, paths, numbers and addresses that a later call may quote.

Knows text and messages, nothing of windows; who in view holds a name is the affair of
`holders`. What is in view is in view as a part of
something longer too: a path holds its file name, `self.parent.key` holds `parent.key`. So
the names of a text are its whole names and the parts of each that can stand alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from functools import lru_cache
from itertools import filterfalse
from types import MappingProxyType
from typing import Final

from windlass.messages import Message
from windlass.window.memo import Memo
from windlass.window.references import without_references

MIN_CHARS: Final = 4
MAX_CHARS: Final = 200
"""Longer runs are data (base64, minified code), which nobody quotes."""
_SEPARATORS: Final = "\"'`(){}[]<>,;|&=$!*?\\^~%+"
# As bytes, because translating and splitting bytes is twice as fast as matching words.
_SPACED: Final = bytes.maketrans(_SEPARATORS.encode(), b" " * len(_SEPARATORS))
GUTTER: Final = "→"
"""Stands between the number of a line and the line, where a tool shows files so."""
_TELLING: Final = frozenset("0123456789_/@#.")
_HEAD: Final = ":-"
_TAIL: Final = ".:-/#@"
_EDGES: Final = "._:-/#@"
_MIN_CORE: Final = 2
_JOINTS: Final = re.compile(r"[/.:@#]")
_MAX_JOINTS: Final = 12
_MEMO_TEXTS: Final = 64
_MEMO_CHARS: Final = 50_000
"""Texts of at most so many characters are remembered: each is asked for two to four times."""


def whole_names(text: str) -> Mapping[str, None]:
    """The longest names in a text, in the order in which they first occur.

    A name has 4 to 200 characters, one of them a digit or one of `_ / @ # .`, and no white
    space, quotes or brackets.
    """
    return _remembered(text) if len(text) <= _MEMO_CHARS else _whole_names(text)


def _whole_names(text: str) -> Mapping[str, None]:
    text = text.replace(GUTTER, " ")
    words = text.encode("utf-8", "replace").translate(_SPACED).decode("utf-8").split()
    # What is letters alone, or letters and dashes, is no name; most words are: left out in C.
    telling = filterfalse(_TELLING.isdisjoint, filterfalse(str.isalpha, dict.fromkeys(words)))
    names: dict[str, None] = {}
    for word in telling:
        if MIN_CHARS <= len(word) <= MAX_CHARS:
            if word[0].isalnum() and word[-1].isalnum():  # nothing stands around it
                names[word] = None
                continue
            name = word.lstrip(_HEAD).rstrip(_TAIL)
            if is_name(name) and len(name.strip(_EDGES)) >= _MIN_CORE:
                names[name] = None
    return MappingProxyType(names)


_remembered = lru_cache(maxsize=_MEMO_TEXTS)(_whole_names)


def _parts(name: str) -> tuple[str, ...]:
    pieces = _JOINTS.split(name)
    joints = len(pieces) - 1
    if not 1 <= joints <= _MAX_JOINTS:
        return ()
    held = pieces[1:-1]
    joint = -1
    for piece in pieces[:-1]:
        joint += len(piece) + 1
        held.append(name[:joint])
        held.append(name[joint + 1 :])
    path, colon, rest = name.partition(":")
    if colon and not rest.startswith("//"):
        held += _PARTS.of(path)
    return tuple(filterfalse(str.isalpha, held))


_PARTS: Final = Memo(_parts)


def parts(name: str) -> frozenset[str]:
    """What a name holds that is a name by itself: heads and tails at its joints, and between."""
    return frozenset(filter(is_name, _PARTS.of(name)))


def is_name(text: str) -> bool:
    """Whether a text without separators is a name."""
    return len(text) >= MIN_CHARS and not _TELLING.isdisjoint(text)


def names_of(text: str) -> AbstractSet[str]:
    """The names in a text, and what stands between the joints of each.

    Some of that is too short or too plain to be a name: nobody asks for it, and to leave it
    out takes longer than to hold it.
    """
    whole = whole_names(text)
    names = set(whole)
    names.update(*map(_PARTS.of, filterfalse(str.isidentifier, whole)))  # the others have none
    return names


def unescaped(text: str) -> str:
    """JSON text with spaces for its escapes, so that none sticks to a name."""
    if "\\" not in text:
        return text
    for escape in ("\\\\", "\\n", "\\t", "\\r", '\\"'):
        text = text.replace(escape, " ")
    return text


def names_said(text: str) -> Mapping[str, None]:
    """The whole names in what a message says.

    JSON is read without its escapes, and lines that refer to another result are left out.
    """
    text = without_references(text)
    return whole_names(unescaped(text) if text[:1] in ("{", "[") else text)


def names_in(message: Message) -> AbstractSet[str]:
    """The names in a message: its text, and the arguments of its calls."""
    text = message.text
    said = names_of(unescaped(text) if text[:1] in ("{", "[") else text)
    if not message.tool_calls:
        return said
    return frozenset(said).union(
        *(names_of(unescaped(call.arguments)) for call in message.tool_calls)
    )
