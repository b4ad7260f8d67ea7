"""Recorded agent runs as OpenAI chat messages: of gzipped JSON lines, and sessions of people.

Knows the formats and which recordings a run asked for; nothing of prices or needs.
"""

from __future__ import annotations

import gzip
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from windlass.importing.streams import recordings
from windlass.wire.openai import to_openai

Chat: TypeAlias = dict[str, Any]
"""One message in OpenAI chat form."""

Half: TypeAlias = Literal["all", "even", "odd"]
"""Which places in a file count, from 0: to tune on one half and report the other."""

SOURCES: Final = (
    "swebench_mini",
    "claude_code_cua",
    "claude_code_openagents",
    "tau_bench",
    "tau2_bench",
    "agentdojo",
    "intercode",
    "swe_agent",
)
"""The eight sources whose mean is reported."""

SESSIONS: Final = {"sessions_claude": "*__claude__*.gz", "sessions_codex": "*__codex__*.gz"}
"""Sessions of people at work, and which files of `raw/agent_sessions` hold them."""


@dataclass(frozen=True)
class Recording:
    """One run.

    `used` are the values that calls took out of earlier tool results, by the
    position of the assistant message; what a system or user message had said too
    is not among them. None: the recording does not say.
    """

    id: str
    source: str
    messages: tuple[Chat, ...]
    used: Mapping[int, tuple[str, ...]] | None = None
    tools: tuple[Chat, ...] = ()

    @property
    def calls(self) -> tuple[int, ...]:
        """Positions of the assistant messages but the first: each stands for one call."""
        made = (at for at, chat in enumerate(self.messages) if chat["role"] == "assistant")
        return tuple(made)[1:]


def data_folder() -> Path:
    """Where the recordings are: WINDLASS_DATA, else `../shared/data`."""
    return Path(os.environ.get("WINDLASS_DATA", "../shared/data"))


def load(
    folder: Path, sources: Iterable[str] = SOURCES, half: Half = "all", every: int = 1
) -> Iterator[Recording]:
    """The recordings of the sources in a folder, file by file, each `every`-th of the half."""
    first, step = {"all": (0, 1), "even": (0, 2), "odd": (1, 2)}[half]
    for source in sources:
        told = sessions(folder, source) if source in SESSIONS else _lines(folder, source)
        yield from islice(told, first, None, step * every)


def _lines(folder: Path, source: str) -> Iterator[Recording]:
    with gzip.open(folder / "trajectories" / f"{source}.jsonl.gz", "rt", encoding="utf-8") as f:
        for line in f:
            yield read(json.loads(line), source)


def sessions(folder: Path, source: str) -> Iterator[Recording]:
    """The recordings of `raw/agent_sessions`; those of subagents are recordings of their own."""
    for path in sorted((folder / "raw/agent_sessions").glob(SESSIONS[source])):
        with tempfile.TemporaryDirectory() as place:
            plain = Path(place) / path.stem
            plain.write_bytes(gzip.decompress(path.read_bytes()))
            for number, one in enumerate(recordings(plain)):
                messages = tuple(map(to_openai, one.messages))
                yield Recording(f"{path.stem} {number}", source, messages)


def read(told: Mapping[str, Any], source: str) -> Recording:
    """One line of a file as a recording."""
    used: dict[int, dict[str, None]] = {}
    for row in told.get("argument_sources") or ():
        if not row["said"]:
            used.setdefault(row["message"], {})[str(row["value"])] = None
    return Recording(
        id=told["id"],
        source=source,
        messages=tuple(told["messages"]),
        used={at: tuple(values) for at, values in used.items()},
        tools=tuple(told.get("tools") or ()),
    )
