"""What each segment of a text is worth in sight: surprise, failure, nearness and neighbours.

Words by which programs report a failure. They only add to what a line is worth.

Which language they are of, or whether there are any, decides nothing: a line that is like no other
is shown without them.

How surprising a line is, in bits: by its form, by coarser ones, by an odd value in a column.

The entropy of all forms is subtracted: where each line has a form of its own, none is surprising.

How near each line is to what a result was asked for, by whole words that few lines have.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from windlass.window._references import read_reference
from windlass.window.shorten._segments import Segments, Templates, split

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


MOST: Final = 12.0
"""Bits of a line, at most."""
_COARSE: Final = 1.0
"""Bits from which on a coarse form counts."""
_INDENT: Final = 4
"""Spaces of a small indent."""
_ODD_SHARE: Final = 0.02
_ODD_ROWS: Final = 0.05
_FEW_ROWS: Final = 4
"""Odd values stand in so few rows, or in a small share of them."""
_COLUMN: Final = 2.0
"""Bits from which on a value of a column counts."""
_NUMBERS: Final = 12
"""Rows from which on numbers have a middle."""
_FAR: Final = 8.0
_MOST_FAR: Final = 9.0
_DEVIATION: Final = 1.4826
"""The standard deviation of a normal distribution in medians of deviations."""


def entropy(counts: Iterable[int], total: int) -> float:
    """Return the entropy of a distribution in bits."""
    return sum(count * math.log2(total / count) for count in counts) / total if total else 0.0


def bits_of(texts: Sequence[str], templates: Templates) -> list[float]:
    """Return how surprising each segment is; 0 for blank ones."""
    bits = [0.0] * len(texts)
    places = [at for at, key in enumerate(templates.keys) if key]
    _by_key(bits, places, [templates.keys[at] for at in places], 0.0)
    first, second, third, fourth = [], [], [], []
    for at in places:
        text, classes, tokens = texts[at], templates.classes[at], templates.tokens[at]
        spaces = len(text) - len(text.lstrip(" \t"))
        head = classes[0]
        first.append((min(spaces, 1) + (spaces > _INDENT), *classes[:3]))
        second.append((spaces > 0, head))
        colon = len(tokens) > 1 and tokens[1] == ":"
        third.append((spaces > 0, "w" if head == "x" else head, colon, "/" in text))
        fourth.append(text.isascii())
    for keys in (first, second, third, fourth):
        _by_key(bits, places, keys, _COARSE)
    for key, rows in templates.rows.items():
        classes = key.split(" ")
        for column, values in enumerate(zip(*[templates.tokens[at] for at in rows], strict=True)):
            if classes[column][-1].isalnum() or classes[column][-1] == "%":
                for at, odd in zip(rows, _column(values, classes[column]), strict=False):
                    bits[at] = max(bits[at], odd)
    return [min(one, MOST) for one in bits]


def _by_key(bits: list[float], places: Sequence[int], keys: Sequence[object], least: float) -> None:
    """Raise the bits of each place to those of its key, where these are `least` or more."""
    counts, total = Counter(keys), len(keys)
    mean = entropy(counts.values(), total)
    worth = {key: math.log2(total / count) - mean for key, count in counts.items()}
    for at, key in zip(places, keys, strict=True):
        if worth[key] > bits[at] and worth[key] >= least:
            bits[at] = worth[key]


def _column(values: Sequence[str], kind: str) -> Sequence[float]:
    """Return how odd each value of a column is; nothing where none is."""
    counts, rows = Counter(values), len(values)
    if len(counts) == 1:
        return ()
    few = max(_FEW_ROWS, _ODD_ROWS * rows)
    far: Sequence[float] = ()
    if rows >= _NUMBERS and kind.lstrip("-")[0] == "0":
        far = _far(values, len(kind.lstrip("-0")), few)
    if far or len(counts) > rows / 2:
        return far
    most = max(1, _ODD_SHARE * rows)
    odd = {value: count for value, count in counts.items() if count <= most}
    if not odd or sum(odd.values()) > few:
        return ()
    mean = entropy(counts.values(), rows)
    worth = {value: math.log2(rows / count) - mean for value, count in odd.items()}
    worth = {value: one for value, one in worth.items() if one >= _COLUMN}
    return [worth.get(value, 0.0) for value in values] if worth else ()


def _far(values: Sequence[str], unit: int, few: float) -> Sequence[float]:
    """Return how far each number lies from the others; nothing where too many do."""
    numbers = [_number(value[: len(value) - unit]) for value in values]
    half = len(numbers) // 2
    middle = sorted(numbers)[half]
    apart = [abs(number - middle) for number in numbers]
    ordered = sorted(apart)
    spread = max(_DEVIATION * ordered[half], ordered[int(0.95 * (len(ordered) - 1))] / 3)
    if not spread:
        return ()
    far = [distance / spread > _FAR for distance in apart]
    if not 0 < sum(far) <= few:
        return ()
    return [
        min(_MOST_FAR, 2 + math.log2(distance / spread)) if is_far else 0.0
        for distance, is_far in zip(apart, far, strict=True)
    ]


def _number(text: str) -> float:
    """Return the value of a number with points or commas, whichever it has last."""
    if text.isdecimal():
        return float(text)
    plain = text.replace(",", ".")
    whole, point, rest = plain.rpartition(".")
    value = float(f"{whole.replace('.', '')}{point}{rest}")
    return value if math.isfinite(value) else math.copysign(1e300, value)


_WORD: Final = re.compile(r"[^\W_]{3,}")
_MOST_CHARS: Final = 20_000
"""The number of last characters of a text that are read for words."""
_COMMON: Final = 0.12
_FEW: Final = 3
"""A word in more of the lines distinguishes none of them."""
_MOST: Final = 20.0
_LEAST_NAME: Final = 4
"""Characters of an identifier, at least."""


@dataclass(frozen=True, slots=True)
class RequestTexts:
    """What a result was asked for with: the call's arguments, the words beside it, the task."""

    arguments: str = ""
    words: str = ""
    task: str = ""

    @property
    def weighted(self) -> tuple[tuple[str, float], ...]:
        """Return the texts with their weights."""
        return ((self.arguments, 0.32), (self.words, 0.24), (self.task, 0.24))


@lru_cache(maxsize=64)
def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text[-_MOST_CHARS:].lower()))


@lru_cache(maxsize=1 << 15)
def _words_in(token: str) -> frozenset[str]:
    return frozenset(_WORD.findall(token.lower()))


def nearness(templates: Templates, asked: RequestTexts) -> list[float]:
    """Return how near each segment is to what was asked for; 0 for most."""
    near = [0.0] * len(templates.tokens)
    weighted = [(_words(text), weight) for text, weight in asked.weighted if text]
    known = frozenset[str]().union(*[words for words, _ in weighted])
    if not known:
        return near
    distinct = {token for tokens in templates.tokens for token in tokens}
    said = {token: words for token in distinct if (words := known & _words_in(token))}
    if not said:
        return near
    places: dict[str, list[int]] = {}
    for at, tokens in enumerate(templates.tokens):
        there = said.keys() & tokens
        if there:
            for word in frozenset[str]().union(*[said[token] for token in there]):
                places.setdefault(word, []).append(at)
    most = max(_FEW, _COMMON * len(near))
    for words, weight in weighted:
        sums: dict[int, float] = {}
        for word in sorted(words & places.keys()):
            if len(places[word]) <= most:
                worth = math.log2(len(near) / len(places[word]))
                for at in places[word]:
                    sums[at] = sums.get(at, 0.0) + worth
        for at, total in sums.items():
            near[at] += weight * min(total, _MOST)
    return near


def named_places(templates: Templates, asked: RequestTexts) -> frozenset[int]:
    """Return the segments with an identifier of what was asked for that few segments have."""
    said = {token for text, _ in asked.weighted for token in split(text[-_MOST_CHARS:])}
    names = {token for token in said if len(token) >= _LEAST_NAME and not token.isalpha()}
    places: dict[str, list[int]] = {}
    for at, tokens in enumerate(templates.tokens):
        for name in names.intersection(tokens):
            places.setdefault(name, []).append(at)
    most = max(_FEW, _COMMON * len(templates.tokens))
    return frozenset(at for found in places.values() if len(found) <= most for at in found)
