"""25 answers with long results in each agent, with the hook and without."""

from __future__ import annotations

import hashlib
import re
import subprocess
from collections.abc import Mapping
from typing import Any

import pytest

from tests_clients import many_lines
from tests_clients.coding_agents import AGENTS, is_installed
from tests_clients.conftest import PAIRS, NewDesk
from tests_clients.sessions import TURNS, Pair, Session, broken_rules, pair_of

LEAST_SAVED = 0.25
"""The share of the bill that the hook must save in these sessions."""

_ADDED = re.compile(r"\n\n(\[Showing results with pagination|<system-reminder>).*", re.DOTALL)
"""What Claude Code puts behind a result."""
_NUMBERS = re.compile(r"^ *\d+\t", re.MULTILINE)
"""What Claude Code puts before each line of a file."""
MOST_HANDED_OVER = 50_000
"""Characters of which opencode hands a hook the end alone."""


@pytest.fixture(scope="module", params=AGENTS)
def pair(request: pytest.FixtureRequest, new_desk: NewDesk) -> Pair:
    agent = str(request.param)
    if not is_installed(agent):
        pytest.skip("opencode is pinned for Linux on x86-64 alone")
    made = pair_of(agent, new_desk)
    request.config.stash.setdefault(PAIRS, []).append((agent, made))
    return made


def test_no_provider_minds_any_request(pair: Pair) -> None:
    for session in (pair.without, pair.hooked):
        assert len(session.steps) == TURNS + 1
        assert list(broken_rules(session.steps)) == []


def test_the_model_is_sent_what_the_hook_noted(pair: Pair) -> None:
    hooked = pair.hooked
    sent = hooked.steps[-1].results
    shortened = {name: one for name, one in hooked.lines.items() if one.outcome == "shortened"}
    for name, line in shortened.items():
        shown = _ADDED.sub("", sent[name])
        if line.tool == "Read":
            shown = _NUMBERS.sub("", shown)
        assert hashlib.sha256(shown.encode()).hexdigest() == line.shown
        assert line.tokens_after < line.tokens_before
    tools = {line.tool.lower() for line in shortened.values()}
    assert "bash" in tools
    assert tools & {"mcp__table__records", "table_records"}
    assert {line.because for line in shortened.values()} >= {"compress", "repeat"}
    for call, before, after in zip(hooked.calls, pair.without.results, hooked.results, strict=True):
        if call["id"] in shortened:
            assert len(after) < len(before) / 2
        else:
            assert _same_every_time(after) == _same_every_time(before)


def test_each_result_is_noted_once_and_failed_ones_are_left(pair: Pair) -> None:
    hooked = pair.hooked
    outcomes = [(call, hooked.lines[call["id"]].outcome) for call in hooked.calls]
    assert len(hooked.lines) == len(outcomes)
    for call, outcome in outcomes:
        if "exit 1" in call["input"].get("command", ""):
            assert outcome == "failed result"
        assert outcome not in ("error", "held out")


def test_originals_are_within_reach(pair: Pair) -> None:
    hooked, reached = pair.hooked, 0
    for call in hooked.calls:
        line = hooked.lines[call["id"]]
        expected = _output(hooked, call)
        if line.original and expected is not None and len(expected) < MOST_HANDED_OVER:
            assert hooked.desk.recall(line.original).strip() == expected.strip()
            reached += 1
    assert reached >= 4


def test_the_model_is_told_how_to_reach_an_original(pair: Pair) -> None:
    hooked = pair.hooked
    sent = hooked.steps[-1].results
    compressed = [line for line in hooked.lines.values() if line.because == "compress"]
    assert compressed
    for line in compressed:
        command = re.search(r"windlass recall (\w+)", sent[line.call_id])
        assert command is not None
        assert hooked.desk.recall(command[1]) == hooked.desk.recall(line.original)


def test_every_reference_that_was_shown_is_recalled(pair: Pair) -> None:
    desk = pair.hooked.desk
    at_once = desk.recall_all()
    assert len(at_once) >= 4
    assert all(at_once.values())
    desk.windlass("hook", "report")  # the session is in the store now
    assert desk.recall_all() == at_once
    assert desk.recall_all(desk.project / "src") == at_once
    desk.git("worktree", "add", "-q", str(desk.home / "linked"))
    assert desk.recall_all(desk.home / "linked") == at_once


def test_the_bill_is_lower(pair: Pair) -> None:
    assert pair.hooked.dollars < (1 - LEAST_SAVED) * pair.without.dollars


def _output(session: Session, call: Mapping[str, Any]) -> str | None:
    """What a tool says, found without the agent (None: only the agent can say it)."""
    if "count" in call["input"]:
        return many_lines.records(call["input"]["count"])
    command = call["input"].get("command")
    if command is None:
        return None
    ran = subprocess.run(
        ["bash", "-c", command],
        cwd=session.desk.project,
        capture_output=True,
        text=True,
        check=False,
    )
    return ran.stdout


def _same_every_time(text: str) -> str:
    """A result without the names that an agent gives to files of its own."""
    return re.sub(r"HOME/(?!project/)\S+", "FILE", text)
