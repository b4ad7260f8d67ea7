"""What YAML takes for something else than the text that is meant, and the line as it should read.

A rewriting is proposed only where it helps: the text with it is read once more.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

_ENTRY: Final = re.compile(r"(\s*(?:- +)*[^\s'\"#{}\[\],&*!|>%@`-][^:#\"']*:[ \t]+)(\S.*?)\s*")
_ITEM: Final = re.compile(r"(\s*(?:- +)+)(\S.*?)\s*")
_KEY_IN_FLOW: Final = re.compile(r"[{,]\s*[\w.-]+:\s+")
_END_IN_FLOW: Final = re.compile(r"(?=\s*(?:,\s*[\w.-]+:\s|[}\]]|$))")
_NEXT_KEY: Final = re.compile(r",\s*[\w.-]+:\s")
_OBJECT: Final = re.compile(r"[\[{]\s*(?:[\w.-]+:\s|[\]}])")
_TEMPLATE: Final = re.compile(r"(?<![\w\"'])(?:\{\{.*?\}\}|\{%.*%\})")
_LARGEST: Final = 200_000
"""Characters of a text that is read again for each rewriting."""
_TRIED: Final = 40
_SHOWN: Final = 300

_SIXTIETHS: Final = re.compile(r"[-+]?\d[\d_]*(?::[0-5]?\d)+(?:\.[\d_]*)?")
_LEADING_ZERO: Final = re.compile(r"[-+]?0[\d_]+(?:\.[\d_]*)?")


def is_misread(written: str) -> bool:
    """Return whether YAML makes a number of what nobody means as that number: `12:30`, `00501`.

    >>> is_misread("12:30"), is_misread("00501"), is_misread("12"), is_misread("0.5")
    (True, True, False, False)
    """
    return bool(_SIXTIETHS.fullmatch(written) or _LEADING_ZERO.fullmatch(written))


def misread(value: Any, written: str) -> str:
    """What is said of a number that YAML made of what is meant as another one, or as text."""
    return (
        f"YAML reads {written} as {json.dumps(value)}; put it in quotes ('{written}') if it is text"
    )


def in_quotes(text: str, *lines: int) -> str:
    """How to mend a fault of a YAML text: the first of these lines (from 0) that quotes mend.

    The fault is in the first of them. The end of a message; empty where quotes do not help.
    """
    rows = text.split("\n")
    places = [each for each in dict.fromkeys(lines) if 0 <= each < len(rows)]
    if len(text) > _LARGEST:
        return ""
    for at in places:
        for line in islice(_rewritten(rows[at]), _TRIED):
            if _is_mended("\n".join((*rows[:at], line, *rows[at + 1 :])), lines[0], at):
                return f"; put the text in quotes: {_shown(line)}"
    for at in places:
        if entry := _entry_above(rows, at):
            above, head, rest = entry
            indent = " " * (len(rows[at]) - len(rows[at].lstrip()))
            block = (*rows[:above], f"{head}|", indent + rest, *rows[above + 1 :])
            if _is_mended("\n".join(block), lines[0] + 1, at + 1):
                return f"; begin a text of several lines with '{head.strip()} |', and indent them"
    return ""


def quoted_line(text: str, line: int) -> str:
    """Return a line (from 1) of a YAML text with its value in quotes; empty where it has none."""
    rows = text.split("\n")
    row = rows[line - 1] if 0 < line <= len(rows) else ""
    return _shown(next(_rewritten(row), ""))


def _rewritten(line: str) -> Iterator[str]:
    """Yield the line with one of its values in quotes, in each way that may be meant."""
    spans = [found.span(2) for form in (_ENTRY, _ITEM) if (found := form.fullmatch(line))]
    whole = [(start, end) for start, end in spans if not _OBJECT.match(line, start)]
    inside = [each.span() for each in _TEMPLATE.finditer(line)]
    for key in _KEY_IN_FLOW.finditer(line):
        ends = _END_IN_FLOW.finditer(line, key.end() + 1)
        spans = [(key.end(), end.start()) for end in ends]
        inside += [span for span in spans if not _NEXT_KEY.search(line, *span)]
    for start, end in (*whole, *sorted(inside, key=lambda span: span[1] - span[0])):
        yield line[:start] + _quoted(line[start:end]) + line[end:]


def _quoted(text: str) -> str:
    """Return the text in quotes; quotes that it is in, and that do not hold it, are taken away."""
    first = text[0]
    if first in "'\"" and (text.endswith(first) or text.count(first) == 1):
        text = text[1:].removesuffix(first)
    if '"' in text or "\\" in text:
        return "'" + text.replace("'", "''") + "'"
    return f'"{text}"'


def _entry_above(rows: list[str], at: int) -> tuple[int, str, str] | None:
    """The nearest line above that is indented less and has a text: its place, key and text."""
    indent = len(rows[at]) - len(rows[at].lstrip())
    for above in range(at - 1, -1, -1):
        row = rows[above]
        if row.strip() and len(row) - len(row.lstrip()) < indent:
            found = _ENTRY.fullmatch(row)
            return (above, found[1], found[2]) if found else None
    return None


def _shown(line: str) -> str:
    line = line.strip()
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}…"


def _is_mended(text: str, fault: int, changed: int) -> bool:
    """Return whether a YAML text can be read at the line of the fault, and at the changed one.

    What is wrong further below is told when this is mended.
    """
    import yaml

    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        marks = [mark.line for mark in (error.problem_mark, error.context_mark) if mark]
        return min(marks, default=0) > max(fault, changed)
    except (yaml.YAMLError, RecursionError):
        return False
    return changed not in _keys_that_are_none(node)


def _keys_that_are_none(node: Any) -> Iterator[int]:
    """Yield the lines of keys that are no texts."""
    waiting, seen = [node], set[int]()
    while waiting:
        each = waiting.pop()
        if id(each) in seen or not isinstance(getattr(each, "value", None), list):
            continue
        seen.add(id(each))
        for item in each.value:
            if isinstance(item, tuple):
                if not isinstance(item[0].value, str):
                    yield item[0].start_mark.line
                waiting += item
            else:
                waiting.append(item)
