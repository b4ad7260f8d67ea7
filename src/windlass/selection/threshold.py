"""How near a message must be to a task, as users write it. Knows no vectors, which take numpy."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from windlass.errors import UsageError


@dataclass(frozen=True, slots=True)
class Threshold:
    """How near a message must be to a task: a share of the model's scale, or a bare cosine."""

    value: float
    is_cosine: bool = False

    def cosine(self, floor: float) -> float:
        """The least cosine, for a model whose unrelated texts have this mean cosine."""
        return self.value if self.is_cosine else floor + self.value * (1 - floor)


_COSINE: Final = re.compile(r"\s*cosine\s*>=\s*(-?(?:\d+(?:\.\d+)?|\.\d+))\s*")


def read_threshold(value: Any) -> Threshold:
    """What a user wrote as `similarity_threshold`: a share from 0 to 1, or `cosine>=0.7`.

    Raises UsageError for anything else.
    """
    if isinstance(value, Threshold):
        return value
    if isinstance(value, str) and (found := _COSINE.fullmatch(value)):
        cosine = float(found[1])
        if -1 <= cosine <= 1:
            return Threshold(cosine, is_cosine=True)
    elif isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1:
        return Threshold(float(value))
    raise UsageError(
        f"similarity_threshold {value!r} is neither a share from 0 (unrelated) to 1 (the same) nor"
        " a text such as 'cosine>=0.7'"
    )
