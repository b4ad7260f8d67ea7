"""What recordings of a folder cost by day, project, model or session. Nothing is stored."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from windlass.importing.recording import RecordedCall, Recording
from windlass.ledger.charges import Charge, charge_of, dearest_first
from windlass.report.ranking import RankedCost, day_of
from windlass.wire.base import Usage

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
    """Return what the recordings cost, call by call."""
    rows: dict[str, RankedCost] = {}
    sessions: dict[str, set[str]] = {}
    titles: dict[str, str] = {}
    projects: dict[str, str] = {}
    total = RankedCost("all", sessions=0)
    for recording in recordings:
        session = recording.parent or recording.name
        titles.setdefault(session, recording.titled)
        projects[session] = projects.get(session) or recording.project
        for call in recording.calls:
            day = UNKNOWN if call.time is None else day_of(call.time)
            names = {"model": call.model, "day": day, "session": session}
            name = names.get(by) or project_of(projects[session])
            charge = _charge(call)
            rows.setdefault(name, RankedCost(name)).add(charge)
            sessions.setdefault(name, set()).add(session)
            total.add(charge)
    for name, row in rows.items():
        row.sessions = len(sessions[name])
        if by == "session":
            row.name, row.within = titles[name], name
    total.sessions = len(titles)
    ranked = dearest_first(rows.values())
    if by == "day":
        ranked.sort(key=lambda row: (row.name != UNKNOWN, row.name), reverse=True)
    return FolderReport(by, tuple(ranked), total, total.estimated)


def _charge(call: RecordedCall) -> Charge:
    used, dollars = call.usage or Usage(0, 0), call.dollars
    return charge_of(call.model, dollars, used, call.model, dollars, estimated=call.estimated)


def project_of(folder: str) -> str:
    """Return a project by the last part of the folder in which the program worked."""
    parts = [part for part in re.split(r"[\\/]", folder) if part]
    return parts[-1] if parts else UNKNOWN
