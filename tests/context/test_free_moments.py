"""One message takes the place of an earlier conversation, and each piece of it leads back."""

from __future__ import annotations

import re
from typing import Any

import pytest

import windlass
from tests.validators.thinking import Thinking

MODEL = "anthropic/claude-sonnet-4-5"
BOUND = "anthropic/claude-opus-5-5"
GO: dict[str, Any] = {"role": "user", "content": "Mend the crane: berth_q7 must never be empty."}
EARLY: dict[str, Any] = {"free_moments": {"threshold": 40_000}}
REFERENCE = re.compile(r"result_[0-9a-f]{8,}")
TOOL: dict[str, Any] = {
    "name": "read",
    "description": "Read a file.",
    "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}},
}
HOUR = 3_600.0


def source(number: int) -> str:
    lines = (f"    crane_{number}_{at} = lift(load={at * number}, berth={at})" for at in range(200))
    return "\n".join([f"def mod_{number}():", *lines])


def turn(number: int) -> list[dict[str, Any]]:
    """A read of a file, with a signed thought."""
    path = f"src/mod_{number}.py"
    return [
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Well.", "signature": f"sig {number}"},
                {"type": "tool_use", "id": f"t{number}", "name": "read", "input": {"path": path}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": f"t{number}", "content": source(number)}
            ],
        },
    ]


def said(turns: int) -> list[dict[str, Any]]:
    return [GO, *(one for number in range(1, turns + 1) for one in turn(number))]


def compacted(window: Any) -> list[Any]:
    return [entry for entry in window.entries if entry.because == "compact"]


def text_of(window: Any) -> str:
    """The words of the compaction of a window."""
    body = window.wire("anthropic")["messages"]
    (block,) = (
        one["text"]
        for message in body
        if isinstance(message["content"], list)
        for one in message["content"]
        if one["type"] == "text" and one["text"].startswith("[Compaction before call")
    )
    return str(block)


@pytest.mark.parametrize("model", [MODEL, BOUND])
def test_each_reference_of_a_compaction_leads_to_what_was_said(model: str) -> None:
    context = windlass.Context(model, EARLY, recall=True, tools=[TOOL])
    checker, windows = Thinking(), []
    for message in said(24):
        if message["role"] == "assistant":
            windows.append(context.window())
            body = windows[-1].wire("anthropic")
            assert model == MODEL or checker.check(body) is None
            checker.note(body, message["content"])
        context.append(message)
    window = context.window()
    assert compacted(window)
    first = next(at for at, each in enumerate(windows) if compacted(each))
    assert 0 < first < len(windows) - 1
    assert windows[first].tokens < 0.85 * windows[first - 1].tokens
    assert {entry.action for entry in compacted(windows[first])} == {"folded"}
    for entry in compacted(windows[first]):
        assert "the window is nearly full" in entry.reason
        assert context.recall(entry.reference)
    text = text_of(windows[first])
    references = set(REFERENCE.findall(text))
    assert references
    whole = [source(number) for number in range(1, 25)]
    for reference in references:
        told = context.recall(reference)
        assert any(each in told for each in whole) or "src/mod_" in told
    # What the user said stands where it stood before, and the newest read is whole.
    assert windows[first].messages[0]["content"][0]["text"] == GO["content"]
    assert source(first) in str(windows[first].messages[-1]).replace("\\n", "\n")


def test_after_a_pause_longer_than_the_cache_lives_and_not_before() -> None:
    def window(pause: float, policy: Any) -> Any:
        context = windlass.Context(MODEL, policy, tools=[TOOL])
        for at, message in enumerate(said(16)):
            late = pause if at == 32 else 0.0
            context.append({**message, "at": 1_000_000.0 + 10.0 * at + late})
            if message["role"] == "user":
                found = context.window()
        return found

    assert not compacted(window(10.0, "default"))
    (reason,) = {entry.reason for entry in compacted(window(3 * HOUR, "default"))}
    assert reason.startswith("nothing is cached; ")
    assert not compacted(window(3 * HOUR, "spec"))
    assert not compacted(window(3 * HOUR, {"free_moments": False}))
    assert not compacted(window(3 * HOUR, {"free_moments": {"cold": False, "priced": None}}))


def test_what_a_provider_compacted_stays_whole_behind_a_compaction() -> None:
    made = {"type": "compaction", "content": None, "signature": "of the provider"}
    listed = said(24)
    listed[3] = {**listed[3], "content": [made, *listed[3]["content"]]}
    context = windlass.Context(BOUND, EARLY, tools=[TOOL])
    for message in listed:
        context.append(message)
        if message["role"] == "user":
            window = context.window()
    assert made in [
        {key: one[key] for key in one if key != "cache_control"}
        for message in window.wire("anthropic")["messages"]
        for one in message["content"]
        if isinstance(one, dict) and one.get("type") == "compaction"
    ]
    assert compacted(window)


@pytest.mark.parametrize(
    ("model", "compacts"), [("openai/gpt-4o", True), ("openai/gpt-to-come", False)]
)
def test_a_window_that_is_a_guess_is_no_limit(model: str, compacts: bool) -> None:
    prices = windlass.Prices(0.1, 1.0, 1_024, 128, None)
    policy = {"free_moments": {"priced": None}, "cuts": None, "compress": None}
    context = windlass.Context(model, policy, prices=prices, way_back="recall")
    found = []
    for message in said(60):
        if message["role"] == "assistant":
            found += compacted(context.window())
        context.append(message)
    assert bool(found) == compacts


@pytest.mark.parametrize(("kind", "cold"), [("5m", True), ("1h", False)])
def test_the_cache_lives_as_long_as_what_was_written_to_it(kind: str, cold: bool) -> None:
    context = windlass.Context(MODEL, {"free_moments": {"priced": None}}, tools=[TOOL])
    for at, message in enumerate(said(16)):
        given = {**message, "at": 1_000_000.0 + 10.0 * at + 900.0 * (at == 32)}
        if message["role"] == "assistant":
            context.window()
            given["usage"] = {
                "input_tokens": 10,
                "cache_read_input_tokens": 1_500 * at,
                "cache_creation_input_tokens": 1_900,
                "cache_creation": {f"ephemeral_{kind}_input_tokens": 1_900},
                "output_tokens": 5,
            }
        context.append(given)
    assert bool(compacted(context.window())) == cold
