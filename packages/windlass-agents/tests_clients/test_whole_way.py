"""From an empty home to a report, in the commands that a user types."""

from __future__ import annotations

import json

import pytest

from tests_clients.coding_agents import CLAUDE, HOOK, Desk, asked
from tests_clients.model_server import LATEST, MODEL, Call
from tests_clients.plans import build_log
from tests_clients.sessions import broken_rules
from windlass.text.tokens import FamilyCounter

_, NEWEST = CLAUDE
WRITTEN = 5e-6
"""US dollars for a token that is written to the cache of this model for five minutes."""
COUNTER = FamilyCounter(f"anthropic/{MODEL}")
LOG: Call = ("Bash", {"command": build_log(400)})
BY_COMMAND: Call = ("Bash", {"command": f"windlass recall {LATEST} --lines 200:202"})
BY_SERVER: Call = ("mcp__windlass__recall", {"ref": LATEST, "grep": "unit_123[.]c"})


def test_a_hook_is_tried_installed_used_and_reported(desk: Desk) -> None:
    desk.model.plans = {"before": [[LOG], [("Bash", {"command": "ls"})]], "after": [[LOG]]}
    desk.claude(NEWEST, "plan:before")
    tried = desk.windlass("hook", "try")
    assert "on this session it would have" in tried
    installed = desk.windlass("hook", "install", "claude-code")
    assert "agent run claude-code" in installed
    session = desk.claude(NEWEST, "plan:after")
    [line] = desk.lines("claude-code", session)
    assert line.outcome == "shortened"
    status = json.loads(desk.windlass("hook", "status", "--json"))
    assert (status["taken"], status["not_taken"], status["untold"]) == (1, {}, 0)
    [hooked] = json.loads(desk.windlass("hook", "report", "--json"))["sessions"]
    assert (hooked["calls"], hooked["shortened"], hooked["fetched"]) == (2, 1, 0)
    call = json.loads(desk.windlass("show", hooked["session_id"], "--call", "2", "--json"))
    [short] = [seen for seen in call["seen"] if seen["original"]]
    before, after = (COUNTER.text(short[form]["content"]) for form in ("original", "message"))
    # Once: one call saw the result.
    assert hooked["saved"] == pytest.approx((before - after) * WRITTEN, rel=0.001)
    assert hooked["dollars"] > 0
    assert hooked["session_id"] in desk.windlass("sessions")
    assert "EDITED" in desk.windlass("show", hooked["session_id"], "--call", "2")
    assert "everything" in desk.windlass("replay", hooked["session_id"])
    desk.windlass("hook", "uninstall", "claude-code")
    assert not list(desk.project.glob(".claude/settings*.json"))
    again = desk.claude(NEWEST, "plan:after")
    assert desk.lines("claude-code", again) == []


def test_the_first_result_after_an_installation_is_shortened(desk: Desk) -> None:
    desk.model.plans = {"first": [[LOG]]}
    desk.state = desk.home / "state"  # where nothing runs
    desk.variables["WINDLASS_HOOK_IDLE_S"] = "5"
    desk.windlass("hook", "install", "claude-code")
    session = desk.claude(NEWEST, "plan:first")
    assert [line.outcome for line in desk.lines("claude-code", session)] == ["shortened"]
    (desk.project / ".claude" / "settings.local.json").unlink()
    desk.state = desk.home / "another"
    desk.set_hooks(HOOK)  # and without one, when a session starts
    session = desk.claude(NEWEST, "plan:first")
    assert [line.outcome for line in desk.lines("claude-code", session)] == ["shortened"]


def test_a_model_gets_an_original_back_by_command_and_by_mcp(desk: Desk) -> None:
    desk.model.plans = {"fetch": [[LOG], [BY_COMMAND], [BY_SERVER]]}
    desk.windlass("hook", "install", "claude-code", "--mcp")
    servers = (desk.project / ".mcp.json").read_text(encoding="utf-8")
    session = desk.claude(NEWEST, "plan:fetch", "--mcp-config", servers)
    steps = asked(desk.exchanges, session)
    assert list(broken_rules(steps)) == []
    log, by_command, by_server = steps[-1].results.values()
    assert "unit_123.c" not in log.partition("Also in it")[0]
    assert by_command.count("Compiling") == 3
    assert "[ 200/400] Compiling unit_200.c" in by_command
    assert "123: [ 123/400] Compiling unit_123.c" in by_server
    assert [line.because for line in desk.lines("claude-code", session)][1:] == ["recall"] * 2
    [hooked] = json.loads(desk.windlass("hook", "report", "--json"))["sessions"]
    assert hooked["fetched"] == 2
