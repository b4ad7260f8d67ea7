"""What else happens to the plugin in opencode: subagents, and trouble."""

from __future__ import annotations

import json

import pytest

from tests_apart.clients.coding_agents import OPENCODE_BINARY, Desk, asked, plugin_text
from tests_apart.clients.many_lines import records
from tests_apart.clients.model_server import Call
from tests_apart.clients.sessions import assert_kept_apart, broken_rules

pytestmark = pytest.mark.skipif(
    not OPENCODE_BINARY.exists(), reason="opencode is pinned for Linux on x86-64 alone"
)
RECORDS: Call = ("table_records", {"count": 300})
COMMAND = '["windlass", "hook", "run", "opencode"]'


def test_two_subagents_and_their_parent_are_kept_apart(desk: Desk) -> None:
    agents = [
        ("task", {"description": name, "prompt": f"plan:{name}", "subagent_type": "general"})
        for name in ("left", "right")
    ]
    work = [[RECORDS], [RECORDS]]
    desk.model.plans = {"main": [agents, *work], "left": work, "right": work}
    session = desk.opencode("plan:main", plugin_text())
    threads = assert_kept_apart(desk.exchanges, desk.lines("opencode", session))
    assert threads["main"] == ""
    for step in desk.exchanges:
        assert step.thread[0] == (threads[step.plans[0]] or session)


@pytest.mark.parametrize(
    "command",
    [["no-such-program"], ["sleep", "20"]],
    ids=" ".join,
)
def test_a_command_that_fails_changes_nothing(desk: Desk, command: list[str]) -> None:
    desk.model.plans = {"short": [[RECORDS]]}
    plugin = plugin_text()
    assert COMMAND in plugin
    session = desk.opencode("plan:short", plugin.replace(COMMAND, json.dumps(command)))
    steps = asked(desk.exchanges, session)
    assert list(steps[-1].results.values()) == [records(300)]
    assert list(broken_rules(steps)) == []
