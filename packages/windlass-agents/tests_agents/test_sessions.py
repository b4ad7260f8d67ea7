"""A session of an agent with a hook is a session like any other; what was not taken is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support.hooks_agent import RecordingAgent, bash, lines

import windlass
from windlass.api.opening import open_store
from windlass.report.calls import SessionRecord
from windlass.report.session_costs import session_report
from windlass.settings.settings import Settings
from windlass_agents.handler import HookHandler, HookRequest
from windlass_agents.hook_journal import HookJournal, deliveries, main_transcript
from windlass_agents.hooked_sessions import store_hooked
from windlass_agents.outcome import hook_report
from windlass_agents.status import hook_status, journal_sessions


def settings_of(agent: RecordingAgent) -> Settings:
    return Settings.read({"store": str(agent.store)}, {}, agent.folder)


def at_work(folder: Path, session: str = "s1", *arguments: str) -> RecordingAgent:
    agent = RecordingAgent(folder, session, *arguments)
    agent.run("Bash", {"command": "make"}, bash(lines("object")))
    agent.run("Bash", {"command": "ls"}, bash("main.c"))
    agent.run("Bash", {"command": "make test"}, bash(lines("test")))
    return agent


def test_a_call_is_shown_with_the_short_form_and_its_original(tmp_path: Path) -> None:
    agent = at_work(tmp_path)
    [stored] = store_hooked(agent.store, "claude-code", "s1")
    with open_store(settings_of(agent), existing=True) as store:
        first = SessionRecord(store, stored.session_id).call(2)
        [result] = [seen for seen in first.seen if seen.role == "tool"]
        report = session_report(store, stored.session_id, "anthropic/claude-sonnet-4-5")
        assert [found for found in store.verify() if found.severity == "damage"] == []
        [original, _, last] = [
            row.row.message
            for row in store.rows(stored.session_id)
            if row.row.node_type == "tool_result"
        ]
    assert result.because is not None
    assert result.message.text.startswith("object 0: compiled")
    assert len(result.message.text) < 10_000
    assert original is not None
    assert original.text == lines("object")
    assert last is not None
    assert last.text == lines("test")
    assert report.costs.total.snowball_dollars > report.costs.total.dollars > 0  # type: ignore[operator]
    assert {saving.kind for saving in report.savings} >= {result.because}


def test_originals_move_from_the_journal_into_the_store(tmp_path: Path) -> None:
    agent = at_work(tmp_path)
    kept = list((agent.store / "hooks" / "originals").iterdir())
    assert len(kept) == 2
    store_hooked(agent.store, "claude-code", "s1")
    assert not list((agent.store / "hooks" / "originals").iterdir())
    agent.run("Bash", {"command": "make all"}, bash(lines("linked")))
    [again] = store_hooked(agent.store, "claude-code", "s1")
    assert again.state == "grew"
    with open_store(settings_of(agent), existing=True) as store:
        texts = [row.row.message.text for row in store.rows(again.session_id) if row.row.message]
        assert len(store.edits(again.session_id)) == 3
    assert lines("linked") in texts
    assert store_hooked(agent.store, "claude-code", "s1")[0].state == "unchanged"


def test_a_replay_of_a_hooked_session_has_the_originals(tmp_path: Path) -> None:
    agent = at_work(tmp_path)
    [stored] = store_hooked(agent.store, "claude-code", "s1")
    replayed = windlass.replay(stored.session_id, ["everything"], store=agent.store)
    assert replayed.totals[0].tokens.low > 15_000


def test_a_short_form_that_was_not_taken_is_no_saving(tmp_path: Path) -> None:
    agent = RecordingAgent(tmp_path)
    agent.takes = False
    agent.run("Bash", {"command": "make"}, bash(lines("object")))
    agent.takes = True
    agent.run("Bash", {"command": "make test"}, bash(lines("test")))
    agent.run("Bash", {"command": "ls"}, bash("main.c"))
    [journal] = journal_sessions(agent.store)
    told = deliveries(journal, main_transcript(journal))
    assert list(told.values()) == [False, True]
    status = hook_status(agent.store, 0.0)
    assert (status.taken, dict(status.not_taken), status.untold) == (1, {"Bash": 1}, 0)
    notes: list[str] = []
    report = hook_report(settings_of(agent), 0.0, notes.append)
    [session] = report.sessions
    assert (report.not_taken, session.shortened, notes) == (1, 1, [])


def test_what_no_transcript_tells_yet_is_told_as_that(tmp_path: Path) -> None:
    agent = RecordingAgent(tmp_path)
    response = bash(lines("object"))
    agent.ask(
        "PostToolUse",
        tool_name="Bash",
        tool_input={"command": "make"},
        tool_response=response,
        tool_use_id="toolu_1",
    )
    assert hook_status(agent.store, 0.0).untold == 1
    agent.transcript.unlink()
    assert hook_status(agent.store, 0.0).untold == 1
    assert store_hooked(agent.store, "claude-code", "s1") == []


def test_what_is_fetched_back_is_taken_from_the_saving(tmp_path: Path) -> None:
    plain, fetching = at_work(tmp_path / "plain"), at_work(tmp_path / "fetching")
    for agent, command in ((plain, "cat out.txt"), (fetching, "windlass recall result_1234abcd")):
        agent.run("Bash", {"command": command}, bash("one line\n" * 100))
        agent.run("Bash", {"command": "ls"}, bash("main.c"))
    [one] = hook_report(settings_of(plain), 0.0, print).sessions
    [other] = hook_report(settings_of(fetching), 0.0, print).sessions
    assert (one.fetched, other.fetched) == (0, 1)
    assert one.dollars == other.dollars
    assert one.saved is not None
    assert other.saved is not None
    assert other.saved < one.saved
    [line] = [
        line
        for line in HookJournal(fetching.store).lines("claude-code", "s1")
        if line.because == "recall"
    ]
    assert line.outcome == "whole"


@pytest.mark.parametrize(
    "said",
    [
        "windlass: no original has the reference '1234abcd' in the store '/p/.windlass'",
        "Exit code 2\nwindlass: lines '900': the original has lines 1:40",
        "",
    ],
)
def test_what_is_fetched_in_vain_is_not_fetched_back(tmp_path: Path, said: str) -> None:
    agent = at_work(tmp_path)
    agent.run("Bash", {"command": "windlass recall result_1234abcd | head"}, bash(said))
    agent.run("Bash", {"command": "echo windlass recall result_1234abcd"}, bash("one line"))
    agent.run("Bash", {"command": "ls"}, bash("main.c"))
    [session] = hook_report(settings_of(agent), 0.0, print).sessions
    assert session.fetched == 0


def test_a_session_without_results_is_none(tmp_path: Path) -> None:
    agent = RecordingAgent(tmp_path)
    assert store_hooked(agent.store, "claude-code", "s1") == []


def test_an_original_stays_until_the_store_has_it(tmp_path: Path) -> None:
    agent = at_work(tmp_path)
    text = "\n".join(f"part {at} of src/part_{at}.py" for at in range(60))
    for command in ("cat a", "cat b"):
        agent.run("Bash", {"command": command}, bash(text), text=f"{text}\n<system-reminder>x")
    agent.run("Bash", {"command": "ls"}, bash("main.c"))
    store_hooked(agent.store, "claude-code", "s1")
    # The transcript has the source with words of the agent behind it.
    [kept] = (agent.store / "hooks" / "originals").iterdir()
    assert json.loads(kept.read_text())["content"] == text


def test_what_was_saved_is_what_the_tokens_would_have_cost(tmp_path: Path) -> None:
    agent = at_work(tmp_path)
    agent.run("Bash", {"command": "ls"}, bash("main.c"))
    first, _, third, _ = HookJournal(agent.store).lines("claude-code", "s1")
    [session] = hook_report(settings_of(agent), 0.0, print).sessions
    written, read = 3.75e-6, 0.3e-6  # US dollars a token, of this model
    with open_store(settings_of(agent), existing=True) as store:
        report = session_report(store, session.session_id, "anthropic/claude-sonnet-4-5")
    total = report.costs.total
    assert session.saved == pytest.approx(sum(one.dollars for one in report.savings))
    assert session.saved == pytest.approx((total.snowball_dollars or 0.0) - (total.dollars or 0.0))
    # Whatever the cache held in front: the tokens that were not sent would have been written, read.
    assert session.saved == pytest.approx(
        (first.tokens_before - first.tokens_after) * (written + 2 * read)
        + (third.tokens_before - third.tokens_after) * written
    )
    fresh, output = 3e-6, 15e-6
    assert session.dollars == pytest.approx(
        4 * (10 * fresh + 500 * written + 9_000 * read + 40 * output)
    )


def test_sessions_that_are_held_out_are_compared_with_an_interval(tmp_path: Path) -> None:
    agents = [at_work(tmp_path, f"s{number}", "--holdout", "50%") for number in range(12)]
    report = hook_report(settings_of(agents[0]), 0.0, print)
    held = [session for session in report.sessions if session.held_out]
    assert 2 <= len(held) <= 10
    assert all(session.shortened == 0 for session in held)
    assert all(session.shortened == 2 for session in report.sessions if not session.held_out)
    assert report.per_session is not None
    assert report.per_session.low == pytest.approx(0.0)  # their usage was the same
    assert report.per_session.high == pytest.approx(0.0)
    assert report.per_call is not None
    few = hook_report(settings_of(agents[0]), 2_000_000.0, print)
    assert (few.sessions, few.per_session) == ((), None)


def test_an_agent_without_a_transcript_has_sessions_too(tmp_path: Path) -> None:
    agent = RecordingAgent(tmp_path)
    agent.arguments = ("plain",)
    for number in range(2):
        payload = {
            "session": "p1",
            "tool": "shell",
            "call_id": f"c{number}",
            "arguments": {"command": "make"},
            "text": lines(f"object {number}"),
            "folder": str(tmp_path),
            "model": "openai/gpt-5.6",
        }
        data = json.dumps(payload).encode()
        agent.answering.answer(HookRequest(agent.folder, {}, agent.arguments, data))
    [stored] = store_hooked(agent.store, "plain", "p1")
    with open_store(settings_of(agent), existing=True) as store:
        view = SessionRecord(store, stored.session_id).call(2)
        texts = [row.row.message.text for row in store.rows(stored.session_id) if row.row.message]
    assert view.model == "openai/gpt-5.6"
    assert view.seen[1].because is not None
    assert lines("object 1") in texts


def test_subagents_are_sessions_below(tmp_path: Path) -> None:
    agent = at_work(tmp_path)
    below = agent.subagent("a1")
    shown = below.run("Bash", {"command": "make deep"}, bash(lines("deep")))
    assert len(shown["stdout"]) < len(lines("deep"))
    below.run("Bash", {"command": "ls"}, bash("main.c"))
    main, side = store_hooked(agent.store, "claude-code", "s1")
    with open_store(settings_of(agent), existing=True) as store:
        assert store.start(side.session_id).parent_id == main.session_id
        texts = [row.row.message.text for row in store.rows(side.session_id) if row.row.message]
        own, under = (
            session_report(store, one.session_id, "anthropic/claude-sonnet-4-5").costs.total
            for one in (main, side)
        )
    assert lines("deep") in texts
    [session] = hook_report(settings_of(agent), 0.0, print).sessions
    assert session.shortened == 3
    assert session.dollars == pytest.approx(own.dollars)
    assert (own.dollars or 0.0) > (under.dollars or 0.0) > 0
    alone = at_work(tmp_path / "alone")
    [plain] = hook_report(settings_of(alone), 0.0, print).sessions
    assert (session.saved or 0.0) > (plain.saved or 0.0) > 0


def test_an_answer_that_comes_too_late_is_no_saving(tmp_path: Path) -> None:
    agent = RecordingAgent(tmp_path)
    agent.arguments = ("plain",)
    payload = {"session": "p1", "tool": "shell", "call_id": "c1", "text": lines("object")}
    request = HookRequest(agent.folder, {}, agent.arguments, json.dumps(payload).encode())
    answer = agent.answering.answer(request)
    assert len(json.loads(answer.text)["text"]) < len(lines("object"))
    answer.take_back()  # the client went on by then
    [line] = HookJournal(agent.store).lines("plain", "p1")
    assert (line.outcome, line.because) == ("error", "the answer came too late")
    [stored] = store_hooked(agent.store, "plain", "p1")
    with open_store(settings_of(agent), existing=True) as store:
        assert store.edits(stored.session_id) == []
        texts = [row.row.message.text for row in store.rows(stored.session_id) if row.row.message]
    assert lines("object") in texts


def test_a_file_that_was_read_before_is_a_repeat_also_after_a_rebuild(tmp_path: Path) -> None:
    agent = RecordingAgent(tmp_path)
    code = "\n".join(f"def step_{at}(amount):\n    return amount + {at}" for at in range(120))
    read = {"type": "text", "file": {"filePath": "a.py", "content": code, "startLine": 1}}
    numbered = "\n".join(f"{at}\t{line}" for at, line in enumerate(code.split("\n"), start=1))
    shown = agent.run("Read", {"file_path": "a.py"}, read, text=numbered)
    assert shown == read
    agent.answering = HookHandler(lambda: 1_000_000.0)  # another process goes on
    again = agent.run("Read", {"file_path": "a.py"}, read, text="…")
    assert again["file"]["content"].startswith("[Same as Read")
