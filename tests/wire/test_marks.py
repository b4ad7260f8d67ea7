"""Marks in the providers' words: taken by validators and SDKs, and nothing else changed."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.wire_formats import (
    CALL,
    FORMATS,
    LOOK,
    SDK,
    ask,
    every_format,
    problems,
    requests,
)
from windlass.messages import Message, Opaque, Text, ToolCall, assistant, system, tool, user
from windlass.wire import anthropic, openai_chat

MARK = {"type": "ephemeral"}
EXPLICIT = {"mode": "explicit"}
THOUGHT = {"type": "thinking", "thinking": "Well.", "signature": "s"}
KEYS = ("cache_control", "prompt_cache_breakpoint", "prompt_cache_options", "prompt_cache_key")


def bare(value: Any) -> Any:
    """A body without its marks; content of one text part is that text, which reads the same."""
    if isinstance(value, list):
        return [bare(one) for one in value]
    if not isinstance(value, dict):
        return value
    told = {key: bare(one) for key, one in value.items() if key not in KEYS}
    match told.get("content"):
        case [{"type": "text", "text": str(text), **rest}] if not rest and "role" in told:
            told["content"] = text
    return told


@every_format
@given(st.data())
def test_marks_are_taken_and_change_nothing_else(wire: str, data: st.DataObject) -> None:
    request = data.draw(requests(wire))
    sized = [(-1, at) for at in range(len(request.tools))] + [
        (at, part)
        for at, one in enumerate(request.messages)
        for part in range(max(1, len(one.parts) + len(one.tool_calls)))
    ]
    places = data.draw(st.lists(st.sampled_from(sized), max_size=4, unique=True))
    before = copy.deepcopy(request.messages)
    marked = replace(request, breakpoints=tuple(sorted(places)), cache_key="windlass-1")
    anywhere = data.draw(st.booleans())

    body = FORMATS[wire].body(marked, system_anywhere=anywhere)
    plain = FORMATS[wire].body(request, system_anywhere=anywhere)

    assert problems(wire, body, request.model) == []
    SDK[wire](body)
    assert json.dumps(bare(body)) == json.dumps(bare(plain))
    assert request.messages == before
    if wire == "gemini":
        assert body == plain
    assert FORMATS[wire].body(marked, system_anywhere=anywhere) == body


def test_anthropics_mark_stands_on_the_block_that_the_part_became() -> None:
    thought = Opaque("anthropic", "thinking", json.dumps(THOUGHT), "claude-sonnet-4-5")
    foreign = Opaque("openai", "key:x", '"x"')
    other = ToolCall("call_1", "look", "{}")
    request = ask(
        system("S", "T"),
        assistant("Before."),
        Message("assistant", (thought, foreign, Text("So.")), (CALL, other)),
        tool(CALL, "one", "two"),
        tool(other),
        user(" ", "On."),
        model="claude-sonnet-4-5",
        tools=(LOOK,),
    )

    def marked(*places: tuple[int, int]) -> list[Any]:
        body = anthropic.body(replace(request, breakpoints=places))
        turns = [block for turn in body["messages"] for block in turn["content"]]
        found = [one for one in (*body["tools"], *body["system"], *turns) if "cache_control" in one]
        assert all(one["cache_control"] == MARK for one in found)
        return [
            one.get("text") or one.get("id") or one.get("tool_use_id") or one["name"]
            for one in found
        ]

    assert marked((-1, 0)) == ["look"]
    assert marked((0, 0)) == ["S"]
    assert marked((0, 1), (1, 0)) == ["T", "Before."]
    assert marked((2, 0)) == marked((2, 1)) == []
    assert marked((2, 2), (2, 3), (2, 4)) == ["So.", "call_0", "call_1"]
    assert marked((3, 1), (4, 0)) == ["call_0", "call_1"]
    assert marked((5, 0)) == []
    assert marked((5, 1)) == ["On."]
    assert marked((9, 0), (-1, 7)) == []


def test_openais_marks_stand_on_content_and_are_the_only_ones() -> None:
    request = ask(
        system("S"),
        user("Go."),
        assistant("So.", calls=[CALL]),
        tool(CALL, "one"),
        model="gpt-5.6",
        tools=(LOOK,),
        breakpoints=((0, 0), (2, 0), (2, 1), (3, 0)),
        cache_key="windlass-1",
    )
    body = openai_chat.body(request)
    part = {"type": "text", "prompt_cache_breakpoint": EXPLICIT}
    contents = [one["content"] for one in body["messages"]]
    assert contents == [[part | {"text": "S"}], "Go.", "So.", [part | {"text": "one"}]]
    assert body["prompt_cache_options"] == EXPLICIT
    assert body["prompt_cache_key"] == "windlass-1"


@pytest.mark.req("CE-25")
def test_the_head_may_be_marked_for_an_hour_and_nothing_behind_it() -> None:
    hour = {"type": "ephemeral", "ttl": "1h"}
    said = (system("S"), user("Go."), assistant("So.", calls=[CALL]), tool(CALL, "one"))
    marked: dict[str, Any] = {
        "tools": (LOOK,),
        "breakpoints": ((0, 0), (3, 0)),
        "long_breakpoints": ((0, 0),),
    }
    body = anthropic.body(ask(*said, model="claude-sonnet-4-5", **marked))
    assert body["system"][0]["cache_control"] == hour
    assert body["messages"][-1]["content"][0]["cache_control"] == MARK
    routed = openai_chat.body(ask(*said, model="anthropic/claude-sonnet-4.5", **marked))
    contents = [one["content"][0]["cache_control"] for one in routed["messages"][::3]]
    assert contents == [hour, MARK]
    head: dict[str, Any] = {
        "breakpoints": ((-1, 0), (1, 0)),
        "long_breakpoints": ((-1, 0),),
        "tools": (LOOK,),
    }
    body = anthropic.body(ask(*said[1:], model="claude-sonnet-4-5", **head))
    assert body["tools"][0]["cache_control"] == hour


@pytest.mark.parametrize(
    ("model", "key"),
    [
        ("gpt-4.1", None),
        ("gpt-5.5", None),
        ("gpt-5.6-mini", "prompt_cache_breakpoint"),
        ("openai/gpt-5.6", "prompt_cache_breakpoint"),
        ("anthropic/claude-sonnet-4.5", "cache_control"),
        ("qwen/qwen3-max", "cache_control"),
        ("bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0", "cache_control"),
        ("vertex_ai/claude-sonnet-4-5", "cache_control"),
        ("openrouter/anthropic/claude-sonnet-4.5", "cache_control"),
        ("vertex_ai/gemini-3-pro", None),
        ("bedrock/meta.llama3-70b-instruct-v1:0", None),
        ("groq/llama-3.3-70b-versatile", None),
        ("google/gemini-3-pro", None),
        ("llama-3", None),
    ],
)
def test_which_key_marks_a_chat_message_is_the_models(model: str, key: str | None) -> None:
    body = openai_chat.body(ask(user("Go."), model=model, breakpoints=((0, 0),)))
    text = json.dumps(body)
    assert [one for one in KEYS[:2] if one in text] == ([key] if key else [])
    assert ("prompt_cache_options" in body) == (key == "prompt_cache_breakpoint")
