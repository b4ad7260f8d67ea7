"""What else happens to the plugin in opencode: subagents, and trouble."""

from __future__ import annotations

import fcntl
import json
import re
import socket
import time
from pathlib import Path

import pytest

from tests_clients.coding_agents import LONGEST_S, OPENCODE_BINARY, Desk, asked
from tests_clients.conftest import NewDesk
from tests_clients.many_lines import records
from tests_clients.model_server import LATEST, Call
from tests_clients.plans import build_log
from tests_clients.sessions import assert_kept_apart, broken_rules

pytestmark = pytest.mark.skipif(
    not OPENCODE_BINARY.exists(), reason="opencode is pinned for Linux on x86-64 alone"
)
COUNT = 60
MOST_S = 8
"""Seconds for three results of which each may wait for 0.3."""
RECORDS: Call = ("table_records", {"count": COUNT})
COMMAND = re.compile(r"(?<=COMMAND = )\[.*\]")
SOCKET = re.compile(r'(?<=SOCKET = )".*?"')


@pytest.fixture
def desk(new_desk: NewDesk) -> Desk:
    """A home in which the plugin is installed."""
    made = new_desk()
    made.windlass("agent", "install", "opencode", "--user")
    return made


def replace(desk: Desk, what: re.Pattern[str], value: object) -> None:
    """Write something else into the plugin, in one place."""
    text, count = what.subn(json.dumps(value), desk.plugin.read_text("utf-8"))
    assert count == 1
    desk.plugin.write_text(text, "utf-8")


def test_two_subagents_and_their_parent_are_kept_apart(desk: Desk) -> None:
    agents = [
        ("task", {"description": name, "prompt": f"plan:{name}", "subagent_type": "general"})
        for name in ("left", "right")
    ]
    work = [[RECORDS], [RECORDS]]
    desk.model.plans = {"main": [agents, *work], "left": work, "right": work}
    session = desk.opencode("plan:main")
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
    session = desk.opencode("plan:first")
    whole, _, *listings = list(asked(desk.exchanges, session)[-1].results.values())[-4:]
    assert "[Same as bash head -60" in listings[0]
    expected = (desk.project / "src" / "mail.py").read_text().split("\n")[:60]
    assert listings[1].rstrip("\n").split("\n") == expected
    assert "windlass recall" in whole
    for options in (("--session", session), ("--session", session, "--fork")):
        desk.opencode("plan:again", *options)
        *_, second, third = desk.exchanges[-1].results.values()
        assert second.startswith("[Same as bash ")
        assert third.startswith("[Same as bash i=1;")
    assert all(desk.recall_all().values())


def test_a_result_takes_a_request_and_no_process(desk: Desk) -> None:
    desk.model.plans = {"short": [[RECORDS]]}
    replace(desk, COMMAND, ["no-such-program"])
    session = desk.opencode("plan:short")
    assert [line.outcome for line in desk.lines("opencode", session)] == ["shortened"]


def test_a_server_that_does_not_run_is_started(desk: Desk) -> None:
    desk.state = desk.home / "state"
    desk.variables["WINDLASS_HOOK_IDLE_S"] = "20"
    desk.windlass("agent", "install", "opencode", "--user")
    link = desk.state / "windlass" / "agent.socket"
    until = time.monotonic() + LONGEST_S
    while not link.exists():
        assert time.monotonic() < until
        time.sleep(0.1)
    server, _, _ = link.readlink().name.partition(".")
    link.readlink().unlink()  # then it ends
    while link.exists() or not _is_free(link.parent / f"{server}.lock"):
        assert time.monotonic() < until
        time.sleep(0.1)
    waited = bash(f"while [ ! -e {link} ]; do sleep 0.1; done; sleep 1")
    desk.model.plans = {"short": [[waited], [RECORDS]]}
    session = desk.opencode("plan:short")
    assert [line.outcome for line in desk.lines("opencode", session)][-1] == "shortened"


def _is_free(lock: Path) -> bool:
    """Whether no server has a lock."""
    with lock.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
    return True


def test_a_silent_server_is_not_waited_for(desk: Desk) -> None:
    desk.model.plans = {"short": [[RECORDS]] * 3}
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(desk.home / "silent"))
        listener.listen(64)
        replace(desk, SOCKET, str(desk.home / "silent"))
        session = desk.opencode("plan:short")
    steps = asked(desk.exchanges, session)
    assert list(steps[-1].results.values()) == [records(COUNT)] * 3
    assert steps[-1].time - steps[0].time < MOST_S


@pytest.mark.parametrize(
    "command",
    [["no-such-program"], ["sleep", "20"]],
    ids=" ".join,
)
def test_where_there_are_no_sockets_a_command_that_fails_changes_nothing(
    desk: Desk, command: list[str]
) -> None:
    desk.model.plans = {"short": [[RECORDS]]}
    replace(desk, SOCKET, "")
    replace(desk, COMMAND, command)
    session = desk.opencode("plan:short")
    steps = asked(desk.exchanges, session)
    assert list(steps[-1].results.values()) == [records(COUNT)]
    assert list(broken_rules(steps)) == []


def test_where_there_are_no_sockets_the_command_is_run(desk: Desk) -> None:
    desk.model.plans = {"short": [[RECORDS]]}
    replace(desk, SOCKET, "")
    session = desk.opencode("plan:short")
    assert [line.outcome for line in desk.lines("opencode", session)] == ["shortened"]
