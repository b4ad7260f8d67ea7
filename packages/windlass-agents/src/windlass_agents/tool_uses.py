"""Which tools a user's sessions used, as the transcripts of Claude Code tell it.

Reading all of them takes longer than a client waits, so what was read is kept in the user's own
folder, and what changed since is read again when nobody waits.
"""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Final

from windlass.public import UnreadableError, agent_folders, own_files, parse_json, read_bytes
from windlass_agents import client

_FILE: Final = "tool-uses.json"
"""The file in the user's own folder."""
_PROGRAM: Final = "claude-code"
MOST_SESSIONS: Final = 80
"""Sessions that are read, the newest: what a user works with changes."""
MOST_BYTES: Final = 1 << 26
_USE: Final = re.compile(rb'"type":\s?"tool_use",\s?"id":\s?"[^"]*",\s?"name":\s?"([^"\\]+)"')
_ANSWER: Final = re.compile(rb'"id":\s?"(msg_[^"]+)"')
_READ: Final = re.compile(rb'"cache_read_input_tokens":\s?(\d+)')
_LONG: Final = re.compile(rb'"ephemeral_1h_input_tokens":\s?[1-9]')
_MODEL: Final = re.compile(rb'"model":\s?"(claude-[^"]+)"')
_PROJECT: Final = re.compile(rb'"cwd":\s?("(?:[^"\\]|\\.)*")')


@dataclass(frozen=True, slots=True)
class SessionTools:
    """What one session did with its tools."""

    project: str
    """The folder in which it began."""
    changed: float
    """When its transcript was written last, in seconds since 1970."""
    calls: int
    tokens: int
    """Tokens that a call read from the cache, in the middle."""
    tools: tuple[str, ...]
    """The tools that it used, each once."""
    long: bool = False
    """Whether it wrote to the cache for an hour."""
    model: str = ""
    """`provider/model` (empty: unknown)."""


_FIELDS: Final = tuple(each.name for each in fields(SessionTools))


def read_session(path: Path) -> SessionTools | None:
    """Return what a transcript tells (None: no call, or it cannot be read)."""
    try:
        data, changed = read_bytes(path, MOST_BYTES), path.stat().st_mtime
    except (UnreadableError, OSError):
        return None
    calls = len(set(_ANSWER.findall(data)))
    if not calls:
        return None
    project = ""
    with suppress(ValueError):
        match = _PROJECT.search(data)
        project = str(parse_json(match[1])) if match else ""
    names = {name.decode(errors="replace") for name in _USE.findall(data)}
    read = [int(number[:12]) for number in _READ.findall(data)]
    models = _MODEL.findall(data)
    return SessionTools(
        project,
        changed,
        calls,
        round(statistics.median(read)) if read else 0,
        tuple(sorted(names)),
        bool(_LONG.search(data)),
        f"anthropic/{models[-1].decode(errors='replace')}" if models else "",
    )


def known_sessions(folder: Path | None = None) -> list[SessionTools]:
    """Return what was read before of the user's sessions, the oldest first.

    `folder` is the user's own (None: where it usually is).
    """
    kept = _kept(_place(folder))
    return sorted(kept.values(), key=lambda one: one.changed)


def read_sessions(folder: Path | None = None, paths: Iterable[Path] | None = None) -> int:
    """Read what changed in the user's transcripts since, and keep it; how many were read.

    `paths` are the transcripts (None: those of this machine). Raises OSError where it cannot be
    kept.
    """
    place = _place(folder)
    before = _kept(place)
    found: list[tuple[float, Path]] = []
    for path in _transcripts() if paths is None else paths:
        with suppress(OSError):
            found.append((path.stat().st_mtime, path))
    now: dict[str, SessionTools] = {}
    count = 0
    for changed, path in sorted(found, reverse=True)[:MOST_SESSIONS]:
        told = before.get(str(path))
        if told is None or told.changed != changed:
            told = read_session(path)
            count += 1
        if told is not None:
            now[str(path)] = told
    if now != before:
        data = json.dumps({path: asdict(told) for path, told in now.items()})
        own_files.replace(place, [data.encode()], 0o600)
    return count


def _transcripts() -> Sequence[Path]:
    folders = [folder for folder in agent_folders() if folder.program == _PROGRAM]
    return [path for folder in folders for path in folder.files()]


def _place(folder: Path | None) -> Path:
    return (Path(client.own_folder()) if folder is None else folder) / _FILE


def _kept(place: Path) -> dict[str, SessionTools]:
    kept: dict[str, SessionTools] = {}
    with suppress(ValueError, UnreadableError, AttributeError, OSError):
        told: Mapping[str, Mapping[str, object]] = parse_json(read_bytes(place, MOST_BYTES))
        for path, one in told.items():
            with suppress(TypeError, LookupError):
                values = {name: one[name] for name in _FIELDS}
                values["tools"] = tuple(map(str, values["tools"]))  # type: ignore[call-overload]
                kept[path] = SessionTools(**values)  # type: ignore[arg-type]
    return kept
