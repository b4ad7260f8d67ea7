"""Which tools of a client wait behind its search for tools, decided once a session, by price.

With r and w the prices of a read and of a written token, s the tokens of a tool's definition, N the
calls of a session and W the tokens that a call reads, a definition in front costs

    s * (w + r * (N - 1))

and one that waits, which a session uses with the chance p,

    p * (r * W + 5 * q + (q + s) * (w + r * N / 2)),    q = 140

which is one more request, whose q tokens are written and read, and the definition behind the prefix
for the calls that are left. N, W and p are those of the user's own sessions.

A decision holds for the session and for what goes on from it: a list of tools that changes is
written anew, with all that stands behind it.
"""

from __future__ import annotations

import json
import re
import statistics
import threading
from collections import OrderedDict
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from windlass.public import (
    FamilyCounter,
    Prices,
    StoreError,
    UnreadableError,
    object_of,
    parse_recorded,
    prices_of,
    read_bytes,
)
from windlass_agents.agent_events import AgentPlace
from windlass_agents.hook_journal import HookJournal
from windlass_agents.tool_definitions import tokens_of_definition
from windlass_agents.tool_uses import SessionTools, known_sessions, read_sessions

IN_FRONT: Final = frozenset({"Bash", "Read", "Edit", "Write", "Grep", "Glob", "ToolSearch"})
"""Tools that never wait."""
_NEEDED: Final = frozenset({"StructuredOutput"})
"""Tools that the client asks for by itself: they do not wait either."""
_AGENTS: Final = frozenset({"Agent", "Task"})
"""The tool that begins subagents, by its names."""
SEARCH_TOKENS: Final = 140
"""Tokens that finding a tool takes: the call, and what comes back besides the definition."""
_OUTPUT: Final = 5.0
"""The price of an output token in fresh input tokens."""
_WEIGHT: Final = 4
"""Sessions that the expectation before any session weighs as much as."""
_EXPECTED: Final = 0.03
_EXPECTED_OF_NAMED: Final = 0.5
"""The chance that a session uses a tool that none did; one that the project's settings name."""
_USUAL_CALLS: Final = 40
_USUAL_TOKENS: Final = 60_000
_LAST: Final = 3
"""Sessions of the project, the newest: what one of them used stays in front."""
_MOST_BYTES: Final = 1 << 22
_MOST_SESSIONS: Final = 24
_BEGUN: Final = "the session began with it in front, and would be written anew"
_SETTINGS: Final = (".claude/settings.json", ".claude/settings.local.json")
_RULE: Final = re.compile(r"([\w-]+(?:\*)?)")
_MODEL: Final = "anthropic/claude-opus-4-6"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolDecision:
    """Whether a tool waits, and why, in one sentence."""

    tool: str
    deferred: bool
    reason: str
    tokens: int = 0
    """Tokens of its definition."""

    def as_json(self) -> dict[str, Any]:
        """Return what the mod is answered."""
        return asdict(self)


def decide(
    tool: str,
    tokens: int,
    sessions: Sequence[SessionTools],
    *,
    project: str,
    named: Collection[str] = (),
    prices: Prices | None = None,
) -> ToolDecision:
    """Return whether a tool waits in a new session.

    Args:
        tool: Its name.
        tokens: Tokens of its definition.
        sessions: The user's sessions before, the oldest first.
        project: The folder of the session.
        named: The tools that the project's settings name; `mcp__server*` names all of a server.
        prices: What the model's cache charges (None: those of a usual model).
    """
    is_named = any(_names(rule, tool) for rule in named)
    here = [one for one in sessions if one.project == project][-_LAST:]
    stays = partial(ToolDecision, tool=tool, deferred=False, tokens=tokens)
    if tool in IN_FRONT or tool in _NEEDED:
        return stays(reason="it is always needed")
    if any(_uses(one, tool) for one in here):
        return stays(reason=f"one of the last {_LAST} sessions of this project used it")
    if not sessions and (is_named or tool in _AGENTS):
        which = "the project's settings name it" if is_named else "it begins subagents"
        return stays(reason=f"no session is known, and {which}")
    if not sessions:
        reason = "no session is known, and few use it"
        return ToolDecision(tool=tool, deferred=True, reason=reason, tokens=tokens)
    users = sum(_uses(one, tool) for one in sessions)
    expected = _EXPECTED_OF_NAMED if is_named or tool in _AGENTS else _EXPECTED
    chance = (users + _WEIGHT * expected) / (len(sessions) + _WEIGHT)
    front, waiting = costs(tokens, chance, sessions, prices or usual_prices(sessions))
    reason = (
        f"{users} of {len(sessions)} sessions used it: waiting costs {waiting:,.0f} tokens a"
        f" session, in front {front:,.0f}"
    )
    return ToolDecision(tool=tool, deferred=waiting < front, reason=reason, tokens=tokens)


def costs(
    tokens: int, chance: float, sessions: Sequence[SessionTools], prices: Prices
) -> tuple[float, float]:
    """Return what a definition costs a session in front, and what it costs behind the search.

    Both are in fresh input tokens; `chance` is that of a session that uses the tool.
    """
    calls = statistics.fmean([one.calls for one in sessions] or [_USUAL_CALLS])
    window = statistics.fmean([one.tokens for one in sessions] or [_USUAL_TOKENS])
    front = tokens * (prices.write + prices.read * (calls - 1))
    later = (SEARCH_TOKENS + tokens) * (prices.write + prices.read * calls / 2)
    return front, chance * (prices.read * window + _OUTPUT * SEARCH_TOKENS + later)


def usual_prices(sessions: Sequence[SessionTools], model: str | None = None) -> Prices:
    """Return the prices of a model (None: the last session's), by the writes of most sessions."""
    name = model or next((one.model for one in reversed(sessions) if one.model), _MODEL)
    prices = prices_of(name, warn=lambda _: None)
    if not prices.caches:
        prices = prices_of(_MODEL, warn=lambda _: None)
    is_long = 2 * sum(one.long for one in sessions) > len(sessions)
    if is_long and prices.write_long is not None:
        return Prices(prices.read, prices.write_long, prices.minimum, prices.step, prices.ttl_s)
    return prices


def _uses(session: SessionTools, tool: str) -> bool:
    names = _AGENTS if tool in _AGENTS else (tool,)
    return any(name in session.tools for name in names)


def _names(rule: str, tool: str) -> bool:
    if rule.endswith("*"):
        return tool.startswith(rule[:-1])
    return tool == rule or tool.startswith(f"{rule}__")


def tools_named(project: Path) -> frozenset[str]:
    """Return the tools that a project's settings name where they allow or ask for some."""
    named: set[str] = set()
    for file in _SETTINGS:
        with suppress(UnreadableError, ValueError, OSError):
            told = object_of(parse_recorded(read_bytes(project / file, _MOST_BYTES)))
            rules = object_of(told.get("permissions"))
            for kind in ("allow", "ask"):
                listed = rules.get(kind)
                for rule in listed if isinstance(listed, list) else ():
                    match = _RULE.match(rule) if isinstance(rule, str) else None
                    named.update([match[1]] if match else ())
    return frozenset(named)


@dataclass(slots=True)
class _Session:
    """The decisions of a session, by tool."""

    made: dict[str, ToolDecision]
    begun: bool
    """Whether it made calls before anything was decided, with all tools as the client has them."""


class ToolDoor:
    """Decides on the tools of sessions as a client describes them one by one.

    Args:
        own_folder: The user's own folder, in which what sessions used is kept (None: where it
            usually is).
    """

    def __init__(self, own_folder: Path | None = None) -> None:
        self._own = own_folder
        self._guard = threading.Lock()
        self._sessions: OrderedDict[tuple[str, str, str], _Session] = OrderedDict()

    def decide(
        self, tool: str, definition: str | int, place: AgentPlace, store: Path
    ) -> ToolDecision:
        """Return whether a tool waits in the session at a place, and keep that.

        `definition` is its text, or the tokens of it. Where it cannot be kept the tool stays in
        front: another answer next time would write all anew.
        """
        with self._guard:
            session = self._session(place, store)
            if tool not in session.made:
                tokens = definition
                if isinstance(tokens, str):
                    counted = FamilyCounter(place.model or _MODEL).text(tokens)
                    tokens = tokens_of_definition(tool, counted)
                decision = ToolDecision(tool=tool, deferred=False, reason=_BEGUN, tokens=tokens)
                if not session.begun:
                    sessions = known_sessions(self._own)
                    named, prices = tools_named(place.folder), usual_prices(sessions, place.model)
                    decision = decide(
                        tool,
                        tokens,
                        sessions,
                        project=str(place.folder),
                        named=named,
                        prices=prices,
                    )
                session.made[tool] = _kept(decision, place, store)
            return session.made[tool]

    def learn(self) -> int:
        """Read what changed in the user's transcripts, for the next sessions; how many were read.

        It takes a second where all are new, so nobody should wait for it. Raises OSError.
        """
        return read_sessions(self._own)

    def waiting(self, place: AgentPlace, store: Path) -> frozenset[str]:
        """Return the tools that wait in the session at a place, as far as was decided."""
        with self._guard:
            made = self._session(place, store).made
            return frozenset(name for name, one in made.items() if one.deferred)

    def _session(self, place: AgentPlace, store: Path) -> _Session:
        """Return a session, which may have its decisions from one that it goes on from."""
        key = str(store), place.agent, place.session
        session = self._sessions.pop(key, None)
        if session is None:
            made = decisions_of(store, place.agent, place.session)
            before = "" if made else _session_before(place)
            if before:
                told = decisions_of(store, place.agent, before).values()
                made = {one.tool: _kept(one, place, store) for one in told}
            is_late = not made and _has_begun(place.transcript)
            session = _Session(made, is_late or any(one.reason == _BEGUN for one in made.values()))
        self._sessions[key] = session
        while len(self._sessions) > _MOST_SESSIONS:
            self._sessions.popitem(last=False)
        return session


def decisions_of(store: Path, agent: str, session: str) -> dict[str, ToolDecision]:
    """Return what was decided in a session, by tool; a line that cannot be read is left out."""
    made: dict[str, ToolDecision] = {}
    for told in HookJournal(store).tools(agent, session):
        with suppress(ValueError, TypeError, LookupError):
            decision = ToolDecision(
                tool=str(told["tool"]),
                deferred=told["deferred"] is True,
                reason=str(told["reason"]),
                tokens=int(told["tokens"]),
            )
            made.setdefault(decision.tool, decision)
    return made


def _kept(decision: ToolDecision, place: AgentPlace, store: Path) -> ToolDecision:
    try:
        HookJournal(store).note_tool(place.agent, place.session, asdict(decision))
    except (OSError, StoreError) as error:
        if decision.deferred:
            reason = f"it would wait, and the decision cannot be kept: {error}"
            return replace(decision, deferred=False, reason=reason)
    return decision


def _has_begun(transcript: Path | None) -> bool:
    """Return whether a session made calls before."""
    with suppress(OSError):
        if transcript is not None:
            with transcript.open("rb") as file:
                return any(b'"usage"' in line and b'"assistant"' in line for line in file)
    return False


def _session_before(place: AgentPlace) -> str:
    """Return the session that a transcript begins with, where that is another one."""
    with suppress(OSError):
        if place.transcript is not None:
            with place.transcript.open("rb") as file:
                for line in file:
                    with suppress(ValueError, RecursionError):
                        named = object_of(json.loads(line)).get("sessionId")
                        if isinstance(named, str) and named:
                            return "" if named == place.session else named
    return ""
