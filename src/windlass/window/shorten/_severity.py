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
"""The first words of the phrases: only pieces with one of them are searched."""
_NONE: Final = re.compile(
    r"(?<![\w.,])(?:0|no|zero|without)\s+(?:\w+\s+)?(?:errors?|fail\w*|warnings?|conflicts?|skipp\w*"
    r"|exceptions?|deprecat\w*)|\b(?:errors?|failures?|failed|warnings?|skipped|aborted|killed"
    r"|exceptions?|unreachable|conflicts?|rejected)['\"]?\s*[:=]\s*(?:0(?![\d.])|none|null|false)",
    re.IGNORECASE,
)
_FRONT: Final = re.compile(
    r"\s*(?:E  |FAILED|ERROR|FAIL|--- FAIL|not ok\b|error\b|fatal\b|panic\b|Caused by|Traceback"
    r"|[^\s:]+[:(]\d[\d:,)]*:?\s+(?:fatal )?error\b)"
)
"""How lines begin that say what went wrong."""
HARD: Final = 5.0
_BOTH: Final = 2.5
_SOFT_POINTS: Final = 1.5
_AT_FRONT: Final = 2.0
_MANY: Final = 6
"""More lines than these report: the first and the last of them count more."""
_FIRST: Final = (3, 2.0)
_LAST: Final = (2, 1.5)
_ALIKE: Final = 0.2
_FIRST_ALIKE: Final = 0.5
"""What is left in a frequent form, and what its first and last lines get on top."""
_PLAIN_BITS: Final = 2.0


_FAILS: Final = "fails"
_WARNS: Final = "warns"
_MAY_FAIL: Final = "may fail"
_SHARES: Final = ((0.1, 1.0), (0.3, 0.6), (1.0, 0.3))
"""What the points count where up to this share of the lines have any."""


@lru_cache(maxsize=1 << 15)
def _said_by(token: str) -> str:
    """What a token says by itself; names of files say nothing."""
    if "/" in token:
        return ""
    if _HARD.search(token) or _HARD_END.search(token):
        return _FAILS
    if _SOFT.search(token):
        return _WARNS
    return _MAY_FAIL if token.lower() in _BEGIN else ""


def severity_of(
    texts: Sequence[str], templates: Templates, bits: Sequence[float]
) -> tuple[Mapping[int, float], frozenset[int]]:
    """What failure words add to each piece, and the pieces that report a failure."""
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
    points = _weighed(points, number, templates, bits)
    warned = _weighed(dict.fromkeys(soft, _SOFT_POINTS), number, templates, bits)
    for at in hard:
        if _FRONT.match(texts[at]):
            points[at] += _AT_FRONT
    return points | warned, frozenset(hard)


def _weighed(
    points: Mapping[int, float], number: int, templates: Templates, bits: Sequence[float]
) -> dict[int, float]:
    """The points by how many lines have any, and by how many of a form have."""
    share = len(points) / max(1, number)
    scale = next(scale for most, scale in _SHARES if share <= most)
    places = [*points]
    more = _ends(places) if len(places) > _MANY else {}
    alike: dict[str, list[int]] = {}
    for at in places:
        if bits[at] < _PLAIN_BITS and templates.is_frequent(at):
            alike.setdefault(templates.keys[at], []).append(at)
    weighed = {at: scale * one + more.get(at, 0.0) for at, one in points.items()}
    for rows in alike.values():
        for at in rows:
            weighed[at] *= (
                _ALIKE + (at in rows[: _FIRST[0]] or at in rows[-_LAST[0] :]) * _FIRST_ALIKE
            )
    return weighed


def _ends(places: Sequence[int]) -> Mapping[int, float]:
    last = dict.fromkeys(places[-_LAST[0] :], _LAST[1])
    return {**last, **dict.fromkeys(places[: _FIRST[0]], _FIRST[1])}
