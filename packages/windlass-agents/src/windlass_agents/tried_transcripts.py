"""What transcripts of Claude Code tell besides their calls: tools in front, and its compactions.

Which tools would have waited is decided for each session by those before it.
A transcript names the tools that were called, and those that the client let wait by itself. Which
others stood in front, and how long their definitions were, is known of the versions that are listed
here; of a version between two of them it is a range.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from windlass.public import SIDE_CHAIN, UnreadableError, object_of, read_bytes, time_of
from windlass_agents.deferred_tools import decide, tools_named, usual_prices
from windlass_agents.tool_definitions import LISTED
from windlass_agents.tool_uses import MOST_BYTES, MOST_SESSIONS, SessionTools, read_session

_OF_SERVER: Final = (150, 900)
"""Tokens of the definition of a tool that an MCP server gives, from few to many."""
_SERVER: Final = "mcp__"
_TOGETHER: Final = re.compile(r"mcp__.+?__|Task(?=Create|Get|List|Update)|Cron")
"""How the names of tools begin that one search finds together."""
_OF_A_USER: Final = frozenset({"AskUserQuestion", "EnterPlanMode", "ExitPlanMode"})
"""Tools that are offered where a user sits in front of a terminal."""
NOT_IN_SUBAGENTS: Final = _OF_A_USER | {
    "Agent", "Task", "Workflow", "ListAgents", "ReportFindings", "ScheduleWakeup", "CronCreate",
    "CronDelete", "CronList",
}  # fmt: skip
"""Tools that subagents are not given."""
_TIME: Final = re.compile(rb'"timestamp":\s?"([^"]+)"')
_SESSION: Final = re.compile(rb'"session_?[iI]d":\s?"([^"\\]+)"')
_TERMINAL: Final = b"cli"
_ENTRY: Final = re.compile(rb'"entrypoint":\s?"([^"\\]+)"')
_VERSION: Final = re.compile(rb'"version":\s?"(\d+(?:\.\d+)+)"')
_TOLD: Final = re.compile(rb'"(?:deferred_tools_delta|compact_boundary)"')


@dataclass(frozen=True, slots=True)
class ClientCompaction:
    """A compaction that the client made: when, and of how many tokens."""

    time: float
    tokens: int


@dataclass(frozen=True, slots=True)
class TriedTranscript:
    """What is known of a session: the tools that would have waited, and its compactions."""

    surely: Mapping[tuple[str, ...], float]
    """Those that were surely in front, by the shortest definition that is known.

    Tools that one search finds stand together.
    """
    perhaps: Mapping[tuple[str, ...], float]
    """Those that may have been, by the longest."""
    compactions: tuple[ClientCompaction, ...] = ()


@dataclass(frozen=True, slots=True)
class _Transcript:
    name: str
    begun: float
    version: tuple[int, ...]
    left_out: frozenset[str]
    """Tools that did not stand in front: the client let them wait, or nobody sat at a terminal."""
    compactions: tuple[ClientCompaction, ...]
    tools: SessionTools


def tried_transcripts(paths: Iterable[Path]) -> dict[str, TriedTranscript]:
    """Return what is known of sessions by their names; those before it decide on a session's tools.

    A file that is no transcript of Claude Code, or cannot be read, tells nothing; nor does one of
    a subagent, which has the name of its session.
    """
    own = (path for path in paths if not path.stem.startswith(SIDE_CHAIN))
    read = [one for path in own if (one := _read(path)) is not None]
    read.sort(key=lambda one: one.begun)
    tried: dict[str, TriedTranscript] = {}
    for number, one in enumerate(read):
        before = [each.tools for each in read[max(0, number - MOST_SESSIONS) : number]]
        surely, perhaps = _in_front(one, read)
        tried[one.name] = TriedTranscript(
            _deferred(surely, one, before), _deferred(perhaps, one, before), one.compactions
        )
    return tried


def _deferred(
    sizes: Mapping[str, int], told: _Transcript, before: list[SessionTools]
) -> dict[tuple[str, ...], float]:
    project = told.tools.project
    named = tools_named(Path(project)) if project else frozenset[str]()
    prices = usual_prices(before, told.tools.model or None)
    together: dict[str, list[tuple[str, int]]] = {}
    for tool, tokens in sizes.items():
        made = decide(tool, tokens, before, project=project, named=named, prices=prices)
        if made.deferred:
            match = _TOGETHER.match(tool)
            name = "Task" if tool == "Agent" and "Task" in told.tools.tools else tool
            together.setdefault(match[0] if match else tool, []).append((name, tokens))
    return {
        tuple(name for name, _ in found): float(sum(tokens for _, tokens in found))
        for found in together.values()
    }


def _in_front(
    told: _Transcript, all_: Sequence[_Transcript]
) -> tuple[dict[str, int], dict[str, int]]:
    """Return the tools that a session surely had in front, and those that it may have had."""
    older = [listed for version, listed in LISTED.items() if version <= told.version]
    newer = [listed for version, listed in LISTED.items() if version >= told.version]
    near = [*older[-1:], *newer[:1]]
    before = {name for listed in older for name in listed} | _called(all_, to=told.version)
    after = {name for listed in newer for name in listed} | _called(all_, since=told.version)
    surely, perhaps = dict[str, int](), dict[str, int]()
    for tool in {name: None for listed in near for name in listed}:
        sizes = [listed[tool] for listed in near if tool in listed]
        # What the client had before and had after it had then, too.
        if tool in before and (tool in after or not newer):
            surely[tool] = min(sizes)
        perhaps[tool] = max(sizes)
    for tool in told.tools.tools:
        if tool.startswith(_SERVER):
            surely[tool], perhaps[tool] = _OF_SERVER
    for tool in told.left_out:
        surely.pop(tool, None)
        perhaps.pop(tool, None)
    return surely, perhaps


def _called(
    all_: Sequence[_Transcript],
    since: tuple[int, ...] = (),
    to: tuple[int, ...] = (1 << 30,),
) -> set[str]:
    """Return the tools that sessions of some versions called."""
    names = (name for one in all_ if since <= one.version <= to for name in one.tools.tools)
    return {"Agent" if name == "Task" else name for name in names}


def _read(path: Path) -> _Transcript | None:
    with suppress(UnreadableError, OSError):
        tools, data = read_session(path), read_bytes(path, MOST_BYTES)
        if tools is None:
            return None
        session, time, version = (one.search(data) for one in (_SESSION, _TIME, _VERSION))
        entry = _ENTRY.search(data)
        left_out = set(_OF_A_USER if entry and entry[1] != _TERMINAL else ())
        compactions = list[ClientCompaction]()
        for line in data.split(b"\n") if _TOLD.search(data) else ():
            with suppress(ValueError, RecursionError):
                record = object_of(json.loads(line) if _TOLD.search(line) else None)
                names = object_of(record.get("attachment")).get("addedNames")
                left_out.update(map(str, names if isinstance(names, list) else ()))
                tokens = object_of(record.get("compactMetadata")).get("preTokens")
                when = time_of(record.get("timestamp"))
                if isinstance(tokens, int) and when is not None:
                    compactions.append(ClientCompaction(when, tokens))
        begun = time_of(time[1].decode(errors="replace")) if time else None
        return _Transcript(
            session[1].decode(errors="replace") if session else path.stem,
            tools.changed if begun is None else begun,
            tuple(map(int, version[1].split(b"."))) if version else (),
            frozenset(left_out),
            tuple(compactions),
            tools,
        )
    return None
