"""Sessions of coding agents on this machine: listed, chosen by a word, and what folders cost."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import cast, get_args

from windlass.api.recordings import import_sessions
from windlass.caching.rates import age_note, many, money_but_for, override
from windlass.cli.named_store import open_existing, read_settings
from windlass.cli.output import note, out, printed_as_json
from windlass.cli.printed_tables import print_table, ranked_table
from windlass.errors import StoreError, UsageError, did_you_mean
from windlass.importing.agent_folders import (
    AgentSession,
    agent_files,
    agent_folders,
    agent_sessions,
    find_agent_session,
    is_number,
)
from windlass.importing.formats import more_formats
from windlass.importing.recording import ESTIMATED, Recording
from windlass.importing.streams import recordings
from windlass.report.ranking import By, folder_report, project_of
from windlass.text.cell_tables import Columns, NumberCell, table_of


def list_agent_sessions(verb: str) -> None:
    """Print the newest sessions of coding agents. Raises UsageError where there are none.

    `verb` is the command that takes one of them.
    """
    with override(read_settings(None).prices):
        listed = list(agent_sessions())
    if not listed:
        raise UsageError(_nothing())
    if printed_as_json(listed):
        return
    columns: Columns[AgentSession] = {
        "": lambda session: NumberCell(session.number),
        "project": lambda each: project_of(each.project) if each.project else each.program,
        "first words": lambda session: session.title,
        "began": _began,
        "calls": lambda session: session.calls,
        "cost": _cost,
    }
    print_table(table_of(listed, columns), whole=[""])
    if estimated := sum(session.estimated for session in listed):
        out.print(f"~: {ESTIMATED.format(many(estimated, 'call'))}")
    out.print(
        f"\none of them: windlass {verb} NUMBER, or latest, or the beginning of a session's name"
    )
    out.hint("all of them: windlass report --by day, project, model or session")


def _cost(session: AgentSession) -> NumberCell:
    mark = "~" if session.estimated else ""
    return NumberCell(f"{mark}{money_but_for(session.dollars, session.unpriced)}")


def _nothing() -> str:
    looked = ", ".join(str(folder.path) for folder in agent_folders())
    where = f" in {looked}" if looked else ": no folder of a coding agent is there"
    found = f"no session of a coding agent was found{where}"
    return f"{found}; name a file, a folder or a session{more_formats()}"


def _began(session: AgentSession) -> str:
    if session.started is None:
        return "-"
    return f"{datetime.fromtimestamp(session.started).astimezone():%Y-%m-%d %H:%M}"


def find_agent_recording(name: str, store: str | None) -> Path | None:
    """Find the file of the coding agent's session with this name, or number in the list.

    None where the name is a file, a folder or a session of the store, which come first unless it is
    a number, or where nothing has it, or where a `store` is named, which alone is searched then.
    Raises UsageError where several sessions of agents have the name.
    """
    if store is not None or Path(name).exists():
        return None
    if not is_number(name):
        with suppress(UsageError), open_existing(None) as history:
            history.find_session(name)
            return None
    return find_agent_session(name)


def import_agent_session(path: Path) -> str:
    """Import an agent's session into the store; its name there."""
    imported = import_sessions(path, on_skip=note)
    note(f"imported into the store: {path}")
    return imported.sessions[0].session_id


def is_empty_store(store: str | None) -> bool:
    """Return whether no store is there, or no session in it."""
    try:
        with open_existing(store) as history:
            return not history.sessions(limit=1)
    except (UsageError, StoreError):
        return True


def has_agent_sessions() -> bool:
    """Return whether a coding agent keeps sessions on this machine."""
    return bool(agent_files())


def print_folder(path: Path | None, by: str) -> None:
    """Print what the recordings of a file or folder cost; of all agents' folders without one."""
    kinds = get_args(By)
    if by not in kinds:
        raise UsageError(f"--by {by!r}: {did_you_mean(by, kinds)}")
    own = {folder.path: folder.holds for folder in agent_folders()} if path is None else {}
    folders = [path] if path is not None else [*own]
    if not folders:
        raise UsageError(_nothing())
    with override(read_settings(None).prices):
        report = folder_report(_of(folders, own), cast("By", by))
    if printed_as_json(report):
        return
    print_table(ranked_table(report.by, [*report.rows, report.total], summed=True))
    if report.estimated:
        out.print(ESTIMATED.format(many(report.estimated, "call")))
    if old := age_note():
        out.print(old)
    for folder in folders:
        named = shlex.quote(str(folder))
        out.hint(f"what other windows would have cost: windlass replay {named}")


def _of(folders: Sequence[Path], own: Mapping[Path, Callable[[Path], bool]]) -> Iterator[Recording]:
    """The recordings of folders; in those of agents (`own`), of the files that are sessions."""
    for folder in folders:
        try:
            yield from recordings(folder, None, note, own.get(folder, lambda _: True))
        except UsageError as error:
            if folder == folders[-1] == folders[0]:
                raise
            note(str(error))
