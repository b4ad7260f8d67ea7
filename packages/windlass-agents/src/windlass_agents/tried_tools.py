"""Which tools would have waited in recorded sessions of Claude Code, each decided by those before.

A transcript names the tools that were called, and those that the client let wait by itself. Which
others stood in front, and how long their definitions were, is known of the versions that are listed
here; of a version between two of them it is a range.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from windlass.public import UnreadableError, object_of, read_bytes, time_of
from windlass_agents.deferred_tools import decide, tools_named, usual_prices
from windlass_agents.tool_uses import MOST_BYTES, MOST_SESSIONS, SessionTools, read_session

LISTED: Final[Mapping[tuple[int, ...], Mapping[str, int]]] = {
    (2, 1, 121): {
        "Agent": 2_470, "AskUserQuestion": 1_408, "CronCreate": 1_410, "CronDelete": 142,
        "CronList": 92, "EnterPlanMode": 1_205, "EnterWorktree": 894, "ExitPlanMode": 718,
        "ExitWorktree": 772, "NotebookEdit": 468, "ScheduleWakeup": 1_013, "Skill": 497,
        "TaskCreate": 794, "TaskGet": 324, "TaskList": 362, "TaskOutput": 480, "TaskStop": 175,
        "TaskUpdate": 1_164, "WebFetch": 553, "WebSearch": 553,
    },
    (2, 1, 331): {
        "Agent": 1_397, "AskUserQuestion": 1_489, "CronCreate": 1_652, "CronDelete": 142,
        "CronList": 92, "EnterPlanMode": 1_210, "EnterWorktree": 1_215, "ExitPlanMode": 702,
        "ExitWorktree": 885, "ListAgents": 604, "Monitor": 2_500, "NotebookEdit": 547,
        "ReportFindings": 790, "ScheduleWakeup": 1_508, "SendMessage": 1_910, "Skill": 538,
        "TaskStop": 243, "WebFetch": 352, "WebSearch": 279, "Workflow": 1_757,
    },
}  # fmt: skip
"""Tokens of the definitions that a session in the terminal gets, by version and tool.

The seven that never wait are left out.
"""
_OF_SERVER: Final = (150, 900)
"""Tokens of the definition of a tool that an MCP server gives, from few to many."""
_SERVER: Final = "mcp__"
NOT_IN_SUBAGENTS: Final = frozenset(
    {"Agent", "Task", "Workflow", "AskUserQuestion", "EnterPlanMode", "ExitPlanMode"}
)
"""Tools that subagents are not given."""
_TIME: Final = re.compile(rb'"timestamp":\s?"([^"]+)"')
_SESSION: Final = re.compile(rb'"session_?[iI]d":\s?"([^"\\]+)"')
_VERSION: Final = re.compile(rb'"version":\s?"(\d+(?:\.\d+)+)"')
_ANNOUNCED: Final = b'"deferred_tools_delta"'


@dataclass(frozen=True, slots=True)
class WaitingTools:
    """The tools that would have waited in a session, with the tokens of their definitions."""

    surely: Mapping[str, float]
    """Those that were surely in front, by the shortest definition that is known."""
    perhaps: Mapping[str, float]
    """Those that may have been, by the longest."""


@dataclass(frozen=True, slots=True)
class _Transcript:
    name: str
    begun: float
    version: tuple[int, ...]
    announced: frozenset[str]
    """Tools that the client let wait by itself."""
    tools: SessionTools


def waiting_tools(paths: Iterable[Path]) -> dict[str, WaitingTools]:
    """Return the tools that would have waited, by session, as decided by the sessions before it.

    A file that is no transcript of Claude Code, or cannot be read, tells nothing.
    """
    read = [one for path in paths if (one := _read(path)) is not None]
    read.sort(key=lambda one: one.begun)
    called: dict[tuple[int, ...], set[str]] = {}
    for one in read:
        called.setdefault(one.version, set()).update(one.tools.tools)
    waiting: dict[str, WaitingTools] = {}
    for number, one in enumerate(read):
        before = [each.tools for each in read[max(0, number - MOST_SESSIONS) : number]]
        surely, perhaps = _in_front(one, called[one.version])
        waiting[one.name] = WaitingTools(
            _deferred(surely, one, before), _deferred(perhaps, one, before)
        )
    return waiting


def _deferred(
    sizes: Mapping[str, int], told: _Transcript, before: list[SessionTools]
) -> dict[str, float]:
    project = told.tools.project
    named = tools_named(Path(project)) if project else frozenset[str]()
    prices = usual_prices(before, told.tools.model or None)
    waiting: dict[str, float] = {}
    for tool, tokens in sizes.items():
        made = decide(tool, tokens, before, project=project, named=named, prices=prices)
        if made.deferred:
            waiting["Task" if tool == "Agent" and "Task" in told.tools.tools else tool] = tokens
    return waiting


def _in_front(told: _Transcript, called: set[str]) -> tuple[dict[str, int], dict[str, int]]:
    """Return the tools that a session surely had in front, and those that it may have had."""
    older = [listed for version, listed in LISTED.items() if version <= told.version]
    newer = [listed for version, listed in LISTED.items() if version >= told.version]
    near = [*older[-1:], *newer[:1]]
    called = {"Agent" if name == "Task" else name for name in called}
    surely, perhaps = dict[str, int](), dict[str, int]()
    for tool in {name: None for listed in near for name in listed}:
        sizes = [listed[tool] for listed in near if tool in listed]
        # What the client had before and had after it had then, too.
        if tool in called or (older and len(sizes) == len(near)):
            surely[tool] = min(sizes)
        perhaps[tool] = max(sizes)
    for tool in sorted(name for name in called if name.startswith(_SERVER)):
        surely[tool], perhaps[tool] = _OF_SERVER
    for tool in told.announced:
        surely.pop(tool, None)
        perhaps.pop(tool, None)
    return surely, perhaps


def _read(path: Path) -> _Transcript | None:
    with suppress(UnreadableError, OSError):
        tools, data = read_session(path), read_bytes(path, MOST_BYTES)
        if tools is None:
            return None
        session, time, version = (one.search(data) for one in (_SESSION, _TIME, _VERSION))
        announced = set[str]()
        for line in data.split(b"\n") if _ANNOUNCED in data else ():
            if _ANNOUNCED in line:
                with suppress(ValueError, RecursionError):
                    told = object_of(object_of(json.loads(line)).get("attachment"))
                    names = told.get("addedNames")
                    announced.update(map(str, names if isinstance(names, list) else ()))
        begun = time_of(time[1].decode(errors="replace")) if time else None
        return _Transcript(
            session[1].decode(errors="replace") if session else path.stem,
            tools.changed if begun is None else begun,
            tuple(map(int, version[1].split(b"."))) if version else (),
            frozenset(announced),
            tools,
        )
    return None
