"""Where a model binds its thinking to all that stood before it, no window is refused for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import windlass
from tests.support.context_bound_thinking import MODEL, in_anthropics_form, thinking
from tests.validators.thinking import Thinking
from tests.window.conversations import policies, seeds

PRICES = windlass.Prices(read=0.1, write=1.25, minimum=64, step=1, ttl_s=300)


def walk(
    context: windlass.Context, said: Sequence[Mapping[str, Any]], kinds: Sequence[int]
) -> tuple[Thinking, int]:
    """Make each call of a history as its user would; returns what was checked, and how often."""
    checker, calls = Thinking(), 0
    for one in said:
        message = dict(one)
        if message["role"] == "assistant" and context.appended:
            kind = kinds[calls % len(kinds)]
            window = context.window(block=f"now {calls}" if kind % 3 == 0 else None)
            body = window.wire("anthropic")
            assert checker.check(body) is None
            message["content"] = [*thinking(calls, kind), *message["content"]]
            checker.note(body, message["content"])
            calls += 1
        context.append(message)
    assert checker.check(context.window().wire("anthropic")) is None
    return checker, calls


@given(
    seeds(),
    policies(),
    st.lists(st.integers(0, 11), min_size=1, max_size=6),
    st.sampled_from([None, PRICES]),
)
def test_no_call_is_refused_for_its_thinking(
    numbers: list[int],
    options: dict[str, Any],
    kinds: list[int],
    prices: windlass.Prices | None,
) -> None:
    said, tools = in_anthropics_form(numbers)
    walk(windlass.Context(MODEL, options, prices=prices, tools=tools), said, kinds)


def test_a_call_of_a_tool_that_nobody_declared_takes_thinking_away_and_is_not_refused() -> None:
    said, tools = in_anthropics_form(range(12))
    declared = tools[: len(tools) // 2]
    assert declared
    context = windlass.Context(MODEL, tools=declared)
    _, calls = walk(context, said, [1, 5, 9])
    assert calls > 4
    assert any(entry.because == "strip" for entry in context.window().entries)


def test_what_was_left_out_is_told_with_the_message_that_changed() -> None:
    said, tools = in_anthropics_form(range(12))
    context = windlass.Context(MODEL, {"commit": "at_once", "profile": "lean"}, tools=tools)
    walk(context, said, [1])
    stripped = [entry for entry in context.window().entries if entry.because == "strip"]
    assert stripped
    for entry in stripped:
        assert entry.action == "replaced"
        assert entry.reason.startswith("thinking is bound to all that stood before it, and message")


@pytest.mark.parametrize(("model", "left"), [("claude-opus-5", [1, 4]), ("claude-opus-5-5", [1])])
def test_an_edit_takes_thinking_along_but_for_an_open_round_that_is_wanted_back(
    model: str, left: list[int]
) -> None:
    """Models that do not check read what is out of date as if nothing had happened."""

    def turn(number: int) -> list[dict[str, Any]]:
        call = {"type": "tool_use", "id": f"t{number}", "name": "look", "input": {"at": number}}
        text = f"seen {number}: " + " ".join(f"word_{number}_{at}" for at in range(900))
        result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": text}
        reply = {"role": "assistant", "content": [*thinking(number, 0), call]}
        return [reply, {"role": "user", "content": [result]}]

    context = windlass.Context(f"anthropic/{model}", {"profile": "spec", "commit": "at_once"})
    users = [{"role": "user", "content": f"Look {number}."} for number in range(2)]
    for message in [users[0], *turn(1), *turn(2), *turn(3), users[1], *turn(4)]:
        context.append(message)
        if message["role"] == "user":
            window = context.window()
    shown = [block for message in window.messages for block in message["content"]]
    signed = [b["signature"] for b in shown if isinstance(b, dict) and b["type"] == "thinking"]
    assert [entry.because for entry in window.entries].count("compress") >= 1
    assert signed == [f"sig {number}" for number in left]
