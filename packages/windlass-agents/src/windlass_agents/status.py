"""Which agents have a hook, and what became of what it answered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from windlass_agents import client
from windlass_agents.agents import AGENTS
from windlass_agents.compaction_moments import NextMoment, SessionCalls, next_moment
from windlass_agents.deferred_tools import ToolDecision, decisions_of
from windlass_agents.hook_journal import HookJournal, HookLine, deliveries, main_transcript
from windlass_agents.installing import InstalledHook, agent_version, installed_hooks, is_too_old
from windlass_agents.kept_compactions import KeptCompaction, compactions_in
from windlass_agents.mod_installing import installed_mods

_LATEST: Final = 5
"""Failures and compactions that are listed."""


@dataclass(frozen=True, slots=True)
class AgentStatus:
    """An agent on this machine."""

    agent: str
    version: str | None
    """None: it is not on the path, or does not say."""
    since: str
    """The first version that takes replacements, where this one is older (else empty)."""
    installed: tuple[InstalledHook, ...]


@dataclass(frozen=True, slots=True)
class HookFailure:
    """A time at which a hook failed, and left the result as it was."""

    time: float
    """Seconds since 1970."""
    agent: str
    what: str


@dataclass(frozen=True, slots=True)
class HookStatus:
    """Agents, and what hooks did in one store."""

    store: str
    agents: tuple[AgentStatus, ...]
    sessions: int
    outcomes: Mapping[str, int]
    """How many results had each `Outcome`."""
    taken: int
    """Short forms that the model got, by the transcript."""
    not_taken: Mapping[str, int]
    """By tool: results that were shown as they came, though a short form was answered."""
    untold: int
    """Short forms of which no transcript tells, or not yet."""
    unknown: Mapping[str, int]
    """By tool: results in a shape that is not known."""
    errors: Mapping[str, int]
    """Why a result was left, by the sentence."""
    failures: int
    """How often a hook failed before it knew the store."""
    latest: tuple[HookFailure, ...]
    running: bool
    """Whether the process that stays runs."""
    tools: tuple[ToolDecision, ...]
    """What was decided on the tools of the newest session that has a mod."""
    compactions: tuple[KeptCompaction, ...]
    """What became of the latest conversations that were to be compacted, the newest last."""
    next_compaction: NextMoment | None
    """When the newest session with a mod is to be compacted next (None: there is none)."""


def hook_status(store: Path, now: float) -> HookStatus:
    """Return what hooks did in a store, and where they are installed.

    `now` is in seconds since 1970.
    """
    outcomes, not_taken, unknown = Counter[str](), Counter[str](), Counter[str]()
    errors = Counter[str]()
    sessions = got = untold = 0
    for lines in journal_sessions(store):
        sessions += 1
        told = deliveries(lines, main_transcript(lines))
        for line in lines:
            outcomes[line.outcome] += 1
            unknown[line.tool] += line.outcome == "unknown shape"
            errors[line.because] += line.outcome == "error"
            if line.outcome == "shortened":
                is_taken = told.get(line.call_id)
                got += is_taken is True
                untold += is_taken is None
                not_taken[line.tool] += is_taken is False
    failures = list(read_failures())
    tools, next_compaction = _newest(store, now)
    return HookStatus(
        store=str(store),
        agents=tuple(_agents()),
        sessions=sessions,
        outcomes=outcomes,
        taken=got,
        not_taken=+not_taken,
        untold=untold,
        unknown=+unknown,
        errors=+errors,
        failures=len(failures),
        latest=tuple(failures[-_LATEST:]),
        running=_is_running(),
        tools=tools,
        compactions=tuple(compactions_in(store)[-_LATEST:]),
        next_compaction=next_compaction,
    )


def _newest(store: Path, now: float) -> tuple[tuple[ToolDecision, ...], NextMoment | None]:
    """Return what was decided in the newest session of a mod, and its next compaction."""
    journal = HookJournal(store)
    for agent, session in journal.sessions():
        if not (decisions := decisions_of(store, agent, session)):
            continue
        path = main_transcript(list(journal.lines(agent, session)))
        if path is None:
            return tuple(decisions.values()), None
        calls = SessionCalls(path)
        calls.read()
        return tuple(decisions.values()), next_moment(calls, now)
    return (), None


def journal_sessions(store: Path) -> Iterator[list[HookLine]]:
    """Yield the lines of each session in the journal of a store, the latest session first."""
    journal = HookJournal(store)
    for agent, session in journal.sessions():
        if lines := list(journal.lines(agent, session)):
            yield lines


def _agents() -> Iterator[AgentStatus]:
    found = [*installed_mods(), *installed_hooks()]
    for agent in AGENTS:
        installed = tuple(one for one in found if one.agent == agent)
        version = agent_version(agent)
        if installed or version is not None:
            since = "" if version is None else is_too_old(agent, version)
            yield AgentStatus(agent, version, since, installed)


def read_failures() -> Iterator[HookFailure]:
    """Yield the failures that were counted, in order."""
    with suppress(OSError):
        path = Path(client.own_folder()) / client.FAILURES
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            with suppress(ValueError):
                time, agent, what = line.split("\t", 2)
                yield HookFailure(float(time), agent, what)


def _is_running() -> bool:
    with suppress(OSError):
        connection = client.connect(client.own_folder())
        if connection is not None:
            connection.close()
            return True
    return False
