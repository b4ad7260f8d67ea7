"""Diffs with fewer unchanged lines, as `git diff -U1` and `-U0` print them.

Lists said shorter without loss: paths by folder, hits of a search by file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

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
    """Get the line behind a hunk: where its counts are used up, or what cannot be one of its lines.

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


_PATHS: Final = 12
_PATH_SHARE: Final = 0.85
_PATH_SAVING: Final = 0.15
_FOLDER_SHARE: Final = 0.5
"""The share of paths that stand in a folder: a list of words has none."""
_PATH: Final = re.compile(r"(?:[A-Za-z]:[/\\])?[^\s:*?\"'<>|=,;(){}\\]{1,300}")
_HITS: Final = 8
_HIT_SHARE: Final = 0.7
_HIT_SAVING: Final = 0.1
_HIT: Final = re.compile(r"((?:[A-Za-z]:)?[^:\n]{0,300}[^\W\d][^:\n]{0,300}):(\d{1,9}:.*)")
_PLACE_IN_FILE: Final = re.compile(r":\d{1,9}:")
"""What stands in every hit, and is found sooner."""
_BESIDE: Final = re.compile(r"-(\d{1,9}-.*)")
"""What stands behind the path of a line beside a hit."""
_OF_FILE: Final = 6.0
_FIRST_HITS: Final = (3.2, 2.4)
"""What the line of a file and its first hits are worth."""
_FOREIGN_FORM: Final = 7.0
"""What a line is worth that is no hit, where few are."""
_FEW: Final = 3
_FEW_SHARE: Final = 0.05


@dataclass(frozen=True, slots=True)
class Form:
    """Another way to say a text, line by line.

    `starts` are the lines of the text, from 0, at which each of its lines begins (None: they do not
    follow each other). `worth`: what lines are worth by their place in the form, and `heads`
    without which line another says nothing. `told` says what form it is.
    """

    lines: Sequence[str]
    told: str
    starts: Sequence[int] | None = None
    worth: Mapping[int, float] = field(default_factory=dict)
    heads: Mapping[int, int] = field(default_factory=dict)
    share: float = 1.0
    """What of the surprise of its lines counts."""


def by_folder(text: str) -> Form | None:
    """Return a list of paths with each folder said once.

    None: it is no such list, or no shorter so.
    """
    lines = text.split("\n")
    said = [line for line in lines if line.strip()]
    if sum(["/" in line for line in said]) < _PATH_SHARE * _FOLDER_SHARE * len(said):
        return None
    paths = [line for line in said if _PATH.fullmatch(line.rstrip())]
    if len(said) < _PATHS or len(paths) < _PATH_SHARE * len(said):
        return None
    if sum(["/" in path for path in paths]) < _FOLDER_SHARE * len(paths):
        return None
    folders: dict[str, list[str]] = {}
    for path in paths:
        bare = path.rstrip()
        folder = bare[: bare.rstrip("/").rfind("/") + 1]
        folders.setdefault(folder, []).append(bare[len(folder) :])
    others = [line for line in said if not _PATH.fullmatch(line.rstrip())]
    grouped = [f"{folder or 'no folder'}: {' '.join(names)}" for folder, names in folders.items()]
    form = [f"[{len(paths)} paths by folder]", *others, *grouped]
    if sum(map(len, form)) + len(form) > (1 - _PATH_SAVING) * len(text):
        return None
    return Form(form, "The paths by folder, made")


def by_file(text: str) -> Form | None:
    """Return hits of a search with each path said once.

    None: it has no such lines, or is no shorter.
    """
    lines = text.split("\n")
    hits = [_HIT.fullmatch(line) if _PLACE_IN_FILE.search(line) else None for line in lines]
    paths = {hit[1] for hit in hits if hit}
    number = sum([hit is not None for hit in hits])
    filled = sum([bool(line.strip()) and line != "--" for line in lines])
    if number < _HITS or not paths:
        return None
    beside = [None if hit else _beside(line, paths) for hit, line in zip(hits, lines, strict=True)]
    if number + sum([one is not None for one in beside]) < _HIT_SHARE * filled:
        return None
    form: list[str] = []
    starts: list[int] = []
    worth: dict[int, float] = {}
    heads: dict[int, int] = {}
    path, head, rank = "", -1, 0
    foreign = filled - number - sum([one is not None for one in beside])
    among = _FOREIGN_FORM if foreign <= max(_FEW, _FEW_SHARE * filled) else 0.0
    for at, (line, hit, near) in enumerate(zip(lines, hits, beside, strict=True)):
        there = hit[1] if hit else near[0] if near else ""
        if there and there != path:
            path, head, rank = there, len(form), 0
            form.append(path)
            starts.append(at)
            worth[head] = _OF_FILE
        if hit:
            worth[len(form)] = _FIRST_HITS[rank] if rank < len(_FIRST_HITS) else 0.0
            rank += 1
        if there:
            heads[len(form)] = head
        elif line.strip() and line != "--":
            worth[len(form)] = among
        form.append(hit[2] if hit else near[1] if near else line)
        starts.append(at)
    if sum(map(len, form)) + len(form) > (1 - _HIT_SAVING) * len(text):
        return None
    return Form(form, "The hits by file, made", starts, worth, heads)


def _beside(line: str, paths: set[str]) -> tuple[str, str] | None:
    """Return the path and the rest of a line beside a hit."""
    for match in _BESIDE.finditer(line, 0, 600):
        path = line[: match.start()]
        if path in paths:
            return path, match[1]
    return None
