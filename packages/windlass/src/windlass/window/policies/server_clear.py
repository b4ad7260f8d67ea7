"""Old tool uses that the provider clears itself, before its model reads a call."""

from __future__ import annotations

from dataclasses import dataclass

from windlass.window.policies.shared import Count, CountOrZero, Names


@dataclass(frozen=True, kw_only=True)
class ServerClearOptions:
    """What the provider is asked to clear from a call: the oldest tool uses, above a size.

    Windlass goes on sending everything. The record of the call says what was cleared, and the next
    call says once what each cleared result was, which names only it held, and its reference. Only
    models of `anthropic/` support it.
    """

    trigger: Count = 100_000
    """Input tokens of a call above which tool uses are cleared."""
    keep: CountOrZero = 10
    """The newest tool uses that stay."""
    clear_at_least: Count | None = None
    """The fewest tokens worth clearing, because each clearing rewrites the cache."""
    exclude_tools: Names = ()
    """Tools whose uses are never cleared."""
