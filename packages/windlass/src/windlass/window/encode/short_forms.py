"""Short forms of large results, one for each kind: what a model needs to go on, or to look.

Each form takes the text and the characters it may have, and says less than the text does; how
the rest is got back is added by the caller. None: this text has no such form.
Where none is, a text is cut in the middle. A cut never splits a character that people see, and no
identifier that is not a text of its own length.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any, Final

from windlass.window.digests import error_lines
from windlass.window.encode._tables import NotPlain, Number, dumps, parse

_MAX_PARSED: Final = 2_000_000
"""Characters of JSON beyond which only head and tail are shown."""
_TITLES: Final = ("title", "name", "path", "file", "url", "link", "id", "key")
_SNIPPETS: Final = ("snippet", "description", "summary", "content", "text", "body", "line")
_PLACES: Final = ("url", "link", "href", "path")
_LISTS: Final = ("results", "items", "hits", "matches", "documents", "organic", "data", "web")
_NUMBERED: Final = re.compile(r"^(?:\d+[.)]|#+|[-*]) +(?=\S)", re.MULTILINE)
_LINKED: Final = re.compile(r"^(?:Links|Results): (?=(\[\{))", re.MULTILINE)
_EXIT: Final = re.compile(
    r"<returncode>\s*(-?\d+)|[Ee]xit(?:ed)?(?: with)?[ _](?:code|status)\D{0,3}(-?\d+)"
)
_HUNK: Final = re.compile(r"^(?:diff --git .*|\+\+\+ .*|@@ .*)$", re.MULTILINE)
_SIGN: Final = "…"
_KEY_FIELDS: Final = re.compile(
    r"id$|^_?id|name|title|status|state|error|message|code|total|count|url|path|next|type|key|date",
    re.IGNORECASE,
)
_JOINER: Final = "\u200d"
_BACK: Final = 300
"""How far a cut moves to find a better place: longer words than this are split."""
_INSIDE: Final = re.compile(r"[\w/@#.:+\-]")


def search_form(text: str, most: int, hits: int) -> str | None:
    """Return how many were found, and the first `hits` of them with title, place and snippet."""
    results = _hits(text)
    if not results:
        return None
    shown = results[:hits]
    head = f"Found {len(results)} results. Top {len(shown)}:"
    room = max(60, (most - len(head)) // len(shown) - 5)
    lines = [f"{at}. {line_cut(hit, room)}" for at, hit in enumerate(shown, 1)]
    return "\n".join([head, *lines])


def _hits(text: str) -> list[str]:
    """Return the results of a search, each as a line: title, place, snippet."""
    if text.lstrip()[:1] in ("{", "[") and len(text) <= _MAX_PARSED:
        try:
            return [_hit(one) for one in _first_list(parse(text))]
        except NotPlain:
            pass
    linked = _LINKED.search(text, 0, 2_000)
    if linked:
        try:
            links = parse(text[linked.start(1) :].split("\n", 1)[0])
            return [_hit(one) for one in _first_list(links)]
        except NotPlain:
            pass
    starts = [match.start() for match in _NUMBERED.finditer(text)]
    if len(starts) > 1:
        blocks = [text[a:b] for a, b in zip(starts, [*starts[1:], len(text)], strict=True)]
        return [" ".join(_NUMBERED.sub("", block, count=1).split()) for block in blocks]
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    return lines if len(lines) > 1 else []


def _first_list(value: Any) -> Sequence[Any]:
    if isinstance(value, dict):
        for key in _LISTS:
            inner = value.get(key)
            if isinstance(inner, list) and inner:
                return inner
            if isinstance(inner, dict):
                return _first_list(inner)
        return next((one for one in value.values() if isinstance(one, list) and one), [])
    return value if isinstance(value, list) else []


def _hit(value: Any) -> str:
    if not isinstance(value, dict):
        return " ".join(_brief(value, 200, 2, 2).split())
    pieces: list[str] = []
    for keys in (_TITLES, _PLACES, _SNIPPETS):
        text = next((str(value[key]) for key in keys if isinstance(value.get(key), str)), "")
        line = " ".join(text.split())
        if line and line not in pieces:
            pieces.append(line)
    return " - ".join(pieces) or _brief(value, 80, 2, 2)


def file_form(text: str, most: int, lines: int, path: str) -> str:
    """Return what file it is, how long, and its first lines."""
    count = text.count("\n") + (not text.endswith("\n"))
    name = f"File {path}: " if path else ""
    title = f"[{name}{count} lines, {len(text)} characters; the first {min(lines, count)}:]"
    head = text.split("\n", lines)[:lines]
    room = most - len(title) - len(head)
    if sum(map(len, head)) > room:
        head = [line_cut(line, max(20, room // len(head))) for line in head]
    return "\n".join([title, *head])


def command_form(text: str, most: int, head: int, tail: int) -> str:
    """Return the exit code, the first and last lines, and the error lines between them."""
    lines = text.split("\n")
    match = _EXIT.search(text[:500]) or _EXIT.search(text[-500:])
    title = f"[{len(lines)} lines, {len(text)} characters"
    title += f", exit code {match[1] or match[2]}]" if match else "]"
    room = most - len(title) - 80
    errors = error_lines(text, room // 3).split("\n")
    room -= sum(len(line) + 1 for line in errors)
    first = _fitting(lines[:head], room * 6 // 10)
    rest = lines[len(first) :]
    last = _fitting(rest[::-1][:tail], room * 4 // 10)[::-1]
    gone = len(lines) - len(first) - len(last)
    between = [f"[{gone} lines left out]"] if gone else []
    shown = set(first) | set(last)
    errors = [line for line in errors if line and line not in {one.strip() for one in shown}]
    if errors:
        between += ["Error lines:", *errors]
    return "\n".join([title, *first, *between, *last])


def _fitting(lines: Sequence[str], room: int) -> list[str]:
    """As many of the lines as fit, at least the beginning of the first."""
    kept: list[str] = []
    for line in lines:
        if len(line) + 1 > room:
            if not kept and line and room > 1:
                kept.append(line_cut(line, room))
            break
        kept.append(line)
        room -= len(line) + 1
    return kept


def json_form(text: str, most: int, *, key_fields: bool = False) -> str | None:
    """Return the shape of a JSON value with its first items and the beginnings of its texts.

    `key_fields`: of objects only the telling members (ids, names, states, errors), where
    there are any.
    """
    if len(text) > _MAX_PARSED:
        return None
    try:
        value = parse(text)
    except NotPlain:
        return None
    if key_fields:
        value = _telling(value, 3)
    for chars, items, depth in ((200, 5, 5), (100, 3, 4), (60, 2, 3), (40, 1, 2), (20, 1, 1)):
        form = _brief(value, chars, items, depth)
        if len(form) <= most:
            return form
    return line_cut(form, most)


def _telling(value: Any, depth: int) -> Any:
    if isinstance(value, dict) and depth:
        kept = {key: _telling(one, depth - 1) for key, one in value.items() if _is_key(key, one)}
        return kept or value
    if isinstance(value, list) and depth:
        return [_telling(one, depth - 1) for one in value]
    return value


def _is_key(key: str, value: Any) -> bool:
    return isinstance(value, dict | list) or bool(_KEY_FIELDS.search(key))


def _brief(value: Any, chars: int, items: int, depth: int) -> str:
    match value:
        case Number():
            return str(value)
        case str():
            return dumps(line_cut(value, chars))
        case dict():
            if not depth:
                return f"{{{_SIGN} {len(value)} keys}}"
            return _brief_object(value, chars, items, depth)
        case list():
            if not depth:
                return f"[{_SIGN} {len(value)} items]"
            shown = [_brief(one, chars, items, depth - 1) for one in value[:items]]
            more = [f"{_SIGN} {len(value) - items} more"] if len(value) > items else []
            return f"[{','.join(shown + more)}]"
        case _:
            return {None: "null", True: "true", False: "false"}[value]


def _brief_object(value: Mapping[str, Any], chars: int, items: int, depth: int) -> str:
    most = items * 6
    shown = [
        f"{dumps(line_cut(key, chars))}:{_brief(one, chars, items, depth - 1)}"
        for key, one in list(value.items())[:most]
    ]
    more = [f"{_SIGN} {len(value) - most} more keys"] if len(value) > most else []
    return f"{{{','.join(shown + more)}}}"


def diff_form(text: str, most: int) -> str:
    """Return which files and places change, and the first changed lines."""
    places = [line_cut(match[0], 160) for match in _HUNK.finditer(text)]
    added = len(re.findall(r"^\+(?!\+\+ )", text, re.MULTILINE))
    gone = len(re.findall(r"^-(?!-- )", text, re.MULTILINE))
    title = f"[Diff: {added} lines added, {gone} removed; its places, then its beginning:]"
    shown = _fitting(places, (most - len(title)) // 2)
    left = most - len(title) - sum(len(line) + 1 for line in shown) - 2
    return "\n".join([title, *shown, *_fitting(text.split("\n"), left)])


def rows_form(text: str, most: int, what: str) -> str:
    """Return how many lines there are, the first and the last of them: listings and tables."""
    lines = [line for line in text.split("\n") if line.strip()]
    title = f"[{len(lines)} {what}]"
    room = most - len(title) - 40
    first = _fitting(lines, room * 7 // 10)
    last = _fitting(lines[len(first) :][::-1], room * 3 // 10)[::-1]
    gone = len(lines) - len(first) - len(last)
    return "\n".join([title, *first, *([f"[{gone} left out]"] if gone else []), *last])


def truncated(chars: int) -> str:
    """Return what is told of a cut."""
    return f"[Truncated {chars} chars]"


def head_end(text: str, most: int) -> int:
    """Where a head of at most `most` characters ends: at a line's end, or between words."""
    if most >= len(text):
        return len(text)
    if most <= 0:
        return 0
    line = text.rfind("\n", max(0, most - _BACK), most)
    return line + 1 if line >= 0 else _between(text, most, -1)


def tail_start(text: str, most: int) -> int:
    """Where a tail of at most `most` characters begins: at a line's start, or between words."""
    if most >= len(text):
        return 0
    at = len(text) - most
    if most <= 0:
        return len(text)
    line = text.find("\n", at - 1, at + _BACK)
    return line + 1 if line >= 0 else _between(text, at, 1)


def cut(
    text: str,
    most: int,
    *,
    head: float,
    errors: int,
    recall_hint: str,
    longer: int = 0,
) -> str:
    """Return the text in `most` characters: head, error lines of what is left out, tail, way back.

    Args:
        text: The text.
        most: Characters of the result; a little more where the way back is long.
        head: The share of the kept characters that the head takes; the tail takes the others.
        errors: Characters that error lines of the part that is left out may take.
        recall_hint: How the original is got back.
        longer: Characters that the original has more than the text, which is written shorter.
    """
    if len(text) <= most:
        return text
    notice = f"{truncated(len(text) + longer)} Full data: {recall_hint}"
    room = max(0, most - len(notice) - 2)
    lost = text[head_end(text, int(room * head)) : tail_start(text, int(room * (1 - head)))]
    kept = error_lines(lost, min(errors, room // 2)) if errors else ""
    room = max(0, room - len(kept) - 1) if kept else room
    first, last = head_end(text, int(room * head)), tail_start(text, int(room * (1 - head)))
    notice = f"{truncated(last - first + longer)} Full data: {recall_hint}"
    before, after = text[:first].rstrip("\n"), text[last:]
    return "\n".join(part for part in (before, notice, kept, after) if part)


def line_cut(line: str, most: int) -> str:
    """Return one line in at most `most` characters."""
    if len(line) <= most:
        return line
    return line[: _between(line, max(0, most - 1), -1)].rstrip() + "…"


def _between(text: str, at: int, step: int) -> int:
    """Return the place nearest to `at`, in the direction of `step`, that splits nothing."""
    place = at
    for _ in range(_BACK):
        if not 0 < place < len(text):
            return place
        inside = _INSIDE.match(text[place - 1]) and _INSIDE.match(text[place])
        if not inside and not _joined(text, place):
            return place
        place += step
    while 0 < at < len(text) and _joined(text, at):
        at += step
    return at


def _joined(text: str, at: int) -> bool:
    """Return whether the characters around a place make one that people see."""
    return (
        unicodedata.category(text[at])[0] == "M"
        or text[at] == _JOINER
        or text[at - 1] == _JOINER
        or "\U0001f3fb" <= text[at] <= "\U0001f3ff"
        or (
            "\U0001f1e6" <= text[at] <= "\U0001f1ff"
            and "\U0001f1e6" <= text[at - 1] <= "\U0001f1ff"
        )
    )
