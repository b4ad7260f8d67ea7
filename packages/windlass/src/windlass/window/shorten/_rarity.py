"""How surprising a line is, in bits: by its form, by coarser ones, by an odd value in a column.

The entropy of all forms is subtracted: where each line has a form of its own, none is surprising.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from windlass.window.shorten._templates import Templates

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
