"""What is shown: the chosen segments, and between them marks for what is left out.

A mark names the lines by their numbers in the original. It says that they have the form of the
lines above where all of them do and none of them is odd.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from itertools import groupby
from typing import Final

from windlass.window.shorten._segments import Segments
from windlass.window.shorten._templates import Templates

_ABOVE: Final = 3
"""Lines above a mark that it may speak of."""


def marked(
    segments: Segments,
    chosen: Container[int],
    templates: Templates,
    odd: Container[int],
    starts: Sequence[int] | None,
) -> tuple[str, list[int]]:
    """The text with its marks, and the segments that are left out.

    Args:
        segments: The segments of the text.
        chosen: Those that are shown. Others are, too, where a mark would be longer.
        templates: Their forms.
        odd: Segments of which none says that they are like others.
        starts: At which line of the original each line of the text begins (None: lines are
            counted).
    """
    said: list[str] = []
    left: list[int] = []
    above = 0
    """Shown segments right above, with nothing left out between them."""
    for stays, group in groupby(range(len(segments.texts)), key=chosen.__contains__):
        places = list(group)
        for part in [places] if stays else _by_lines(segments, places):
            text = "".join([segments.texts[at] for at in part])
            if not stays:
                mark = _mark_of(
                    segments, part, starts, _like(segments, part, above, templates, odd)
                )
                if len(mark) < len(text):
                    said.append(mark)
                    left += part
                    above = 0
                    continue
            said.append(text)
            above += len(part)
    return "".join(said), left


def _by_lines(segments: Segments, places: Sequence[int]) -> list[Sequence[int]]:
    """The places that are left out: the end of a line, whole lines, the beginning of a line."""
    first, last = 0, len(places)
    if not segments.ends(places[0] - 1):
        first = next((n for n, at in enumerate(places, 1) if segments.ends(at)), last)
    while last > first and not segments.ends(places[last - 1]):
        last -= 1
    return [part for part in (places[:first], places[first:last], places[last:]) if part]


def _like(
    segments: Segments, places: Sequence[int], above: int, templates: Templates, odd: Container[int]
) -> str:
    """What is said of lines that are all like the lines shown right above them."""
    first = places[0]
    if above and segments.equal.issuperset(places):
        return ", equal to the line above"
    left = {templates.keys[at] for at in places}
    if (
        not left <= templates.rows.keys()
        or not segments.skipped.isdisjoint(places)
        or any(at in odd for at in places)
    ):
        return ""
    met: set[str] = set()
    for number in range(1, min(above, _ABOVE) + 1):
        met.add(templates.keys[first - number])
        if left <= met:
            which = "form as above" if number == 1 else f"forms as the {number} lines above"
            return f", same {which}"
    return ""


def _mark_of(
    segments: Segments, places: Sequence[int], starts: Sequence[int] | None, like: str
) -> str:
    """The mark for segments that are left out, which are whole lines or part of one."""
    first, last = places[0], places[-1]
    if not (segments.ends(first - 1) and segments.ends(last)):
        end = segments.ends(last)
        chars = sum([len(segments.texts[at]) for at in places]) - end
        return f"[... {chars:,} characters ...]" + "\n" * end
    above, line = segments.firsts[first], segments.lasts[last]
    if starts is None:
        return f"[... {line - above + 1:,} line{'s' * (line > above)}{like} ...]\n"
    low = starts[above]
    high = starts[line + 1] - 1 if line + 1 < len(starts) else starts[line]
    which = f"lines {low}-{high}" if high > low else f"line {low}"
    return f"[... {which}{like} ...]\n"
