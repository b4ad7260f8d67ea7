"""What hooks did, one JSON line an event, and the originals of what they shortened.

    <store>/hooks/<agent>/<session>.jsonl
    <store>/hooks/originals/<content hash>.json

An original is written before its line, and a line before the agent gets its answer. Nothing else
is needed to get an original back. When a session is put into the store, its originals move there.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Final, Literal, TypeAlias

from windlass.history.packing import path_part
from windlass.messages import Message, from_dict
from windlass.safety.own_files import make_folder, open_own, replace
from windlass.window.originals import meant

FOLDER: Final = "hooks"
"""The folder of a store in which hooks write."""

Outcome: TypeAlias = Literal[
    "shortened",
    "whole",
    "held out",
    "failed result",
    "unknown shape",
    "error",
]
"""What became of a result; `whole`: shortening it would not lower the bill, or it is short;
`held out`: the session is one of those that stay untouched for comparison."""


@dataclass(frozen=True, slots=True)
class HookLine:
    """What became of one tool result."""

    time: float
    """Seconds since 1970."""
    agent: str
    session: str
    thread: str
    call_id: str
    tool: str
    outcome: Outcome
    because: str = ""
    """The rule that shortened it, or in words why it was left (or failed)."""
    original: str = ""
    """The content hash of the original, where it was shortened."""
    shown: str = ""
    """SHA-256, in hex, of the text that stands in its place."""
    tokens_before: int = 0
    """Tokens of what the agent itself would have shown, by the model's count."""
    tokens_after: int = 0
    ms: float = 0.0
    """Processor time that the answer took, in milliseconds."""
    transcript: str = ""
    folder: str = ""


_UNSAID: Final = {each.name: each.default for each in fields(HookLine)}
"""What a field has that a line need not say."""


class Journal:
    """The journal of a store, by the folder of the store."""

    def __init__(self, store: Path) -> None:
        self.folder = store / FOLDER
        self._store = store
        self._originals = self.folder / "originals"

    def write(self, line: HookLine) -> None:
        """Append a line. Raises OSError, and StoreError for a link in the way."""
        path = self._path(line.agent, line.session)
        make_folder(path.parent, self._store)
        data = json.dumps(
            {name: told for name, told in asdict(line).items() if told != _UNSAID[name]}
        )
        handle = open_own(path, flags=os.O_APPEND)
        try:
            line_bytes = data.encode() + b"\n"
            if os.write(handle, line_bytes) < len(line_bytes):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        finally:
            os.close(handle)

    def keep(self, original: Message) -> None:
        """Keep an original durably, once. Raises as `write` does."""
        path, data = self._originals / f"{original.content_hash}.json", original.canonical.encode()
        make_folder(path.parent, self._store)
        if path.is_symlink() or not path.exists() or path.read_bytes() != data:
            replace(path, [data], 0o600, durable=True)

    def lines(self, agent: str, session: str) -> Iterator[HookLine]:
        """The lines of a session, in order; a line that cannot be read is left out."""
        with suppress(FileNotFoundError), self._path(agent, session).open("rb") as file:
            for data in file:
                with suppress(ValueError, TypeError):
                    told = json.loads(data)
                    if isinstance(told, dict):
                        yield HookLine(
                            **{name: told[name] for name in told.keys() & _UNSAID.keys()}
                        )

    def sessions(self) -> Iterator[tuple[str, str]]:
        """The agent and the session of each file, the one that was written last first."""
        files = [path for path in self.folder.glob("*/*.jsonl") if not path.is_symlink()]
        for path in sorted(files, key=lambda path: path.stat().st_mtime, reverse=True):
            with path.open("rb") as file, suppress(ValueError, TypeError, KeyError):
                told = json.loads(file.readline())
                yield str(told["agent"]), str(told["session"])

    def original(self, ref: str) -> Message:
        """The original that a reference means, among those that are kept here.

        Raises KeyError with the end of a sentence where none or several are meant, or where the
        file does not hold what its name says.
        """
        ident = meant(ref, (path.stem for path in self._originals.glob("*.json")))
        data = (self._originals / f"{ident}.json").read_bytes()
        with suppress(ValueError, TypeError, KeyError, AttributeError):
            original = from_dict(json.loads(data))
            if original.content_hash == ident:
                return original
        raise KeyError("its file is damaged")

    def forget(self, content_hash: str) -> None:
        """Remove an original that the store has by now."""
        (self._originals / f"{content_hash}.json").unlink(missing_ok=True)

    def _path(self, agent: str, session: str) -> Path:
        return self.folder / path_part(agent) / f"{path_part(session)}.jsonl"
