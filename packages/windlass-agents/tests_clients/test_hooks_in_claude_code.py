"""What else happens to a hook in Claude Code: subagents, going on, trouble, neighbours."""

from __future__ import annotations

import json
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests_clients.coding_agents import CLAUDE, HOOK, Desk, asked, session_of
from tests_clients.many_lines import records
from tests_clients.model_server import LATEST, Call, Exchange
from tests_clients.plans import build_log
from tests_clients.sessions import assert_kept_apart, broken_rules
from windlass_agents import client

OLDEST, NEWEST = CLAUDE
COUNT = 60
RECORDS: Call = ("mcp__table__records", {"count": COUNT})
KIND = "general-purpose"
"""A kind of subagent that asks the model of its parent."""


def last_results(steps: list[Exchange]) -> list[str]:
    return list(steps[-1].results.values())


def whole(desk: Desk, session: str) -> bool:
    """Whether the model saw the only result as the tool gave it."""
    return last_results(asked(desk.exchanges, session)) == [records(COUNT)]


def test_two_subagents_and_their_parent_are_kept_apart(desk: Desk, version: str) -> None:
    agents = [
        ("Agent", {"description": name, "prompt": f"plan:{name}", "subagent_type": KIND})
        for name in ("left", "right")
    ]
    work = [[RECORDS], [RECORDS]]
    desk.model.plans = {"main": [agents, *work], "left": work, "right": work}
    desk.set_hooks(HOOK)
    if version == OLDEST:  # it does not know that later models take none
        desk.model.forgiven = "temperature"
    session = desk.claude(version, "plan:main")
    threads = assert_kept_apart(desk.exchanges, desk.lines("claude-code", session))
    assert threads["main"] == ""
    assert threads["left"] != threads["right"]
    assert len(desk.recall_all()) >= 3
    for step in desk.exchanges:
        # The oldest version does not tell the provider which subagent asks.
        assert step.thread in {(session, threads[step.plans[0]]), (session, "")}


def test_a_session_that_goes_on_refers_to_what_it_saw(desk: Desk, version: str) -> None:
    desk.model.plans = {"first": [[RECORDS]], "second": [[RECORDS]]}
    desk.set_hooks(HOOK)
    session = desk.claude(version, "plan:first")
    assert desk.claude(version, "plan:second", "--continue") == session
    steps = asked(desk.exchanges, session)
    assert len(steps) == 4
    assert list(broken_rules(steps)) == []
    first, second = last_results(steps)
    assert "Quito" in first
    assert "Quito" not in second
    reasons = [line.because for line in desk.lines("claude-code", session)]
    assert reasons == ["encode", "repeat"]


def test_a_repeat_is_recalled_and_recognised_in_a_session_that_goes_on_and_in_a_fork(
    desk: Desk, version: str
) -> None:
    listed = ("Bash", {"command": "head -60 src/mail.py"})
    short, stored = (("Bash", {"command": build_log(lines)}) for lines in (400, 2_000))
    fetch = ("Bash", {"command": f"windlass recall {LATEST}"})
    desk.model.plans = {
        "first": [[short], [stored], [listed], [listed], [fetch]],
        "again": [[listed], [short], [stored]],
    }
    desk.set_hooks(HOOK)
    session = desk.claude(version, "plan:first")
    _, by_client, first, second, back = last_results(asked(desk.exchanges, session))
    assert by_client.startswith("<persisted-output>")
    assert second.startswith("[Same as Bash head -60 src/mail.py, result_")
    assert back.partition("\n\n<system-reminder>")[0] == first
    for options in (("--continue",), ("--resume", session, "--fork-session")):
        desk.claude(version, "plan:again", *options)
        for text in last_results(desk.exchanges)[-3:]:
            assert text.startswith("[Same as Bash ")
    assert len(desk.recall_all()) >= 3
    assert list(broken_rules(asked(desk.exchanges, session))) == []


def test_a_session_in_a_working_tree_leaves_its_originals(desk: Desk) -> None:
    listed = ("Bash", {"command": "head -60 src/mail.py"})
    desk.model.plans = {"same": [[listed], [listed]]}
    desk.set_hooks(HOOK)
    linked = desk.home / "linked"
    desk.git("worktree", "add", "-q", str(linked))
    main, desk.project = desk.project, linked
    session = desk.claude(NEWEST, "plan:same")
    first, second = last_results(asked(desk.exchanges, session))
    assert second.startswith("[Same as Bash ")
    assert set(desk.recall_all().values()) == {first}
    desk.project = main
    desk.git("worktree", "remove", "--force", str(linked))
    assert set(desk.recall_all().values()) == {first}


def test_two_sessions_at_once_in_one_project(desk: Desk) -> None:
    desk.model.plans = {"same": [[RECORDS], [RECORDS]]}
    desk.set_hooks(HOOK)
    started = [desk.start_claude(NEWEST, "plan:same") for _ in range(2)]
    sessions = [session_of(agent) for agent in started]
    assert len(set(sessions)) == 2
    for session in sessions:
        steps = asked(desk.exchanges, session)
        assert list(broken_rules(steps)) == []
        assert steps[-1].results.keys() == {
            line.call_id for line in desk.lines("claude-code", session)
        }
        reasons = [line.because for line in desk.lines("claude-code", session)]
        assert reasons == ["encode", "repeat"]


@pytest.mark.parametrize(
    "command", ["exit 1", "echo junk", "echo '{\"hookSpecificOutput\": 3}'", "no-such-program"]
)
def test_a_hook_that_fails_changes_nothing(desk: Desk, command: str) -> None:
    desk.model.plans = {"short": [[RECORDS]]}
    desk.set_hooks(command)
    assert whole(desk, desk.claude(NEWEST, "plan:short"))


def test_a_slow_hook_is_not_waited_for(desk: Desk) -> None:
    desk.model.plans = {"short": [[RECORDS]]}
    desk.set_hooks("sleep 20", timeout=1)
    began = time.monotonic()
    assert whole(desk, desk.claude(NEWEST, "plan:short"))
    assert time.monotonic() - began < 20


@pytest.fixture
def silence(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file of failures, where the process that answers hooks takes events and is silent."""
    desk.state = desk.home / "state"
    monkeypatch.setenv("XDG_STATE_HOME", str(desk.state))
    folder = client.own_folder()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{client.address(folder)}.socket")
        listener.listen(64)
        yield Path(folder, client.FAILURES)


def test_a_process_that_does_not_answer_is_given_up_and_counted(desk: Desk, silence: Path) -> None:
    desk.model.plans = {"short": [[RECORDS]]}
    desk.set_hooks(HOOK, only="PostToolUse")
    assert whole(desk, desk.claude(NEWEST, "plan:short"))
    counted = silence.read_text(encoding="utf-8").splitlines()
    assert len(counted) == 1
    assert "claude-code" in counted[0]
    began = time.monotonic()
    answered = subprocess.run(
        HOOK.split(), input="{}", env=desk.environment(), capture_output=True, text=True, check=True
    )
    assert not answered.stdout
    assert client.WAIT_S <= time.monotonic() - began < client.WAIT_S + 2


def test_other_hooks_of_the_same_event_run_beside_it(desk: Desk) -> None:
    desk.model.plans = {"short": [[RECORDS]]}
    seen, of_user = desk.home / "seen.jsonl", desk.home / "of_user.jsonl"
    desk.set_hooks(f"cat >> {seen}; echo >> {seen}", HOOK, "echo a note")
    desk.set_hooks(f"cat >> {of_user}; echo >> {of_user}", folder=desk.home)
    session = desk.claude(NEWEST, "plan:short")
    (line,) = desk.lines("claude-code", session)
    assert line.because == "encode"
    for path in (seen, of_user):
        events = [
            json.loads(each) for each in path.read_text(encoding="utf-8").splitlines() if each
        ]
        (event,) = [one for one in events if one["hook_event_name"] == "PostToolUse"]
        # Each is told what the tool said, whatever the others answer.
        assert event["tool_response"][0]["text"] == records(COUNT)
    (shown,) = last_results(asked(desk.exchanges, session))
    assert shown.startswith("[JSON without quotes")
