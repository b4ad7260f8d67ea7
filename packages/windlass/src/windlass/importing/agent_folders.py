"""The folders in which coding agents keep their sessions on this machine; they are only read."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from windlass.errors import UsageError
from windlass.importing.claude_code import SIDE_CHAIN, SIDE_CHAINS
from windlass.importing.recording import Recording
from windlass.importing.streams import recordings

LISTED: Final = 15
"""The most sessions that are listed: each of their files is read whole."""
_TASK: Final = "api_conversation_history.json"
_EXTENSIONS: Final = (
    *("saoudrizwan.claude-dev", "rooveterinaryinc.roo-cline", "kilocode.kilo-code"),
)
"""Cline and its kin, as editors call them."""


@dataclass(frozen=True, slots=True)
class AgentFolder:
    """A folder in which a program keeps sessions, and the pattern of their files."""

    program: str
    path: Path
    pattern: str
    apart: str = ""
    """The pattern of the files of side chains, where it is another one."""

    def holds(self, path: Path) -> bool:
        """Return whether a file is one of a session or its side chains."""
        return any(path.match(one) for one in (self.pattern, self.apart) if one)

    def files(self) -> Iterator[Path]:
        """The files of sessions, without those of side chains, and the newer one of two forms."""
        for path in self.path.rglob(self.pattern):
            is_side_chain = path.name.startswith(SIDE_CHAIN) or SIDE_CHAINS in path.parts
            is_old = path.suffix == ".json" and path.with_suffix(".jsonl").exists()
            if not is_side_chain and not is_old and path.is_file():
                yield path


@dataclass(frozen=True, slots=True)
class AgentSession:
    """A session of a coding agent on this machine, with its side chains."""

    number: int
    name: str
    program: str
    project: str
    title: str
    """The user's first words."""
    started: float | None
    """Seconds since 1970 (None: unknown)."""
    calls: int
    dollars: float | None
    """US dollars (None: no call's cost is known)."""
    estimated: int
    """Calls whose output was not recorded, and is estimated."""
    unpriced: int
    """Calls whose cost is not known, and not in `dollars`."""
    file: str


def agent_folders(environ: Mapping[str, str] = os.environ) -> tuple[AgentFolder, ...]:
    """Return the folders of sessions that exist on this machine."""
    home = Path(environ.get("HOME") or Path.home())
    config = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")

    def place(variable: str, usual: Path) -> Path:
        return Path(environ[variable]).expanduser() if environ.get(variable) else usual

    claude = place("CLAUDE_CONFIG_DIR", home / ".claude")
    codex_home = place("CODEX_HOME", home / ".codex")
    gemini = place("GEMINI_CLI_HOME", home) / ".gemini" / "tmp"
    cline = place("CLINE_DATA_DIR", place("CLINE_DIR", home / ".cline") / "data")
    mini = place("MSWEA_GLOBAL_CONFIG_DIR", config / "mini-swe-agent")
    listed = (
        AgentFolder("claude-code", claude / "projects", "*.jsonl"),
        AgentFolder("codex", codex_home / "sessions", "*.jsonl"),
        AgentFolder("codex", codex_home / "archived_sessions", "*.jsonl"),
        AgentFolder("mini-swe-agent", mini, "*.traj.json"),
        AgentFolder("gemini-cli", gemini, "chats/session-*.json*", "chats/*/*.jsonl"),
        AgentFolder("cline", cline / "tasks", _TASK),
        AgentFolder("cline", cline / "sessions", "*.messages.json"),
        *(
            AgentFolder("cline", editor / "User" / "globalStorage" / extension / "tasks", _TASK)
            for editor in (config / "Code", home / "Library" / "Application Support" / "Code")
            for extension in _EXTENSIONS
        ),
    )
    return tuple(folder for folder in listed if folder.path.is_dir())


def agent_files() -> list[tuple[str, Path]]:
    """Return the program and file of each session, the file that was changed last first."""
    files = [
        (path.stat().st_mtime, str(path), folder.program)
        for folder in agent_folders()
        for path in folder.files()
    ]
    return [(program, Path(path)) for _, path, program in sorted(files, reverse=True)]


def agent_sessions(limit: int = LISTED) -> Iterator[AgentSession]:
    """Yield the newest sessions of coding agents on this machine, numbered from 1.

    A file without a session of its own is left out: subagents are listed with theirs.
    """
    number = 0
    for program, path in agent_files():
        if number == limit:
            return
        try:
            session = list(recordings(path))
        except UsageError:
            continue
        if session[0].kind != "session":
            continue
        number += 1
        yield _session(number, program, path, session)


def _session(number: int, program: str, path: Path, session: list[Recording]) -> AgentSession:
    first = session[0]
    calls = [call for recording in session for call in recording.calls]
    dollars = [call.dollars for call in calls if call.dollars is not None]
    return AgentSession(
        number,
        first.name,
        program,
        first.project,
        first.title,
        first.started,
        len(calls),
        sum(dollars) if dollars or not calls else None,
        sum(recording.estimated for recording in session),
        len(calls) - len(dollars),
        str(path),
    )


def find_agent_session(name: str) -> Path | None:
    """Return the file of a session: `latest`, a number of the list, or the beginning of its name.

    None: there is no such session. Raises UsageError where there are several.
    """
    if name == "latest" or is_number(name):
        number = 1 if name == "latest" else int(name)
        sessions = (session for session in agent_sessions(number) if session.number == number)
        return next((Path(session.file) for session in sessions), None)
    paths = [path for _, path in agent_files() if name and _has_name(path, name)]
    if len(paths) > 1:
        names = ", ".join(path.stem for path in paths[:5])
        raise UsageError(f"{name!r} is the beginning of several sessions: {names}")
    return paths[0] if paths else None


def _has_name(path: Path, name: str) -> bool:
    """Return whether a session's name begins with `name`; a rollout's file begins with its time."""
    return path.stem.startswith(name) or f"-{name}" in path.stem


_DIGITS: Final = 3


def is_number(name: str) -> bool:
    """Return whether a name is a number of the list; ids of a store's sessions are longer."""
    return name.isdecimal() and 0 < len(name) <= _DIGITS
