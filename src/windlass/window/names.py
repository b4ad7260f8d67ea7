"""Names: the identifiers, paths, numbers and addresses that a later call may quote.

Knows text and messages, nothing of windows; who in view holds a name is the affair of
`holders`. What is in view is in view as a part of
something longer too: a path holds its file name, `self.parent.key` holds `parent.key`. So
the names of a text are its whole names and the parts of each that can stand alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from itertools import accumulate, filterfalse
from types import MappingProxyType
from typing import Final

from windlass.messages import Message
from windlass.window.references import without_references

MIN_CHARS: Final = 4
MAX_CHARS: Final = 200
"""Longer runs are data (base64, minified code), which nobody quotes."""
_SEPARATORS: Final = "\"'`(){}[]<>,;|&=$!*?\\^~%+"
# As bytes, because translating and splitting bytes is twice as fast as matching words.
_SPACED: Final = bytes.maketrans(_SEPARATORS.encode(), b" " * len(_SEPARATORS))
GUTTER: Final = "→"
"""Stands between the number of a line and the line, where a tool shows files so."""
_TELLING: Final = re.compile(r"[0-9_/@#.]")
_HEAD: Final = ":-"
_TAIL: Final = ".:-/#@"
_EDGES: Final = "._:-/#@"
_MIN_CORE: Final = 2
_JOINTS: Final = re.compile(r"[/.:@#]")
_MAX_JOINTS: Final = 12
_MEMO: Final = 1 << 14
"""Words remembered, for speed alone: a session says the same ones over and over."""
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
    # What is letters alone is no name; most words are, and this leaves them out in C.
    names = dict.fromkeys(map(_name_of, filterfalse(str.isalpha, dict.fromkeys(words))))
    names.pop("", None)
    return MappingProxyType(names)


_remembered = lru_cache(maxsize=_MEMO_TEXTS)(_whole_names)


@lru_cache(maxsize=_MEMO)
def _name_of(word: str) -> str:
    """The name that a word is without what stands around it; empty: it is none."""
    if not MIN_CHARS <= len(word) <= MAX_CHARS:
        return ""
    if word[0].isalnum() and word[-1].isalnum():  # nothing stands around it
        return word if _TELLING.search(word) else ""
    name = word.lstrip(_HEAD).rstrip(_TAIL)
    return name if is_name(name) and len(name.strip(_EDGES)) >= _MIN_CORE else ""


@lru_cache(maxsize=_MEMO)
def parts(name: str) -> tuple[str, ...]:
    """What a name holds that is a name by itself: heads and tails at its joints, and between."""
    pieces = _JOINTS.split(name)
    if not 1 < len(pieces) <= _MAX_JOINTS + 1:
        return ()
    # Where each joint stands: before it are the pieces so far, and the joints between them.
    joints = list(accumulate(map(len, pieces[:-1]), lambda end, length: end + 1 + length))
    held = [name[:joint] for joint in joints]
    held += [name[joint + 1 :] for joint in joints]
    held += pieces[1:-1]
    found = [
        part
        for part in held
        if len(part) >= MIN_CHARS and not part.isalpha() and _TELLING.search(part)
    ]
    path, colon, rest = name.partition(":")
    if colon and not rest.startswith("//"):
        found += parts(path)
    return tuple(found)


def is_name(text: str) -> bool:
    """Whether a text without separators is a name."""
    return len(text) >= MIN_CHARS and not text.isalpha() and _TELLING.search(text) is not None


def names_of(text: str) -> frozenset[str]:
    """The names in a text, and the parts of each."""
    whole = whole_names(text)
    return frozenset(whole).union(*map(parts, whole))


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


def names_in(message: Message) -> frozenset[str]:
    """The names in a message: its text, and the arguments of its calls."""
    text = message.text
    said = names_of(unescaped(text) if text[:1] in ("{", "[") else text)
    if not message.tool_calls:
        return said
    return said.union(*(names_of(unescaped(call.arguments)) for call in message.tool_calls))
