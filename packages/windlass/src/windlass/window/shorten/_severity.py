"""Words by which programs report a failure. They only add to what a line is worth.

Which language they are of, or whether there are any, decides nothing: a line that is like no other
is shown without them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from windlass.window.shorten._templates import Templates

_HARD: Final = re.compile(
    r"(?<![^\W_])(?:errors?|exceptions?|fail(?:s|ed|ing|ures?)?|fatal|panic(?:s|ked)?|abort(?:s|ed|ing)?"
    r"|killed|denied|undefined|unable|cannot|refus(?:es?|ed|ing|al)|reject(?:s|ed|ing)?|invalid"
    r"|unexpected|mismatch(?:e[sd])?|unreachable|unresolved|conflicts?|conflicting|expected|received"
    r"|actual|assert(?:s|ed|ions?)?|missing|crash(?:e[sd])?|corrupt(?:ed)?|segfault|traceback"
    r"|unauthorized|forbidden|incompatible|violat(?:es|ed|ions?)|timeout|overflow|deadlock)(?![^\W_])"
    r"|[✖✗✘❌]",
    re.IGNORECASE,
)
_HARD_END: Final = re.compile(r"[a-z0-9](?:Error|Exception|Failure|Fault)(?![a-z])")
"""As names of classes end."""
_SOFT: Final = re.compile(
    r"(?<![^\W_])(?:warn(?:ings?|ed)?|deprecat\w*|skipp\w*|⚠)(?![^\W_])", re.IGNORECASE
)
_PHRASES: Final = re.compile(
    r"not (?:be )?(?:found|allowed|permitted|supported|exist|defined|resolve)|no such "
    r"|no space left|timed out|could(?: not|n't)|can(?:'t| not)|core dumped|out of memory",
    re.IGNORECASE,
)
_BEGIN: Final = frozenset({"not", "no", "timed", "could", "couldn", "can", "core", "out"})
"""The first words of the phrases: only segments with one of them are searched."""
_NONE: Final = re.compile(
    r"(?<![\w.,])(?:0|no|zero|without)\s+(?:\w+\s+)?(?:errors?|fail\w*|warnings?|conflicts?|skipp\w*"
    r"|exceptions?|deprecat\w*)|\b(?:errors?|failures?|failed|warnings?|skipped|aborted|killed"
    r"|exceptions?|unreachable|conflicts?|rejected)['\"]?\s*[:=]\s*(?:0(?![\d.])|none|null|false)",
    re.IGNORECASE,
)
HARD: Final = 5.0
_BOTH: Final = 2.5
_SOFT_POINTS: Final = 1.5
_FAILS: Final = "fails"
_WARNS: Final = "warns"
_MAY_FAIL: Final = "may fail"
_SHARES: Final = ((0.1, 1.0), (0.3, 0.6), (1.0, 0.3))
"""What the points count where up to this share of the lines have any."""


@lru_cache(maxsize=1 << 15)
def _said_by(token: str) -> str:
    """Return what a token says by itself; names of files say nothing."""
    if "/" in token:
        return ""
    if _HARD.search(token) or _HARD_END.search(token):
        return _FAILS
    if _SOFT.search(token):
        return _WARNS
    return _MAY_FAIL if token.lower() in _BEGIN else ""


def severity_of(
    texts: Sequence[str], templates: Templates
) -> tuple[Mapping[int, float], frozenset[int]]:
    """Return what failure words add to each segment, and the segments that report a failure."""
    hard: dict[int, bool] = {}
    soft: list[int] = []
    for at, tokens in enumerate(templates.tokens):
        said = {*map(_said_by, tokens)}
        is_hard = _FAILS in said or (_MAY_FAIL in said and bool(_PHRASES.search(texts[at])))
        is_soft = _WARNS in said
        if (is_hard or is_soft) and _NONE.search(texts[at]):
            rest = _NONE.sub(" ", texts[at])
            is_hard = bool(_HARD.search(rest) or _HARD_END.search(rest) or _PHRASES.search(rest))
            is_soft = bool(_SOFT.search(rest))
        if is_hard:
            hard[at] = is_soft
        elif is_soft:
            soft.append(at)
    number = len(texts)
    points = {at: _BOTH if warns else HARD for at, warns in hard.items()}
    warned = dict.fromkeys(soft, _SOFT_POINTS)
    return _weighed(points, number) | _weighed(warned, number), frozenset(hard)


def _weighed(points: Mapping[int, float], number: int) -> dict[int, float]:
    """Return the points by how many lines have any."""
    share = len(points) / max(1, number)
    scale = next(scale for most, scale in _SHARES if share <= most)
    return {at: scale * one for at, one in points.items()}
