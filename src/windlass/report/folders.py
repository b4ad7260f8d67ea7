"""What recordings of a folder cost by day, project, model or session. Nothing is stored."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from windlass.importing.recording import RecordedCall, Recording
from windlass.report.ranking import RankedCost, day_of, dearest_first

By: TypeAlias = Literal["day", "project", "model", "session"]
"""What costs are added up by."""

UNKNOWN: Final = "not recorded"
"""The day, or the project, of what does not tell it."""


@dataclass(frozen=True, slots=True)
class FolderReport:
    """What recordings cost, a row each; `total` is all of it.

    Days, in UTC, come newest first, other rows the dearest first. A session counts with its side
    chains; a row that has a part of it counts it once. `estimated` calls have an output that was
    not recorded and is estimated.
    """

    by: By
    rows: tuple[RankedCost, ...]
    total: RankedCost
    estimated: int


def folder_report(recordings: Iterable[Recording], by: By) -> FolderReport:
    """What the recordings cost, call by call."""
    rows: dict[str, RankedCost] = {}
    sessions: dict[str, set[str]] = {}
    whole: set[str] = set()
    titles: dict[str, str] = {}
    projects: dict[str, str] = {}
    total = RankedCost("all", sessions=0)
    estimated = 0
    for recording in recordings:
        session = recording.parent or recording.name
        titles.setdefault(session, recording.titled)
        projects[session] = projects.get(session) or recording.project
        whole.add(session)
        estimated += recording.estimated
        for call in recording.calls:
            day = UNKNOWN if call.time is None else day_of(call.time)
            names = {"model": call.model, "day": day, "session": session}
            name = names.get(by) or project_of(projects[session])
            one = _cost(call)
            rows.setdefault(name, RankedCost(name, sessions=0)).add(one)
            sessions.setdefault(name, set()).add(session)
            total.add(one)
    for name, row in rows.items():
        row.sessions = len(sessions[name])
        if by == "session":
            row.name, row.within = titles[name], name
    total.sessions = len(whole)
    ranked = dearest_first(rows.values())
    if by == "day":
        ranked.sort(key=lambda row: (row.name != UNKNOWN, row.name), reverse=True)
    return FolderReport(by, tuple(ranked), total, estimated)


def project_of(folder: str) -> str:
    """A project by the last part of the folder in which the program worked."""
    parts = [part for part in re.split(r"[\\/]", folder) if part]
    return parts[-1] if parts else UNKNOWN


def _cost(call: RecordedCall) -> RankedCost:
    used, dollars = call.usage, call.dollars
    return RankedCost(
        "",
        calls=1,
        tokens_in=used.tokens_in if used else 0,
        tokens_cached=used.tokens_cached if used else 0,
        tokens_out=used.tokens_out if used else 0,
        dollars=dollars or 0.0,
        unpriced=int(dollars is None),
    )
