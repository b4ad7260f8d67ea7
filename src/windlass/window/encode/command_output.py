"""Output of programs: what only a terminal understands, and lines of tests that passed.

Colour codes, white space at line ends and overwritten progress lines go without a loss. Lines by
which a test runner says that one test passed become a count: a run of many tests says the same of
nearly all of them, and nothing that a later call quotes. This module knows the lines of runners
in use and nothing of windows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import repeat
from typing import Final

from windlass.window.names import MIN_CHARS

_ESCAPES: Final = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]{0,4000}(?:\x07|\x1b\\)|[@-Z\\^_]|[()][0-9A-B])"
)
_BLANK: Final = " \t\r"
_BACKSPACED: Final = re.compile(r"[^\x08\n]\x08")
_MAX_BACKSPACES: Final = 20
"""Rounds of taking back a character; a spinner takes back one or two at a time."""
_TIME: Final = r"(?: *[(\[] *[\d.,]+ *(?:%|m?s|sec|seconds)[)\]])*"
_TEST: Final = r"[^\s_:./]*[_:./]\S*"
_SHAPES: Final = (
    rf"{_TEST}(?: .*)?[ \t.:](?:PASSED|PASS){_TIME}",  # pytest -v, tox, ...
    rf"(?:test\S* .*|\w+ \(.*\)) ?\.\.\. ?ok{_TIME}",  # unittest, cargo
    rf"test_\w+ ok{_TIME}",  # sympy
    rf"(?:\[gw\d+\] )?(?:\[ *\d+%\] )?PASS(?:ED)? +{_TEST}(?:{_TIME}| - .*)",  # pytest -rA, jest
    r"--- PASS: \S+ \([\d.]+s\)",  # go
    r"\[ +OK \] \S+.*",  # googletest
    r"\d+/\d+ +Test +#\d+: .* Passed +[\d.]+ +sec",  # ctest
)
_PASSED: Final = re.compile(rf"\s*(?:{'|'.join(_SHAPES)})\s*")
_BY_SUM: Final = (
    # jest, mocha, vitest: a list of anything may have these signs before its points.
    (re.compile(r"\s*[✓✔√] +\S.*"), re.compile(r"\b\d+ (?:tests? )?pass(?:ed|ing)\b")),
    # TAP, with its plan
    (re.compile(r"\s*ok \d+\b(?!.*# *(?i:skip|todo)).*"), re.compile(r"(?m)^1\.\.\d+")),
)
"""Lines that say so only in a text where the other expression is found."""
_SIGNS: Final = ("PASS", " ok", "ok ", " OK ]", "✓", "✔", "√", "Passed")
"""One of these stands in whatever `_PASSED` matches."""
_BEGUN: Final = re.compile(r"\s*(?:=== (?:RUN|PAUSE|CONT|NAME) +|\[ RUN +\] )(\S+)\s*")
_ENDED: Final = re.compile(r"(?:--- PASS: |\[ +OK \] )(\S+)")
_NAME: Final = re.compile(r"(?=\S*?(?:[_/.\d]\w|::\w|[a-z][A-Z]))[A-Za-z_][\w./:@#-]{3,}")
_WORD: Final = re.compile(r"[\w./:@#-]{4,}")
_AROUND: Final = ".:-/#@"
"""What stands around a name and is no part of it."""
_MOST_LINE: Final = 400
"""A longer line says more than that a test passed."""


def clean(text: str) -> str:
    """The text as a terminal would leave it, line for line."""
    if "\x1b" in text:
        text = _ESCAPES.sub("", text)
    if "\x08" in text:
        for _ in range(_MAX_BACKSPACES):
            text, changed = _BACKSPACED.subn("", text)
            if not changed:
                break
    # Line by line: a pattern for white space before a line's end is tried anew at each blank.
    if "\r" not in text:
        if " \n" not in text and "\t\n" not in text:
            return text.rstrip(_BLANK)
        return "\n".join(map(str.rstrip, text.split("\n"), repeat(_BLANK)))
    lines = (line.rstrip(_BLANK) for line in text.split("\n"))
    return "\n".join(_last_state(line) if "\r" in line else line for line in lines)


def _last_state(line: str) -> str:
    """A progress line as it ended: a state goes when one that is no shorter was written over it.

    A shorter one leaves an end of the other in sight; such a line stays as it is.
    """
    states: list[tuple[str, int]] = []  # each with its characters that can be seen
    for state in line.split("\r"):
        while states and len(state) >= states[-1][1]:
            states.pop()
        states.append((state, len(state.rstrip())))
    return "\r".join(state for state, _ in states)


def passed_lines(text: str) -> list[int]:
    r"""The numbers, from 0, of the lines that say of one test that it passed, or begin such a one.

    >>> passed_lines("t.py::test_a PASSED\nt.py::test_b FAILED\n1 failed, 1 passed")
    [0]
    """
    if not any(sign in text for sign in _SIGNS):
        return []
    shapes = [_PASSED, *(shape for shape, sums in _BY_SUM if sums.search(text))]
    lines = text.split("\n")
    places = [
        at
        for at, line in enumerate(lines)
        if len(line) <= _MOST_LINE
        and any(map(line.__contains__, _SIGNS))
        and any(shape.fullmatch(line) for shape in shapes)
    ]
    ended = {name[1] for at in places if (name := _ENDED.search(lines[at]))}
    if not ended:
        return places
    begun = {at for at, line in enumerate(lines) if (m := _BEGUN.fullmatch(line)) and m[1] in ended}
    return sorted(begun.union(places))


def names_of_test(line: str) -> tuple[str, ...]:
    """How a test is named elsewhere: as in its line, and without the file that it stands in.

    >>> names_of_test("tests/test_order.py::test_sum[2] PASSED")
    ('tests/test_order.py::test_sum', 'test_sum')
    """
    match = _NAME.search(line)
    if match is None:
        return ()
    whole = match[0].strip(_AROUND)
    names = dict.fromkeys((whole, whole.rpartition("::")[2]))
    return tuple(name for name in names if len(name) >= MIN_CHARS)


def without_passed(text: str, least: int, requests: Sequence[str], behind: str) -> str:
    """The text without the lines of passed tests, where there are at least so many.

    In the place of the first stands how many they were.

    Args:
        text: Output of a test runner, or anything else.
        least: Lines that must go, or the text stays as it is.
        requests: What was asked for; a test that is named there keeps its line.
        behind: What is said behind the count.
    """
    places = passed_lines(text)
    if len(places) < least:
        return text
    lines = text.split("\n")
    words = {word.strip(_AROUND) for text in requests for word in _WORD.findall(text)}
    named = words.union([word.rpartition("::")[2] for word in words if "::" in word])
    gone = {at for at in places if named.isdisjoint(names_of_test(lines[at]))}
    if len(gone) < least:
        return text
    first = min(gone)
    lines[first] = f"[{len(gone)} of {len(lines)} lines left out: tests that passed{behind}]"
    return "\n".join(line for at, line in enumerate(lines) if at == first or at not in gone)
