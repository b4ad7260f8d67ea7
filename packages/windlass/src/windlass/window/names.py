"""Names: the identifiers, paths, numbers and addresses that a later call may quote.

Knows text and messages, nothing of windows; who in view holds a name is the affair of
`identifiers`. A name is said where it stands whole: that a path holds its file name is left out,
because finding the parts of names takes as long as finding names, and what it would save is
less than 0.003 of a bill.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from functools import lru_cache
from itertools import compress
from types import MappingProxyType
from typing import Final

from windlass.messages import Message
from windlass.window._references import without_marks
from windlass.window.encode.legend import is_count, is_head

MIN_CHARS: Final = 4
MAX_CHARS: Final = 200
"""Longer runs are data (base64, minified code), which nobody quotes."""
MOST_READ: Final = 1_000_000
"""Characters of a text that are read for names: the longest that was recorded has 890,000."""
_SEPARATORS: Final = "\"'`(){}[]<>,;|&=$!*?\\^~%+"
# As bytes, because translating and splitting bytes is twice as fast as matching words.
_SPACED: Final = bytes.maketrans(_SEPARATORS.encode(), b" " * len(_SEPARATORS))
GUTTER: Final = "→"
"""Stands between the number of a line and the line, where a tool shows files so."""
_TELLING: Final = frozenset("0123456789_/@#.")
_DULL: Final = bytes(set(range(256)) - set(map(ord, _TELLING)) - {ord(" ")})
"""All bytes of words that do not make them names; the space stands between words."""
_HEAD: Final = ":-"
_TAIL: Final = ".:-/#@"
_EDGES: Final = "._:-/#@"
_AT_EDGES: Final = frozenset(_EDGES)
_MIN_CORE: Final = 2
_ID: Final = ("id", "ID", "Id")
_CONSTANTS: Final = frozenset({"null", "true", "false"})


def whole_names(text: str) -> Mapping[str, None]:
    """Return the longest names in a text, in the order in which they first occur.

    A name has 4 to 200 characters, one of them a digit or one of `_ / @ # .`, and no white
    space, quotes or brackets.
    """
    return _names_among(_words(text))


def _words(text: str) -> Mapping[str, None]:
    """Return what stands between white space, quotes and brackets, each once, in order."""
    text = text.replace(GUTTER, " ")
    words = text.encode("utf-8", "replace").translate(_SPACED).decode().split()
    return dict.fromkeys(words)


def _names_among(words: Iterable[str]) -> Mapping[str, None]:
    """Return the names among the words, none of which holds a space."""
    # What of each word tells, of all of them at once: asking word by word takes four times as
    # long, and most have nothing.
    marks = " ".join(words).encode().translate(None, _DULL).split(b" ")
    names = dict.fromkeys(
        [
            word if word[0] not in _AT_EDGES and word[-1] not in _AT_EDGES else _trimmed(word)
            for word in compress(words, marks)
            if MIN_CHARS <= len(word) <= MAX_CHARS
        ]
    )
    names.pop("", None)
    return MappingProxyType(names)


def _trimmed(word: str) -> str:
    """Return the name in a word around which something stands; empty where it is none."""
    if len(word.strip(_EDGES)) < _MIN_CORE:
        return ""
    name = word.lstrip(_HEAD).rstrip(_TAIL)
    if name is word:
        return name
    return name if len(name) >= MIN_CHARS and not _TELLING.isdisjoint(name) else ""


def unescaped(text: str) -> str:
    """Return JSON text with spaces for its escapes, so that none sticks to a name."""
    if "\\" not in text:
        return text
    for escape in ("\\\\", "\\n", "\\t", "\\r", '\\"'):
        text = text.replace(escape, " ")
    return text


@lru_cache(maxsize=128)
def names_said(text: str) -> Mapping[str, None]:
    """Return the names in what a message says, in order.

    JSON is read without its escapes, and what windows write of themselves is left out.
    """
    text = looked_at(text)
    if text[:5] == "[JSON" and is_head(text.partition("\n")[0]):
        return _names_among(dict.fromkeys(map(_of_pair, _words(without_marks(text)))))
    return whole_names(_own_words(text))


def _own_words(text: str) -> str:
    """Return a text without what stands for others in it, and JSON without its escapes."""
    text = without_marks(text)
    return unescaped(text) if text[:1] in ("{", "[") else text


def looked_at(text: str) -> str:
    """Return what of a text is read for names and for errors.

    Of one beyond a million characters it is the beginning and the end, so that no text takes
    longer than that. `recall` reads all of it.
    """
    if len(text) <= MOST_READ:
        return text
    return f"{text[: MOST_READ * 3 // 4]}\n{text[-MOST_READ // 4 :]}"


def _of_pair(word: str) -> str:
    """Return what a word of an encoded JSON text says: of `key:value` the value.

    Keys are the same in all records of a kind. One that calls its value an id stays with it
    where nothing in the value tells so: `reservation_id:HGKLQX`. That a column counts its rows
    is no value.
    """
    if is_count(word):
        return ""
    key, colon, value = word.partition(":")
    if not colon or not key.isidentifier() or value.startswith("//"):
        return word
    if key.endswith(_ID) and value.isalpha() and value not in _CONSTANTS:
        return word
    return value


def names_in(message: Message) -> AbstractSet[str]:
    """Return the names in a message: its text, and the arguments of its calls."""
    if not message.tool_calls:
        return names_said(message.text).keys()
    arguments = unescaped(" ".join([call.arguments for call in message.tool_calls]))
    return whole_names(f"{_own_words(message.text)} {arguments}").keys()
