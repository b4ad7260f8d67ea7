"""Sessions of agents with hooks, put into the store: then they are sessions like any other.

The transcript of the agent has what its model saw, the journal what it saw a short form of; the
originals move into the store. Of an agent without a transcript the journal has the calls of tools.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import ClassVar, Final

from windlass.public import (
    Message,
    RecordedCall,
    Recording,
    Settings,
    ShownShort,
    Store,
    StoredSession,
    StoreError,
    Text,
    ToolCall,
    UsageError,
    answers_in,
    assistant,
    imported_from,
    open_store,
    own_files,
    recordings,
    redacted_message,
    store_recording,
)
from windlass_agents.agent_events import SeenCall
from windlass_agents.hook_journal import HookJournal, HookLine, deliveries, main_transcript
from windlass_agents.kept_originals import find_original

_UNKNOWN: Final = "unknown"
_IN_USE_S: Final = 3_600.0
"""Seconds for which a session that was changed counts as one that its agent goes on with."""
_WHY: Final = "shortened by a hook before a call saw it"


def store_hooked(folder: Path, agent: str, session: str) -> list[StoredSession]:
    """Put a session with what its hook did into the store in `folder`, or what is new of it.

    Nothing where no result was noted, or its agent has removed the transcript. Raises UsageError
    for a transcript that cannot be read, and StoreError.
    """
    journal = HookJournal(folder)
    lines = list(journal.lines(agent, session))
    transcript = main_transcript(lines)
    if not lines or (transcript is not None and not transcript.exists()):
        return []
    settings = Settings.read({"store": str(folder.absolute())})
    stored: list[StoredSession] = []
    with _alone(folder), open_store(settings, writing=True) as store:
        hooked = read_hooked(store, folder, lines)
        names: dict[str, str] = {}
        answers = answers_in(store)
        for recording in hooked.recordings:
            stored.append(store_recording(store, recording, names, hooked.shortened, answers))
            names.setdefault(recording.name, stored[-1].session_id)
        kept = {original for line in lines for original in line.originals}
        for original in sorted(filter(partial(_is_stored, store), kept)):
            journal.forget(original)
    return stored


def _is_stored(store: Store, content_hash: str) -> bool:
    """Return whether the store has the message with this hash."""
    sql = "SELECT key FROM bodies WHERE key >= ? AND key < ? LIMIT 1"
    return bool(store.query(sql, [content_hash, f"{content_hash}g"]))


@dataclass(frozen=True, slots=True)
class HookedRecordings:
    """A session of an agent as its models saw it, and what was shortened in it."""

    recordings: tuple[Recording, ...]
    """The session, its side chains and its branches."""
    shortened: Mapping[str, ShownShort]
    """Results whose short form a model got, by the ids of their calls."""


def read_hooked(store: Store, folder: Path, lines: Sequence[HookLine]) -> HookedRecordings:
    """Read a session, which has lines in the journal of a store. Raises UsageError."""
    transcript = main_transcript(lines)
    if transcript is None:
        found = _of_journal(HookJournal(folder), lines[0].agent, lines[0].session)
    else:
        found = recordings(transcript)
    if any(line.redacted for line in lines):
        found = (_redacted(recording) for recording in found)
    return HookedRecordings(tuple(found), dict(_shortened(store, folder, lines, transcript)))


@dataclass(frozen=True, slots=True)
class PrunedJournals:
    """The sessions whose journals were removed, or would be."""

    journals: tuple[str, ...]
    in_use: tuple[str, ...]
    """Those that were left alone: their agents may go on with them."""
    what: ClassVar[str] = "what hooks noted of"
    user: ClassVar[str] = "in use by an agent"

    @property
    def names(self) -> tuple[str, ...]:
        """The sessions whose notes were removed."""
        return self.journals


def prune_notes(
    store: Store, sessions: Iterable[str], older_than_s: float | None, now: float
) -> Callable[[bool], PrunedJournals]:
    """Return what removes the notes of sessions, or with `True` says which they are.

    The names of the sessions are looked up now, while they are in the store.
    """
    names = agent_names(store, sessions)

    def prune(dry_run: bool) -> PrunedJournals:
        return prune_journals(store.folder, names, older_than_s, now, dry_run=dry_run)

    return prune


def agent_names(store: Store, sessions: Iterable[str]) -> frozenset[str]:
    """The names that agents gave to sessions of a store, of those that have a hook's journal."""
    starts = [store.start(name) for name in sessions]
    return frozenset(one.cascade_id for one in starts if imported_from(one.cascade))


def prune_journals(
    folder: Path,
    names: Collection[str],
    older_than_s: float | None,
    now: float,
    *,
    dry_run: bool = False,
) -> PrunedJournals:
    """Remove what hooks noted of sessions with these names, or longer ago than that.

    A journal is in use if it, or the transcript of its session, was changed within the last hour.
    Raises OSError.
    """
    journal = HookJournal(folder)
    removed: list[str] = []
    in_use: list[str] = []
    if not journal.folder.is_dir():
        return PrunedJournals((), ())
    with _alone(folder):
        for agent, session in journal.sessions():
            changed = journal.changed(agent, session)
            is_old = older_than_s is not None and now - changed > older_than_s
            if session not in names and not is_old:
                continue
            transcript = main_transcript(journal.lines(agent, session))
            with suppress(OSError):
                changed = max(changed, 0.0 if transcript is None else transcript.stat().st_mtime)
            is_free = now - changed > _IN_USE_S
            (removed if is_free else in_use).append(session)
            if is_free and not dry_run:
                journal.remove(agent, session)
    return PrunedJournals(tuple(removed), tuple(in_use))


def _redacted(recording: Recording) -> Recording:
    """Return the same without credentials, whoever said them."""
    return replace(recording, messages=tuple(map(redacted_message, recording.messages)))


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """While no other process puts sessions into the store, where the system has locks."""
    own_files.make_folder(folder / "hooks", folder)
    handle = own_files.open_own(folder / "hooks" / "storing.lock")
    try:
        with suppress(ImportError):
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _shortened(
    store: Store, folder: Path, lines: Sequence[HookLine], transcript: Path | None
) -> Iterator[tuple[str, ShownShort]]:
    """Yield the results whose short form the model got, by the ids of their calls."""
    got = deliveries(lines, transcript)
    for line in lines:
        is_shown = transcript is None or got.get(line.call_id)
        # Of what the agent would have cut itself the original is no measure of what was saved.
        if line.outcome == "shortened" and is_shown and not line.cut:
            # Where an original is lost, the short form stays.
            with suppress(UsageError, StoreError):
                original = find_original(folder, line.original, lambda: nullcontext(store))
                yield line.call_id, ShownShort(original, line.because, _WHY)


def _of_journal(journal: HookJournal, agent: str, session: str) -> Iterator[Recording]:
    """The conversations of a session whose agent keeps no transcript: its tools and results."""
    threads: dict[str, list[SeenCall]] = {}
    for seen in journal.calls(agent, session):
        threads.setdefault(seen.thread, []).append(seen)
    for thread, listed in threads.items():
        messages: list[Message] = []
        calls: list[RecordedCall] = []
        for number, seen in enumerate(listed):
            model = seen.model or _UNKNOWN
            calls.append(RecordedCall(len(messages), model, time=seen.time, id=seen.call_id))
            call = ToolCall(
                seen.call_id or f"call_{number}", seen.tool, json.dumps(dict(seen.arguments))
            )
            answer = Message("tool", (Text(seen.result),), tool_call_id=call.id, name=call.name)
            messages += [assistant(calls=[call]), answer]
        name = f"{session} {thread}".strip()
        parent = session if thread else None
        yield Recording(
            name, "hook", "C", calls[0].model, tuple(messages), tuple(calls), parent=parent
        )
