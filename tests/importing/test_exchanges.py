"""Logs of requests and answers, folders of bodies, and rollouts of Codex, by their schemas."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.importing.making import write_lines
from tests.support.importing_exchanges import (
    ASKED,
    GOT,
    META,
    TOOLS,
    TURN,
    anthropic_log,
    chat,
    chat_log,
    counted,
    item,
    read,
    rollout,
    spent,
)
from windlass.wire.base import Usage


def test_a_chat_log_is_one_conversation_of_exact_requests(tmp_path: Path) -> None:
    (one,) = read(write_lines(tmp_path / "log.jsonl", chat_log()))
    assert (one.format, one.grade, one.model) == ("request-log", "A", "openai/gpt-5")
    assert [message.role for message in one.messages] == [
        *("system", "user", "assistant", "tool", "assistant")
    ]
    assert [call.at for call in one.calls] == [2, 4]
    assert one.calls[0].usage == Usage(90, 7, 64)
    assert one.calls[0].time == 1_760_000_000
    assert [tool.name for tool in one.tools or ()] == ["ls"]
    assert one.system == one.messages[:1]


@pytest.mark.parametrize("shape", ["text", "described", "flat", "body"])
def test_bodies_may_stand_in_other_places(tmp_path: Path, shape: str) -> None:
    def shaped(line: dict[str, Any]) -> dict[str, Any]:
        request, response = line["request"], line["response"]
        match shape:
            case "text":
                return {"request": json.dumps(request), "response": json.dumps(response)}
            case "described":
                return {"request": {"url": "/v1", "body": request}, "response": {"body": response}}
            case "flat":
                return {**request, "response": response}
        return {"request_body": request, "response_body": response}

    (one,) = read(write_lines(tmp_path / "log.jsonl", map(shaped, chat_log())))
    assert [call.at for call in one.calls] == [2, 4]


def test_an_answer_to_messages_that_were_not_recorded_was_paid_for(tmp_path: Path) -> None:
    log = chat_log(session_id="s")
    log[0]["request"]["messages"] = []
    log[1]["request"]["messages"] = log[1]["request"]["messages"][2:]
    (one,) = read(write_lines(tmp_path / "log.jsonl", log))
    assert [message.role for message in one.messages] == ["assistant", "tool", "assistant"]
    assert [call.at for call in one.calls] == [0, 2]
    assert one.usage == Usage(180, 14, 128)
    assert one.grade == "C"
    assert one.skipped == {"requests whose messages were not recorded": 1}


def test_lists_of_messages_are_transcripts(tmp_path: Path) -> None:
    said = [chat("user", "Go."), chat("assistant", "done"), chat("user", "More.")]
    anthropic = {"model": "claude-opus-4-5", "system": "Be.", "messages": said}
    openai = {"model": "gpt-5", "messages": said, "tools": TOOLS, "session_id": "s"}
    path = write_lines(tmp_path / "l.jsonl", [anthropic, openai, {"messages": said[:1]}, {"x": 1}])
    first, second = read(path)
    assert (first.format, first.grade, first.name) == ("chat", "C", "l-1")
    assert (first.model, second.model) == ("anthropic/claude-opus-4-5", "openai/gpt-5")
    assert [message.text for message in first.messages] == ["Be.", "Go.", "done", "More."]
    assert [(call.at, call.usage) for call in first.calls] == [(2, None)]
    assert (first.tools, [tool.name for tool in second.tools or ()]) == (None, ["ls"])
    assert (second.name, first.dollars) == ("s", None)
    whole = tmp_path / "one.json"
    whole.write_text(json.dumps(openai, indent=1))
    assert [one.messages for one in read(whole)] == [second.messages]


def test_conversations_that_are_mixed_stay_apart(tmp_path: Path) -> None:
    first, second = chat_log(session_id="a"), chat_log(session_id="b")
    for line in second:
        line["response"]["id"] += "-b"
    mixed = [line for pair in zip(first, second, strict=True) for line in pair]
    one, other = read(write_lines(tmp_path / "log.jsonl", mixed))
    assert (one.name, other.name) == ("a", "b")
    assert len(one.calls) == len(other.calls) == 2


def test_the_same_answer_twice_is_counted_once(tmp_path: Path) -> None:
    log = chat_log()
    (one,) = read(write_lines(tmp_path / "log.jsonl", [log[0], log[0], log[1]]))
    assert len(one.calls) == 2
    assert one.skipped["answers that stand there twice"] == 1


def test_a_list_that_was_rewritten_is_another_recording(tmp_path: Path) -> None:
    log = chat_log(session_id="a")
    log[1]["request"]["messages"][1] = chat("user", "Go on.")
    one, other = read(write_lines(tmp_path / "log.jsonl", log))
    assert (one.kind, other.kind, other.parent) == ("session", "branch", "a")


def test_marks_that_move_are_no_rewriting(tmp_path: Path) -> None:
    (one,) = read(write_lines(tmp_path / "log.jsonl", anthropic_log()))
    assert [call.at for call in one.calls] == [2, 4]
    assert one.model == "anthropic/claude-opus-4-5"
    assert one.messages[0].text == "Be."
    assert one.calls[0].usage == Usage(20, 6, 7, 8)


def test_a_folder_of_raw_bodies(tmp_path: Path) -> None:
    names = ["zz", "aa"]
    for name, line in zip(names, anthropic_log(), strict=True):
        request = {**line["request"], "betas": ["x"], "metadata": {"user_id": "u_session_s7"}}
        (tmp_path / f"{name}.request.json").write_text(json.dumps(request))
        (tmp_path / f"{name}.response.json").write_text(json.dumps(line["response"]))
    write_lines(
        tmp_path / "index.jsonl", [{"request_file": f"{name}.request.json"} for name in names]
    )
    (one,) = read(tmp_path)
    assert (one.format, one.grade, one.name) == ("claude-code-bodies", "A", "s7")
    assert [call.id for call in one.calls] == ["msg_0", "msg_1"]


def test_an_answer_that_was_streamed_is_read_from_its_events(tmp_path: Path) -> None:
    log = anthropic_log()[:1]
    start: Any = {"type": "message_start", "message": {**log[0]["response"], "content": []}}
    events = [
        start,
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn"},
            "usage": {"output_tokens": 9},
        },
        {"type": "message_stop"},
    ]
    told = "".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in events)
    log[0]["response"] = told
    (one,) = read(write_lines(tmp_path / "log.jsonl", log))
    assert one.messages[-1].text == "Hi"
    assert one.calls[0].usage == Usage(20, 9, 7, 8)


def test_a_log_of_responses(tmp_path: Path) -> None:
    asked = {"type": "function_call", "call_id": "c1", "name": "ls", "arguments": "{}"}
    items = [{"role": "user", "content": "Go."}]
    more = [*items, asked, {"type": "function_call_output", "call_id": "c1", "output": "a.py"}]
    said = {"type": "message", "role": "assistant"}
    said["content"] = [{"type": "output_text", "text": "done"}]  # type: ignore[assignment]
    log = []
    for number, (given, output) in enumerate([(items, asked), (more, said)]):
        usage = {"input_tokens": 50, "output_tokens": 3}
        usage["input_tokens_details"] = {"cached_tokens": 40}  # type: ignore[assignment]
        response = {"id": f"r{number}", "object": "response", "output": [output], "usage": usage}
        request = {"model": "gpt-5", "instructions": "Be.", "input": given}
        log.append({"request": request, "response": response})
    (one,) = read(write_lines(tmp_path / "log.jsonl", log))
    assert [message.role for message in one.messages] == [
        *("developer", "user", "assistant", "tool", "assistant")
    ]
    assert [call.usage for call in one.calls] == [Usage(50, 3, 40), Usage(50, 3, 40)]


# ---- Codex ----------------------------------------------------------------------------------


def test_a_codex_rollout_with_a_usage_for_each_answer(tmp_path: Path) -> None:
    first = ("token_usage_record", {"response_id": "r1", "usage": spent(100, 60)})
    second = ("token_usage_record", {"response_id": "r2", "usage": spent(130, 100)})
    records = rollout(
        META, TURN, item("user", "Go."), ASKED, first, counted(100, 100), GOT,
        item("assistant", "done"), second, ("hologram", {}),
    )  # fmt: skip
    (one,) = read(write_lines(tmp_path / "rollout-1.jsonl", records))
    assert (one.format, one.grade, one.name, one.model) == ("codex", "C", "th-1", "openai/gpt-5.6")
    assert [call.usage for call in one.calls] == [Usage(100, 5, 60), Usage(130, 5, 100)]
    assert [call.at for call in one.calls] == [2, 4]
    assert one.messages[0].text == "Be."
    assert one.skipped["records of the unknown type 'hologram'"] == 1


def test_an_older_rollout_tells_usage_on_the_screen_and_repeats_it(tmp_path: Path) -> None:
    records = rollout(
        META, TURN, item("user", "Go."), ASKED, counted(100, 100), counted(100, 100), GOT,
        item("assistant", "done"), counted(120, 220),
    )  # fmt: skip
    (one,) = read(write_lines(tmp_path / "rollout-1.jsonl", records))
    assert [call.usage for call in one.calls] == [Usage(100, 5), Usage(120, 5)]


def test_a_rollout_from_before_its_records_had_a_payload(tmp_path: Path) -> None:
    state = {"record_type": "state"}
    action = {"type": "exec", "command": ["ls"]}
    shell = {"type": "local_shell_call", "id": "l1", "call_id": "c2", "action": action}
    result = {"type": "function_call_output", "call_id": "c2", "output": {"content": "b.py"}}
    records = [
        {"id": "th-0", "timestamp": "2025-08-20T13:20:47.060Z", "instructions": "Be.", "git": {}},
        *(state, item("user", "Go.")[1], ASKED[1], state, GOT[1], shell, result),
        item("assistant", "done")[1],
    ]
    (one,) = read(write_lines(tmp_path / "rollout-1.jsonl", records))
    assert (one.format, one.name) == ("codex", "th-0")
    assert [message.text for message in one.messages] == [
        *("Be.", "Go.", "", "a.py", "", "b.py", "done")
    ]
    assert [call.at for call in one.calls] == [2, 4, 6]
    asked = one.messages[4].tool_calls[0]
    assert (asked.id, asked.name, json.loads(asked.arguments)) == ("c2", "local_shell", action)


def test_a_rollout_that_was_compacted_goes_on_in_another_recording(tmp_path: Path) -> None:
    usage = ("token_usage_record", {"response_id": "r1", "usage": spent(100)})
    of_summary = ("token_usage_record", {"response_id": "r2", "usage": spent(500)})
    short = ("compacted", {"message": "", "replacement_history": [item("user", "Short.")[1]]})
    after = ("token_usage_record", {"response_id": "r3", "usage": spent(30)})
    records = rollout(
        META, TURN, item("user", "Go."), item("assistant", "a"), usage, of_summary, short,
        item("assistant", "b"), after,
    )  # fmt: skip
    one, other = read(write_lines(tmp_path / "rollout-1.jsonl", records))
    assert [call.usage for call in one.calls] == [Usage(100, 5), Usage(500, 5)]
    assert (other.kind, other.parent) == ("after compaction", "th-1")
    assert [message.text for message in other.messages] == ["Short.", "b"]
    assert other.usage.tokens_in == 30


def test_a_log_of_gemini(tmp_path: Path) -> None:
    declared = [{"functionDeclarations": [{"name": "ls", "parameters": {"type": "object"}}]}]
    asked = {"role": "model", "parts": [{"functionCall": {"name": "ls", "args": {}}}]}
    answer = {"functionResponse": {"name": "ls", "response": {"files": "a.py"}}}
    said = {"role": "model", "parts": [{"text": "done"}]}
    first = [{"role": "user", "parts": [{"text": "Go."}]}]
    second = [*first, asked, {"role": "user", "parts": [answer]}]
    usage = {"promptTokenCount": 40, "candidatesTokenCount": 5, "thoughtsTokenCount": 2}
    log = [
        {
            "request": {
                "model": "gemini-3-pro",
                "systemInstruction": {"parts": [{"text": "Be."}]},
                "contents": contents,
                "tools": declared,
            },
            "response": {"candidates": [{"content": content}], "usageMetadata": usage},
        }
        for contents, content in [(first, asked), (second, said)]
    ]
    (one,) = read(write_lines(tmp_path / "log.jsonl", log))
    assert one.model == "gemini/gemini-3-pro"
    assert [message.role for message in one.messages] == [
        *("system", "user", "assistant", "tool", "assistant")
    ]
    assert one.calls[1].usage == Usage(40, 7)
    assert [tool.name for tool in one.tools or ()] == ["ls"]


def test_a_streamed_response_is_read_from_its_last_event(tmp_path: Path) -> None:
    item = {"type": "message", "role": "assistant"}
    output = [{**item, "content": [{"type": "output_text", "text": "Hi"}]}]
    usage = {"input_tokens": 50, "output_tokens": 3}
    done = {"id": "r1", "output": output, "usage": usage}
    events = [{"type": "response.created"}, {"type": "response.completed", "response": done}]
    told = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
    line = {"request": {"model": "gpt-5", "input": "Go."}, "response": told}
    (one,) = read(write_lines(tmp_path / "log.jsonl", [line]))
    assert [message.text for message in one.messages] == ["Go.", "Hi"]
    assert one.calls[0].usage == Usage(50, 3)
