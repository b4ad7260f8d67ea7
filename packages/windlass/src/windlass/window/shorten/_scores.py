"""What each segment of a text is worth in sight: surprise, failure, nearness and neighbours."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from windlass.window._references import read_reference
from windlass.window.shorten._asked import RequestTexts, nearness
from windlass.window.shorten._rarity import bits_of
from windlass.window.shorten._segments import Segments
from windlass.window.shorten._severity import HARD, severity_of
from windlass.window.shorten._templates import Templates

NEAR: Final = 0.8
"""What a word of the request counts beside a bit."""
_STRONG: Final = 4.0
"""From here on a segment is worth something for those beside it."""
_BEHIND: Final = (6, 0.375, 0.82)
_BEFORE: Final = (3, 0.3, 0.7)
"""Segments beside it that share its score: how many, what share, and what of it each next one."""
_BLANK: Final = 0.8
_PLAIN_BITS: Final = 2.0
_PLAIN_ROWS: Final = 2
"""Rows of a frequent form before the first that is plain."""
_PLAIN_NEAR: Final = 1.5
CHANGED: Final = 6.0
"""Bits of a line that the last run of the same command did not print."""
_DIGITS: Final = re.compile(r"\d+")
_MOST_NEW: Final = 0.2
"""Where more of the lines are new, they are compared without their numbers; then none is news."""
_FEW_NEW: Final = 5


@dataclass(frozen=True, slots=True)
class Scores:
    """What each segment is worth.

    `own` is what it is worth itself, `all` with what is beside it. `plain` ones say nothing that
    others of their form do not, `odd` ones do, whatever their form.
    """

    own: Sequence[float]
    all: Sequence[float]
    plain: frozenset[int]
    odd: frozenset[int]


def scores_of(
    segments: Segments,
    templates: Templates,
    asked: RequestTexts,
    *,
    worth: Mapping[int, float] | None = None,
    share: float = 1.0,
    news: Sequence[int] = (),
) -> Scores:
    """Return the scores of all segments.

    Args:
        segments: The segments.
        templates: Their forms.
        asked: What the text was asked for with.
        worth: What segments are worth by their place in a form (a diff, hits of a search); they are
            not plain.
        share: What of the surprise counts.
        news: Segments that the last run of the same command did not print.
    """
    texts = segments.texts
    bits = bits_of(texts, templates)
    for at in news:
        bits[at] = max(bits[at], CHANGED)
    severity, hard = severity_of(texts, templates)
    near = nearness(templates, asked)
    own = [share * one + NEAR * q for one, q in zip(bits, near, strict=True)]
    for at, points in severity.items():
        own[at] += points * share * share  # in code the words are names
    for at, points in (worth or {}).items():
        own[at] += points
    runs = segments.equal | segments.skipped
    # A line of brackets alone is of a rare form, and says nothing.
    bare = {at for at, text in enumerate(texts) if not any(map(str.isalnum, text))}
    for at in runs | (bare - hard - (worth or {}).keys()):
        own[at] = bits[at] = 0.0
    late = {at for rows in templates.rows.values() for at in rows[_PLAIN_ROWS:]}
    plain = {
        at for at in late if bits[at] < _PLAIN_BITS and near[at] < _PLAIN_NEAR and at not in hard
    }
    odd = {at for at, one in enumerate(bits) if one >= _PLAIN_BITS}
    plain = (plain - (worth or {}).keys()) | runs
    hard -= runs
    strong = [
        at
        for at, one in enumerate(bits)
        if share * (one + share * HARD * (at in hard)) + near[at] >= _STRONG and at not in runs
    ]
    scores = _beside(own, strong, plain, templates)
    if news:
        # What was printed before and is not near what is new was seen, or was not needed.
        fresh = frozenset(news)
        plain.update(
            at
            for at, one in enumerate(own)
            if one < _STRONG and scores[at] <= one and at not in fresh
        )
    return Scores(own, scores, frozenset(plain), hard | odd)


def _beside(
    own: Sequence[float], strong: Sequence[int], plain: set[int], templates: Templates
) -> Sequence[float]:
    """The scores with what strong segments are worth for those beside them, up to a plain one."""
    scores = [*own]
    for at in strong:
        for step, (number, share, further) in ((1, _BEHIND), (-1, _BEFORE)):
            worth = share * own[at]
            for place in range(at + step, at + step * (number + 1), step):
                if not 0 <= place < len(own) or place in plain:
                    break
                blank = not templates.keys[place]
                scores[place] = max(scores[place], worth * (_BLANK if blank else 1.0))
                worth *= further
    return scores


def new_lines(lines: Sequence[str], before: Sequence[str]) -> Sequence[int]:
    """Return the places of the lines that are not among those of `before`, where they are few."""
    for same in (_spaced, _unnumbered):
        known = {*map(same, before), ""}
        changed = [
            at
            for at, line in enumerate(lines)
            if same(line) not in known and read_reference(line.rstrip("\n")) is None
        ]
        if len(changed) <= max(_FEW_NEW, _MOST_NEW * len(lines)):
            return changed
    return ()


def _spaced(line: str) -> str:
    return " ".join(line.split())


def _unnumbered(line: str) -> str:
    return _DIGITS.sub("0", _spaced(line))
