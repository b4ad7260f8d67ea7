"""The mod in Claude Code: what the model is sent, the transcript, trouble, and the bill."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from pathlib import Path

import pytest

from tests_clients.coding_agents import CLAUDE, HOOK, Desk, answering, asked, claude_binary
from tests_clients.conftest import PAIRS, NewDesk
from tests_clients.many_lines import records
from tests_clients.model_server import Call, Exchange, blocks
from tests_clients.plans import build_log
from tests_clients.sessions import Pair, broken_rules, claude_session
from windlass_agents import client

OLDEST, NEWEST = CLAUDE
"""The oldest has no mods: `--plugin-dir` loads the hook of the plugin alone."""
RECORDS: Call = ("mcp__table__records", {"count": 60})
KIND = "general-purpose"
LEAST_SAVED = 0.25


def results(exchange: Exchange) -> list[dict[str, object]]:
    """The blocks of results in a request, in order."""
    return [
        block
        for message in exchange.body["messages"]
        for block in blocks(message["content"])
        if block.get("type") == "tool_result"
    ]


def texts(exchange: Exchange) -> list[str]:
    return list(exchange.results.values())


def test_results_of_all_tools_are_shortened_in_the_request(desk: Desk) -> None:
    listing = desk.project / "build.txt"
    line = "2026-01-01 12:00 INFO worker-{0} served /api/users/{0} in {0} ms"
    listed = [line.format(at) for at in range(900)]
    listing.write_text("\n".join(listed), "utf-8")
    tests = "sh run_tests.sh | head -500"
    bash: Call = ("Bash", {"command": tests})
    failed_bash: Call = ("Bash", {"command": f"{tests}; exit 1"})
    agent: Call = ("Agent", {"description": "left", "prompt": "plan:left", "subagent_type": KIND})
    read: Call = ("Read", {"file_path": str(listing)})
    desk.model.plans = {
        "main": [[bash], [failed_bash], [read], [RECORDS], [agent]],
        "left": [[("Bash", {"command": build_log(300)})]],
    }
    session = desk.claude(NEWEST, "plan:main", *desk.mod_options())
    steps = [one for one in asked(desk.exchanges, session) if one.plans[0] == "main"]
    assert list(broken_rules(steps)) == []
    passed, failed, file, table = results(steps[-1])[:4]
    assert len(str(passed["content"])) < 4_000
    assert not passed.get("is_error")
    assert failed["is_error"] is True
    assert len(str(failed["content"])) < 4_000
    assert str(failed["content"]).startswith("Exit code 1")
    assert "test_case_431 FAILED" in str(failed["content"])
    numbered = [one.split("\t") for one in str(file["content"]).split("\n") if "\t" in one]
    assert len(numbered) < len(listed) * 0.9
    assert all(listed[int(number) - 1] == text for number, text in numbered)
    assert "Quito" in str(table["content"])
    assert len(texts(steps[-1])[3]) < len(records(60)) / 2
    (inner,) = [one for one in desk.exchanges if one.plans[0] == "left"][-1].results.values()
    assert "recall result_" in inner
    lines = desk.lines("claude-code", session)
    # No search for tools is offered here, so none waits, and nothing is said to be saved by that.
    assert not list(desk.project.rglob("*.tools.jsonl"))
    shortened = [line.tool for line in lines if line.outcome == "shortened"]
    assert sorted(shortened) == ["Bash", "Bash", "Bash", "Read", "mcp__table__records"]
    assert all(desk.recall_all().values())


def test_what_was_shortened_is_sent_so_when_the_session_goes_on_without_the_mod(
    desk: Desk,
) -> None:
    read = ("Read", {"file_path": str(desk.project / "src" / "mail.py")})
    desk.model.plans = {"first": [[RECORDS], [read], [read]], "second": []}
    session = desk.claude(NEWEST, "plan:first", *desk.mod_options())
    first = asked(desk.exchanges, session)[-1]
    desk.claude(NEWEST, "plan:second", "--resume", session)
    second = asked(desk.exchanges, session)[-1]
    assert texts(first)[2].startswith("[Same as Read")
    assert results(second) == results(first)
    assert list(broken_rules(asked(desk.exchanges, session))) == []


def test_a_session_that_goes_on_refers_to_what_it_saw(desk: Desk) -> None:
    desk.model.plans = {"first": [[RECORDS]], "second": [[RECORDS]]}
    options = desk.mod_options()
    session = desk.claude(NEWEST, "plan:first", *options)
    desk.claude(NEWEST, "plan:second", "--continue", *options)
    first, second = texts(asked(desk.exchanges, session)[-1])
    assert "Quito" in first
    assert "Quito" not in second
    assert set(desk.recall_all().values()) == {records(60)}


def test_a_hook_beside_the_mod_leaves_results_alone(desk: Desk) -> None:
    desk.model.plans = {"short": [[RECORDS], [RECORDS]]}
    desk.set_hooks(HOOK)
    session = desk.claude(NEWEST, "plan:short", *desk.mod_options())
    assert [line.because for line in desk.lines("claude-code", session)] == ["encode", "repeat"]
    assert list(broken_rules(asked(desk.exchanges, session))) == []


def test_without_a_server_nothing_changes(desk: Desk) -> None:
    desk.model.plans = {"short": [[RECORDS]]}
    name, folder = desk.mod_options()
    main = Path(folder) / "hooks" / "main.js"
    main.write_text(main.read_text("utf-8").replace("agent.socket", "nobody.socket"), "utf-8")
    session = desk.claude(NEWEST, "plan:short", name, folder)
    assert texts(asked(desk.exchanges, session)[-1]) == [records(60)]


def test_a_silent_server_is_not_waited_for(desk: Desk) -> None:
    desk.state = desk.home / "state"
    desk.model.plans = {"short": [[RECORDS]] * 3}
    own = desk.state / "windlass"
    own.mkdir(parents=True, mode=0o700)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(client.mod_socket(str(own)))
        listener.listen(64)
        name, folder = desk.mod_options()
        hooks = Path(folder) / "hooks"
        (hooks / "hooks.json").write_text('{"modules": ["./main.js"]}', "utf-8")
        main = (hooks / "main.js").read_text("utf-8")
        (hooks / "main.js").write_text(main.replace("WAIT_MS = 5_000", "WAIT_MS = 300"), "utf-8")
        began = time.monotonic()
        session = desk.claude(NEWEST, "plan:short", name, folder)
    assert texts(asked(desk.exchanges, session)[-1]) == [records(60)] * 3
    asked_at = [one.time - began for one in desk.exchanges]
    assert asked_at[-1] - asked_at[0] < 10


def test_nothing_is_lost_when_the_server_dies_in_the_middle(desk: Desk) -> None:
    desk.state = desk.home / "state"
    desk.state.mkdir()
    with answering(desk.state) as server:
        kill: Call = ("Bash", {"command": f"kill -9 {server.pid}"})
        desk.model.plans = {"first": [[RECORDS], [kill], [RECORDS]], "second": [[RECORDS]]}
        options = desk.mod_options()
        session = desk.claude(NEWEST, "plan:first", *options)
    first = texts(asked(desk.exchanges, session)[-1])
    assert len(first[0]) < len(records(60)) / 2
    assert first[2] == records(60)
    desk.variables["WINDLASS_HOOK_IDLE_S"] = "5"
    desk.claude(NEWEST, "plan:second", "--resume", session, *options)  # which starts another one
    steps = asked(desk.exchanges, session)
    assert list(broken_rules(steps)) == []
    assert len(texts(steps[-1])[3]) < 200
    assert all(desk.recall_all().values())


def test_the_folder_passes_the_own_check_of_the_client(desk: Desk) -> None:
    _, folder = desk.mod_options()
    for path in (folder, str(Path(folder).parent)):
        checked = subprocess.run(
            [str(claude_binary(NEWEST)), "plugin", "validate", path],
            env=desk.environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert checked.returncode == 0, checked.stdout
        assert "Validation passed" in checked.stdout
        assert "session.append{door=tool-result}" in checked.stdout


@pytest.fixture(scope="module")
def pairs(request: pytest.FixtureRequest, new_desk: NewDesk) -> dict[str, Pair]:
    """25 answers plain, with the hook and with the mod."""
    plain = claude_session(new_desk(), NEWEST)
    made = {
        "mod": Pair(plain, claude_session(new_desk(), NEWEST, "mod")),
        "hook": Pair(plain, claude_session(new_desk(), NEWEST, "hook")),
    }
    for door, pair in made.items():
        request.config.stash.setdefault(PAIRS, []).append((f"{NEWEST}, {door}", pair))
    return made


def test_the_bill_is_lower_than_with_the_hook(pairs: dict[str, Pair]) -> None:
    mod, hook = pairs["mod"], pairs["hook"]
    assert list(broken_rules(mod.hooked.steps)) == []
    assert mod.hooked.dollars < hook.hooked.dollars
    assert mod.hooked.dollars < (1 - LEAST_SAVED) * mod.without.dollars


def test_what_the_journal_says_is_what_the_model_was_sent(pairs: dict[str, Pair]) -> None:
    session = pairs["mod"].hooked
    told = json.loads(session.desk.windlass("agent", "status", "--json"))
    shortened = [one for one in session.lines.values() if one.outcome == "shortened"]
    assert told["taken"] == len(shortened)
    assert not told["not_taken"]
    assert all(session.desk.recall_all().values())


def test_the_mod_that_is_installed_is_loaded_and_gone_when_it_is_taken_away(desk: Desk) -> None:
    desk.model.plans = {"short": [[RECORDS]]}
    program = desk.home / "bin" / "claude"
    program.parent.mkdir()
    program.symlink_to(claude_binary(NEWEST))
    desk.variables["PATH"] = os.pathsep.join((str(program.parent), desk.environment()["PATH"]))
    for scope in ("--project", "--user"):
        desk.windlass("agent", "install", "claude-code", scope)
        session = desk.claude(NEWEST, "plan:short")
        assert [line.outcome for line in desk.lines("claude-code", session)] == ["shortened"]
        status = desk.windlass("agent", "status")
        assert f"claude-code ({NEWEST}): the mod is installed for this {scope[2:]}" in status
        desk.windlass("agent", "uninstall", "claude-code", scope)
        session = desk.claude(NEWEST, "plan:short")
        assert texts(asked(desk.exchanges, session)[-1]) == [records(60)]


def test_a_version_without_mods_gets_the_hook(desk: Desk) -> None:
    desk.model.plans = {"short": [[RECORDS]]}
    program = desk.home / "bin" / "claude"
    program.parent.mkdir()
    program.symlink_to(claude_binary(OLDEST))
    desk.variables["PATH"] = os.pathsep.join((str(program.parent), desk.environment()["PATH"]))
    desk.model.forgiven = "temperature"
    desk.windlass("agent", "install", "claude-code")
    session = desk.claude(OLDEST, "plan:short")
    assert [line.outcome for line in desk.lines("claude-code", session)] == ["shortened"]
    assert "it is the hook" in desk.windlass("agent", "status")
