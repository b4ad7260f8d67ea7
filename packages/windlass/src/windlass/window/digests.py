"""Digests: what of a text a later call may quote and nothing else in view holds.

A digest is a set difference: the names of a text less those that another visible message
holds, the most telling kinds first, within a number of characters; before them the lines that
report an error. What is chosen stands in the order of the text. This module knows text only:
not messages, and not when a text is shortened.

Whether a tool result tells of a failure: by its flag, or by its words where nobody set one.

Results of our own tools and of providers whose format has a flag carry `Message.failed`. Lists that
come from elsewhere, and rows that older versions recorded, do not: there the beginning decides. A
failed result that is shortened keeps the lines that tell of errors.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Collection, Container, Sequence
from functools import lru_cache
from typing import Final

from windlass.messages import Message
from windlass.window.encode.command_output import clean
from windlass.window.names import MIN_CHARS, looked_at

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
_SHAPE: Final = re.compile("|".join(f"(?P<{kind}>{shape})$" for kind, shape in _SHAPES))
ORDER: Final = (
    *("id", "place", "snake", "date", "number", "dotted"),
    *("url", "code", "mail", "path", "file", "uuid"),
)
"""Kinds of names, those first that tell most for their length. What has no shape is a `code`."""
PATHS_FIRST: Final = ("path", "file", *(kind for kind in ORDER if kind not in ("path", "file")))
"""The same for listings, which are read for their paths."""

ERROR: Final = re.compile(
    r"\b(?:[A-Z]\w*(?:Error|Exception)|[Ee]rror|ERROR|FAILED|FAIL|[Ff]ailed|[Ff]atal|panicked"
    r"|[Pp]ermission denied|[Nn]o such file|not found|[Tt]raceback|Segmentation fault)\b"
)
ERROR_SIGNS: Final = (
    *("rror", "ERROR", "xception", "FAIL", "ailed", "atal", "panicked", "raceback"),
    *("ermission denied", "o such file", "not found", "Segmentation fault"),
)
"""One of these stands in whatever `ERROR` matches, and is found sooner."""
LINE_CHARS: Final = 200
"""An error line of more characters is cut to its beginning, its error and its end."""
_BEGIN_CHARS: Final = 60
_LAST_CHARS: Final = 40
_BEFORE: Final = 20
"""Characters of the beginning, of the end, and before the error, that stay of a longer line."""
_TELLING: Final = re.compile(r"error|exception|failed|traceback", re.IGNORECASE)
"""What a line of a failed result has that tells of the failure, in any case and inside words."""
_END_CHARS: Final = 2_000
_LEFT_OUT: Final = "[{count:,} error line{s} left out]"
_WORD: Final = re.compile(r"[a-z]{4,}|\d{3,}")
_RUN: Final = re.compile(r"[a-z]+|\d+")
"""The words of a text, and what is too short to be one: a run is never tried again."""
_RARE: Final = 6
"""A word that a task says more often is about no one thing in it."""
_TASK_CHARS: Final = 20_000


def kind_of_name(name: str) -> str:
    """Return what a name is by its shape: one of `ORDER`."""
    if name.isidentifier() and name.isascii():  # most are; the expression says the same of them
        return "snake" if "_" in name else "code"
    match = _SHAPE.match(name)
    return (match and match.lastgroup) or "code"


def error_lines(text: str, room: int) -> str:
    """The lines that report an error, each once, in order: the last ones within `room` characters.

    What broke a run stands at its end. A log in which the word occurs often keeps a few lines.
    """
    kept: dict[str, None] = {}
    signs = [sign for sign in ERROR_SIGNS if sign in text]
    for whole in reversed(text.split("\n")) if signs else ():
        at = _last(whole, ERROR) if any(map(whole.__contains__, signs)) else -1
        if at < 0:
            continue
        line = whole.strip()
        if len(line) > LINE_CHARS:
            line = _around(whole, at)
        if line in kept:
            continue
        room -= len(line) + 1
        if room < 0:
            break
        kept[line] = None
    return "\n".join(reversed(kept))


def failure_lines(text: str, room: int, there: Container[str] = ()) -> str:
    """Return the lines of a failed result that tell of an error, each once and in order.

    But for those that are `there` already. All of them where they fit into `room` characters.
    Else long ones are cut, those whose words report an error go before those that only have such
    a word in them, the last ones first, and a line before them says how many are left out.
    """
    telling = (line.strip() for line in text.split("\n") if _tells(line))
    lines = dict.fromkeys(line for line in telling if line not in there)
    if sum(map(len, lines)) + len(lines) <= room:
        return "\n".join(lines)
    room -= len(_left_out(len(lines))) + 1
    kept: dict[str, str] = {}
    newest = [*reversed(lines)]
    for line in sorted(newest, key=lambda line: ERROR.search(line) is None):
        shown = line
        if len(line) > LINE_CHARS:
            at = _last(line, ERROR)
            shown = _around(line, at if at >= 0 else _last(line, _TELLING))
        if len(shown) < room:
            kept[line] = shown
            room -= len(shown) + 1
    left = len(lines) - len(kept)
    head = [_left_out(left)] if left else []
    return "\n".join([*head, *(kept[line] for line in lines if line in kept)])


def _last(line: str, pattern: re.Pattern[str]) -> int:
    """Where the pattern occurs last in a line; -1: nowhere. Its end is searched first."""
    for start in (max(0, len(line) - _END_CHARS), 0):
        found = deque(pattern.finditer(line, start), maxlen=1)
        if found:
            return found[0].start()
    return -1


def _tells(line: str) -> bool:
    return bool(_TELLING.search(line) or ERROR.search(line))


def _left_out(count: int) -> str:
    return _LEFT_OUT.format(count=count, s="s" * (count != 1))


def _around(line: str, at: int) -> str:
    """Return a long line in at most `LINE_CHARS` characters: its beginning, its error, its end.

    It begins with a place or a host, and ends with what was wrong.
    """
    line = line.rstrip()
    start = max(_BEGIN_CHARS, at - _BEFORE)
    end = len(line) - _LAST_CHARS
    room = LINE_CHARS - _BEGIN_CHARS - _LAST_CHARS - 2
    if start == _BEGIN_CHARS:
        return f"{line[: start + room].lstrip()}…{line[end:]}"
    if start + room >= end:
        return f"{line[:_BEGIN_CHARS].lstrip()}…{line[_BEGIN_CHARS + 1 - LINE_CHARS :]}"
    return f"{line[:_BEGIN_CHARS].lstrip()}…{line[start : start + room]}…{line[end:]}"


@lru_cache(maxsize=64)
def words_of(*texts: str) -> frozenset[str]:
    """Give the words that say what a task is about: those that no text of it says over and over."""
    counts = [Counter(_WORD.findall(text[:_TASK_CHARS].casefold())) for text in texts]
    return frozenset(word for words in counts for word in words if words[word] <= _RARE)


def chars_of(names: Collection[str]) -> int:
    """Return the characters of names with a space behind each."""
    return len("".join(names)) + len(names)  # to sum lengths takes twice as long


def digest(
    names: Sequence[str],
    room: int,
    *,
    lines: str = "",
    order: tuple[str, ...] = ORDER,
    task: frozenset[str] = frozenset(),
) -> str:
    """Return what of a text is worth `room` characters: the lines that report an error, then names.

    Args:
        names: The names in it that nothing else in view holds, in the order of the text.
        room: The most characters of both.
        lines: The lines that report an error; they stand first, whole, and take of the room.
        order: Kinds of names, the first to be kept first.
        task: Words; among names of a kind, those that share one of them go first.
    """
    room -= len(lines)
    crowded = chars_of(names) > room
    kept = _chosen(names, room, lines, order, task) if crowded else _alone(names, lines)
    return "\n".join(filter(None, (lines, " ".join(kept))))


def _alone(names: Sequence[str], lines: str) -> list[str]:
    """Return the names that stand neither in the lines nor in another of them."""
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
    """Return those of the names that are worth the room, in their order."""
    of_kind: dict[str, list[str]] = {kind: [] for kind in order}
    for kind, name in zip(map(kind_of_name, names), names, strict=True):
        of_kind[kind].append(name)
    chosen: set[str] = set()
    for candidates in of_kind.values():
        if room <= MIN_CHARS:
            break  # no name is as short
        if task and chars_of(candidates) > room:
            candidates[:] = _by_task(candidates, task)
        for name in candidates:
            if len(name) < room and name not in text:
                text += " " + name
                room -= len(name) + 1
                chosen.add(name)
                if room <= MIN_CHARS:
                    break
    return list(filter(chosen.__contains__, names))


def _by_task(names: list[str], task: frozenset[str]) -> list[str]:
    """Return the names that share a word with the task before the others."""
    shared = task.intersection(_RUN.findall(" ".join(names).casefold()))
    if not shared:
        return names
    return sorted(names, key=lambda name: not any(map(name.casefold().__contains__, shared)))


_CHARS: Final = 200
"""Characters of a result in which its failure stands."""
_BEGINS: Final = re.compile(
    r"""[\s\[{(<'"]*(?:(?i:error|exception|fatal|failed)\b"""
    r"""(?!["']?\s*:\s*(?:null|false|none|""|\[\]|\{\}|0\b))"""
    r"""|Traceback\b|tool_use_error>|(?:bash|sh|cat|sed|head|nl|tee|cp|mv): )""",
)
"""A document's heading (`# Error handling`) is none, nor is a field that says `"error": null`."""
_EXITED: Final = re.compile(r"(?:returncode>|[Ee]xit code:?|EXIT CODE:)\s*(?:[1-9]|-)")


def has_failed(message: Message) -> bool:
    """Return whether this tool result tells of a failure."""
    return message.failed or looks_failed(message.text)


def looks_failed(text: str) -> bool:
    """Whether a result begins as those of failed calls do, or names an exit code that is not 0."""
    return bool(_BEGINS.match(text, 0, _CHARS) or _EXITED.search(text, 0, _CHARS))


def lines_of_failure(message: Message, room: int, there: Container[str] = ()) -> str:
    """Get the lines of a failed result that tell of an error, within `room` characters; else empty.

    Of the result as it was said, whatever of it is shown; but for those that are `there` already.
    """
    if not room or not has_failed(message):
        return ""
    return failure_lines(clean(looked_at(message.text)), room, there)


def with_failure(text: str, message: Message, room: int, *there: str) -> str:
    """A shorter form of a result, and behind it the lines of its failure that the form lacks."""
    shown = {line.strip() for line in text.split("\n")}.union(there)
    return "\n".join(filter(None, (text, lines_of_failure(message, room, shown))))
