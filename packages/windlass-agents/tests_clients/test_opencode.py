"""What else happens to the plugin in opencode: subagents, and trouble."""

from __future__ import annotations

import json

import pytest

from tests_clients.coding_agents import OPENCODE_BINARY, Desk, asked, plugin_text
from tests_clients.many_lines import records
from tests_clients.model_server import LATEST, Call
from tests_clients.plans import build_log
from tests_clients.sessions import assert_kept_apart, broken_rules

pytestmark = pytest.mark.skipif(
    not OPENCODE_BINARY.exists(), reason="opencode is pinned for Linux on x86-64 alone"
)
COUNT = 60
RECORDS: Call = ("table_records", {"count": COUNT})
COMMAND = '["windlass", "agent", "run", "opencode"]'


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
    assert len(desk.recall_all()) >= 3
    for step in desk.exchanges:
        assert step.thread[0] == (threads[step.plans[0]] or session)


def bash(command: str) -> Call:
    return "bash", {"command": command, "description": "a step"}


def test_a_repeat_is_recalled_and_recognised_in_a_session_that_goes_on_and_in_a_fork(
    desk: Desk,
) -> None:
    listed, log = bash("head -60 src/mail.py"), bash(build_log(400))
    fetch = bash(f"windlass recall {LATEST}")
    desk.model.plans = {"first": [[log], [listed], [listed], [fetch]], "again": [[listed], [log]]}
    session = desk.opencode("plan:first", plugin_text())
    whole, _, *listings = list(asked(desk.exchanges, session)[-1].results.values())[-4:]
    assert "[Same as bash head -60" in listings[0]
    expected = (desk.project / "src" / "mail.py").read_text().split("\n")[:60]
    assert listings[1].rstrip("\n").split("\n") == expected
    assert "windlass recall" in whole
    for options in (("--session", session), ("--session", session, "--fork")):
        desk.opencode("plan:again", plugin_text(), *options)
        *_, second, third = desk.exchanges[-1].results.values()
        assert second.startswith("[Same as bash ")
        assert third.startswith("[Same as bash i=1;")
    assert all(desk.recall_all().values())


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
    assert list(steps[-1].results.values()) == [records(COUNT)]
    assert list(broken_rules(steps)) == []
