"""One event, answered: what the model is to see, what is noted, what is kept."""

from __future__ import annotations

import errno
import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.importing.making import Session, call, result, write_lines
from tests.support.hooks_events import SESSION, HookedAgent, after, bash, kept, listing, log

from windlass.errors import StoreError, UsageError
from windlass.messages import Message
from windlass_agents.agent_events import AgentPlace
from windlass_agents.handler import HookHandler, HookRequest
from windlass_agents.hook_journal import HookJournal, HookLine

BACK = re.compile(r"\[Cut from [\d,]+ characters: (.+) recall (result_\w+)\]")


@pytest.fixture
def agent(tmp_path: Path) -> HookedAgent:
    return HookedAgent(tmp_path)


def way_back(text: str) -> tuple[str, str]:
    """The program and the reference that a short form names."""
    (found,) = BACK.findall(text)
    return str(found[0]), str(found[1])


# ---- what is shortened ----------------------------------------------------------------


def test_a_long_result_is_shortened_noted_and_kept(agent: HookedAgent) -> None:
    told = after(bash(log(), returnCodeInterpretation="ok"))
    shown = agent.result(told)
    assert shown == {**told["tool_response"], "stdout": shown["stdout"]}
    assert len(shown["stdout"]) < len(log()) / 2
    (line,) = agent.lines()
    assert (line.outcome, line.tool, line.call_id) == ("shortened", "Bash", "c1")
    assert line.time == 1_000.0
    assert 0 < line.tokens_after < line.tokens_before
    program, ref = way_back(shown["stdout"])
    assert program == str(Path(sys.executable).with_name("windlass"))
    assert kept(agent.journal, ref).text == log()
    assert kept(agent.journal, line.original).text == log()


def test_a_short_result_stays_and_is_noted(agent: HookedAgent) -> None:
    assert agent.tell(after(bash("done"))) is None
    assert [line.outcome for line in agent.lines()] == ["whole"]
    assert not list(agent.journal.folder.glob("originals/*"))


def test_the_command_is_named_shortly_where_it_is_found(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "windlass"
    program.parent.mkdir()
    program.touch(0o755)
    agent = HookedAgent(tmp_path, "--store", "my store")
    shown = agent.tell(after(bash(log())), PATH=str(program.parent))
    text = shown["hookSpecificOutput"]["updatedToolOutput"]["stdout"]
    store = shlex.quote(str(tmp_path / "my store"))
    assert f"characters: windlass recall --store {store} result_" in text
    assert (tmp_path / "my store" / "hooks").is_dir()


def test_a_failed_result_stays(agent: HookedAgent) -> None:
    failed = after(bash(log()), hook_event_name="PostToolUseFailure", error=log())
    assert agent.tell(failed) is None
    assert [line.outcome for line in agent.lines()] == ["failed result"]


def test_a_result_of_an_unknown_shape_stays(agent: HookedAgent) -> None:
    assert agent.tell(after({"result": log()}, tool="WebFetch")) is None
    assert [line.outcome for line in agent.lines()] == ["unknown shape"]


def test_a_file_that_is_read_is_never_shown_with_a_gap(agent: HookedAgent) -> None:
    read = {"type": "text", "file": {"filePath": "/a", "content": log(), "startLine": 1}}
    assert agent.tell(after(read, tool="Read")) is None
    grown = json.loads(json.dumps(read))
    shown = agent.result(after(grown, "c2", tool="Read"))
    assert shown["file"].pop("content").startswith("[Same as Read")
    assert shown["file"] == {"filePath": "/a", "startLine": 1}


@pytest.mark.parametrize(
    "command",
    [
        "windlass recall result_1234abcd",
        "cd /p && windlass  recall result_1234abcd --grep error",
        "/opt/my/bin/windlass recall result_1234abcd",
        "'/opt/my tools/windlass' recall --store x result_1234abcd",
        '"C:\\Tools\\windlass.exe" recall result_1234abcd',
        "python -m windlass recall result_1234abcd | head -100",
    ],
)
def test_an_original_that_is_fetched_back_stays_whole(agent: HookedAgent, command: str) -> None:
    told = after(bash(log()), tool_input={"command": command})
    assert agent.tell(told) is None
    assert [(line.outcome, line.because) for line in agent.lines()] == [("whole", "recall")]


def test_the_tool_of_the_same_name_stays_whole_and_others_do_not(agent: HookedAgent) -> None:
    blocks = [{"type": "text", "text": log()}]
    assert agent.tell(after(blocks, tool="mcp__windlass__recall")) is None
    assert agent.tell(after(blocks, "c2", tool="mcp__memory__search")) is not None


# ---- sessions -------------------------------------------------------------------------


def test_sessions_and_subagents_do_not_refer_to_each_other(agent: HookedAgent) -> None:
    def shown(call_id: str, **keys: Any) -> str:
        return str(agent.result(after(bash(log()), call_id, **keys))["stdout"])

    shown("c1")
    assert shown("c2").startswith("[Same as")
    assert not shown("c3", session_id="another").startswith("[Same as")
    assert not shown("c4", agent_id="a1").startswith("[Same as")
    assert {line.thread for line in agent.lines()} == {"", "a1"}
    assert len(agent.lines("another")) == 1


@pytest.mark.parametrize(
    "moment",
    [
        {"hook_event_name": "PostCompact"},
        {"hook_event_name": "SessionStart", "source": "compact"},
        {"hook_event_name": "SessionStart", "source": "clear"},
    ],
)
def test_after_a_compaction_nothing_from_before_is_in_view(
    agent: HookedAgent, moment: dict[str, str]
) -> None:
    for call_id in ("c1", "c2"):
        agent.result(after(bash(log()), call_id))
    agent.result(after(bash(log()), "c3", agent_id="a1"))
    assert agent.tell({"session_id": SESSION, **moment}) is None
    for thread in ("", "a1"):
        shown = agent.result(after(bash(log()), "c4", agent_id=thread))
        assert not shown["stdout"].startswith("[Same as")


def test_a_session_that_goes_on_is_read_from_its_transcript(
    agent: HookedAgent, tmp_path: Path
) -> None:
    session = Session(SESSION, "claude-sonnet-4-5")
    session.user("Go. " * 2_000)
    session.answer("m1", call("c1", command="make c1"))
    session.user([result("c1", listing())])
    session.answer("m2", call("c2", command="make c2"))
    path = write_lines(tmp_path / "t.jsonl", session.records)
    began = {"hook_event_name": "SessionStart", "source": "resume", "session_id": SESSION}
    assert agent.tell({**began, "transcript_path": str(path)}) is None
    told = after(bash(listing()), "c2", transcript_path=str(path))
    assert agent.result(told)["stdout"].startswith("[Same as Bash make c1")


def recorded(folder: Path, name: str = "t") -> tuple[Session, Path]:
    """A session, and where its agent records it."""
    return Session(SESSION, "claude-sonnet-4-5"), folder / "projects" / f"{name}.jsonl"


def show(session: Session, path: Path, call_id: str, shown: dict[str, Any], text: str = "") -> None:
    """Record what the model was shown of a call."""
    session.user([result(call_id, text or shown["stdout"])])
    session.records[-1]["toolUseResult"] = shown
    path.parent.mkdir(exist_ok=True)
    write_lines(path, session.records)


@pytest.mark.parametrize("text", [log(), json.dumps([{"id": n, "of": "x"} for n in range(200)])])
def test_a_repeat_is_recognised_after_a_fork(agent: HookedAgent, tmp_path: Path, text: str) -> None:
    session, path = recorded(tmp_path)
    session.user("Go.")
    session.answer("m1", call("c1", command="make c1"))
    write_lines(tmp_path / "first.jsonl", session.records)
    first = agent.result(after(bash(text), "c1", transcript_path=str(tmp_path / "first.jsonl")))
    assert first["stdout"] != text
    show(session, path, "c1", first)
    session.answer("m2", call("c2", command="make c2"))
    write_lines(path, session.records)
    agent.answering = HookHandler(lambda: 1_000.0)  # and in another process
    forked = after(bash(text), "c2", session_id="fork", transcript_path=str(path))
    seen = agent.result(forked)["stdout"]
    assert seen.startswith("[Same as Bash make c1, result_")
    assert kept(agent.journal, seen[-16:-1]).text == text


def test_a_repeat_of_what_the_agent_stored_itself_is_recognised(
    agent: HookedAgent, tmp_path: Path
) -> None:
    text = "\n".join(f"{at * 7919 % 10_007} was served by {at * 31 % 977}" for at in range(4_000))
    session, path = recorded(tmp_path)
    session.user("Go.")
    for at in (1, 2, 3):
        file = path.with_suffix("") / "tool-results" / f"r{at}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        whole = text if at < 3 else f"{text}\nand more"
        file.write_text(whole)
        session.answer(f"m{at}", call(f"c{at}", command=f"make c{at}"))
        write_lines(path, session.records)
        given = bash(text[:29_999], persistedOutputPath=str(file), persistedOutputSize=len(whole))
        shown = agent.result(after(given, f"c{at}", transcript_path=str(path)))
        preview = f"<persisted-output>\nFull output saved to: {file}\n{text[:2_000]}"
        show(session, path, f"c{at}", shown, preview if shown == given else "")
        if at == 2:
            assert shown["stdout"].startswith("[Same as Bash make c1, result_")
            assert "persistedOutputPath" not in shown
            assert kept(agent.journal, shown["stdout"][-16:-1]).text == text
        else:  # the third begins as the others do, and is none of them
            assert not shown["stdout"].startswith("[Same as")


@pytest.mark.parametrize("where", ["outside", "link", "other", "folder", "gone"])
def test_only_the_agents_own_file_is_read(agent: HookedAgent, tmp_path: Path, where: str) -> None:
    path = tmp_path / "projects" / "t.jsonl"
    folder = path.with_suffix("") / "tool-results"
    folder.mkdir(parents=True)
    secret = tmp_path / "secret.txt"
    secret.write_text("secret " * 9_000)
    file = folder / "r.txt"
    match where:
        case "outside":
            file = secret
        case "link":
            file.symlink_to(secret)
        case "other":
            file.write_text("secret " * 9_000)
        case "folder":
            file.mkdir()
        case _:
            pass
    given = bash(log(200), persistedOutputPath=str(file), persistedOutputSize=60_000)
    agent.result(after(given, transcript_path=str(path)))
    assert not any(b"secret secret" in data for data in agent.files())


def test_the_thirteenth_conversation_makes_room_and_the_first_is_read_anew(
    agent: HookedAgent,
) -> None:
    first = after(bash(log()), "c1")
    agent.result(first)
    for at in range(12):
        agent.result(after(bash(log()), session_id=f"s{at}"))
    assert len(agent.answering._threads) == 12
    assert agent.result({**first, "tool_use_id": "c2"})["stdout"].startswith(
        "[Same as Bash make c1"
    )


def test_a_session_is_put_away_when_it_ends_and_now_and_then(tmp_path: Path) -> None:
    now = 1_000.0
    stored: list[tuple[Path, AgentPlace]] = []
    answering = HookHandler(lambda: now, lambda store, place: stored.append((store, place)))

    def tell(event: str) -> None:
        payload = json.dumps({"hook_event_name": event, "session_id": SESSION}).encode()
        request = HookRequest(tmp_path, {"PATH": ""}, ("claude-code",), payload)
        answering.answer(request).afterwards()

    tell("Stop")
    tell("Stop")
    assert len(stored) == 1
    now += 60
    tell("Stop")
    tell("SessionEnd")
    tell("SessionStart")
    assert len(stored) == 3
    assert stored[-1][0] == tmp_path / ".windlass"
    assert stored[-1][1].session == SESSION


def test_an_event_that_concerns_nobody_leaves_no_trace(agent: HookedAgent) -> None:
    for event in ("PreToolUse", "Notification", "Invented"):
        assert agent.tell({"hook_event_name": event, "session_id": SESSION}) is None
    assert not (agent.folder / ".windlass").exists()


# ---- the share that stays untouched ----------------------------------------------------


def test_sessions_that_are_held_out_stay_as_they_are(tmp_path: Path) -> None:
    agent = HookedAgent(tmp_path, "--holdout", "50%")
    kept = {}
    for at in range(20):
        told = after(bash(log()), session_id=f"s{at}")
        kept[f"s{at}"] = agent.tell(told) is None
        told = after(bash(log(700)), "c2", session_id=f"s{at}")
        assert (agent.tell(told) is None) == kept[f"s{at}"]
    assert set(kept.values()) == {True, False}
    for session, is_kept in kept.items():
        outcomes = {line.outcome for line in agent.lines(session)}
        assert outcomes == ({"held out"} if is_kept else {"shortened"})


# ---- credentials ----------------------------------------------------------------------

KEY = "sk-proj-0123456789abcdefABCDEF"


def test_a_credential_is_replaced_and_kept_nowhere(tmp_path: Path) -> None:
    agent = HookedAgent(tmp_path, "--redact")
    short = agent.result(after(bash(f"one\nOPENAI_API_KEY={KEY}\ntwo")))
    assert short["stdout"] == "one\nOPENAI_API_KEY=***\ntwo"
    assert agent.lines()[0].because == "without credentials"
    long = agent.result(after(bash(log().replace("worker-300 ", f"token={KEY} ")), "c2"))
    _, ref = way_back(long["stdout"])
    assert "token=***" in kept(agent.journal, ref).text
    assert list(agent.files())
    assert not any(KEY.encode() in data for data in agent.files())


def test_without_the_option_credentials_stay(agent: HookedAgent) -> None:
    assert agent.tell(after(bash(f"OPENAI_API_KEY={KEY}"))) is None


def test_what_is_redacted_keeps_its_lines(tmp_path: Path) -> None:
    agent = HookedAgent(tmp_path, "--redact")
    content = f"# keys\nAPI_KEY = '{KEY}'\nlast"
    read = {"type": "text", "file": {"filePath": "/a", "content": content}}
    shown = agent.result(after(read, tool="Read"))
    assert shown["file"]["content"] == "# keys\nAPI_KEY = '***'\nlast"


# ---- where things are -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "variables", "arguments", "store"),
    [
        ({}, {}, (), ".windlass"),
        ({"cwd": "sub"}, {}, (), "sub/.windlass"),
        ({"cwd": "sub"}, {"CLAUDE_PROJECT_DIR": "{folder}/top"}, (), "top/.windlass"),
        ({}, {"WINDLASS_STORE": "mine"}, (), "mine"),
        ({}, {"WINDLASS_STORE": "mine"}, ("--store", "named"), "named"),
        ({"cwd": "sub"}, {}, ("--store={folder}/whole",), "whole"),
    ],
)
def test_the_store_is_found_from_the_project(
    tmp_path: Path,
    keys: dict[str, str],
    variables: dict[str, str],
    arguments: tuple[str, ...],
    store: str,
) -> None:
    put = {name: value.format(folder=tmp_path) for name, value in variables.items()}
    agent = HookedAgent(tmp_path, *(word.format(folder=tmp_path) for word in arguments))
    agent.tell(after(bash("done"), **keys), **put)
    assert {path.parents[2] for path in tmp_path.rglob("*.jsonl")} == {tmp_path / store}


def test_a_whole_disk_is_no_project(agent: HookedAgent) -> None:
    with pytest.raises(ValueError, match="no project"):
        agent.tell(after(bash("done"), cwd="/"))


# ---- what goes wrong ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("payload", "arguments", "error"),
    [
        (b"", (), ValueError),
        (b"\xff{", (), ValueError),
        (b"[1]", (), ValueError),
        (b'{"session_id": "s"}', (), ValueError),
        (b'{"hook_event_name": "PostToolUse"}', (), ValueError),
        (after("x"), ("--polcy", "default"), UsageError),
        (after(bash("x")), ("--policy", "no such policy"), UsageError),
    ],
)
def test_what_is_no_event_is_an_error(
    tmp_path: Path, payload: Any, arguments: tuple[str, ...], error: type[Exception]
) -> None:
    with pytest.raises(error):
        HookedAgent(tmp_path, *arguments).tell(payload)


def test_a_settings_file_that_is_broken_is_told_in_the_journal(agent: HookedAgent) -> None:
    (agent.folder / "windlass.toml").write_text("[prices\n", encoding="utf-8")
    with pytest.raises(UsageError):
        agent.tell(after(bash(log())))
    (line,) = agent.lines()
    assert line.outcome == "error"
    assert "windlass.toml" in line.because


FULL = OSError(errno.ENOSPC, "No space left on device")
READ_ONLY = OSError(errno.EROFS, "Read-only file system")


@pytest.mark.parametrize("error", [FULL, READ_ONLY], ids=["full", "read-only"])
@pytest.mark.parametrize("broken", ["keep", "write"])
def test_what_cannot_be_kept_or_noted_is_not_shortened(
    agent: HookedAgent, monkeypatch: pytest.MonkeyPatch, broken: str, error: OSError
) -> None:
    def fail(*_: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(HookJournal, broken, fail)
        with pytest.raises(OSError, match=str(error.strerror)):
            agent.tell(after(bash(log())))
    # The model saw all of it, so nothing may be believed of a short form.
    shown = agent.result(after(bash(log()), "c2"))
    assert way_back(shown["stdout"])
    outcomes = [line.outcome for line in agent.lines()]
    assert outcomes == (["error", "shortened"] if broken == "keep" else ["shortened"])


def test_an_original_is_kept_before_its_line_is_written(
    agent: HookedAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    keep, write = HookJournal.keep, HookJournal.write

    def keeps(journal: HookJournal, original: Message) -> None:
        keep(journal, original)
        steps.append("kept")

    def writes(journal: HookJournal, line: HookLine) -> None:
        assert kept(journal, line.original).text == log()
        write(journal, line)
        steps.append("noted")

    monkeypatch.setattr(HookJournal, "keep", keeps)
    monkeypatch.setattr(HookJournal, "write", writes)
    assert agent.tell(after(bash(log()))) is not None
    assert steps == ["kept", "noted"]


@pytest.mark.parametrize("linked", ["hooks", "hooks/originals", "hooks/claude-code"])
def test_nothing_is_written_through_a_link(agent: HookedAgent, linked: str) -> None:
    target = agent.folder / "elsewhere"
    target.mkdir()
    link = agent.folder / ".windlass" / linked
    link.parent.mkdir(parents=True)
    link.symlink_to(target)
    with pytest.raises(StoreError):
        agent.tell(after(bash(log())))
    assert not list(target.iterdir())


def test_a_store_that_is_a_file_stops_nothing_but_the_hook(agent: HookedAgent) -> None:
    (agent.folder / ".windlass").write_text("mine", encoding="utf-8")
    with pytest.raises(OSError, match="windlass"):
        agent.tell(after(bash(log())))
    assert (agent.folder / ".windlass").read_text(encoding="utf-8") == "mine"


def test_an_answer_that_did_not_arrive_is_not_referred_to(agent: HookedAgent) -> None:
    answer = agent.answer(after(bash(log())))
    assert answer.text
    answer.take_back()
    assert way_back(agent.result(after(bash(log()), "c2"))["stdout"])


def test_an_error_of_ours_is_noted_and_forgotten(
    agent: HookedAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> None:
        raise KeyError("nothing")

    agent.result(after(bash(log()), "c1"))
    with monkeypatch.context() as patch:
        patch.setattr("windlass.context.context.Context.window", fail)
        with pytest.raises(KeyError):
            agent.tell(after(bash(log()), "c2"))
    assert way_back(agent.result(after(bash(log()), "c3"))["stdout"])
    assert [line.outcome for line in agent.lines()] == ["shortened", "error", "shortened"]
