"""When something expires, as people and models write it: an age from now, or a date in UTC."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from windlass.errors import UsageError

_AGE: Final = re.compile(
    r"(\d+(?:\.\d+)?)\s*(s|seconds?|m|min|minutes?|h|hours?|d|days?|w|weeks?)", re.IGNORECASE
)
_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def expiry_of(said: str, now: float) -> float | None:
    """The time in seconds since 1970; None where nothing is said.

    `said` is an age such as `30d`, `12h`, `2 weeks`, or a date such as `2027-01-31` or
    `2027-01-31T12:00` (UTC unless it says otherwise). Raises UsageError for anything else.

    >>> expiry_of("2h", 1_000.0), expiry_of("1970-01-02", 0.0), expiry_of("", 0.0)
    (8200.0, 86400.0, None)
    """
    text = said.strip()
    if not text or text.casefold() in {"never", "none"}:
        return None
    age = _AGE.fullmatch(text)
    if age is not None:
        return now + float(age[1]) * _SECONDS[age[2][0].casefold()]
    try:
        date = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"expires {said!r} must be an age such as '30d' or '12h', or a date such as "
            "'2027-01-31'"
        ) from None
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()


def told(seconds: float) -> str:
    """A time for people, in UTC."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"
