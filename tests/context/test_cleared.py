"""What Anthropic's API cleared of a call of somebody's own loop is told of in the next window."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import windlass
from tests.providers.thinking_server import cleared_of
from tests.support.context_bound_thinking import MODEL, in_anthropics_form, thinking
from tests.validators.thinking import Thinking
from tests.window.conversations import seeds
from windlass.messages import ToolSpec
from windlass.text.prompts import CLEARED_HEADER

ALONE = {"compress": False, "see_results": None, "lossless": None, "repeats": False, "cuts": None}
"""Nothing is shortened before it is sent."""
LOOK = [ToolSpec("look", "", {"type": "object"}).to_openai()]


def asked(body: Mapping[str, Any], keep: int) -> dict[str, Any]:
    """A request that has old tool uses cleared from the first token on."""
    edit = {
        "type": "clear_tool_uses_20250919",
        "trigger": {"type": "input_tokens", "value": 1},
        "keep": {"type": "tool_uses", "value": keep},
    }
    return {**body, "context_management": {"edits": [edit]}}


def blocks_of(messages: Sequence[Mapping[str, Any]]) -> list[Any]:
    """The blocks of messages without cache marks."""
    text = json.dumps(messages).replace(', "cache_control": {"type": "ephemeral"}', "")
    return [block for turn in json.loads(text) for block in turn["content"]]


def walk(
    context: windlass.Context, said: Sequence[Mapping[str, Any]], keep: int, block: str = ""
) -> list[Any]:
    """Make each call of a history, as its provider answers it; returns the blocks of each.

    Every third call is told the `block`.
    """
    checker, requests = Thinking(), list[Any]()
    for one in said:
        message = dict(one)
        if message["role"] == "assistant" and context.appended:
            told = block if len(requests) % 3 == 1 else None
            body = asked(context.window(told).wire("anthropic"), keep)
            assert checker.check(body) is None
            requests.append(blocks_of(body["messages"]))
            message["content"] = [*thinking(len(requests), 0), *message["content"]]
            checker.note(body, message["content"])
            message["context_management"] = {"applied_edits": cleared_of(body)[1]}
        context.append(message)
    body = context.window().wire("anthropic")
    assert checker.check(body) is None
    return [*requests, blocks_of(body["messages"])]


def rounds(count: int) -> list[dict[str, Any]]:
    """A user's message, and calls of `look` with long results."""
    said: list[dict[str, Any]] = [{"role": "user", "content": [{"type": "text", "text": "Go."}]}]
    for number in range(count):
        call = {"type": "tool_use", "id": f"t{number}", "name": "look", "input": {"at": number}}
        words = [f"value_{number}_{at} of the quick brown fox" for at in range(90)]
        text = "\n".join(["Error: no such file", *words] if number == 1 else words)
        result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": text}
        said += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    return said


def notes_in(blocks: Sequence[Any]) -> list[str]:
    """The notes of cleared results among blocks, those in results too."""
    parts = [
        part
        for block in blocks
        for part in (block.get("content", []) if block["type"] == "tool_result" else [block])
        if isinstance(part, dict)
    ]
    return [one["text"] for one in parts if one.get("text", "").startswith(CLEARED_HEADER)]


def clears(**more: Any) -> dict[str, Any]:
    return {**ALONE, "server_clear": {"keep": 2, **more}}


def test_the_next_window_ends_in_a_note_that_recall_answers() -> None:
    context = windlass.Context(MODEL, clears(), tools=LOOK, recall=True)
    *_, before, last = walk(context, rounds(5), 2)
    (note,) = notes_in(before[-1:])
    head, line = note.split("\n")
    assert head == CLEARED_HEADER
    assert line.startswith("[look 0, result_")
    assert "value_0_1" in line
    assert context.recall(line.split(": ")[0].split()[-1]).endswith(
        "value_0_89 of the quick brown fox"
    )
    (newest,) = notes_in(last[-1:])
    assert newest.split("\n")[1].startswith("[look 1, result_")
    assert ": Error: no such file | value_1_0 " in newest
    window = context.window()
    assert newest in json.dumps(window.messages).replace("\\n", "\n")
    assert "a note of what the provider cleared" in window.entries[-1].reason
    assert context.window().messages == window.messages


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        (clears(), True),
        (clears(exclude_tools=["look"]), False),
        ({**ALONE, "server_clear": None}, False),
        ({**clears(), "enabled": False}, False),
    ],
)
def test_only_what_the_policy_has_cleared_is_told(policy: dict[str, Any], told: bool) -> None:
    requests = walk(windlass.Context(MODEL, policy, tools=LOOK), rounds(5), 2)
    assert any(map(notes_in, requests)) is told


def test_a_note_that_is_cleared_itself_is_said_anew() -> None:
    requests = walk(windlass.Context(MODEL, clears(), tools=LOOK), rounds(9), 2)
    (note,) = notes_in(requests[-1][-1:])
    # The results that are whole hold their own lines; all others have one in view.
    results = [block for block in requests[-1] if block["type"] == "tool_result"]
    seen = "\n".join(notes_in(results[-3:]))
    assert [f"[look {number}, " in seen for number in range(9)] == [True] * 6 + [False] * 3
    assert len(note) <= 8_000


def test_short_results_share_a_note_and_the_shortest_have_none() -> None:
    said = rounds(12)
    for number, one in enumerate(said[2::2]):
        one["content"][0]["content"] = "ok" if number == 0 else f"found value_{number} " * 20
    requests = walk(windlass.Context(MODEL, clears(keep=1), tools=LOOK), said, 1)
    notes = "\n".join(note for blocks in requests for note in notes_in(blocks))
    assert "[look 5, " in notes
    assert ": value_5" in notes
    assert "[look 0, " not in notes


def test_a_list_of_windows_that_are_handed_back_is_told_of_once() -> None:
    context = windlass.Context(MODEL, clears(keep=4), tools=LOOK)
    walk(context, rounds(6), 4)
    handed = [dict(one) for one in context.window().messages]
    for message, own in zip(handed, context.appended, strict=True):
        if "context_management" in own:
            message["context_management"] = own["context_management"]
    again = windlass.Context(MODEL, clears(keep=4), tools=LOOK)
    for message in handed:
        again.append(message)
    (note,) = notes_in(blocks_of(context.window().messages))
    assert notes_in(blocks_of(again.window().messages)) == [note]


@given(seeds(), st.integers(0, 4), st.sampled_from([ALONE, {}]), st.sampled_from(["", "now"]))
def test_nothing_that_was_sent_changes(
    numbers: list[int], keep: int, options: dict[str, Any], block: str
) -> None:
    said, tools = in_anthropics_form(numbers)
    policy = {**options, "server_clear": {"keep": keep}}
    requests = walk(windlass.Context(MODEL, policy, tools=tools), said, keep, block)
    for before, now in pairwise(requests):
        assert now[: len(before)] == before
    for note in {note for blocks in requests for note in notes_in(blocks)}:
        assert len(note) <= 8_000
