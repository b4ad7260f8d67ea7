"""Digests: what of a text a later call may quote and nothing else in view holds.

A digest is a set difference: the names of a text less those that another visible message
holds, the most telling kinds first, within a number of characters; before them the lines that
report an error. What is chosen stands in the order of the text. This module knows text only:
not messages, and not when a text is shortened.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, compress
from operator import not_
from typing import Final

from windlass.window.names import MIN_CHARS, looked_at, words_said

_FILES: Final = (
    "py|rs|[jt]sx?|mjs|md|json|to?ml|txt|[ch](?:pp)?|go|java|rb|php|sh|ya?ml|lock|html?|css|png"
    "|jpe?g|svg|cfg|ini|log|rst|so|gz|zip|xml|sql|docx?|xlsx?|pptx?|pdf|csv"
)
_SHAPES: Final = (
    ("id", r"#[A-Za-z]*\d[\w-]*"),
    ("url", r"\w+://.+"),
    ("place", r".+\.\w+:\d+(?::\d+)?"),
    ("date", r"\d{4}-\d\d-\d\d.*|\d\d?:\d\d(?::\d\d)?"),
    ("mail", r"[\w.+-]+@[\w-]+\.[\w.-]+"),
    ("uuid", r"[0-9a-fA-F]{8}-[0-9a-fA-F-]{20,}"),
    ("number", r"[#-]?\d[\d.]*"),
    ("path", r".*/.*"),
    ("file", rf"[\w.-]*\.(?:{_FILES})"),
    ("snake", r"\w*_\w*"),
    ("dotted", r"[\w@-]+(?:\.[\w@-]+)+"),
)
_UUID_CHARS: Final = 28
"""A `uuid` has no fewer."""
_CLOCK: Final = re.compile(r"\d\d?:\d\d(?::\d\d)?")
_SIGNED: Final = frozenset(":./@#")
"""What a name has that is neither a `snake`, a `code`, a number nor a date nor a `uuid`."""
_KEPT_CHARS: Final = 50_000
"""Of texts of at most so many characters the digest is remembered: an offer that waits is
written when it is made and again when it is taken."""
_SHAPE: Final = re.compile("|".join(f"(?P<{kind}>{shape})$" for kind, shape in _SHAPES))
ORDER: Final = (
    *("id", "place", "snake", "date", "number", "dotted"),
    *("url", "code", "mail", "path", "file", "uuid"),
)
"""Kinds of names, those first that tell most for their length. What has no shape is a `code`."""
PATHS_FIRST: Final = ("path", "file", *(kind for kind in ORDER if kind not in ("path", "file")))
"""The same for listings, which are read for their paths."""

_ERROR: Final = re.compile(
    r"\b(?:[A-Z]\w*(?:Error|Exception)|[Ee]rror|ERROR|FAILED|FAIL|[Ff]ailed|[Ff]atal|panicked"
    r"|[Pp]ermission denied|[Nn]o such file|not found|[Tt]raceback|Segmentation fault)\b"
)
_SIGNS: Final = (
    *("rror", "ERROR", "xception", "FAIL", "ailed", "atal", "panicked", "raceback"),
    *("ermission denied", "o such file", "not found", "Segmentation fault"),
)
_SIGN_WORDS: Final = dict(
    zip(_SIGNS, (*_SIGNS[:8], "ermission", "such", "found", "Segmentation"), strict=True)
)
"""One of these stands in whatever `_ERROR` matches, and its word among the words of the text:
finding none of them there takes a fiftieth of the time."""
LINE_CHARS: Final = 200
"""An error line of more characters is cut to what stands around its error."""
_AROUND: Final = 200_000
"""Characters before and behind the last sign of an error in which a line is looked through."""
_BEFORE: Final = 60
_WORD: Final = re.compile(r"[a-z]{4,}|\d{3,}")
_RUN: Final = re.compile(r"[a-z]+|\d+")
"""The words of a text, and what is too short to be one: a run is never tried again."""
_FEW_WORDS: Final = 32
"""A task of at most so many words is looked for word by word before the names are taken apart."""
_RARE: Final = 6
"""A word that a task says more often is about no one thing in it."""
_TASK_CHARS: Final = 20_000


def kind_of_name(name: str) -> str:
    """What a name is by its shape: one of `ORDER`."""
    # The commonest shapes at a glance; the expressions say the same of them.
    if len(name) < _UUID_CHARS and name.isidentifier() and name.isascii():
        return "snake" if "_" in name else "code"
    if ":" not in name:
        if "/" in name and not name[0].isdecimal():
            return "path"
        if name.isdecimal():
            return "number"
        plain = "-" in name and name[0] != "-" and not name[0].isdecimal()
        if plain and len(name) < _UUID_CHARS and _SIGNED.isdisjoint(name):
            return "code"
    elif name[0] != "#" and name[-1].isdecimal() and "://" not in name:
        file, _, line = name.rpartition(":")
        stem, dot, ending = file.rpartition(".")
        if stem and dot and line.isdecimal() and ending.isalnum():
            return "place"
        if not dot and _CLOCK.fullmatch(name):
            return "date"
    match = _SHAPE.match(name)
    return (match and match.lastgroup) or "code"


def error_lines(text: str, room: int, words: str = "") -> str:
    """The lines that report an error, each once, in order: the last ones within `room` characters.

    What broke a run stands at its end. A log in which the word occurs often keeps a few lines.
    `words` are those of the text, where they are known.
    """
    kept: dict[str, None] = {}
    for start, end, sign in _lines_with_signs(text, words or text):
        match = None
        # A line may be all of a text of millions of characters.
        first, last = max(start, sign - _AROUND), min(end, sign + _AROUND)
        for match in _ERROR.finditer(text, first, last):  # noqa: B007 - the last one is meant
            pass
        if match is None:
            continue
        line = text[start:end].strip()
        if len(line) > LINE_CHARS:
            cut = max(start, match.start() - _BEFORE)
            line = text[cut : cut + LINE_CHARS].strip()
        if line in kept:
            continue
        room -= len(line) + 1
        if room < 0:
            break
        kept[line] = None
    return "\n".join(reversed(kept))


def _lines_with_signs(text: str, words: str) -> Iterator[tuple[int, int, int]]:
    """Where lines begin and end that may report an error, and their last sign; the last first."""
    signs = [sign for sign, word in _SIGN_WORDS.items() if word in words]
    last = {sign: text.rfind(sign) for sign in signs if sign in text}
    while last:
        place = max(last.values())
        start, end = text.rfind("\n", 0, place) + 1, text.find("\n", place)
        yield start, end if end >= 0 else len(text), place
        for sign, at in tuple(last.items()):
            if at >= start:
                last[sign] = text.rfind(sign, 0, start)
                if last[sign] < 0:
                    del last[sign]


@lru_cache(maxsize=64)
def words_of(task: str) -> frozenset[str]:
    """The words that say what a task is about: those that it does not say over and over."""
    counts: dict[str, int] = {}
    for word in _WORD.findall(task[:_TASK_CHARS].casefold()):
        counts[word] = counts.get(word, 0) + 1
    return frozenset(word for word, count in counts.items() if count <= _RARE)


def chars_of(names: Collection[str]) -> int:
    """The characters of names with a space behind each."""
    return len("".join(names)) + len(names)  # to sum lengths takes twice as long


def digest(
    text: str,
    room: int,
    left: Sequence[str],
    *,
    errors: int = 0,
    order: tuple[str, ...] = ORDER,
    task: frozenset[str] = frozenset(),
) -> str:
    """What of `text` is worth `room` characters: the lines that report an error, then names.

    Args:
        text: What was said.
        room: The most characters of both.
        left: The names in it that nothing else in view holds, in the order of the text.
        errors: Characters of the room that error lines may take.
        order: Kinds of names, the first to be kept first.
        task: Words; among names of a kind, those that share one of them go first.
    """
    find = _digest if len(text) <= _KEPT_CHARS else _digest.__wrapped__
    return find(text, room, tuple(left), errors, order=order, task=task)


@lru_cache(maxsize=64)
def _digest(
    text: str,
    room: int,
    left: tuple[str, ...],
    errors: int,
    *,
    order: tuple[str, ...],
    task: frozenset[str],
) -> str:
    lines = error_lines(looked_at(text), min(errors, room), words_said(text)) if errors else ""
    room -= len(lines)
    crowded = chars_of(left) > room
    names = _chosen(left, room, lines, order, task) if crowded else _alone(left, lines)
    return "\n".join(filter(None, (lines, " ".join(names))))


def _alone(names: Sequence[str], lines: str) -> list[str]:
    """The names that stand neither in what is told nor in another of them."""
    text = " ".join((lines, *names))
    at = len(lines) + 1
    kept: list[str] = []
    for name in names:
        if text.find(name) == at:
            kept.append(name)
        at += len(name) + 1
    return kept


def _chosen(
    names: Sequence[str], room: int, text: str, order: tuple[str, ...], task: frozenset[str]
) -> list[str]:
    """Those of the names that are worth the room, in their order."""
    of_kind: dict[str, list[str]] = {kind: [] for kind in order}
    for kind, name in zip(map(kind_of_name, names), names, strict=True):
        of_kind[kind].append(name)
    chosen: set[str] = set()
    for left in of_kind.values():
        if room <= MIN_CHARS:
            break  # no name is as short
        if task and chars_of(left) > room:
            left[:] = _by_task(left, task)
        for name in left:
            if len(name) < room and name not in text:
                text += " " + name
                room -= len(name) + 1
                chosen.add(name)
                if room <= MIN_CHARS:
                    break
    return list(filter(chosen.__contains__, names))


def _by_task(names: list[str], task: frozenset[str]) -> list[str]:
    """The names that share a word with the task before the others."""
    held = names
    if len(task) <= _FEW_WORDS:
        folded = " ".join(names).casefold()
        found = list(filter(folded.__contains__, task))
        held = list(compress(names, _holding(names, found))) if found else []
    shared = task.intersection(_RUN.findall(" ".join(held).casefold()))
    if not shared:
        return names
    near = _holding(names, shared)
    return [*compress(names, near), *compress(names, map(not_, near))]


def _holding(names: Sequence[str], words: Collection[str]) -> list[bool]:
    """Whether each of the names holds one of the words, which are of small letters or digits."""
    text = "\n".join(names)
    folded = text.casefold()
    if len(folded) != len(text):  # a character became two: places are no longer the same
        return [any(map(name.casefold().__contains__, words)) for name in names]
    starts = list(accumulate(map(len, names), lambda start, chars: start + chars + 1, initial=0))
    holding = [False] * len(names)
    for word in words:
        place = folded.find(word)
        while place >= 0:
            number = bisect_right(starts, place) - 1
            holding[number] = True
            place = folded.find(word, starts[number + 1])
    return holding
