"""Imports a file or folder into a store, for `import_sessions` and `windlass import`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from windlass.history.base import Store
from windlass.importing.recording import Grade, Kind
from windlass.importing.storing import answers_in, store_recording
from windlass.importing.streams import recordings


@dataclass(frozen=True, slots=True)
class ImportedSession:
    """A session that came from a file of another program."""

    session_id: str
    name: str
    format: str
    grade: Grade
    kind: Kind
    state: str
    """`new`, `grew` (messages were added to it) or `unchanged` (all of it was stored already)."""
    parent: str | None
    """The session whose side chain or branch it is."""
    model: str
    calls: int
    tokens_in: int
    """The provider's count, as are the tokens cached, written and out."""
    tokens_cached: int
    tokens_written: int
    tokens_out: int
    cost: float | None
    """US dollars (None: the usage or the price of a call is unknown)."""
    skipped: Mapping[str, int]
    """What was left out of the file: how often, by reason."""
    estimated: int = 0
    """Calls whose output was not recorded, and is estimated."""


@dataclass(frozen=True, slots=True)
class Imported:
    """The result of an import: the sessions, in the order in which they were read."""

    sessions: tuple[ImportedSession, ...]

    def by_format(self) -> list[list[ImportedSession]]:
        """Return the sessions of each format and grade."""
        groups: dict[tuple[str, str], list[ImportedSession]] = {}
        for session in self.sessions:
            groups.setdefault((session.format, session.grade), []).append(session)
        return list(groups.values())


def import_into(
    store: Store, path: str | Path, form: str | None, on_skip: Callable[[str], None] | None
) -> Imported:
    """Store each recording of a file or folder. Raises UsageError as `recordings` does."""
    sessions: list[ImportedSession] = []
    names: dict[str, str] = {}
    answers = answers_in(store)
    for recording in recordings(path, form, on_skip):
        parent = names.get(recording.parent or "")
        stored = store_recording(store, recording, names, answers=answers)
        recording = stored.recording  # noqa: PLW2901  # without calls that count elsewhere
        names.setdefault(recording.name, stored.session_id)
        used = recording.usage
        sessions.append(
            ImportedSession(
                stored.session_id,
                recording.name,
                recording.format,
                recording.grade,
                recording.kind,
                stored.state,
                parent,
                recording.model,
                len(recording.calls),
                used.tokens_in,
                used.tokens_cached,
                used.tokens_written,
                used.tokens_out,
                recording.dollars,
                dict(recording.skipped),
                recording.estimated,
            )
        )
    return Imported(tuple(sessions))
