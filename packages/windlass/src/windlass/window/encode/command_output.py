"""Output of programs without what only a terminal understands.

Colour codes, white space at line ends and overwritten progress lines go without a loss. This module
knows nothing of windows.
"""

from __future__ import annotations

import re
from itertools import repeat
from typing import Final

_ESCAPES: Final = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]{0,4000}(?:\x07|\x1b\\)|[@-Z\\^_]|[()][0-9A-B])"
)
_BLANK: Final = " \t\r"
_BACKSPACED: Final = re.compile(r"[^\x08\n]\x08")
_MAX_BACKSPACES: Final = 20
"""Rounds of taking back a character; a spinner takes back one or two at a time."""


def clean(text: str) -> str:
    """Return the text as a terminal would leave it, line for line."""
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
    """Return a progress line as it ended.

    A state goes when one that is no shorter was written over it.

    A shorter one leaves an end of the other in sight; such a line stays as it is.
    """
    states: list[tuple[str, int]] = []  # each with its characters that can be seen
    for state in line.split("\r"):
        while states and len(state) >= states[-1][1]:
            states.pop()
        states.append((state, len(state.rstrip())))
    return "\r".join(state for state, _ in states)
