"""The types of option values."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Final, TypeAlias


@dataclass(frozen=True, slots=True)
class Bounds:
    """The numbers that an option accepts; `words` describe them for people.

    `ge` is the minimum, `gt` an exclusive minimum, `le` the maximum; None: no such bound.
    """

    words: str
    ge: float | None = None
    gt: float | None = None
    le: float | None = None

    def hold(self, value: float) -> bool:
        """Return whether the number is within them."""
        return (
            math.isfinite(value)
            and (self.ge is None or value >= self.ge)
            and (self.gt is None or value > self.gt)
            and (self.le is None or value <= self.le)
        )


Count: TypeAlias = Annotated[int, Bounds("a whole number of at least 1", ge=1)]
CountOrZero: TypeAlias = Annotated[int, Bounds("a whole number of at least 0", ge=0)]
Share: TypeAlias = Annotated[float, Bounds("a number above 0 and at most 1", gt=0, le=1)]
Factor: TypeAlias = Annotated[float, Bounds("a number of at least 1", ge=1)]
Names: TypeAlias = tuple[str, ...]
"""Names of tools."""


ERROR_CHARS: Final = 300
"""Characters of error lines that a shortened result keeps."""
