"""What a span of a session is, and where spans go."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(eq=False, slots=True)
class OtelSpan:
    """A span. Times are in seconds since 1970; `id` is unique among the spans of a session.

    `operation` is that of the conventions, and `attributes` go by their names. `error` is the kind
    of failure that it ended with (empty: with none), and `told` what that said.
    """

    id: str
    session_id: str
    parent: OtelSpan | None
    operation: str
    name: str
    start: float
    attributes: dict[str, Any] = field(default_factory=dict[str, Any])
    end: float = 0.0
    error: str = ""
    told: str = ""


class SpanSink(Protocol):
    """Takes spans as they open and close: a parent opens before its children."""

    def opened(self, span: OtelSpan) -> None:
        """A span begins; more attributes may come until it ends."""

    def closed(self, span: OtelSpan) -> None:
        """A span has ended, after all that are below it."""


def nanoseconds(seconds: float) -> int:
    """Return a time in seconds since 1970 in nanoseconds, to the microsecond."""
    return int(seconds * 1e6) * 1_000
