"""Free moments of a loop of the user's own: what `Context` shows, tells and gives back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from windlass import Context
from windlass.errors import UsageError

MODEL = "anthropic/claude-sonnet-4-5"


def said(calls: int) -> list[dict[str, Any]]:
    """A task, and reads of files whose lines stand in no other one."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Rename the helper."}]
    for number in range(calls):
        arguments = json.dumps({"path": f"src/m{number}.py"})
        call = {"name": "read_file", "arguments": arguments}
        messages += [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": f"c{number}", "type": "function", "function": call}],
            },
            {
                "role": "tool",
                "tool_call_id": f"c{number}",
                "content": "\n".join(f"def step_{number}_{at}(x): return x" for at in range(160)),
            },
        ]
    return messages


def context_of(messages: list[dict[str, Any]], *, pause: float, **options: Any) -> Context:
    """A context that was asked before each reply; a pause stands before the last message."""
    context = Context(MODEL, way_back="windlass recall", **options)
    for at, message in enumerate(messages):
        if message["role"] == "assistant":
            context.window()
        context.append({**message, "at": at + pause * (at == len(messages) - 1)})
    return context


def test_after_a_pause_one_message_takes_the_place_of_the_conversation() -> None:
    context = context_of(said(40), pause=900)
    window = context.window()
    compacted = [entry for entry in window.entries if entry.because == "compact"]
    assert len(compacted) > 40
    assert "nothing is cached" in compacted[0].reason
    text = window.messages[1]["content"]
    assert text.startswith("[Compaction before call 41: ")
    reference = text.split("; windlass recall ")[1].split("]")[0]
    assert "step_" in context.recall(reference)


@pytest.mark.parametrize(
    ("policy", "pause"),
    [("default", 60.0), ("spec", 900.0), ({"free_moments": False}, 900.0)],
)
def test_none_without_a_pause_or_where_it_is_off(policy: Any, pause: float) -> None:
    window = context_of(said(40), pause=pause, policy=policy).window()
    assert not any(entry.because == "compact" for entry in window.entries)


def test_what_is_written_for_an_hour_is_not_cold_after_a_quarter() -> None:
    messages = said(40)
    context = Context(MODEL, way_back="windlass recall")
    for at, message in enumerate(messages):
        usage = {}
        if message["role"] == "assistant":
            context.window()
            kinds = {"ephemeral_1h_input_tokens": 1_900, "ephemeral_5m_input_tokens": 0}
            usage = {
                "usage": {
                    "input_tokens": 10,
                    "cache_read_input_tokens": 2_000 * at,
                    "cache_creation_input_tokens": 1_900,
                    "cache_creation": kinds,
                    "output_tokens": 5,
                }
            }
        last = at == len(messages) - 1
        context.append({**message, **usage, "at": at + 900 * last})
    assert not any(entry.because == "compact" for entry in context.window().entries)


def test_where_thinking_is_bound_what_is_left_of_it_goes_with_the_compaction() -> None:
    messages = said(40)
    for number, message in enumerate(messages):
        if message["role"] == "assistant":
            arguments = json.loads(message["tool_calls"][0]["function"]["arguments"])
            message.update(
                content=[
                    {"type": "thinking", "thinking": "Well.", "signature": f"s{number}"},
                    {
                        "type": "tool_use",
                        "id": message.pop("tool_calls")[0]["id"],
                        "name": "read_file",
                        "input": arguments,
                    },
                ]
            )
        elif message["role"] == "tool":
            result = {
                "type": "tool_result",
                "tool_use_id": message.pop("tool_call_id"),
                "content": message["content"],
            }
            message.update(role="user", content=[result])
    context = Context("anthropic/claude-opus-5-5", way_back="windlass recall")
    for at, message in enumerate(messages):
        if message["role"] == "assistant":
            context.window()
        context.append({**message, "at": at + 900 * (at == len(messages) - 1)})
    shown = json.dumps(context.window().messages)
    assert "[Compaction before call 41" in shown
    assert '"thinking"' not in shown


def test_the_option_is_checked() -> None:
    for bad in ({"when": 1}, {"priced": 0.5}, {"keep": {"share": 2}}, 7):
        with pytest.raises(UsageError, match="free_moments"):
            Context(MODEL, {"free_moments": bad})
