"""The sessions that a hook is tried on: transcripts of agents on this machine, or named ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from windlass.errors import UsageError
from windlass.importing.agent_folders import agent_folders, find_agent_session
from windlass.importing.recording import Recording
from windlass.importing.streams import recordings

_AGENT = "claude-code"


def recordings_named(name: str | None, on_skip: Callable[[str], None]) -> Iterator[Recording]:
    """Yield the recordings of a file, a folder or an agent's session (None: all of Claude Code).

    `on_skip` gets a sentence for each file of a folder that is not read. Raises UsageError where
    there is none.
    """
    if name is not None:
        path: Path | None = Path(name)
        if not Path(name).exists():
            path = find_agent_session(name)
        if path is None:
            raise UsageError(
                f"there is no file, folder or session of an agent {name!r};"
                " `windlass replay` lists the newest sessions"
            )
        yield from recordings(path, on_skip=on_skip if path.is_dir() else None)
        return
    folders = [folder for folder in agent_folders() if folder.program == _AGENT]
    if not folders:
        raise UsageError(
            "no folder of Claude Code is on this machine: name a file or folder of transcripts"
        )
    for path in sorted(path for folder in folders for path in folder.files()):
        try:
            yield from recordings(path)
        except UsageError as error:
            on_skip(str(error))
