"""Cutting long results to what was asked for: which lines stay, and how the rest is marked.

A result is cut line by line, and a line that is longer than `LINE` between its words. It keeps the
first and the last lines, lines that report an error, lines near the words of a request, and
definitions; marks show where lines were left out. Pure functions of texts: they know neither
windows nor when a cut is worthwhile.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from itertools import accumulate, groupby
from typing import Final

from windlass.window.digests import ERROR, ERROR_SIGNS

LINE: Final = 400
"""Characters of a line above which it is cut inside."""
_PIECE: Final = 200
"""Characters of the pieces that a longer line is cut into."""
_BREAKS: Final = ("},", "\\n", ". ", ", ", ",", ";", "|", " ")
"""A long line is split after the last of these."""
_BACK: Final = 80
"""Characters before the end of a piece that are searched for such a place."""
_HEAD: Final = 0.3
_TAIL: Final = 0.15
_OUTPUT_TAIL: Final = 0.3
"""Shares of the room for the first and the last lines; a program's error is at its end."""
_ERRORS: Final = 0.4
"""The share of the room for lines that report errors."""
_BEGINNING: Final = 12
"""Lines of output that begin with this many equal characters are alike."""
_FEW_ALIKE: Final = 3
_MOST_WORDS: Final = 80
_MOST_QUERY: Final = 20_000
"""The number of last characters of a request that are read for words."""
_WORD: Final = re.compile(r"[a-z_]{4,}|\d{3,}")
_COMMON: Final = 0.2
"""A word in a larger share of the pieces does not distinguish any of them."""
_NEAR: Final = 0.3
"""The share of the best score from which on a piece counts as relevant."""
_BESIDE: Final = 0.4
"""The share of its score that a piece passes to its neighbours."""
_FAILED: Final = re.compile(
    r"^(?:E  |>  |FAILED |ERROR |npm ERR!|\s*--> )|\bwarning(?:\[|:)|undefined reference"
    r"|cannot find|\bassert(?:ion)?\b|\b\d+ (?:failed|errors?|warnings?)\b"
)
_SIGNS: Final = (
    *(*ERROR_SIGNS, "E  ", ">  ", "npm ERR!", "--> ", "warning", "undefined ref", "cannot find"),
    *("assert", " errors", "1 error"),
)
"""Every match of `ERROR` and `_FAILED` contains one of these, which are faster to find."""
_MOST_FOUND: Final = 2_000
"""The number of last places of one sign that are examined."""
_DEFINED: Final = re.compile(
    r"\s*(?:export |public |private |static |async |pub(?:\(\w+\))? )*"
    r"(?:def|class|function|fn|struct|enum|interface|trait|impl|type|module|package)\s+\w"
    r"|#{1,6} \S|(?:CREATE|create) (?:TABLE|table)"
)


def query_of(texts: Iterable[tuple[str, float]]) -> Mapping[str, float]:
    """The words of texts that say what was asked for, each with the highest weight of its texts."""
    words: dict[str, float] = {}
    for text, weight in texts:
        for word in _words(text):
            words[word] = max(weight, words.get(word, 0))
    return words


@lru_cache(maxsize=64)
def _words(text: str) -> Collection[str]:
    return dict.fromkeys(_WORD.findall(text[-_MOST_QUERY:].lower())).keys()


def cut(
    text: str,
    room: int,
    query: Mapping[str, float],
    *,
    output: bool = False,
    starts: Sequence[int] | None = None,
) -> str:
    """The text in about `room` characters, without the lines least related to the request.

    Args:
        text: The text.
        room: Characters to keep.
        query: The words of what was asked for, with their weights.
        output: Whether a program wrote it: similar lines then count less, and the end more.
        starts: At which line of the original each of its lines begins: by these numbers those are
            told that are left out (None: they are counted).
    """
    pieces = _Pieces(text)
    choice = _Choice([*map(len, pieces.texts)], room)
    places = range(len(pieces.texts))
    alike = _alike(pieces.texts) if output else frozenset[int]()
    choice.run(places, _HEAD, but=alike)
    choice.run(reversed(places), _OUTPUT_TAIL if output else _TAIL)
    choice.fill(reversed(_errors(pieces)), _ERRORS)
    scores = _scores(pieces, query)
    least = _NEAR * max(scores.values(), default=0)
    near = [at for at, score in scores.items() if score >= least]
    choice.fill(sorted(near, key=lambda at: (-scores[at], at)))
    choice.fill(at for at in places if _DEFINED.match(pieces.texts[at]))
    choice.run(places, but=alike)
    return _joined(pieces, choice.chosen, starts).removesuffix("\n")


class _Choice:
    """The pieces that stay: `room` characters of them."""

    def __init__(self, lengths: Sequence[int], room: int) -> None:
        self.chosen: set[int] = set()
        self._lengths = lengths
        self._room = self._left = room

    def run(self, places: Iterable[int], share: float = 1.0, but: Container[int] = ()) -> None:
        """Take the places in their order, until one does not fit into this share of the room."""
        floor = max(0, self._left - int(self._room * share))
        for at in places:
            if at not in but and not self._take(at, floor):
                break

    def fill(self, places: Iterable[int], share: float = 1.0) -> None:
        """Take those of the places that fit into this share of the room, in their order."""
        floor = max(0, self._left - int(self._room * share))
        for at in places:
            if self._left <= floor:
                break
            self._take(at, floor)

    def _take(self, at: int, floor: int) -> bool:
        if at in self.chosen:
            return True
        if self._left - self._lengths[at] < floor:
            return False
        self.chosen.add(at)
        self._left -= self._lengths[at]
        return True


class _Pieces:
    """The lines of a text, each with its end, long ones parted.

    `lines` are the numbers, from 0, of the lines that the pieces belong to.
    """

    def __init__(self, text: str) -> None:
        self.texts: list[str] = []
        self.lines: list[int] = []
        for number, line in enumerate(text.split("\n")):
            at = 0
            while len(line) - at > LINE:
                end = _part_end(line, at + _PIECE)
                self.texts.append(line[at:end])
                self.lines.append(number)
                at = end
            self.texts.append(f"{line[at:]}\n")
            self.lines.append(number)
        self.text = f"{text}\n"
        self._starts = [0, *accumulate(map(len, self.texts))]

    def at(self, place: int) -> int:
        """The piece that contains a place of the text."""
        return bisect_right(self._starts, place) - 1

    def ends(self, at: int) -> bool:
        """Whether a line ends with the piece; so it does before the first."""
        return at < 0 or self.texts[at].endswith("\n")


def _part_end(line: str, middle: int) -> int:
    ends = [line.rfind(sign, middle - _BACK, middle) + len(sign) for sign in _BREAKS]
    end = max(ends)
    return end if end > middle - _BACK else middle


def _places(text: str, word: str, most: int) -> Iterator[int]:
    """The places of a word in a text, last ones first, at most `most`."""
    at = text.rfind(word)
    while at >= 0 and most:
        yield at
        most -= 1
        at = text.rfind(word, 0, at)


def _alike(texts: Sequence[str]) -> AbstractSet[int]:
    """The pieces that begin like three before them, and so add nothing."""
    met: Counter[str] = Counter()
    alike: set[int] = set()
    for at, text in enumerate(texts):
        begins = text.lstrip()[:_BEGINNING]
        met[begins] += 1
        if met[begins] > _FEW_ALIKE:
            alike.add(at)
    return alike


def _errors(pieces: _Pieces) -> list[int]:
    """The pieces that report a failure, in order."""
    found = {
        pieces.at(place)
        for sign in _SIGNS
        if sign in pieces.text
        for place in _places(pieces.text, sign, _MOST_FOUND)
    }
    texts = pieces.texts
    return sorted(at for at in found if ERROR.search(texts[at]) or _FAILED.search(texts[at]))


def _scores(pieces: _Pieces, query: Mapping[str, float]) -> Mapping[int, float]:
    """How relevant each piece is; neighbours of a relevant piece share its score."""
    lowered, number = pieces.text.lower(), len(pieces.texts)
    if len(lowered) != len(pieces.text):
        return {}  # the places in one are not those in the other
    most = max(3, int(_COMMON * number))
    found: list[tuple[float, Collection[int]]] = []
    for word, weight in query.items():
        if 0 < lowered.count(word) <= most:
            near = set(map(pieces.at, _places(lowered, word, most)))
            found.append((weight * math.log(number / len(near)), near))
    found.sort(key=lambda one: -one[0])
    own: dict[int, float] = {}
    for score, places in found[:_MOST_WORDS]:
        for place in places:
            own[place] = own.get(place, 0) + score
    scores = dict(own)
    for place, score in own.items():
        for beside in (place - 1, place + 1):
            if 0 <= beside < number:
                scores[beside] = max(scores.get(beside, 0), _BESIDE * score)
    return scores


def _joined(pieces: _Pieces, chosen: Container[int], starts: Sequence[int] | None) -> str:
    """The chosen pieces, and between them what is left out, where that is shorter."""
    said: list[str] = []
    for stays, group in groupby(range(len(pieces.texts)), key=chosen.__contains__):
        places = list(group)
        first, last = places[0], places[-1]
        part = pieces.texts[first : last + 1]
        if not stays:
            chars = sum(map(len, part))
            if pieces.ends(first - 1) and pieces.ends(last):
                mark = f"{_mark(pieces.lines[first], pieces.lines[last], starts)}\n"
            else:
                mark = f"[... {chars:,} characters ...]" + "\n" * pieces.ends(last)
            part = [mark] if len(mark) < chars else part
        said += part
    return "".join(said)


def _mark(first: int, last: int, starts: Sequence[int] | None) -> str:
    """The mark for the lines `first` to `last`, counted from 0, that are left out."""
    if starts is None:
        return f"[... {last - first + 1:,} line{'s' * (last > first)} ...]"
    start = starts[first]
    end = starts[last + 1] - 1 if last + 1 < len(starts) else starts[last]
    return f"[... lines {start}-{end} ...]" if end > start else f"[... line {start} ...]"
