"""`Context.repairs`: whether mending a list would change it, and what."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

import windlass
from tests.window.conversations import chats
from windlass.context.bound import forget

USE = {"type": "tool_use", "id": "t1", "name": "look", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "seen"}
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
    assert context(messages, model).repairs == (told,)


@given(chats())
def test_asking_changes_nothing(said: Any) -> None:
    asked, not_asked = windlass.Context(), windlass.Context()
    for message in said:
        asked.append(message)
        not_asked.append(message)
        assert asked.repairs == asked.repairs
    forget()
    assert asked.window().messages == not_asked.window().messages
