"""`Context.repairs`: whether mending a list would change it, and what."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given

import windlass
from tests.window.conversations import chats
from windlass.context.bound import forget

USE = {"type": "tool_use", "id": "t1", "name": "look", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "seen"}
TEXT = {"type": "text", "text": "seen"}
PHOTO = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
LONG: dict[str, Any] = {
    "id": "c" * 50,
    "type": "function",
    "function": {"name": "look", "arguments": "{}"},
}
BROKEN: dict[str, Any] = {**LONG, "function": {"name": "look", "arguments": "look!"}}
UNREAD = " 'unreadable_arguments'"
LONG_RESULT = {"role": "tool", "tool_call_id": LONG["id"], "content": "seen"}
USER: dict[str, Any] = {"role": "user", "content": "go"}


def context(messages: list[Any], model: str) -> windlass.Context:
    made = windlass.Context(model)
    for one in messages:
        made.append(one)
    return made


@pytest.mark.parametrize(
    ("messages", "model"),
    [
        ([USER], "anthropic/claude-opus-4-6"),
        (
            [USER, {"role": "assistant", "content": [USE]}, {"role": "user", "content": [RESULT]}],
            "anthropic/claude-opus-4-6",
        ),
        # A model that takes words to go on from.
        (
            [USER, {"role": "assistant", "content": [{"type": "text", "text": "{"}]}],
            "anthropic/claude-sonnet-4-5",
        ),
        ([USER, {"role": "assistant", "content": "ok"}], "openai/gpt-5"),
        ([USER, {"role": "model", "parts": [{"text": "a"}]}, USER], "gemini/gemini-2.5-pro"),
    ],
)
def test_a_list_that_can_be_sent_as_it_is_has_none(messages: list[Any], model: str) -> None:
    assert context(messages, model).repairs == ()


@pytest.mark.parametrize(
    ("messages", "model", "told"),
    [
        (
            [USER, {"role": "assistant", "content": [USE]}],
            "anthropic/claude-sonnet-4-5",
            "call 't1' of look has no result",
        ),
        (
            [USER, {"role": "user", "content": [RESULT]}],
            "anthropic/claude-sonnet-4-5",
            "message 1: answers call 't1', which is not open",
        ),
        (
            [USER, {"role": "assistant", "content": [{**USE, "id": "functions.look:0"}]}, USER],
            "anthropic/claude-opus-4-6",
            "message 1: an id has letters, digits, _ and - alone",
        ),
        (
            [
                {"role": "user", "content": [{**TEXT, "citations": [{"type": "x"}]}]},
                {"role": "assistant", "content": [USE]},
                {"role": "user", "content": [RESULT]},
            ],
            "anthropic/claude-opus-4-6",
            "message 0: citations of a user's text are left out",
        ),
        (
            [USER, {"role": "assistant", "content": None, "tool_calls": [LONG]}, LONG_RESULT],
            "openai/gpt-5",
            f"message 1: call id {LONG['id']!r} is written as {LONG['id'][:40]!r}",
        ),
        (
            [{"role": "user", "content": [{"type": "text", "text": " "}, PHOTO]}],
            "anthropic/claude-opus-4-6",
            "message 0: empty text is left out",
        ),
        (
            [USER, {"role": "assistant", "content": None, "tool_calls": [BROKEN]}, LONG_RESULT],
            "anthropic/claude-opus-4-6",
            "message 1: the arguments of look are no JSON object: they stand in" + UNREAD,
        ),
        (
            [
                USER,
                {"role": "model", "parts": [{"functionCall": {"name": "look", "args": {}}}]},
                {
                    "role": "user",
                    "parts": [{"functionResponse": {"name": "look", "response": {"a": 1}}}],
                },
            ],
            "gemini/gemini-4-argon",
            "message 1: a signature is added to its first call, which came without one",
        ),
        (
            [{"role": "user", "content": "go", "tool_calls": None}],
            "openai/gpt-5",
            "message 0: tool_calls held null: left out",
        ),
        (
            [USER, {"role": "assistant", "content": [{"type": "text", "text": "{"}]}],
            "anthropic/claude-opus-4-6",
            'the list does not end with the user: "Continue." stands behind it',
        ),
        (
            [USER, {"role": "assistant", "content": [{"type": "text", "text": "{ "}]}],
            "anthropic/claude-sonnet-4-5",
            "the white space at the end of the last message is left out",
        ),
        (
            [{"role": "assistant", "content": [{"type": "text", "text": "hi"}]}, USER],
            "anthropic/claude-sonnet-4-5",
            'the list does not begin with the user: "Continue." stands before it',
        ),
        (
            [{"role": "model", "parts": [{"text": "hi"}]}, USER],
            "gemini/gemini-2.5-pro",
            'the list does not begin with the user: "Continue." stands before it',
        ),
        (
            [USER, {"role": "model", "parts": [{"text": "hi"}]}],
            "gemini/gemini-2.5-pro",
            'the list does not end with the user: "Continue." stands behind it',
        ),
    ],
)
def test_each_repair_is_a_sentence(messages: list[Any], model: str, told: str) -> None:
    made = context(messages, model)
    assert told in made.repairs
    # An answer that the list lacks is told as well, but nothing else.
    others = [one for one in made.repairs if one != told]
    assert [one for one in others if not re.search("no result|is written as", one)] == []
    sentence = told.partition(": ")[2] if told.startswith("message") else told
    if "has no result" in told:
        sentence = "a call without a result"
    assert any(sentence in one.reason for one in made.window().entries), made.window().entries


@pytest.mark.parametrize(
    "chat",
    [
        {"role": "user", "content": "go", "refusal": None},
        {"role": "assistant", "content": "ok", "function_call": None, "audio": None},
    ],
)
def test_what_is_only_written_in_another_way_is_none(chat: Any) -> None:
    made = context([USER, chat, USER], "openai/gpt-5")
    assert made.repairs == ()
    assert made.window().entries[1].reason == "keys that hold null are left out"


def test_ids_that_repeat_are_one_where_the_provider_refuses_them() -> None:
    call = {"id": "call_0", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    turn = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_0", "content": "seen"},
    ]
    listed = [USER, *turn, *turn]
    assert context(listed, "openai/gpt-5").repairs == ()
    told = ["message 3: call id 'call_0' is used before", "message 4: call id 'call_0' is used"]
    repaired = context(listed, "anthropic/claude-opus-4-6").repairs
    assert [one[: len(two)] for one, two in zip(repaired, told, strict=True)] == told


def test_kimi_gets_its_ids_back_letter_for_letter() -> None:
    ident = "functions.look:0"
    call = {"id": ident, "type": "function", "function": {"name": "look", "arguments": "{}"}}
    listed: list[Any] = [
        USER,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": ident, "content": "seen"},
    ]
    window = windlass.bound(listed, "openrouter/moonshotai/kimi-k2")
    assert window.wire("openai")["messages"] == listed
    sent = windlass.bound(listed, "anthropic/claude-opus-4-6").wire("anthropic")
    assert ident not in str(sent)


@given(chats())
def test_asking_changes_nothing(said: Any) -> None:
    asked, not_asked = windlass.Context(), windlass.Context()
    for message in said:
        asked.append(message)
        not_asked.append(message)
        assert asked.repairs == asked.repairs
    forget()
    assert asked.window().messages == not_asked.window().messages
