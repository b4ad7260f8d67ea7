"""Recorded agent runs as files give them: gzipped JSON lines of OpenAI chat messages.

Knows the format and which recordings a run asked for; nothing of prices or needs.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

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
    """The recordings of `folder`/trajectories, file by file, each `every`-th of the half."""
    for source in sources:
        first, step = {"all": (0, 1), "even": (0, 2), "odd": (1, 2)}[half]
        with gzip.open(folder / "trajectories" / f"{source}.jsonl.gz", "rt", encoding="utf-8") as f:
            for place, line in enumerate(f):
                if place % step == first % step and (place - first) // step % every == 0:
                    yield read(json.loads(line), source)


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
