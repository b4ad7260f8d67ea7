"""References: lines that stand for what another result in view shows, and how they are read.

Also the marks of a window: what shortened texts say of how their originals are got back. Texts
alone: who writes a reference or a mark, and when one is worth it, is the affair of a policy.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

REFERENCE: Final = re.compile(
    r"\[(?P<rows>rows )?(?P<first>\d{1,9})-(?P<last>\d{1,9})"
    r"(?: as (?P<low>\d{1,18})-(?P<high>\d{1,18}))? of"
    r" (?P<ref>result_\w++)(?: (?P<path>(?:\[\d{1,9}\]|[^\s,\[\]]){1,200}+))?"
    r"(?:, [^\n\]]{0,300})?\]"
)
"""A line that stands for lines of another message: the first, the last, which.

What stands for the call has a bound: a text full of beginnings would be read anew from each.
"""
SAME: Final = re.compile(r"\[Same as .{0,300}, (result_\w++)\]")
"""A text that stands for another result's whole text."""

_ORIGINAL: Final = re.compile(r"result_[0-9a-f]{8,16}\b")
_INSIDE: Final = r"[^\[\]\n]{0,400}"
_MARK: Final = re.compile(
    rf"\[\.\.\. (?:lines? \d|[\d,]+ (?:line|character)){_INSIDE}\]"
    rf"|\[(?:Cut from|Truncated|Stored as|Tool [\w ]{{1,30}},) {_INSIDE}\]"
    rf"|\[\d+ (?:(?:more )?char|of \d+ lines left out|lines left out){_INSIDE}\]"
)
"""What windows write of themselves: gaps, sizes, how an original is got back."""
_NAMED: Final = re.compile(r"result_[0-9a-f]{8,64}\b(?:\.json)?")
_LEAD: Final = re.compile(
    r"(?:\b\d+ characters; )?"
    r"(?:\b(?:call|run it|read (?:it|lines [\d-]+)) [^\[\];\n]+, |\bwindlass recall [^\[\]\n]*)?"
    r"[^\s\[\](){},;:'\"]*$"
)
"""What may stand before the name of an original in a line of other words."""
_BACK: Final = 300
"""Characters before the reference to an original in which its mark begins."""
_OF_WORDS: Final = re.compile(r"\d characters[,;]|\d more characters;")
"""What a mark says within what a model wrote: it may write references itself."""
_FULL: Final = re.compile(r"Full data: [^\[\]]*$")
"""What a cut without brackets says, up to the reference."""
_FOLDED: Final = re.compile(r"\[(?:Turns? \d[\d-]*\] |Summary of turns \d|Attempts? #\d)")
"""How the lines of folded messages begin."""


def is_marked(text: str, *, words: bool) -> bool:
    """Return whether a text was shortened by a window: it names its original, or is a fold's.

    `words`: a model wrote it, or the arguments of a call.
    """
    if "result_" not in text:
        return text.startswith(("[Summary of turns ", "[Attempt")) and bool(_FOLDED.match(text))
    for match in _ORIGINAL.finditer(text):
        at = match.start()
        line = text[max(0, at - _BACK, text.rfind("\n", 0, at) + 1) : at]
        if _FULL.search(line) or _FOLDED.match(line):
            return True
        _, opened, inside = line.rpartition("[")
        if opened and "]" not in inside and (not words or _OF_WORDS.search(inside)):
            return True
    return False


@dataclass(frozen=True, slots=True)
class Reference:
    """What a line stands for: the lines `first` to `last` of a message, counted from 1.

    `path`: they are lines of a text in the arguments of the message's calls. `numbered`: the
    numbers before the first and the last of them here, where the message has others, or none.
    `rows`: they are lines of data as a window shows it, not as it came.
    """

    ref: str
    first: int
    last: int
    path: str = ""
    numbered: tuple[int, int] | None = None
    rows: bool = False

    def write(self, about: str = "") -> str:
        """Return the line, with a few words about the message, if there are some."""
        numbered = " as {}-{}".format(*self.numbered) if self.numbered else ""
        path = f" {self.path}" if self.path else ""
        behind = f", {about}" if about else ""
        rows = "rows " if self.rows else ""
        return f"[{rows}{self.first}-{self.last}{numbered} of {self.ref}{path}{behind}]"


def read_reference(line: str) -> Reference | None:
    """Return what the line stands for; None: it is a line of its own."""
    match = REFERENCE.fullmatch(line) if line.startswith("[") else None
    return _read(match) if match else None


def references_in(text: str) -> list[Reference]:
    """Return what the lines stand for that a text says, in their order."""
    return [_read(match) for match in REFERENCE.finditer(text)] if may_refer(text) else []


def _read(match: re.Match[str]) -> Reference:
    rows, first, last, low, high, ref, path = match.groups()
    numbered = (int(low), int(high)) if low else None
    return Reference(ref, int(first), int(last), path or "", numbered, bool(rows))


def may_refer(text: str) -> bool:
    """Return whether a text may hold references: asked first, for the expressions take longer."""
    return " of result_" in text or ", result_" in text


def referred_to(text: str) -> set[str]:
    """Return what the references in a text name."""
    if not may_refer(text):
        return set()
    return {one.ref for one in references_in(text)} | set(SAME.findall(text))


def without_marks(text: str) -> str:
    """The text without references and marks of windows: what they name is no finding of its own."""
    if may_refer(text):
        text = SAME.sub("", REFERENCE.sub("", text))
    if "[... " in text or "result_" in text:
        text = _MARK.sub(" ", text)
    kept: list[str] = []
    done = 0
    for match in _NAMED.finditer(text) if "result_" in text else ():
        first = max(done, match.start() - _BACK)
        lead = _LEAD.search(text[first : match.start()])
        kept += [text[done : first + (lead.start() if lead else 0)], " "]
        done = match.end()
    return "".join([*kept, text[done:]])
