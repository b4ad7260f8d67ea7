"""Files of other agents, made small after what the programs write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import windlass
from tests.cli.conftest import CommandLine
from tests.cli.conftest import windlass as command_line
from tests.importing.making import write_lines
from tests.support.importing_agents import (
    CLAUDE,
    CLINE_CALL,
    CLINE_RESULT,
    HEADER,
    SONNET,
    START,
    TASK,
    cline_answer,
    cline_user,
    gemini,
    gemini_user,
    item,
    opencode,
    opencode_call,
    request,
    step,
    turn_end,
    words,
)
from windlass.errors import UsageError
from windlass.importing.recording import Recording
from windlass.importing.streams import READ, recordings
from windlass.wire.base import Usage

line = command_line


def write(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def said(recording: Recording) -> list[tuple[str, str]]:
    return [(message.role, message.text) for message in recording.messages]


def stored_costs(path: Path, store: Path) -> tuple[float | None, ...]:
    """What the sessions of a file or folder cost, by the store."""
    return tuple(one.cost for one in windlass.import_sessions(path, store=store).sessions)


# ---- Gemini CLI -----------------------------------------------------------------------------


class TestGeminiCLI:
    ANSWERS = (
        gemini("m2", "I look.", "ls-1", input=9_000, output=40, cached=3_000, thoughts=200),
        gemini("m3", "One berth.", input=9_500, output=10, cached=9_000, tool=100),
    )

    def test_a_session_of_either_kind(self, tmp_path: Path) -> None:
        messages = [gemini_user("m1", [{"text": "list"}]), *self.ANSWERS]
        old = write(tmp_path / "old" / "session-a.json", {**HEADER, "messages": messages})
        grown = {**self.ANSWERS[0], "toolCalls": []}  # written again when its calls have ended
        new = write_lines(
            tmp_path / "new" / "session-a.jsonl",
            [HEADER, messages[0], grown, *self.ANSWERS, {"$set": {"summary": "berths"}}],
        )
        for path in (old, new):
            (one,) = recordings(path)
            assert (one.format, one.grade, one.name) == ("gemini-cli", "C", "g-1")
            assert [message.role for message in one.messages] == [
                *("user", "assistant", "tool", "assistant")
            ]
            assert one.messages[2].tool_call_id == one.messages[1].tool_calls[0].id
            assert "b1" in one.messages[2].text
            assert [call.at for call in one.calls] == [1, 3]
            assert [call.usage for call in one.calls] == [
                *(Usage(9_000, 240, 3_000), Usage(9_600, 10, 9_000))
            ]
        # 1.25, 0.125 and 10 dollars a million
        first = 6_000 * 1.25e-6 + 3_000 * 0.125e-6 + 240 * 10e-6
        second = 600 * 1.25e-6 + 9_000 * 0.125e-6 + 10 * 10e-6
        (cost,) = stored_costs(new, tmp_path / "store")
        assert cost == pytest.approx(first + second)

    def test_what_was_cut_or_taken_back_was_paid_for(self, tmp_path: Path) -> None:
        first, second = self.ANSWERS
        third = gemini("m5", "Two.", input=100, output=5)
        fourth = gemini("m7", "Short.", input=50, output=6)
        short = [gemini_user("s1", [{"text": "A summary."}])]
        path = write_lines(
            tmp_path / "session-a.jsonl",
            [
                *(HEADER, gemini_user("m1", "list"), first, second),
                *({"$rewindTo": "m3"}, gemini_user("m4", "again"), third),
                *({"$set": {"messages": short}}, gemini_user("m6", "go on"), fourth),
            ],
        )
        read = list(recordings(path))
        assert [(one.name, one.kind, one.parent) for one in read] == [
            ("g-1", "session", None),
            ("g-1/2", "branch", "g-1"),
            ("g-1/3", "branch", "g-1"),
        ]
        assert [said(one)[-1][1] for one in read] == ["One berth.", "Two.", "Short."]
        assert [one.usage.tokens_in for one in read] == [18_600, 100, 50]
        assert [dict(one.skipped) for one in read] == [{}, {}, {}]

    def test_an_answer_in_two_messages_is_one_call(self, tmp_path: Path) -> None:
        said = gemini("m2", "I look.", input=10, output=5)
        asked = {**gemini("m3", "", "ls-1"), "tokens": None}
        messages = [gemini_user("m1", "list"), said, asked]
        (one,) = recordings(write(tmp_path / "a.json", {**HEADER, "messages": messages}))
        assert [call.usage for call in one.calls] == [Usage(10, 5)]

    def test_results_are_read_once(self, tmp_path: Path) -> None:
        """The client writes them as words of the user, too, once its history was masked."""
        masked = {"functionResponse": {"id": "ls-1", "name": "ls", "response": {"output": "-"}}}
        messages = [gemini_user("m1", "list"), self.ANSWERS[0], gemini_user("m9", [masked])]
        path = write(tmp_path / "session-a.json", {**HEADER, "messages": messages})
        (one,) = recordings(path)
        assert [message.role for message in one.messages] == ["user", "assistant", "tool"]

    def test_calls_without_ids_have_their_results(self, tmp_path: Path) -> None:
        call = {"name": "ls", "args": {}, "status": "cancelled"}
        answers = [{**gemini("", "Look."), "toolCalls": [call]} for _ in range(2)]
        path = write(tmp_path / "a.json", {**HEADER, "messages": answers})
        (one,) = recordings(path)
        assert [message.role for message in one.messages] == ["assistant", "tool"] * 2
        results = {one.messages[at].tool_call_id for at in (1, 3)}
        assert results == {one.messages[at].tool_calls[0].id for at in (0, 2)}
        assert len(results) == len(one.calls) == 2

    def test_subagents_are_of_their_session(self, tmp_path: Path) -> None:
        first = gemini("m2", "I look.", input=10, output=1)
        path = write_lines(
            tmp_path / "chats" / "session-a.jsonl", [HEADER, gemini_user("m1", "list"), first]
        )
        sub = {**HEADER, "sessionId": "g-2", "kind": "subagent"}
        write_lines(
            tmp_path / "chats" / "g-1" / "g-2.jsonl",
            [sub, gemini_user("n1", "find"), gemini("n2", "Here.", input=20, output=2)],
        )
        (tmp_path / ".project_root").write_text("/w/berths\n")
        for place in (path, path.parent):
            read = list(recordings(place))
            assert {one.project for one in read} == {"/w/berths"}
            assert [(one.name, one.kind, one.parent) for one in read] == [
                ("g-1", "session", None),
                ("g-2", "side chain", "g-1"),
            ]


# ---- Cline ----------------------------------------------------------------------------------


class TestCline:
    def test_messages_with_their_metrics(self, tmp_path: Path) -> None:
        metrics = {"tokens": {"prompt": 900, "completion": 40, "cached": 100}, "cost": 0.02}
        env = "<environment_details>\n# Current Working Directory (/w/a (b)) Files\nx.py"
        path = write(
            tmp_path / "1795600000000" / "api_conversation_history.json",
            [
                cline_user(TASK, words(env), ts=1_795_600_000_000),
                cline_answer(
                    "I look", CLINE_CALL, ts=1_795_600_001_000, modelInfo=SONNET, metrics=metrics
                ),
                cline_user(CLINE_RESULT),
            ],
        )
        (one,) = recordings(path)
        assert (one.format, one.name, one.project) == ("cline", "1795600000000", "/w/a (b)")
        assert one.model == "anthropic/claude-sonnet-4-5"
        assert [message.role for message in one.messages] == ["user", "assistant", "tool"]
        (call,) = one.calls
        assert call.usage == Usage(1_000, 40, 100)
        assert (call.cost, call.time) == (0.02, 1_795_600_001)

    def test_every_request_that_people_saw_is_in_the_bill(self, tmp_path: Path) -> None:
        path = write(
            tmp_path / "7" / "api_conversation_history.json",
            [
                cline_user(TASK, ts=1_000_000_000_000),
                cline_answer("one", ts=1_000_000_020_000, modelInfo=SONNET),
                cline_user({"type": "text", "text": "more"}, ts=1_000_000_030_000),
                cline_answer("two", ts=1_000_000_040_000, modelInfo=SONNET),
            ],
        )
        counts = {"tokensIn": 10, "tokensOut": 5, "cacheReads": 100, "cacheWrites": 20}
        write(
            path.with_name("ui_messages.json"),
            [
                request(1_000_000_001_000, **counts, cost=0.5, cancelReason="streaming_failed"),
                request(1_000_000_010_000, **counts, cost=0.25),
                request(1_000_000_030_000, **counts, cost=0.125),
                request(1_000_000_045_000, "deleted_api_reqs", totalTokensIn=7, totalCost=1.0),
                request(1_000_000_050_000, "subagent_usage", tokensIn=3, cost=2.0),
                request(1_000_000_060_000),  # not answered yet
            ],
        )
        main, *others = recordings(path)
        assert [(call.at, call.cost) for call in main.calls] == [(1, 0.25), (3, 0.125)]
        assert main.calls[0].usage == Usage(130, 5, 100, 20)
        assert {one.parent for one in others} == {"7"}
        assert sum(one.dollars or 0 for one in others) == 3.5
        costs = stored_costs(path, tmp_path / "store")
        assert sum(cost or 0 for cost in costs) == 3.875

    def test_older_tasks_and_those_of_its_kin(self, tmp_path: Path) -> None:
        """They have neither times nor models; Roo Code counts what was cached as input."""
        path = write(
            tmp_path / "8" / "api_conversation_history.json",
            [cline_user(TASK), cline_answer("<read_file>"), cline_user(TASK), cline_answer("ok")],
        )
        told = {"tokensIn": 130, "tokensOut": 5, "cacheReads": 100, "cacheWrites": 20}
        write(
            path.with_name("ui_messages.json"),
            [request(1, **told, apiProtocol="anthropic", cost=0.1), request(2, **told)],
        )
        (one,) = recordings(path)
        assert [call.usage for call in one.calls] == [
            *(Usage(130, 5, 100, 20), Usage(250, 5, 100, 20))
        ]
        assert one.results_as_words
        assert one.tools == ()

    def test_the_messages_of_version_4(self, tmp_path: Path) -> None:
        counts = {"inputTokens": 121, "outputTokens": 8, "cacheReadTokens": 100}
        metrics = {**counts, "cacheWriteTokens": 20, "cost": 0.13}
        info = {"id": "claude-sonnet-4-5", "provider": "anthropic", "family": "claude"}
        messages = [
            cline_user(TASK),
            cline_answer("I look", CLINE_CALL, id="a1", modelInfo=info),
            cline_user(CLINE_RESULT),
            cline_answer("Done.", id="a2", modelInfo=info, metrics=metrics),
        ]
        session = {"version": 1, "agent": "lead", "sessionId": "s-4", "messages": messages}
        path = write(tmp_path / "s-4.messages.json", {**session, "system_prompt": "Be."})
        (one,) = recordings(path)
        assert said(one)[0] == ("system", "Be.")
        assert [call.usage for call in one.calls] == [None, Usage(121, 8, 100, 20)]
        assert one.calls[1].cost == 0.13


# ---- opencode -------------------------------------------------------------------------------


class TestOpencode:
    def test_each_step_is_a_call(self, tmp_path: Path) -> None:
        answer = opencode(
            "assistant",
            *(START, words("I look."), opencode_call("t1", status="completed", output="b1")),
            *(opencode_call("t2", status="error", error="no"), step(0.5, 10, 5, 2, 100)),
            *(START, words("Done."), step(0.25, 20, 6)),
            **{"id": "msg_2", **CLAUDE, "cost": 0.75, "tokens": step(0, 20, 6)["tokens"]},
        )
        asked = opencode("user", words("list"), words("hidden", ignored=True))
        info = {"id": "ses_1", "directory": "/w", "title": "t", "version": "1.0.0"}
        path = write(tmp_path / "x.json", {"info": info, "messages": [asked, answer]})
        (one,) = recordings(path)
        assert (one.format, one.name, one.project) == ("opencode", "ses_1", "/w")
        assert said(one) == [
            *(("user", "list"), ("assistant", "I look."), ("tool", "b1"), ("tool", "no")),
            ("assistant", "Done."),
        ]
        assert [message.failed for message in one.messages] == [False, False, False, True, False]
        assert [(call.at, call.cost) for call in one.calls] == [(1, 0.5), (4, 0.25)]
        assert [call.usage for call in one.calls] == [Usage(110, 7, 100), Usage(20, 6)]
        assert stored_costs(path, tmp_path / "store") == (0.75,)

    def test_after_a_compaction_another_recording_begins(self, tmp_path: Path) -> None:
        tokens = step(0, 10, 5)["tokens"]
        told = {**CLAUDE, "cost": 0.5, "tokens": tokens}
        messages = [
            opencode("user", words("list")),
            opencode("assistant", words("I look."), id="m1", **told),
            opencode("user", {"type": "compaction", "auto": True}),
            opencode("assistant", words("A summary."), id="m2", summary=True, **told),
            opencode("user", words("go on")),
            opencode("assistant", words("Done."), id="m3", **told),
        ]
        info = {"id": "ses_1", "parentID": "ses_0"}
        first, second = recordings(write(tmp_path / "x.json", {"info": info, "messages": messages}))
        assert (first.kind, first.parent) == ("side chain", "ses_0")
        assert (second.kind, second.parent) == ("after compaction", "ses_1")
        assert [said(one)[-1][1] for one in (first, second)] == ["A summary.", "Done."]
        assert said(second)[:2] == [
            *(("user", "What did we do so far?"), ("assistant", "A summary.")),
        ]
        assert (first.dollars, second.dollars) == (1.0, 0.5)


# ---- codex exec -----------------------------------------------------------------------------


def test_events_of_codex_exec(tmp_path: Path) -> None:
    ran: dict[str, Any] = {
        "command": "ls",
        "status": "completed",
        "exit_code": 0,
        "aggregated_output": "b1",
    }
    called: dict[str, Any] = {
        "server": "docs",
        "tool": "find",
        "arguments": {"q": 1},
        "status": "failed",
    }
    events = [
        {"type": "thread.started", "thread_id": "t-1"},
        {"type": "turn.started"},
        item("reasoning", "item_0", text="**Plan**"),
        item("command_execution", "item_1", "item.started", command="ls", status="in_progress"),
        item("mcp_tool_call", "item_2", "item.started", **called),
        item("command_execution", "item_1", **ran),
        item("mcp_tool_call", "item_2", **called, error={"message": "no"}),
        item("agent_message", "item_3", text="One berth."),
        turn_end(1_001, 600, 51),
        {"type": "turn.started"},
        item("agent_message", "item_0", text="Still one."),
        turn_end(3_001, 1_600, 71),  # of the whole thread
    ]
    path = write_lines(tmp_path / "run.jsonl", events)
    (one,) = recordings(path)
    assert (one.format, one.name) == ("codex-exec", "t-1")
    assert [message.role for message in one.messages] == [
        *("user", "assistant", "tool", "tool", "assistant", "user", "assistant")
    ]
    assert [call.name for call in one.messages[1].tool_calls] == ["shell", "docs__find"]
    assert said(one)[2:5] == [("tool", "b1"), ("tool", "no"), ("assistant", "One berth.")]
    assert [message.failed for message in one.messages[2:4]] == [False, True]
    assert one.usage == Usage(3_001, 71, 1_600)
    assert one.calls[2].usage == Usage(2_000, 20, 1_000)
    assert one.dollars is None
    assert any("do not name" in reason for reason in one.skipped)


def test_a_turn_of_codex_exec_is_shared_out_by_what_its_calls_were_sent_and_said(
    tmp_path: Path,
) -> None:
    ran = {"command": "cat", "status": "completed", "aggregated_output": "berth " * 2_000}
    events = [
        {"type": "thread.started", "thread_id": "t-1"},
        {"type": "turn.started"},
        item("command_execution", "item_0", **ran),
        item("agent_message", "item_1", text="One berth is free. " * 30),
        turn_end(12_000, 8_000, 200),
        {"type": "turn.started"},
        {"type": "turn.failed", "usage": turn_end(13_000, 9_000, 250)["usage"]},
    ]
    (one,) = recordings(write_lines(tmp_path / "run.jsonl", events))
    first, second, failed = one.calls
    used = [call.usage or Usage(0, 0) for call in one.calls]
    assert used[1].tokens_in - used[0].tokens_in == pytest.approx(2_000, rel=0.2)
    assert used[1].tokens_out > 3 * used[0].tokens_out > 0
    assert all(one.tokens_cached <= one.tokens_in for one in used)
    assert (first.estimated, second.estimated, failed.estimated) == (True, True, False)
    assert failed.usage == Usage(1_000, 50, 1_000)
    assert one.usage == Usage(13_000, 250, 9_000)


def test_a_turn_of_codex_exec_without_an_answer_was_paid_for(tmp_path: Path) -> None:
    events = [
        {"type": "thread.started", "thread_id": "t-1"},
        {"type": "turn.started"},
        turn_end(1_000, 600, 50),
        item("agent_message", "item_0", text="One."),
        turn_end(3_000, 1_600, 70),
    ]
    (one,) = recordings(write_lines(tmp_path / "run.jsonl", events))
    assert [call.usage for call in one.calls] == [Usage(1_000, 50, 600), Usage(2_000, 20, 1_000)]
    assert said(one)[1:] == [("assistant", "[not recorded]"), ("assistant", "One.")]


@pytest.mark.parametrize("name", ["a.jsonl", "z.jsonl"])
def test_a_thread_with_a_rollout_and_events_counts_once(tmp_path: Path, name: str) -> None:
    usage = {"input_tokens": 1_000, "cached_input_tokens": 600, "output_tokens": 50}
    rollout = [
        {"type": "session_meta", "payload": {"id": "t-1", "cwd": "/w"}},
        {"type": "turn_context", "payload": {"model": "gpt-5"}},
        {"type": "response_item", "payload": codex_words("user", "Count the berths.")},
        {"type": "response_item", "payload": codex_words("assistant", "One.")},
        {"type": "token_usage_record", "payload": {"response_id": "r1", "usage": usage}},
    ]
    events = [
        {"type": "thread.started", "thread_id": "t-1"},
        {"type": "turn.started"},
        item("agent_message", "item_0", text="One."),
        turn_end(1_000, 600, 50),
    ]
    write_lines(tmp_path / "rollout-2026-t-1.jsonl", rollout)
    write_lines(tmp_path / name, events)
    told: list[str] = []
    (one,) = recordings(tmp_path, on_skip=told.append)
    assert (one.format, one.usage) == ("codex", Usage(1_000, 50, 600))
    assert [("another file has" in each, name in each) for each in told] == [(True, True)]
    assert len(list(recordings(tmp_path))) == 1
    (alone,) = recordings(tmp_path / name)
    assert (alone.format, alone.usage) == ("codex-exec", Usage(1_000, 50, 600))


def codex_words(role: str, words: str) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": words}]}


# ---- files that are not read ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "held", "what"),
    [
        (".aider.chat.history.md", "\n# aider chat started at 2026-01-01\n\n#### hi\n", "Aider"),
        ("state.vscdb", "SQLite format 3\0", "Cursor or VS Code"),
        ("opencode.db", "SQLite format 3\0", "opencode"),
        ("a.json", '{"requests": [], "responderUsername": "GitHub Copilot"}', "GitHub Copilot"),
        ("a.jsonl", '{"type": "session.start", "data": {"sessionId": "a"}}', "GitHub Copilot"),
        ("a.json", '[{"id": 0, "source": "agent", "action": "run", "args": {}}]', "OpenHands"),
        ("a.jsonl", '{"role": "user", "message": {"content": []}}', "Cursor"),
        ("ui_messages.json", '[{"ts": 1, "type": "say", "say": "text", "text": "a"}]', "Cline"),
        ("a.json", '{"id": "msg_1", "sessionID": "ses_1", "role": "user"}', "opencode"),
    ],
)
def test_what_is_not_read_is_named(
    line: CommandLine, tmp_path: Path, name: str, held: str, what: str
) -> None:
    path = tmp_path / name
    path.write_text(held)
    said = line("import", str(path))
    assert said.code == 2
    complaint = " ".join(said.complaint.split())
    assert f"{name}': this is " in complaint
    assert what in complaint
    assert "which is not read; " in complaint


@pytest.mark.parametrize("held", ['{"messages": 5, "info": 3}', '{"a": 1}', "[1, 2]", "{}"])
def test_a_file_of_another_format_is_refused_in_one_sentence(tmp_path: Path, held: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(held)
    for form in READ:
        with pytest.raises(UsageError, match=r"^[^\n]+$"):
            list(recordings(path, form))
