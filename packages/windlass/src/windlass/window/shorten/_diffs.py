"""Diffs with fewer unchanged lines, as `git diff -U1` and `-U0` print them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from windlass.window.shorten._forms import Form

_HUNK: Final = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@(.*)")
_PLACE: Final = re.compile(r"(?:---|\+\+\+) (\S+)")
_COMMIT: Final = re.compile(r"commit [0-9a-f]{7,}")
_CHANGE: Final = 4.0
_HEAD: Final = 3.0
_HUNK_HEAD: Final = 1.0
_CONTEXT: Final = (2.5, 0.5)
_BEGINNING: Final = 4
_BEGINS: Final = 1.5
"""The first changed lines of a hunk are worth more: scraps of all say less than its beginning."""
_FOREIGN: Final = 8.0
_SHARE: Final = 0.5
"""What lines are worth when not all have room: changed ones, heads, unchanged ones by distance,
and those that are none of the diff; and what of their surprise counts."""
_SIGNS: Final = ("", " ", "+", "-", "\\")
"""How lines of a hunk begin; an unchanged empty one may have lost its blank."""
_TOLD: Final = {0: "no unchanged lines", 1: "1 unchanged line around each change"}


def has_hunks(text: str) -> bool:
    """Return whether a diff stands in the text."""
    return "\n@@ -" in text or text.startswith("@@ -")


def with_context(text: str, most: int) -> Form | None:
    """Return the text with at most so many unchanged lines around each change of a diff in it.

    None: it has no diff, or no more unchanged lines.
    """
    writer = _Writer(most)
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        match = _HUNK.match(lines[at])
        if match is None:
            at = writer.outside(lines, at)
            continue
        end = _hunk_end(lines, at, int(match[2] or 1), int(match[4] or 1))
        writer.hunk(lines, at, end, match)
        at = end
    if not writer.shorter:
        return None
    told = f"The diff with {_TOLD.get(most, f'{most} unchanged lines')}, made"
    return Form(writer.lines, told, writer.starts, writer.worth, writer.heads, _SHARE)


def _hunk_end(lines: Sequence[str], at: int, old: int, new: int) -> int:
    """The line behind a hunk: where its counts are used up, or what cannot be one of its lines.

    A line without a sign between others is none of the diff, and ends no hunk.
    """
    at += 1
    while at < len(lines) and (old > 0 or new > 0):
        sign = lines[at][:1]
        if sign not in _SIGNS:
            follows = lines[at + 1 : at + 2]
            if (
                lines[at].startswith(("diff ", "@@ "))
                or not follows
                or follows[0][:1] not in _SIGNS
            ):
                break
        old -= sign in ("", " ", "-")
        new -= sign in ("", " ", "+")
        at += 1
    if at < len(lines) and lines[at].startswith("\\ "):
        at += 1
    return at


class _Writer:
    def __init__(self, most: int) -> None:
        self.lines: list[str] = []
        self.starts: list[int] = []
        self.worth: dict[int, float] = {}
        self.heads: dict[int, int] = {}
        self.shorter = False
        self._most = most

    def _add(self, line: str, start: int, worth: float | None = None) -> None:
        if worth is not None:
            self.worth[len(self.lines)] = worth
        self.lines.append(line)
        self.starts.append(start)

    def outside(self, lines: Sequence[str], at: int) -> int:
        """Write what stands outside of hunks; the line behind it."""
        line = lines[at]
        if line.startswith("diff --git "):
            return self._head(lines, at)
        if line.startswith("--- ") and lines[at + 1 : at + 2] and lines[at + 1].startswith("+++ "):
            return self._places(lines, at)
        worth = 2 * _HEAD if _COMMIT.match(line) else None
        self._add(line, at, worth)
        return at + 1

    def _head(self, lines: Sequence[str], at: int) -> int:
        """Write the lines before the hunks of a file: its path, and what else is news."""
        end = at + 1
        while end < len(lines) and lines[end].startswith(_OF_HEAD):
            end += 1
        has_places = lines[end - 2 : end - 1] and lines[end - 2].startswith("--- ")
        last = end - 2 if has_places and end - 2 > at else end
        kept = [place for place in range(at, last) if not lines[place].startswith("index ")]
        if last < end:
            kept = kept[1:]
        self.shorter |= len(kept) < last - at
        for place in kept:
            self._add(lines[place], place, _HEAD)
        if last < end:
            self._places(lines, last)
        return end

    def _places(self, lines: Sequence[str], at: int) -> int:
        """Write `---` and `+++`; the second alone where both name one path."""
        old, new = (_PLACE.match(line) for line in lines[at : at + 2])
        same = old and new and old[1].removeprefix("a/") == new[1].removeprefix("b/")
        if same:
            self.shorter = True
        else:
            self._add(lines[at], at, _HEAD)
        self._add(lines[at + 1], at + 1, 2 * _HEAD)
        return at + 2

    def hunk(self, lines: Sequence[str], at: int, end: int, match: re.Match[str]) -> None:
        """Write a hunk as those parts of it that lie near changes, each with true numbers."""
        near = _near_changes(lines, at + 1, end, self._most)
        old, new = int(match[1]), int(match[3])
        # A side of no lines is numbered by the line before it.
        old += match[2] == "0"
        new += match[4] == "0"
        title = match[5]
        begins = 0
        place = at + 1
        while place < end:
            first = place
            while place < end and near[place - at - 1] >= 0:
                place += 1
            part = lines[first:place]
            gone = sum([line[:1] in ("", " ", "-") for line in part])
            come = sum([line[:1] in ("", " ", "+") for line in part])
            if part:
                head = f"@@ -{_range(old, gone)} +{_range(new, come)} @@{title}"
                said_at = len(self.lines)
                self._add(head, first if first > at + 1 else at, _HUNK_HEAD)
                title = ""
                for line, number in zip(part, range(first, place), strict=True):
                    distance = near[number - at - 1]
                    begins += not distance
                    worth = _CHANGE if not distance else _CONTEXT[0] - _CONTEXT[1] * distance
                    worth += _BEGINS * (not distance and begins <= _BEGINNING)
                    worth = worth if line[:1] in _SIGNS else _FOREIGN
                    self.heads[len(self.lines)] = said_at
                    self._add(line, number, worth)
            old, new = old + gone, new + come
            while place < end and near[place - at - 1] < 0:
                old, new, place = old + 1, new + 1, place + 1
                self.shorter = True


_OF_HEAD: Final = (
    *(
        "index ",
        "old mode",
        "new mode",
        "new file",
        "deleted file",
        "similarity ",
        "dissimilarity ",
    ),
    *("rename ", "copy ", "Binary files ", "GIT binary", "--- ", "+++ "),
)


def _range(first: int, count: int) -> str:
    first -= not count
    return str(first) if count == 1 else f"{first},{count}"


def _near_changes(lines: Sequence[str], start: int, end: int, most: int) -> list[int]:
    """Return how far each line of a hunk is from a change; -1: farther than `most`."""
    far = [most + 1 if line[:1] in ("", " ", "\\") else 0 for line in lines[start:end]]
    for places in (range(1, len(far)), range(len(far) - 2, -1, -1)):
        step = places.step
        for at in places:
            far[at] = min(far[at], far[at - step] + 1)
    for at in range(1, len(far)):
        if lines[start + at].startswith("\\"):  # belongs to the line before it
            far[at] = far[at - 1]
    return [distance if distance <= most else -1 for distance in far]
