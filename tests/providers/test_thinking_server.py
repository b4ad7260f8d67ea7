"""The scripted server of Anthropic's API refuses what the vendor's newest models refuse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

import windlass
from tests.engine.harness import cascade, phase
from tests.providers.thinking_server import ModelRules, Say, ThinkingServer, thinking_server

NEW = "claude-opus-5-5"
TOOL = {"name": "look", "description": "Look.", "input_schema": {"type": "object"}}


def body(*messages: Any, model: str = NEW, **more: Any) -> dict[str, Any]:
    turns = [
        {"role": ("user", "assistant")[at % 2], "content": content}
        for at, content in enumerate(messages)
    ]
    return {"model": model, "max_tokens": 100, "tools": [TOOL], "messages": turns, **more}


def post(server: ThinkingServer, asked: Any, path: str = "/messages", **headers: str) -> Any:
    told = {name.replace("_", "-"): value for name, value in headers.items()}
    with httpx.Client() as client:
        answer = client.post(f"{server.url}{path}", json=asked, headers=told)
    return answer.json() if "json" in answer.headers["content-type"] else answer.text


def look(number: int = 1) -> str:
    """Look at something."""
    return f"seen {number} " * 50


class TestTheServer:
    def test_thinking_that_is_out_of_place_is_refused_in_the_vendors_words(self) -> None:
        with thinking_server("One.", "Two.") as server:
            first = post(server, body("Go"))
            assert [block["type"] for block in first["content"]] == ["thinking", "text"]
            assert post(server, body("Go", first["content"], "On"))["type"] == "message"
            refused = post(server, body("Gone", first["content"], "On"))
            assert refused["error"]["type"] == "invalid_request_error"
            told = refused["error"]["message"]
            assert told.startswith("messages.1.content.0: Invalid `signature` in `thinking` block.")
            assert told.endswith("first at `messages.0.content.0`.")
            assert server.refused == [told]
            counted = post(server, body("Gone", first["content"], "On"), "/messages/count_tokens")
            assert counted["error"]["message"] == told

    @pytest.mark.parametrize(
        ("more", "told"),
        [
            ({"tool_choice": {"type": "any"}}, "tool_choice"),
            ({"tool_choice": {"type": "tool", "name": "look"}}, "tool_choice"),
            ({"thinking": {"type": "disabled"}}, "thinking.type"),
        ],
    )
    def test_what_the_newest_models_refuse(self, more: dict[str, Any], told: str) -> None:
        with thinking_server("One.") as server:
            assert post(server, body("Go", **more))["error"]["message"].startswith(told)
            assert post(server, body("Go", model="claude-haiku-5-5", **more))["type"] == "message"

    def test_schemas_are_refused_where_the_rules_say_so(self) -> None:
        schema = {"type": "object", "additionalProperties": False}
        asked = body("Go", output_config={"format": {"type": "json_schema", "schema": schema}})
        with thinking_server("{}") as server:
            assert post(server, asked)["type"] == "message"
        with thinking_server("{}", rules=ModelRules(schemas=False)) as server:
            assert "output_config" in post(server, asked)["error"]["message"]


@pytest.mark.parametrize("stream", ["true", "false"])
def test_a_phase_with_a_tool_is_answered_and_its_thinking_goes_back(
    stream: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = (Say("I look.", [("look", {"number": 1})], ["Hm."]), Say("Done.", redacted=True))
    with thinking_server(*said) as server:
        server.settle(tmp_path, monkeypatch, more=f"stream = {stream}")
        ran = windlass.run_sync(
            cascade(phase("a", tackle=["look"])),
            model="anthropic/claude-opus-5-5",
            tools=[look],
            trust=True,
        )
    assert ran.error is None
    assert server.refused == []
    assert [block["type"] for _, content in server.answered for block in content] == [
        *("thinking", "text", "tool_use"),
        *("redacted_thinking", "text"),
    ]
    back = server.bodies[1]["messages"][1]["content"]
    bare = [{key: one[key] for key in one if key != "cache_control"} for one in back]
    assert bare == server.answered[0][1]
