"""What options are made of: the values they take, and the options that several policies read."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Final, TypeAlias


@dataclass(frozen=True, slots=True)
class Bounds:
    """Which numbers an option takes: `words` say it to people.

    `ge` is the least, `gt` what it must be above, `le` the most; None: no such bound.
    """

    words: str
    ge: float | None = None
    gt: float | None = None
    le: float | None = None

    def hold(self, value: float) -> bool:
        """Whether the number is within them."""
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


@dataclass(frozen=True, kw_only=True)
class SharedOptions:
    """Options that several policies read."""

    window: Count = 1
    """Turns within which the model's own words stay whole, whatever their length."""
    min_masked_chars: Count = 200
    """Results of fewer characters are never masked."""
    preserve_errors: bool = True
    """Whether a failed result keeps its error lines when it is shortened."""
    error_chars: Count = ERROR_CHARS
    """The most characters of error lines in a shortened result.

    Of a failed result each line with *error*, *exception*, *failed* or *traceback* is kept within
    them, and where some do not fit, it is said how many.
    """
