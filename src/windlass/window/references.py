"""References: lines that stand for what another result in view shows, and how they are read.

Also the marks of a window: what shortened texts say of how their originals are got back. Texts
alone: who writes a reference or a mark, and when one is worth it, is the affair of a policy.
"""

from __future__ import annotations

import re
from typing import Final

REFERENCE: Final = re.compile(
    r"\[(\d{1,9}) lines: lines (\d{1,9})-(\d{1,9}) of .{0,300}, (result_\w++)"
    r"(?:, numbered (\d{1,18})-\d{1,18})?\]"
)
"""A line that stands for lines of another result: how many, the first, the last, which.

The fifth: the number before the first of them, where those before the lines are others here.
What stands for the call has a bound: a text full of beginnings would be read anew from each.
"""
SAME: Final = re.compile(r"\[Same as .{0,300}, (result_\w++)\]")
"""A text that stands for another result's whole text."""

_ORIGINAL: Final = re.compile(r"result_[0-9a-f]{8,16}\b")
_BACK: Final = 300
"""Characters before the reference to an original in which its mark begins."""
_OF_WORDS: Final = re.compile(r"\d characters[,;]|\d more characters;")
"""What a mark says within what a model wrote: it may write references itself."""
_FOLDED: Final = re.compile(r"\[(?:Turns? \d[\d-]*\] |Summary of turns \d|Attempts? #\d)")
"""How the lines of folded messages begin."""


def is_marked(text: str, *, words: bool) -> bool:
    """Whether a text was shortened by a window: it names its original, or is a fold's.

    `words`: a model wrote it, or the arguments of a call.
    """
    if "result_" not in text:
        return text.startswith(("[Summary of turns ", "[Attempt")) and bool(_FOLDED.match(text))
    for match in _ORIGINAL.finditer(text):
        at = match.start()
        line = text[max(0, at - _BACK, text.rfind("\n", 0, at) + 1) : at]
        if line.endswith("Full data: ") or _FOLDED.match(line):
            return True
        _, opened, inside = line.rpartition("[")
        if opened and "]" not in inside and (not words or _OF_WORDS.search(inside)):
            return True
    return False


def may_refer(text: str) -> bool:
    """Whether a text may hold references: asked first, for the expressions take longer."""
    return ", result_" in text


def referred_to(text: str) -> set[str]:
    """What the references in a text name."""
    if not may_refer(text):
        return set()
    return {match[4] for match in REFERENCE.finditer(text)} | set(SAME.findall(text))


def without_references(text: str) -> str:
    """The text without its references: what they name is no finding of its own."""
    if not may_refer(text):
        return text
    return SAME.sub("", REFERENCE.sub("", text))
