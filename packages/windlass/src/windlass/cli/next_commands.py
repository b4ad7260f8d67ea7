"""Commands that are printed as what can be done next: each names the store that this one was given.

Imports nothing that takes time.
"""

from __future__ import annotations

import re
import shlex
from typing import Final

_TAKE_STORE: Final = (
    *("run", "chat", "fork", "diff", "evaluate", "batch", "compare", "sessions", "show", "explain"),
    *("report", "replay", "callout", "cards", "recall", "mcp", "query", "verify", "prune"),
    *("import", "export", "config", "serve", "memory list", "memory show", "memory forget"),
    "memory match",
)
"""The commands that have `--store`, but for those of `hook`."""

_COMMAND: Final = re.compile(rf"\bwindlass (?:{'|'.join(_TAKE_STORE)})\b")

_given: list[str] = []


def remember_store(store: str | None) -> None:
    """Note what `--store` this command was given (None: none, so that the next need none)."""
    _given[:] = [] if store is None else [store]


def with_store(text: str) -> str:
    """Return a text whose commands name the store that this one was given.

    >>> remember_store("other")
    >>> with_store("what it cost: windlass report s1")
    'what it cost: windlass report --store other s1'
    >>> remember_store(None)
    """
    if not _given or "--store" in text:
        return text
    flag = f" --store {shlex.quote(_given[0])}"
    return _COMMAND.sub(lambda found: found[0] + flag, text)
