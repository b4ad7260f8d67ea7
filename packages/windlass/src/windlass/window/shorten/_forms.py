"""Lists said shorter without loss: paths by folder, hits of a search by file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

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
_PLACE: Final = re.compile(r":\d{1,9}:")
"""What stands in every hit, and is found sooner."""
_BESIDE: Final = re.compile(r"-(\d{1,9}-.*)")
"""What stands behind the path of a line beside a hit."""
_OF_FILE: Final = 6.0
_FIRST_HITS: Final = (3.2, 2.4)
"""What the line of a file and its first hits are worth."""
_FOREIGN: Final = 7.0
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
    """A list of paths with each folder said once; None: it is no such list, or no shorter so."""
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
    """Hits of a search with each path said once; None: it has no such lines, or is no shorter."""
    lines = text.split("\n")
    hits = [_HIT.fullmatch(line) if _PLACE.search(line) else None for line in lines]
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
    among = _FOREIGN if foreign <= max(_FEW, _FEW_SHARE * filled) else 0.0
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
