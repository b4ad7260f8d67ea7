"""The server's routes, over a real socket: what code of ours inside an agent is answered."""

from __future__ import annotations

import http.client
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.importing.making import Session, call, result, used, write_lines
from tests.importing.making import text as words
from tests.support.hooks_events import SESSION, after, bash, kept, listing, log

from tests_agents.compacted_rows import faults, long_conversation
from windlass.public import money
from windlass_agents import client, live_line, server
from windlass_agents.agent_events import AgentPlace
from windlass_agents.handler import HookAnswer, HookHandler, HookRequest
from windlass_agents.hook_journal import HookJournal, HookLine
from windlass_agents.kept_compactions import compactions_in
from windlass_agents.numbered_lines import NumberedLines

pytestmark = pytest.mark.skipif(os.name == "nt", reason="no sockets that are files")


class Inside:
    """The server, and code inside an agent that asks it."""

    def __init__(self, folder: Path, path: Path, answering: HookHandler, token: str = "") -> None:
        self.folder = folder
        self.path = path
        self.answering = answering
        self.token = token
        self.options: list[str] = []
        self.wait_ms = 60_000  # whatever else runs here
        self.journal = HookJournal(folder / ".windlass")

    def post(self, route: str, body: bytes, **headers: str) -> tuple[int, Any]:
        """The status and the JSON of an answer."""
        connection = http.client.HTTPConnection("windlass")
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(str(self.path))
        connection.request("POST", route, body, headers)
        answer = connection.getresponse()
        said = answer.status, json.loads(answer.read())
        connection.close()
        return said

    def ask(self, route: str, event: Any, agent: str = "claude-code") -> Any:
        told = {"agent": agent, "options": self.options, "event": event, "wait_ms": self.wait_ms}
        status, said = self.post(route, json.dumps(told).encode())
        assert status == 200
        return said

    def tell(self, content: Any, call_id: str = "c1", tool: str = "Bash", **keys: Any) -> Any:
        """What is answered for a result."""
        event = {
            "session_id": SESSION,
            "cwd": str(self.folder),
            "tool_use_id": call_id,
            "tool_name": tool,
            "tool_input": {"command": f"make {call_id}"},
            "content": content,
            **keys,
        }
        return self.ask("/result", event)

    def lines(self) -> list[HookLine]:
        return list(self.journal.lines("claude-code", SESSION))


Serve = Callable[..., Inside]


@pytest.fixture
def serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """Starts a server that answers in this process."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("WINDLASS_STORE", raising=False)
    ends: list[Callable[[], None]] = []

    def start(answering: HookHandler | None = None, token: str = "") -> Inside:
        path = Path(f"/tmp/windlass-test-{os.getpid()}.socket")
        path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(path))
        listener.listen()
        running = [True]
        answering = answering or HookHandler(lambda: 1_000.0)
        served = server._Server(answering, listener, token.encode(), lambda: running[0])
        thread = threading.Thread(target=served.serve, args=(0.2,))
        monkeypatch.setattr(server, "_LOOK_S", 0.05)
        thread.start()

        def end() -> None:
            running.clear()
            running.append(False)
            thread.join()
            listener.close()
            path.unlink()

        ends.append(end)
        project = tmp_path / "project"
        project.mkdir()
        return Inside(project, path, answering, token)

    yield start
    for end in ends:
        end()


@pytest.fixture
def inside(serve: Serve) -> Inside:
    return serve()


# ---- results --------------------------------------------------------------------------


def test_a_long_result_is_shortened_noted_and_kept(inside: Inside) -> None:
    text = inside.tell(log())["text"]
    assert len(text) < len(log()) / 2
    (line,) = inside.lines()
    assert (line.outcome, line.tool, line.call_id) == ("shortened", "Bash", "c1")
    assert kept(inside.journal, line.original).text == log()


def test_a_short_result_stays(inside: Inside) -> None:
    assert inside.tell("done") == {}
    assert [line.outcome for line in inside.lines()] == ["whole"]


def test_a_failed_result_and_any_tool_are_shortened(inside: Inside) -> None:
    assert inside.tell(f"Exit code 1\n{log()}", "c1")["text"].startswith("Exit code 1\n")
    assert "text" in inside.tell(log(name="page"), "c2", "WebFetch")
    assert [line.outcome for line in inside.lines()] == ["shortened", "shortened"]


def test_texts_beside_a_picture_are_shortened(inside: Inside) -> None:
    picture = {"type": "image", "source": {"type": "base64", "data": "AA=="}}
    blocks = [{"type": "text", "text": log()}, picture]
    assert len(inside.tell(blocks, tool="mcp__page__look")["text"]) < len(log()) / 2
    assert inside.tell([picture], "c2", "mcp__page__look") == {}


def test_an_original_that_is_fetched_back_stays_whole(inside: Inside) -> None:
    recall = {"command": "windlass recall result_1234abcd"}
    assert inside.tell(log(), tool_input=recall) == {}


def test_a_file_keeps_the_numbers_of_its_lines(inside: Inside) -> None:
    listed = log(900).split("\n")
    numbered = "\n".join(f"{at + 1}\t{line}" for at, line in enumerate(listed))
    shown = inside.tell(numbered, tool="Read")["text"].split("\n")
    kept_lines = [line.split("\t", 1) for line in shown if line.partition("\t")[0].isdecimal()]
    assert kept_lines
    assert all(listed[int(number) - 1] == line for number, line in kept_lines)
    assert len(kept_lines) < len(listed) * 0.8
    assert kept_lines[-1] == ["900", listed[-1]]
    (line,) = inside.lines()
    assert kept(inside.journal, line.original).text == "\n".join(listed)


def test_a_file_that_a_command_shows_again_is_a_repeat(inside: Inside) -> None:
    text = listing()
    numbered = "\n".join(f"{at + 1}\t{line}" for at, line in enumerate(text.split("\n")))
    folder = inside.folder.parent / "agent"
    session, transcript = Session(), folder / "t.jsonl"
    folder.mkdir()
    records = [session.user("read it"), session.answer("m1", call("c1", "Read"))]
    write_lines(transcript, records)
    assert inside.tell(numbered, tool="Read", transcript_path=str(transcript)) == {}
    file = {"type": "text", "file": {"filePath": "/a", "content": text, "startLine": 1}}
    records += [session.user(result("c1", numbered), toolUseResult=file)]
    write_lines(transcript, [*records, session.answer("m2", call("c2"))])
    shown = inside.tell(text, "c2", transcript_path=str(transcript))["text"]
    assert shown.startswith("[Same as Read")


def test_lines_whose_place_is_not_sure_get_no_number() -> None:
    told = NumberedLines.read("1\ta\n2\t\n3\tb\n4\t\n5\tc\n\nnote")
    assert told is not None
    assert told.text == "a\n\nb\n\nc"
    assert told.with_numbers("a\n[gap]\nc") == "1\ta\n[gap]\n5\tc\n\nnote"
    assert told.fits("a\n[gap]\nc", told.text)
    assert not told.fits("a\n\n[gap]\nc", told.text)
    assert told.with_numbers("a\n\nb\n\n*") == "1\ta\n2\t\n3\tb\n4\t\n5\t*\n\nnote"
    assert NumberedLines.read("no numbers") is None


def test_credentials_are_taken_out(inside: Inside) -> None:
    inside.options = ["--redact"]
    secret = "sk-ant-api03-" + "x7Q" * 20
    assert secret not in inside.tell(f"1\tname\n2\tkey = {secret}", tool="Read")["text"]
    assert inside.tell("all is well", "c2") == {}
    assert secret.encode() not in b"".join(
        path.read_bytes() for path in inside.folder.rglob("*") if path.is_file()
    )


def test_what_takes_too_long_stays_and_is_noted_so(inside: Inside) -> None:
    inside.wait_ms = 0
    assert inside.tell(log()) == {}
    (line,) = inside.lines()
    assert (line.outcome, line.because) == ("error", "the answer came too late")


# ---- moments, and the other door --------------------------------------------------------


def hook(inside: Inside, event: dict[str, Any]) -> HookAnswer:
    """What a hook of the same session is answered."""
    data = json.dumps({"cwd": str(inside.folder), **event}).encode()
    return inside.answering.answer(HookRequest(inside.folder, {}, ("claude-code",), data))


def test_a_hook_leaves_alone_what_the_mod_is_told(inside: Inside) -> None:
    began = {"session_id": SESSION, "hook_event_name": "SessionStart", "source": "startup"}
    hook(inside, began)
    assert inside.ask("/moment", {**began, "cwd": str(inside.folder)}) == {}
    assert hook(inside, after(bash(log()))).text == ""
    assert inside.lines() == []
    assert "text" in inside.tell(log())
    hook(inside, began)  # it goes on without the mod
    assert hook(inside, after(bash(log(name="next")), "c2")).text != ""


def test_a_compaction_is_told(inside: Inside) -> None:
    assert inside.tell(listing()) == {}
    assert inside.tell(listing(), "c2")["text"].startswith("[Same as")
    compacted = {"session_id": SESSION, "hook_event_name": "PostCompact", "cwd": str(inside.folder)}
    assert inside.ask("/moment", compacted) == {}
    assert inside.tell(listing(), "c3") == {}


def test_variables_of_the_session_are_those_of_its_hooks(inside: Inside, tmp_path: Path) -> None:
    began = {"session_id": SESSION, "hook_event_name": "SessionStart", "cwd": str(inside.folder)}
    other = tmp_path / "elsewhere"
    data = json.dumps(began).encode()
    told = {"WINDLASS_STORE": str(other)}
    inside.answering.answer(HookRequest(inside.folder, told, ("claude-code",), data))
    assert "text" in inside.tell(log())
    assert (other / "hooks").is_dir()


# ---- tools, and compactions -----------------------------------------------------------------


def test_a_tool_waits_or_stays_and_that_is_kept(inside: Inside) -> None:
    place = {"session_id": SESSION, "cwd": str(inside.folder)}
    described = {"tool": "Workflow", "description": "Runs many steps. " * 200}
    said = inside.ask("/tool", {**place, **described})
    assert said["deferred"] is True
    assert inside.ask("/tool", {**place, **described, "description": "Other words."}) == said
    assert (
        inside.ask("/tool", {**place, "tool": "Bash", "description": "Runs."})["deferred"] is False
    )
    inside.options = ["--holdout", "99.9%"]
    assert inside.ask("/tool", {**place, **described}) == {}


def test_a_conversation_is_compacted_and_what_goes_is_kept(inside: Inside) -> None:
    rows = long_conversation(40)
    event = {
        "session_id": SESSION,
        "cwd": str(inside.folder),
        "trigger": "manual",
        "messages": rows,
    }
    made = inside.ask("/compact", event)["messages"]
    assert faults(made) == []
    assert len(json.dumps(made)) < 0.6 * len(json.dumps(rows))
    (noted,) = compactions_in(inside.folder / ".windlass")
    assert noted.trigger == "manual"
    inside.options = ["--holdout", "99.9%"]
    assert inside.ask("/compact", event) == {}


def test_a_compaction_is_due_by_what_the_transcript_tells(inside: Inside, tmp_path: Path) -> None:
    place = {"session_id": SESSION, "cwd": str(inside.folder)}
    assert inside.ask("/due", place)["seconds"] is None
    session, transcript = Session(), tmp_path / f"{SESSION}.jsonl"
    session.user("build")
    session.answer("m1", words("It is begun."), usage=used(fresh=10, written=10_000))
    session.user("go on")
    session.answer("m2", words("done"), usage=used(fresh=10, read=90_000, written=5_000))
    write_lines(transcript, session.records)
    said = inside.ask("/due", {**place, "transcript_path": str(transcript), "window": 200_000})
    assert said == {"seconds": 0, "reason": said["reason"]}  # it was recorded long ago
    assert "nothing is cached" in said["reason"]
    inside.options = ["--holdout", "99.9%"]
    assert inside.ask("/due", place)["seconds"] is None


# ---- the line ---------------------------------------------------------------------------


def test_the_line_says_what_the_report_says(inside: Inside, tmp_path: Path) -> None:
    session, transcript = Session(), tmp_path / "agent" / f"{SESSION}.jsonl"
    transcript.parent.mkdir()
    records = [session.user("build"), session.answer("m1", call("c1"))]
    write_lines(transcript, records)
    text = inside.tell(log(), transcript_path=str(transcript))["text"]
    records += [
        session.user(result("c1", text), toolUseResult=bash(log()), toolResultRewritten=True)
    ]
    write_lines(transcript, [*records, session.answer("m2", words("done"))])
    event = {"session_id": SESSION, "cwd": str(inside.folder)}
    assert inside.ask("/line", event) == {"line": ""}
    live_line.keep_figures(inside.folder / ".windlass", "claude-code", SESSION)
    said = inside.ask("/line", event)
    (line,) = inside.lines()
    assert said["calls"] == 2
    assert said["tokens"] == line.tokens_before - line.tokens_after
    assert said["line"] == f"2 requests, {money(said['billed'])}; saved {money(said['dollars'])}"


# ---- what is no such request --------------------------------------------------------------


def test_a_client_behind_a_proxy_may_name_the_host(inside: Inside) -> None:
    body = json.dumps({"agent": "opencode", "event": {"session": "s1", "tool": "x", "text": log()}})
    status, told = inside.post("http://localhost/result", body.encode())
    assert status == 200
    assert len(told["text"]) < len(log()) / 2


def test_other_requests_are_refused_in_words_of_http(inside: Inside) -> None:
    good = json.dumps({"agent": "claude-code", "event": {}}).encode()
    assert inside.post("/other", good)[0] == 404
    assert inside.post("/result", b"junk")[0] == 400
    assert inside.post("/result", b"[]")[0] == 400
    assert inside.post("/result", good)[0] == 400
    unknown = json.dumps({"agent": "nobody", "event": {"session": "s"}}).encode()
    assert inside.post("/result", unknown)[0] == 400
    counted = Path(client.own_folder(), client.FAILURES).read_text(encoding="utf-8")
    assert "nobody" in counted


def test_where_others_reach_the_address_a_token_is_asked_for(serve: Serve) -> None:
    inside = serve(token="0123456789abcdef")
    event = {"session": "s1", "tool": "bash", "text": log(), "folder": str(inside.folder)}
    body = json.dumps({"agent": "plain", "event": event}).encode()
    assert inside.post("/result", body)[0] == 401
    assert inside.post("/result", body, authorization="Bearer 0123456789abcdee")[0] == 401
    status, said = inside.post("/result", body, authorization="Bearer 0123456789abcdef")
    assert status == 200
    assert len(said["text"]) < len(log()) / 2


def test_both_forms_are_answered_at_one_address(inside: Inside) -> None:
    assert "text" in inside.tell(log())
    event = json.dumps({"session": "s2", "tool": "bash", "text": log()}).encode()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(inside.path))
        header = "\0".join([str(inside.folder), "", "plain"]).encode()
        connection.sendall(len(header).to_bytes(4) + header + event)
        connection.shutdown(socket.SHUT_WR)
        answer = b"".join(iter(lambda: connection.recv(1 << 16), b""))
    assert "text" in json.loads(answer[4:])


def test_a_session_is_stored_when_it_ends(serve: Serve) -> None:
    stored: list[AgentPlace] = []
    inside = serve(HookHandler(time.time, lambda _, place: stored.append(place)))
    ended = {"session_id": SESSION, "hook_event_name": "SessionEnd", "cwd": str(inside.folder)}
    assert inside.ask("/moment", ended) == {}
    until = time.monotonic() + 30
    while not stored:
        assert time.monotonic() < until
        time.sleep(0.01)
    assert stored[0].session == SESSION
