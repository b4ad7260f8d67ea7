"""Tools that wait, compactions and the bill of the mod, in the newest Claude Code."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests_clients.coding_agents import CLAUDE, Desk, answering, asked
from tests_clients.conftest import WORK, NewDesk
from tests_clients.model_server import Call, Exchange, Plan
from tests_clients.sessions import PAUSE_S, Work, broken_rules, dollars_of, work_session

_, NEWEST = CLAUDE
FILES = 24
SEARCH: Call = ("ToolSearch", {"query": "select:ListAgents"})
WITHIN = 0.03


def long_plan(folder: Path, files: int = FILES, together: int = 1) -> Plan:
    """Reads of so many files, of which no line is like another; so many in each answer."""
    for number in range(files):
        lines = (
            f"def lift_{number}_{at}(load, weight): return weight * load * {number + at}"
            f" + crane_{(at * 7_919 + number) % 997}"
            for at in range(150)
        )
        (folder / f"crane_{number}.py").write_text("\n".join(lines), "utf-8")
    reads: list[Call] = [
        ("Read", {"file_path": str(folder / f"crane_{number}.py")}) for number in range(files)
    ]
    return [reads[at : at + together] for at in range(0, files, together)]


def tokens(exchange: Exchange) -> int:
    """The tokens of a request."""
    usage = exchange.usage
    read, written = usage.cache_read_input_tokens, usage.cache_creation_input_tokens
    return read + written + usage.input_tokens


def tools(exchange: Exchange) -> list[str]:
    return [str(tool["name"]) for tool in exchange.body["tools"] if "defer_loading" not in tool]


@pytest.fixture
def searching(desk: Desk) -> Desk:
    """A home in which tools may wait behind a search, as they do at the vendor's address."""
    desk.variables["ENABLE_TOOL_SEARCH"] = "true"
    return desk


def test_tools_that_wait_are_found_and_the_prefix_stays(searching: Desk) -> None:
    desk = searching
    bash: Call = ("Bash", {"command": "echo hello"})
    desk.model.plans = {
        "plain": [[bash]],
        "first": [[bash], [SEARCH], [("ListAgents", {})], [bash]],
        "second": [[bash]],
    }
    session = desk.claude(NEWEST, "plan:plain")
    plain = asked(desk.exchanges, session)
    options = desk.mod_options()
    session = desk.claude(NEWEST, "plan:first", *options)
    steps = asked(desk.exchanges, session)
    assert tokens(steps[0]) < 0.7 * tokens(plain[0])
    assert {"Bash", "Read", "Edit", "Write", "Grep", "Glob", "ToolSearch"} <= {*tools(steps[0])}
    assert "ListAgents" in tools(plain[0])
    assert "ListAgents" not in tools(steps[0])
    found = list(steps[-1].results.values())
    assert "InputValidationError" not in found[2]
    desk.claude(NEWEST, "plan:second", "--resume", session, *options)
    steps = asked(desk.exchanges, session)
    assert list(broken_rules(steps)) == []
    assert all(one.usage.cache_read_input_tokens for one in steps[1:])
    status = json.loads(desk.windlass("agent", "status", "--json"))
    assert {one["tool"] for one in status["tools"] if one["deferred"]} >= {"ListAgents", "Workflow"}
    assert "tools that wait behind the search" in desk.windlass("agent", "status")


def test_what_no_session_used_waits_once_there_are_sessions(searching: Desk) -> None:
    desk = searching
    bash: Call = ("Bash", {"command": "echo hello"})
    desk.model.plans = {"short": [[bash]]}
    for _ in range(6):
        desk.claude(NEWEST, "plan:short")
    desk.state = desk.home / "state"
    with answering(desk.state, home=desk.home):
        options = desk.mod_options()
        desk.claude(NEWEST, "plan:short", *options)  # after which transcripts are read
        session = desk.claude(NEWEST, "plan:short", *options)
    [after, *_] = asked(desk.exchanges, session)
    assert "Agent" not in tools(after)
    assert tokens(after) < 9_300


def test_a_compaction_that_is_asked_for_needs_no_model(searching: Desk) -> None:
    desk = searching
    desk.model.plans = {"long": long_plan(desk.project), "more": [[("Bash", {"command": "seq 3"})]]}
    options = desk.mod_options()
    session = desk.claude(NEWEST, "plan:long", *options)
    before = asked(desk.exchanges, session)
    desk.claude(NEWEST, "/compact", "--resume", session, *options)
    assert asked(desk.exchanges, session) == before
    desk.claude(NEWEST, "plan:more", "--resume", session)  # and goes on without the mod
    desk.claude(NEWEST, "plan:more", "--resume", session, *options)
    after = asked(desk.exchanges, session)[len(before) :]
    assert [one.refused for one in after] == [""] * len(after)
    assert tokens(after[0]) < 0.6 * tokens(before[-1])
    assert after[2].usage.cache_read_input_tokens > 0.9 * tokens(after[1])
    said = json.dumps(after[0].body["messages"])
    assert "stands for the earlier conversation" in said
    assert f"crane_{FILES - 1}.py" in said
    originals = desk.recall_all()
    assert originals
    assert all(originals.values())
    status = desk.windlass("agent", "status")
    assert "the user asked for it: " in status
    assert "the next one there: none yet, it was compacted" in status


def test_without_a_server_the_client_compacts_by_itself(searching: Desk) -> None:
    desk = searching
    desk.model.plans = {"long": long_plan(desk.project)}
    name, folder = desk.mod_options()
    main = Path(folder) / "hooks" / "main.js"
    main.write_text(main.read_text("utf-8").replace("agent.socket", "nobody.socket"), "utf-8")
    session = desk.claude(NEWEST, "plan:long", name, folder)
    before = len(desk.model.exchanges)
    desk.claude(NEWEST, "/compact", "--resume", session, name, folder)
    assert len(desk.model.exchanges) > before


@pytest.fixture(scope="module")
def ahead(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The state of a server whose clock is ahead, so that pauses are short."""
    folder = tmp_path_factory.mktemp("ahead")
    with answering(folder, ahead_s=PAUSE_S):
        yield folder


def test_when_the_cache_is_cold_the_next_prompt_finds_a_short_conversation(
    searching: Desk, ahead: Path
) -> None:
    desk = searching
    desk.state = ahead
    desk.model.plans = {"long": long_plan(desk.project), "more": [[("Bash", {"command": "seq 3"})]]}
    with desk.talk(NEWEST, *desk.mod_options()) as talk:
        talk.say("plan:long")
        before = asked(desk.exchanges, talk.session)
        talk.wait("compact_boundary")
        desk.model.forget()
        talk.wait("result")  # of the command that compacts
        talk.say("plan:more")
    after = asked(desk.exchanges, talk.session)[len(before) :]
    assert [one.plans for one in after] == [["long", "more"]] * 2
    assert [one.refused for one in after] == ["", ""]
    assert tokens(after[0]) < 0.6 * tokens(before[-1])
    assert "nothing is cached any more" in desk.windlass("agent", "status")
    assert all(desk.recall_all().values())


def test_in_the_middle_of_a_turn_a_compaction_is_made_where_it_has_paid(searching: Desk) -> None:
    desk = searching
    desk.model.plans = {"long": long_plan(desk.project, 165, together=3)}
    session = desk.claude(NEWEST, "plan:long", *desk.mod_options())
    steps = asked(desk.exchanges, session)
    assert [one.refused for one in steps] == [""] * 56
    sizes = [tokens(one) for one in steps]
    (at,) = [at for at in range(1, 56) if sizes[at] < sizes[at - 1]]
    assert sizes[at] < 0.5 * sizes[at - 1]
    assert "reading what goes has cost 2" in desk.windlass("agent", "status")
    assert all(desk.recall_all().values())


@pytest.fixture(scope="module")
def work(request: pytest.FixtureRequest, new_desk: NewDesk) -> Callable[[str], Work]:
    """25 answers with a subagent: plain, with the hook, with the mod; in one go or with a pause."""
    made = {
        f"{door or 'plain'}{', with a pause' if pause else ''}": work_session(
            new_desk(), NEWEST, door, pause=pause
        )
        for pause in (False, True)
        for door in (None, "hook", "mod")
    }
    request.config.stash.setdefault(WORK, {}).update(made)
    return made.__getitem__


def test_the_bill_is_less_than_half(work: Callable[[str], Work]) -> None:
    plain, hook, mod = work("plain"), work("hook"), work("mod")
    assert not [one.refused for one in mod.exchanges if one.refused]
    assert mod.dollars < 0.9 * hook.dollars
    assert mod.dollars < 0.5 * plain.dollars
    assert work("mod, with a pause").dollars < 0.5 * work("plain, with a pause").dollars


@pytest.mark.parametrize("name", ["mod", "mod, with a pause"])
def test_report_and_line_say_what_was_billed(work: Callable[[str], Work], name: str) -> None:
    done = work(name)
    [told] = json.loads(done.desk.windlass("agent", "report", "--json"))["sessions"]
    billed = sum(
        dollars_of(one.usage, one.body["model"]) for one in done.exchanges if one.calls_tools
    )
    assert told["dollars"] == pytest.approx(billed, rel=WITHIN)
    assert told["calls"] == sum(one.calls_tools for one in done.exchanges)
