"""References: lines that stand for what another result in view shows, and how they are read.

Texts alone: who writes a reference, and when one is worth it, is the affair of a policy.
"""

from __future__ import annotations

import re
from typing import Final

REFERENCE: Final = re.compile(
    r"\[(\d{1,9}) lines: lines (\d{1,9})-(\d{1,9}) of .{0,300} above, (result_\w++)"
    r"(?:, numbered (\d{1,18})-\d{1,18})?\]"
)
"""A line that stands for lines of another result: how many, the first, the last, which.

The fifth: the number before the first of them, where those before the lines are others here.
What stands for the call has a bound: a text full of beginnings would be read anew from each.
"""
SAME: Final = re.compile(r"\[Same as .{0,300} above, (result_\w++)\]")
"""A text that stands for another result's whole text."""


def may_refer(text: str) -> bool:
    """Whether a text may hold references: asked first, for the expressions take longer."""
    return " above, result_" in text


def without_references(text: str) -> str:
    """The text without its references: what they name is no finding of its own."""
    if not may_refer(text):
        return text
    return SAME.sub("", REFERENCE.sub("", text))
