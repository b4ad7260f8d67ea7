"""Error retention: the last unresolved failures of a session, one line each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from windlass.injectors.base import (
    BlockItem,
    FailedCall,
    Injector,
    Rendered,
    Situation,
    Tier,
    option,
)

_HEAD: Final = "[Failed before; do not repeat]"
_ARGUMENTS: Final = 120
_REASON: Final = 200


@dataclass
class ErrorRetention(Injector):
    """Failures that are still open, newest first."""

    last: int = option(5, "The most failures that are shown.")

    name: ClassVar[str] = "errors"
    tier: ClassVar[Tier] = Tier.DYNAMIC
    priority: ClassVar[int] = 20
    cap: ClassVar[int] = 300

    def render(self, seen: Situation) -> Rendered:
        """Return one line for each failure: what was called, and why it failed."""
        lines = [failure_line(failure) for failure in seen.failures[: self.last]]
        listed = seen.style.listed(lines)
        return Rendered(_HEAD, tuple(map(BlockItem, listed, lines)))


def failure_line(failure: FailedCall) -> str:
    """Format a failure as one line."""
    arguments, why = _short(failure.arguments, _ARGUMENTS), _short(failure.reason, _REASON)
    return f"{failure.tool}({arguments}): {why}"


def update_failures(
    failures: Sequence[FailedCall],
    now: FailedCall,
    *,
    failed: bool,
    mended: Iterable[FailedCall] = (),
) -> tuple[FailedCall, ...]:
    """Return the open failures after one more result, newest first and each once.

    `now` is the call with its first line. A call that succeeded removes the failures of the same
    call, and those that are `mended` by it (the same tool touched the same thing).
    """
    gone = set(mended)
    left = [
        failure
        for failure in failures
        if (failure.tool, failure.arguments) != (now.tool, now.arguments) and failure not in gone
    ]
    return (now, *left) if failed else tuple(left)


def _short(text: str, most: int) -> str:
    words = " ".join(text.split())
    return words if len(words) <= most else words[: most - 3] + "..."
