"""Whole sessions of 25 answers, with the hook and without, and what is to be known of each."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tests_clients.coding_agents import HOOK, Desk, Noted, asked
from tests_clients.model_server import Exchange, Usage, blocks
from tests_clients.plans import claude_plan, codex_plan, opencode_plan, work_plans
from windlass.caching.rates import cost
from windlass_agents.agent_events import Door

TURNS = 25


@dataclass(frozen=True)
class Session:
    """A session that ended."""

    desk: Desk
    name: str
    steps: list[Exchange]
    lines: Mapping[str, Noted]
    """What the hook noted, by the id of the call."""

    @property
    def calls(self) -> list[Mapping[str, Any]]:
        """The calls in order."""
        made = (block for step in self.steps for block in step.answer)
        return [block for block in made if block["type"] == "tool_use"]

    @property
    def results(self) -> list[str]:
        """What the model sees of the result of each call in the end, the home left out."""
        seen = self.steps[-1].results
        return [seen[call["id"]].replace(str(self.desk.home), "HOME") for call in self.calls]

    @property
    def usage(self) -> Usage:
        """The tokens of all steps."""
        each = [vars(step.usage) for step in self.steps]
        return Usage(**{name: sum(one[name] for one in each) for name in each[0]})

    @property
    def dollars(self) -> float:
        """The bill, by the prices of Windlass."""
        return sum(dollars_of(step.usage, step.body["model"]) for step in self.steps)


def dollars_of(usage: Usage, model: str) -> float:
    read, written = usage.cache_read_input_tokens, usage.cache_creation_input_tokens
    tokens = read + written + usage.input_tokens
    vendor = "openai" if model.startswith("gpt-") else "anthropic"
    dollars = cost(f"{vendor}/{model}", tokens, usage.output_tokens, read, written)
    assert dollars is not None
    return dollars


def _session(desk: Desk, agent: str, name: str) -> Session:
    lines = {line.call_id: line for line in desk.lines(agent, name)}
    return Session(desk, name, asked(desk.exchanges, name), lines)


def claude_session(desk: Desk, version: str, door: Door | None = None) -> Session:
    """25 answers in Claude Code, with one of our doors or without."""
    desk.model.plans = {"long": claude_plan(desk.project)}
    if door == "hook":
        desk.set_hooks(HOOK)
    options = desk.mod_options() if door == "mod" else ()
    return _session(desk, "claude-code", desk.claude(version, "plan:long", *options))


PAUSE_S = 285.0
"""Seconds by which the server's clock is ahead where a pause is to end soon: what is cached for
five minutes is gone 20 seconds after the last call."""


@dataclass(frozen=True)
class Work:
    """25 answers of Claude Code with a subagent, as the scripted model counted them."""

    desk: Desk
    session: str
    statuses: list[str]

    @property
    def exchanges(self) -> list[Exchange]:
        """All requests of the session, those of its subagent and for a title included."""
        return [one for one in self.desk.model.exchanges if one.thread[0] == self.session]

    @property
    def dollars(self) -> float:
        """The bill, by the prices of Windlass."""
        return sum(dollars_of(one.usage, one.body["model"]) for one in self.exchanges)


def work_session(desk: Desk, version: str, door: Door | None, *, pause: bool = False) -> Work:
    """25 answers, in one go or with a pause after 15, in which all that is cached is lost."""
    desk.model.plans = work_plans(desk.project)
    desk.variables["ENABLE_TOOL_SEARCH"] = "true"
    if door == "hook":
        desk.set_hooks(HOOK)
    with desk.talk(version, *(desk.mod_options() if door == "mod" else ())) as talk:
        talk.say("plan:first" if pause else "plan:all")
        if pause:
            desk.model.forget()
            talk.say("plan:rest")
    return Work(desk, talk.session, talk.statuses)


def codex_session(desk: Desk, *, hooked: bool) -> Session:
    """15 answers in Codex, with the hook that is installed and trusted, or without."""
    desk.model.plans = {"long": codex_plan()}
    if hooked:
        desk.windlass("agent", "install", "codex")
        desk.trust_in_codex()
    return _session(desk, "codex", desk.codex("plan:long"))


def opencode_session(desk: Desk, *, plugin: bool) -> Session:
    """25 answers in opencode."""
    desk.model.plans = {"long": opencode_plan(desk.project)}
    if plugin:
        desk.windlass("agent", "install", "opencode", "--user")
    return _session(desk, "opencode", desk.opencode("plan:long"))


@dataclass(frozen=True)
class Pair:
    """The same work without the hook and with it."""

    without: Session
    hooked: Session


def codex_pair(new_desk: Callable[[], Desk]) -> Pair:
    """Both sessions of Codex."""
    return Pair(*(codex_session(new_desk(), hooked=each) for each in (False, True)))


def pair_of(agent: str, new_desk: Callable[[], Desk]) -> Pair:
    """Both sessions of one of AGENTS."""
    name, _, version = agent.rpartition(" ")
    if name == "opencode":
        return Pair(*(opencode_session(new_desk(), plugin=each) for each in (False, True)))
    doors: tuple[Door | None, ...] = None, "hook"
    return Pair(*(claude_session(new_desk(), version, each) for each in doors))


def broken_rules(steps: list[Exchange]) -> Iterator[str]:
    """What a provider, its cache or its thinking would mind, in sentences."""
    for at, step in enumerate(steps):
        if step.refused:
            yield f"request {at}: {step.refused}"
        if step.dropped:
            yield f"request {at}: the model does not read the thinking at {step.dropped}"
    for at, (before, after) in enumerate(pairwise(steps)):
        if _in_front(before) != _in_front(after):
            yield f"request {at + 1}: other tools"
        if _said(before.body.get("system")) != _said(after.body.get("system")):
            yield f"request {at + 1}: other system"
        shared = len(before.said)
        for place, (one, other) in enumerate(zip(before.said, after.said[:shared], strict=True)):
            if _said(one) != _said(other):
                yield f"request {at + 1}: message {place} is not what it was"
    signed = [block for step in steps[:-1] for block in step.answer if block["type"] == "thinking"]
    if [one["signature"] for one in signed] != steps[-1].signatures:
        yield "thinking is missing"


def assert_kept_apart(steps: list[Exchange], lines: list[Noted]) -> dict[str, str]:
    """Three conversations each saw the same table twice, and none refers to what another saw.

    Returns the name of each thread, by the plan that it follows.
    """
    threads = {}
    for plan in ("main", "left", "right"):
        mine = [step for step in steps if step.plans[0] == plan]
        assert list(broken_rules(mine)) == [], plan
        results = mine[-1].results
        tables = [
            line for line in lines if line.call_id in results and line.tool.endswith("records")
        ]
        assert [line.because for line in tables] == ["encode", "repeat"], plan
        first, second = (results[line.call_id] for line in tables)
        assert "Quito" in first, plan
        assert "Quito" not in second, plan
        (threads[plan],) = {line.thread for line in tables}
    assert len(set(threads.values())) == len(threads)
    return threads


def _in_front(step: Exchange) -> str:
    """The tools of a request without those that wait, which stand nowhere before they are found."""
    return _said([tool for tool in step.body.get("tools") or () if not tool.get("defer_loading")])


def _said(value: Any) -> str:
    """A value without its cache marks, and a text as its block."""
    if isinstance(value, dict) and "type" not in value and "content" in value:
        value = {**value, "content": blocks(value["content"])}
    if isinstance(value, list):
        value = blocks(value)
    return json.dumps(value, sort_keys=True)
