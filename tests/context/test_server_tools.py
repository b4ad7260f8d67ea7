"""Tools that Anthropic runs itself: a call and its result, in one reply or in several."""

from __future__ import annotations

import json
from typing import Any

import anthropic
import httpx2
import pytest

import windlass
from tests.validators import anthropic as rules
from windlass.messages import Opaque, assistant, user
from windlass.wire import anthropic as wire
from windlass.wire.base import Request

GO: dict[str, Any] = {"role": "user", "content": "Find the tide table."}
SPEAKS: dict[str, Any] = {"role": "user", "content": "And the wind."}
TEXT = {"type": "text", "text": "I look."}
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
USES = [
    {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "tide"}},
    {"type": "server_tool_use", "id": "s1", "name": "web_fetch", "input": {"url": "https://e.x"}},
    {"type": "server_tool_use", "id": "s1", "name": "bash_code_execution", "input": {}},
    {"type": "mcp_tool_use", "id": "s1", "name": "tide", "server_name": "sea", "input": {}},
    {"type": "server_tool_use", "id": "s1", "name": "openrouter:shell", "input": {}},
]
MODELS = ["anthropic/claude-sonnet-4-5", "anthropic/claude-opus-4-6", "anthropic/claude-opus-5-5"]


def result(use: dict[str, Any]) -> dict[str, Any]:
    kind = "mcp" if use["type"] == "mcp_tool_use" else use["name"].replace(":", "_")
    return {"type": f"{kind}_tool_result", "tool_use_id": use["id"], "content": []}


def says(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": [*blocks]}


def sent(messages: list[Any], model: str = MODELS[1], door: str = "bound", **options: Any) -> Any:
    """The window of a list that its provider takes, through one of the doors."""
    if door == "bound":
        window = windlass.bound(messages, model, **options)
    else:
        context = windlass.Context(model, **options)
        for one in messages:
            context.append(one)
            if one["role"] == "user" or one is messages[-1]:
                window = context.window()
    body = window.wire("anthropic")
    name = model.partition("/")[2]
    assert rules.problems({"model": name, "max_tokens": 1, **body}) == []
    found = rules.problems({"model": name, "max_tokens": 1, "messages": window.messages})
    assert [one for one in found if "not defined" not in one] == []
    return window


def blocks(window: Any) -> list[Any]:
    listed = window.wire("anthropic")["messages"]
    return [(one["role"], [block["type"] for block in one["content"]]) for one in listed]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("use", USES, ids=lambda use: str(use["name"]))
@pytest.mark.parametrize("door", ["bound", "Context"])
class TestAPausedTurn:
    def test_goes_back_as_it_is(self, use: dict[str, Any], model: str, door: str) -> None:
        paused = says(THOUGHT, TEXT, use)
        window = sent([GO, paused], model, door)
        assert window.messages == [GO, paused]
        assert blocks(window)[-1] == ("assistant", ["thinking", "text", use["type"]])
        assert {one.action for one in window.entries} == {"shown"}

    def test_goes_back_behind_what_its_tool_brought(
        self, use: dict[str, Any], model: str, door: str
    ) -> None:
        window = sent([GO, says(TEXT, use, result(use))], model, door)
        assert [role for role, _ in blocks(window)] == ["user", "assistant"]

    def test_goes_on_in_the_next_reply(self, use: dict[str, Any], model: str, door: str) -> None:
        listed = [GO, says(THOUGHT, use), says(result(use), THOUGHT, TEXT), SPEAKS]
        window = sent(listed, model, door)
        kinds = ["thinking", use["type"], result(use)["type"], "thinking", "text"]
        assert blocks(window)[1] == ("assistant", kinds)
        assert {one.action for one in window.entries} == {"shown"}

    def test_ends_where_a_user_speaks(self, use: dict[str, Any], model: str, door: str) -> None:
        window = sent([GO, says(TEXT, use), SPEAKS], model, door)
        assert [kinds for _, kinds in blocks(window)] == [["text"], ["text"], ["text"]]
        assert [one.action for one in window.entries] == ["shown", "replaced", "shown"]
        assert window.entries[1].because == "repair"
        assert window.entries[1].reason == (
            "'s1' of the provider's tools had no result when a user spoke: left out"
        )

    def test_of_which_nothing_else_is_left_goes(
        self, use: dict[str, Any], model: str, door: str
    ) -> None:
        window = sent([GO, says(THOUGHT, use), SPEAKS], model, door)
        assert blocks(window) == [("user", ["text", "text"])]
        assert [one.action for one in window.entries] == ["shown", "dropped", "shown"]

    def test_whose_result_comes_behind_a_user_has_both_there(
        self, use: dict[str, Any], model: str, door: str
    ) -> None:
        window = sent([GO, says(TEXT, use), SPEAKS, says(result(use), TEXT), GO], model, door)
        assert blocks(window)[3] == ("assistant", [use["type"], result(use)["type"], "text"])
        assert window.entries[3].reason == "call 's1' stands here, before its result"

    def test_beside_a_call_of_the_callers_waits_for_its_result(
        self, use: dict[str, Any], model: str, door: str
    ) -> None:
        call = {"type": "tool_use", "id": "t1", "name": "look", "input": {}}
        answer = {"type": "tool_result", "tool_use_id": "t1", "content": "seen"}
        listed = [GO, says(use, call), {"role": "user", "content": [answer]}]
        assert sent(listed, model, door).messages == listed
        listed += [says(result(use), TEXT), SPEAKS]
        assert sent(listed, model, door).messages == listed


@pytest.mark.parametrize("use", USES, ids=lambda use: str(use["name"]))
def test_a_result_without_its_call_is_left_out(use: dict[str, Any]) -> None:
    window = sent([GO, says(result(use), TEXT), SPEAKS])
    assert blocks(window)[1] == ("assistant", ["text"])
    assert window.entries[1].reason == "a result of 's1', which no call waits for, is left out"


def test_two_replies_in_a_row_hold_no_call_that_the_second_leaves_open() -> None:
    window = sent([GO, says(TEXT, USES[0]), says(TEXT), SPEAKS])
    assert blocks(window)[1] == ("assistant", ["text", "text"])
    assert "when the next reply came" in window.entries[1].reason


def test_a_system_message_behind_the_users_ends_a_list() -> None:
    listed = [GO, says(THOUGHT, TEXT), SPEAKS, {"role": "system", "content": "Be brief."}]
    window = sent(listed, "anthropic/claude-opus-5-5")
    assert blocks(window)[-1] == ("system", ["text"])
    assert {one.action for one in window.entries} == {"shown"}


@pytest.mark.parametrize("keep", [1, 2])
def test_a_sliding_window_keeps_both_ends(keep: int) -> None:
    listed: list[Any] = [GO]
    for at in range(4):
        use = {**USES[0], "id": f"s{at}"}
        listed += [says(use), says(result(use), TEXT), {"role": "user", "content": f"and {at}"}]
        window = sent(listed, policy={"profile": "default", "keep_recent_turns": keep})
        assert f'"s{at}"' in json.dumps(window.wire("anthropic"))
    assert '"s0"' not in json.dumps(window.wire("anthropic"))


def test_the_engines_requests_hold_none_either() -> None:
    use = Opaque("anthropic", "server_tool_use", json.dumps(USES[0]))
    request = Request("claude-opus-4-6", (user("Go"), assistant("I look.", use), user("On")), 9)
    body = wire.body(request)
    assert rules.problems(body) == []
    assert "server_tool_use" not in json.dumps(body)
    paused = wire.body(Request("claude-opus-4-6", request.messages[:2], 9))
    assert paused["messages"][-1]["content"][-1] == USES[0]


@pytest.mark.parametrize("stream", [False, True])
def test_a_wrapped_client_goes_on_with_it(stream: bool) -> None:
    bodies: list[dict[str, Any]] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        bodies.append(json.loads(request.content))
        first = len(bodies) == 1
        content = [TEXT, USES[0]] if first else [result(USES[0]), TEXT]
        told = {
            "id": f"msg_{len(bodies)}",
            "type": "message",
            "role": "assistant",
            "model": "claude-opus-4-6",
            "content": content,
            "stop_reason": "pause_turn" if first else "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 10, "output_tokens": 5},
        }
        if not stream:
            return httpx2.Response(200, json=told)
        events: list[dict[str, Any]] = [
            {"type": "message_start", "message": {**told, "content": [], "stop_reason": None}}
        ]
        for at, block in enumerate(content):
            events.append({"type": "content_block_start", "index": at, "content_block": block})
            events.append({"type": "content_block_stop", "index": at})
        delta = {"stop_reason": told["stop_reason"], "stop_sequence": None}
        events.append({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 5}})
        events.append({"type": "message_stop"})
        lines = "".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in events)
        return httpx2.Response(200, text=lines, headers={"content-type": "text/event-stream"})

    transport = httpx2.Client(transport=httpx2.MockTransport(answer))
    with anthropic.Anthropic(api_key="x", http_client=transport) as plain:
        client = windlass.wrap(plain)
        messages: list[Any] = [GO]
        asked: dict[str, Any] = {"model": "claude-opus-4-6", "max_tokens": 99}
        for _ in range(2):
            if stream:
                with client.messages.stream(messages=messages, **asked) as events:
                    reply = events.get_final_message()
            else:
                reply = client.messages.create(messages=messages, **asked)
            messages.append({"role": "assistant", "content": reply.content})
    assert [one["role"] for one in bodies[1]["messages"]] == ["user", "assistant"]
    last = bodies[1]["messages"][-1]["content"][-1]
    assert {key: last[key] for key in USES[0]} == USES[0]
