"""What a model saw of results before: their originals, which the journal and the agent keep."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from windlass.public import WindlassError
from windlass_agents.agent_events import SeenCall
from windlass_agents.client import MOST_BYTES
from windlass_agents.hook_journal import HookJournal, HookLine, text_hash
from windlass_agents.kept_originals import find_original, open_folder

_STORED: Final = "tool-results"
"""The folder in which Claude Code stores what it shows the beginning of, one a session."""
_SAME: Final = 1_000
"""Characters in which a stored result is the one that was handed over."""


@dataclass(slots=True)
class EarlierResults:
    """The results of a session, and of those that it goes on from."""

    journal: HookJournal
    agent: str
    session: str
    transcript: Path | None = None
    _lines: dict[str, HookLine] = field(default_factory=dict[str, HookLine])
    _known: set[str] = field(default_factory=set[str])
    """The calls whose lines were looked for."""

    def look_for(self, calls: Iterable[str]) -> None:
        """Look for what was noted of calls, where that was not done yet."""
        new = set(calls) - self._known
        if new:
            self._known |= new
            self._lines |= self.journal.lines_of_calls(self.agent, self.session, new)

    def original(self, seen: SeenCall) -> tuple[str, str] | None:
        """Return a result as the tool gave it, and the rule by which its model saw another form.

        None: it saw the result as it is, or the original is gone.
        """
        line, shown = self._lines.get(seen.call_id), seen.replaced or text_hash(seen.result)
        if line is not None and line.outcome == "shortened" and line.shown == shown:
            with suppress(WindlassError, OSError):
                store = self.journal.folder.parent
                opening = partial(open_folder, store, reading=True)
                return find_original(store, line.original, opening).text, line.because
        if seen.stored and (text := read_stored(seen.stored, self.transcript)) is not None:
            return text, "compress"
        return None


def read_stored(file: str, transcript: Path | None, begins: str = "") -> str | None:
    """Return a result that the agent stored by itself beside its transcripts.

    `begins` is what it handed over of it. None: no such file, or another one.
    """
    path = Path(file)
    folder = path.parents[2] if len(path.parents) > 2 else None  # noqa: PLR2004 - folder, session, results
    is_beside = transcript is not None and folder in transcript.parents
    if not is_beside or path.parent.name != _STORED or ".." in path.parts:
        return None
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | _NO_WAIT)
        with os.fdopen(handle, "rb") as opened:
            found = os.fstat(handle)
            if not stat.S_ISREG(found.st_mode) or found.st_size > MOST_BYTES:
                return None
            text = opened.read(MOST_BYTES).decode(errors="replace")
    except OSError:
        return None
    return text if text.startswith(begins[:_SAME]) else None


_NO_WAIT: Final[int] = getattr(os, "O_NONBLOCK", 0)
