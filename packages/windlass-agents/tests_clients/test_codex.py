"""The hook in Codex: its installation and trust, what the model is sent, and the bill."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests_clients.coding_agents import CODEX, CODEX_BINARY, WINDLASS, Desk, asked
from tests_clients.conftest import PAIRS, NewDesk
from tests_clients.many_lines import records
from tests_clients.model_server import LATEST, RUNNING, Call
from tests_clients.plans import build_log
from tests_clients.responses_model import SCRIPTING_MODEL, ResponsesServer
from tests_clients.sessions import Pair, broken_rules, codex_pair
from windlass_agents.hook_journal import text_hash

pytestmark = pytest.mark.skipif(
    not CODEX_BINARY.exists(), reason="Codex is pinned for Linux on x86-64 alone"
)
TURNS = 15
MOST_OF_PLAIN = 0.5
"""Of the bill without the hook."""
LONGEST = 40_000
"""Characters of which Codex shows a hook the beginning and the end alone."""


@pytest.fixture
def desk(new_desk: NewDesk) -> Desk:
    """A home in which the hook is installed and trusted."""
    made = new_desk(ResponsesServer)
    made.windlass("agent", "install", "codex")
    made.trust_in_codex()
    return made


def shell(command: str, **more: object) -> Call:
    return "exec_command", {"cmd": command, **more}


def texts(desk: Desk, session: str) -> list[str]:
    """What the model sees of all results in the end."""
    return list(asked(desk.exchanges, session)[-1].results.values())


# ---- 15 answers, plain and with the hook ----------------------------------------------


@pytest.fixture(scope="module")
def pair(request: pytest.FixtureRequest, new_desk: NewDesk) -> Pair:
    made = codex_pair(lambda: new_desk(ResponsesServer))
    request.config.stash.setdefault(PAIRS, []).append((f"Codex {CODEX}", made))
    return made


def test_no_provider_minds_any_request(pair: Pair) -> None:
    for session in (pair.without, pair.hooked):
        assert len(session.steps) == TURNS + 1
        assert list(broken_rules(session.steps)) == []


def test_the_model_is_sent_what_the_hook_noted(pair: Pair) -> None:
    sent = pair.hooked.steps[-1].results
    shortened = {name: one for name, one in pair.hooked.lines.items() if one.outcome == "shortened"}
    assert {one.because for one in shortened.values()} >= {"compress", "repeat"}
    for name, line in shortened.items():
        assert text_hash(sent[name]) == line.shown
        assert line.tokens_after < line.tokens_before
    for call, before, after in zip(
        pair.hooked.calls, pair.without.results, pair.hooked.results, strict=True
    ):
        failed = "exit 1" in call["input"].get("cmd", "")
        if call["id"] in shortened:
            assert len(after) < len(before) / 2
            assert after.startswith(f"Process exited with code {int(failed)}\nOutput:\n")
        else:
            assert after.partition("Output:")[2] == before.partition("Output:")[2]


def test_every_original_is_within_reach(pair: Pair) -> None:
    desk, reached = pair.hooked.desk, 0
    known = desk.recall_all()
    assert len(known) >= 5
    assert all(known.values())
    for call in pair.hooked.calls:
        line = pair.hooked.lines[call["id"]]
        if not line.original:
            continue
        command = ["bash", "-c", call["input"]["cmd"]]
        ran = subprocess.run(command, cwd=desk.project, capture_output=True, text=True, check=False)
        if len(ran.stdout) < LONGEST:
            assert desk.recall(line.original).rstrip("\n") == ran.stdout.rstrip("\n")
            reached += 1
    assert reached >= 2
    desk.windlass("agent", "report")  # the session is in the store now
    assert desk.recall_all() == known


def test_the_bill_is_lower_and_reported_as_it_is(pair: Pair) -> None:
    hooked = pair.hooked
    assert hooked.dollars < MOST_OF_PLAIN * pair.without.dollars
    status = json.loads(hooked.desk.windlass("agent", "status", "--json"))
    shortened = [one for one in hooked.lines.values() if one.outcome == "shortened"]
    assert (status["taken"], status["not_taken"]) == (len(shortened), {})
    [told] = json.loads(hooked.desk.windlass("agent", "report", "--json"))["sessions"]
    assert (told["calls"], told["shortened"]) == (TURNS + 1, len(shortened))
    assert told["dollars"] == pytest.approx(hooked.dollars, rel=0.03)
    assert told["dollars"] + told["saved"] == pytest.approx(pair.without.dollars, rel=0.1)
    assert told["session_id"] in hooked.desk.windlass("sessions")


# ---- trust, and sessions that go on ---------------------------------------------------


def test_a_hook_runs_when_it_is_trusted_and_not_before(new_desk: NewDesk) -> None:
    desk = new_desk(ResponsesServer)
    desk.model.plans = {"short": [[shell(build_log(400))]]}
    said = desk.windlass("agent", "install", "codex")
    assert "Trust all and continue" in said
    session = desk.codex("plan:short")
    assert desk.lines("codex", session) == []
    assert desk.trust_in_codex() == ["folder", "hooks"]
    session = desk.codex("plan:short")
    assert [line.outcome for line in desk.lines("codex", session)] == ["shortened"]
    desk.windlass("agent", "uninstall", "codex")
    session = desk.codex("plan:short")
    assert desk.lines("codex", session) == []


def test_a_session_that_goes_on_refers_to_what_it_saw(desk: Desk) -> None:
    listed, log = shell("head -90 src/mail.py"), shell(build_log(400))
    fetch = shell(f"{WINDLASS} recall {LATEST}")
    desk.model.plans = {"first": [[log], [listed], [listed], [fetch]], "again": [[listed], [log]]}
    session = desk.codex("plan:first")
    assert desk.codex("plan:again", "resume", session) == session
    assert list(broken_rules(asked(desk.exchanges, session))) == []
    cut, first, second, fetched, third, fourth = (
        each.partition("Output:\n")[2] for each in texts(desk, session)
    )
    assert f"{WINDLASS} recall result_" in cut  # a login shell has a path of its own
    assert second.startswith("[Same as Bash head -90")
    assert fetched.rstrip("\n") == first.rstrip("\n")
    assert third.startswith("[Same as Bash head -90")
    assert fourth.startswith("[Same as Bash i=1;")
    assert all(desk.recall_all().values())


def test_a_command_that_is_waited_for_is_shortened_where_it_ends(desk: Desk) -> None:
    slow = shell(f"sleep 2; {build_log(400)}; exit 3", yield_time_ms=300)
    poll: Call = ("write_stdin", {"session_id": RUNNING, "chars": "", "yield_time_ms": 30_000})
    desk.model.plans = {"slow": [[slow], [poll]]}
    session = desk.codex("plan:slow")
    first, second = texts(desk, session)
    assert "Process running with session ID" in first
    assert second.startswith("Process exited with code 3\nOutput:\n")
    assert "windlass recall result_" in second
    status = json.loads(desk.windlass("agent", "status", "--json"))
    assert (status["taken"], status["not_taken"]) == (1, {})


def test_a_subagent_is_a_conversation_of_its_own(desk: Desk) -> None:
    log = shell(build_log(400))
    spawn: Call = ("multi_agent_v1/spawn_agent", {"message": "plan:left"})
    wait = shell("while [ ! -e ended ]; do sleep 0.1; done", yield_time_ms=60_000)
    desk.model.plans = {
        "main": [[spawn], [wait], [log], [log]],
        "left": [[log], [shell("touch ended")]],
    }
    session = desk.codex("plan:main")
    lines = [one for one in desk.lines("codex", session) if one.outcome == "shortened"]
    left, *main = sorted(lines, key=lambda one: one.thread == "")
    assert [left.because, *(one.because for one in main)] == ["compress", "compress", "repeat"]
    for plan in ("main", "left"):
        steps = [one for one in desk.exchanges if one.plans[-1] == plan]
        assert list(broken_rules(steps)) == [], plan
    status = json.loads(desk.windlass("agent", "status", "--json"))
    assert (status["taken"], status["not_taken"]) == (3, {})
    [told] = json.loads(desk.windlass("agent", "report", "--json"))["sessions"]
    assert (told["calls"], told["shortened"]) == (len(desk.exchanges), 3)
    assert all(desk.recall_all().values())


def test_what_an_mcp_tool_says_is_shortened(desk: Desk) -> None:
    settings = desk.home / ".codex" / "config.toml"
    command, *arguments = desk.mcp_command()
    server = f"[mcp_servers.table]\ncommand = {json.dumps(command)}\nargs = {arguments}\n"
    settings.write_text(f"{settings.read_text('utf-8')}\n{server}", "utf-8")
    desk.model.plans = {"table": [[("mcp__table/records", {"count": 60})]]}
    session = desk.codex("plan:table")
    [said] = texts(desk, session)
    assert "Quito" in said
    assert len(said) < len(records(60)) / 2
    [line] = desk.lines("codex", session)
    assert desk.recall(line.original).rstrip("\n") == records(60)
    assert list(broken_rules(asked(desk.exchanges, session))) == []
    status = json.loads(desk.windlass("agent", "status", "--json"))
    assert (status["taken"], status["not_taken"]) == (1, {})


# ---- what stays -----------------------------------------------------------------------


def test_a_script_of_the_model_gets_results_as_they_are(desk: Desk) -> None:
    command = json.dumps({"cmd": build_log(400)})
    script = f"const it = await tools.exec_command({command}); text(it.output);"
    desk.model.plans = {"script": [[("exec", {"input": script})]]}
    session = desk.codex("plan:script", model=SCRIPTING_MODEL)
    assert list(broken_rules(asked(desk.exchanges, session))) == []
    [said] = texts(desk, session)
    assert said.startswith("Script completed")
    assert said.count("Compiling unit_") == 400
    assert [line.outcome for line in desk.lines("codex", session)] == ["unknown shape"]
