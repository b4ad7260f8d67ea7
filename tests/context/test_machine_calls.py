"""Shells, patches and computers of OpenAI's Responses form: paired and shortened like results."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest

import windlass
from tests.strategies import png
from tests.validators import responses as rules

Pair = tuple[dict[str, Any], dict[str, Any]]
MODEL = "openai/gpt-5"
GO: dict[str, Any] = {"role": "user", "content": "Find what load job 7 settled."}
EXIT = {"type": "exit", "exit_code": 0}


def lines(turn: int) -> str:
    return "\n".join(f"{turn}.{at} berth {at % 7} holds load {at * 37}" for at in range(900))


def shell(turn: int, text: str) -> Pair:
    chunks = [
        {"stdout": text, "stderr": "", "outcome": EXIT},
        {"stdout": "", "stderr": f"make: {turn}", "outcome": {"type": "exit", "exit_code": 2}},
    ]
    call = {"type": "shell_call", "action": {"commands": [f"settle f{turn}", "make"]}}
    return call, {"type": "shell_call_output", "max_output_length": 9_000, "output": chunks}


def local_shell(turn: int, text: str) -> Pair:
    action = {"type": "exec", "command": ["bash", "-lc", f"settle f{turn}"], "env": {}}
    held = {"output": text, "metadata": {"exit_code": 0}}
    call = {"type": "local_shell_call", "id": "ls", "status": "completed", "action": action}
    return call, {"type": "local_shell_call_output", "output": json.dumps(held)}


def plain_shell(turn: int, text: str) -> Pair:
    call, output = local_shell(turn, text)
    return call, {**output, "output": text}


def patch(turn: int, text: str) -> Pair:
    operation = {"type": "update_file", "path": f"f{turn}.py", "diff": "@@"}
    call = {"type": "apply_patch_call", "operation": operation, "status": "completed"}
    return call, {"type": "apply_patch_call_output", "status": "failed", "output": text}


def custom(_: int, text: str) -> Pair:
    call = {"type": "custom_tool_call", "name": "run", "input": "cat f"}
    return call, {"type": "custom_tool_call_output", "output": text}


KINDS: dict[str, Callable[[int, str], Pair]] = {
    "shell": shell,
    "local_shell": local_shell,
    "plain_shell": plain_shell,
    "patch": patch,
    "custom": custom,
}


def rounds(kind: str, count: int = 6) -> list[dict[str, Any]]:
    listed = [GO]
    for turn in range(count):
        call, output = KINDS[kind](turn, lines(turn))
        thought = {"type": "reasoning", "id": f"rs_{turn}", "summary": []}
        listed += [thought, {**call, "call_id": f"c{turn}"}, {**output, "call_id": f"c{turn}"}]
    return listed


POLICIES: list[tuple[Any, dict[str, Any]]] = [
    ("default", {}),
    ("lean", {}),
    ("spec", {}),
    ({"profile": "default", "keep_recent_turns": 2}, {}),
    ({"profile": "lean", "fold_after": 1, "commit": "at_once"}, {}),
    ("default", {"max_input_tokens": 6_000}),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_calls_and_outputs_stay_together_and_get_shorter(kind: str, policy: Any) -> None:
    listed = rounds(kind)
    window = windlass.bound(listed, MODEL, policy[0], **{"way_back": "", **policy[1]})
    for items in (window.messages, window.wire("responses")["input"]):
        assert rules.problems(items) == []
        kept = [one for one in items if one.get("type") != "reasoning" or one in listed]
        assert kept == items
    whole = window.tokens + window.saved_tokens
    assert window.saved_tokens > whole / 4


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_shortened_names_its_original(kind: str) -> None:
    window = windlass.bound(rounds(kind), MODEL, "lean", way_back="")
    shortened = [one for one in window.entries if one.action == "replaced"]
    assert shortened
    for one in shortened:
        assert lines(0).split("\n")[200].partition(".")[2] in window.recall(one.reference)


def test_chunks_keep_their_outcomes() -> None:
    window = windlass.bound(rounds("shell"), MODEL, "lean", way_back="")
    outputs = [one for one in window.messages if one.get("type") == "shell_call_output"]
    changed = [one for one in outputs if len(one["output"][0]["stdout"]) < 4_000]
    assert changed
    for one in changed:
        codes = [chunk["outcome"]["exit_code"] for chunk in one["output"]]
        assert codes in ([0, 2], [2])  # one chunk for all tells of the failure
        assert one["max_output_length"] == 9_000


def test_the_json_of_a_local_shell_stays_json() -> None:
    window = windlass.bound(rounds("local_shell"), MODEL, "lean", way_back="")
    outputs = [one for one in window.messages if one.get("type") == "local_shell_call_output"]
    read = [json.loads(one["output"]) for one in outputs]
    assert all(one["metadata"] == {"exit_code": 0} for one in read)
    assert any(len(one["output"]) < 4_000 for one in read)


@pytest.mark.parametrize("door", ["bound", "Context"])
@pytest.mark.parametrize("kind", KINDS)
def test_an_output_behind_a_user_is_moved_to_its_call(kind: str, door: str) -> None:
    call, output = KINDS[kind](0, "seen")
    call, output = {**call, "call_id": "a"}, {**output, "call_id": "a"}
    speaks = {"role": "user", "content": "hurry"}
    listed = [GO, call, speaks, output]
    if door == "bound":
        window = windlass.bound(listed, MODEL)
    else:
        context = windlass.Context(MODEL)
        for one in listed:
            context.append(one)
        window = context.window()
    assert window.messages[1:] == [call, output, speaks]
    told = [one.reason for one in window.entries if one.because == "repair"]
    assert told == ["moved to its call, before what was said in between"]


def test_screens_stay_with_their_calls_and_are_never_words() -> None:
    url = f"data:image/png;base64,{base64.b64encode(png(9, 9)).decode()}"
    listed = [GO]
    for turn in range(5):
        screen = {"type": "computer_screenshot", "image_url": url}
        listed += [
            {"type": "computer_call", "call_id": f"c{turn}", "actions": [{"type": "screenshot"}]},
            {"type": "computer_call_output", "call_id": f"c{turn}", "output": screen},
        ]
    for policy in ("default", "spec", {"keep_recent_images": 1}, {"keep_recent_turns": 1}):
        window = windlass.bound(listed, MODEL, policy)
        assert rules.problems(window.messages) == []
        assert rules.problems(window.wire("responses")["input"]) == []
    context = windlass.Context(MODEL)
    for one in listed:
        context.append(one)
    items = context.window("[Plan] 2 of 5 done").wire("responses")["input"]
    assert rules.problems(items) == []
    assert items[-1] == {"role": "user", "content": "[Plan] 2 of 5 done"}


@pytest.mark.parametrize(
    ("call", "output"),
    [
        ({"type": "lamp_call"}, {"type": "lamp_call_output", "output": lines(0)}),
        (
            {"type": "tool_search_call", "arguments": {}},
            {"type": "tool_search_output", "tools": []},
        ),
        ({"type": "program", "code": "1"}, {"type": "program_output", "result": "1"}),
    ],
)
def test_pairs_of_unknown_types_stay_together(call: Any, output: Any) -> None:
    listed = [GO]
    for turn in range(5):
        ids = {"call_id": f"c{turn}"}
        listed += [{**call, **ids}, {**output, **ids}, {"role": "user", "content": f"and {turn}?"}]
    for policy, options in POLICIES:
        window = windlass.bound(listed, MODEL, policy, **options)
        assert rules.problems(window.messages) == []
    assert windlass.bound(listed, MODEL).messages == listed
    # One that its provider answers itself needs no output.
    alone = [GO, {**call, "call_id": "c"}, {"role": "user", "content": "on"}]
    assert windlass.bound(alone, MODEL).messages == alone
    lost = windlass.bound([GO, {**output, "call_id": "c"}], MODEL)
    assert [one["role"] for one in lost.messages] == ["user", "user"]
    assert "which is not open" in lost.entries[1].reason


def test_what_the_provider_answers_itself_is_one_reply() -> None:
    search: dict[str, Any] = {
        "type": "tool_search_call",
        "call_id": None,
        "execution": "server",
        "arguments": {},
    }
    found: dict[str, Any] = {
        "type": "tool_search_output",
        "call_id": None,
        "execution": "server",
        "tools": [],
    }
    said = {"type": "message", "role": "assistant", "content": "ok"}
    listed = [GO, search, found, said, {"role": "user", "content": "on"}]
    window = windlass.bound(listed, MODEL)
    assert window.messages == listed
    assert len(window.entries) == 3


def test_a_window_of_a_window_is_the_same() -> None:
    for kind in KINDS:
        window = windlass.bound(rounds(kind), MODEL, "lean", way_back="")
        assert (
            windlass.bound(window.messages, MODEL, "lean", way_back="").messages == window.messages
        )


def test_an_approval_stays_with_its_request() -> None:
    listed = [GO]
    for turn in range(4):
        ask = {"type": "mcp_approval_request", "id": f"m{turn}", "arguments": "{}", "name": "run"}
        say = {"type": "mcp_approval_response", "approval_request_id": f"m{turn}", "approve": True}
        done = {"role": "assistant", "content": "ok"}
        more = {"role": "user", "content": f"and {turn}?"}
        listed += [{**ask, "server_label": "sea"}, say, done, more]
    window = windlass.bound(listed, MODEL, {"profile": "default", "keep_recent_turns": 2})
    assert rules.problems(window.messages) == []
    assert len(window.messages) < len(listed)


def test_a_shell_goes_into_other_forms() -> None:
    call, output = shell(0, "seen")
    listed = [GO, {**call, "call_id": "a"}, {**output, "call_id": "a"}]
    window = windlass.bound(listed, MODEL)
    assert "tools" not in window.wire("responses")
    turn = window.wire("anthropic")["messages"][1:]
    assert turn[0]["content"][0]["input"] == call["action"]
    assert turn[1]["content"][0]["is_error"] is True
    assert [one["text"] for one in turn[1]["content"][0]["content"]] == ["seen", "make: 0"]
