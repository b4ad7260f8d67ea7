"""What a provider compacted goes back whole, in order and at its place, through every door."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import windlass
from windlass.window.profiles import PROFILES

Objects = list[dict[str, Any]]
LONG = "\n".join(f"line {at}: value {at * 7} of item_{at:04}" for at in range(90))

POLICIES: dict[str, Any] = {
    **{name: name for name in PROFILES},
    "at once": {"profile": "lean", "commit": "at_once"},
    "newest turns": {"keep_recent_turns": 1, "commit": "at_once"},
    "a limit": {"max_input_tokens": 3_000, "commit": "at_once"},
    "decay": {"decay": {"full": 1, "fold": 1}, "commit": "at_once"},
    "fold": {"fold_after": 1, "commit": "at_once"},
    "short words": {"reasoning_max_chars": 10, "preserve_reasoning": False, "commit": "at_once"},
}


Shape: TypeAlias = tuple[str, str, bool, bool]
"""A turn: which compaction it has, whether words or a call, whether thinking, and the place."""

SHAPES = st.tuples(
    st.sampled_from(["", "", "signed", "unsigned"]),
    st.sampled_from(["words", "call"]),
    st.booleans(),
    st.booleans(),
)


def anthropic_turn(turn: int, shape: Shape) -> Objects:
    kind, what, thinks, _ = shape
    blocks: dict[str, Objects] = {
        "signed": [{"type": "compaction", "content": None, "signature": f"sig {turn}"}],
        "unsigned": [{"type": "compaction", "content": f"So far, {turn}: {LONG[:900]}"}],
    }
    made = blocks.get(kind, [])
    thinking = [{"type": "thinking", "thinking": "", "signature": f"t{turn}"}] if thinks else []
    words = {"type": "text", "text": f"{turn} {LONG}"}
    used = {"type": "tool_use", "id": f"c{turn}", "name": "look", "input": {"at": turn}}
    result = {"type": "tool_result", "tool_use_id": f"c{turn}", "content": LONG}
    call = what == "call"
    said = result if call else {"type": "text", "text": f"go on {turn}"}
    own = [*made, *thinking, used if call else words]
    return [{"role": "assistant", "content": own}, {"role": "user", "content": [said]}]


def responses_turn(turn: int, shape: Shape) -> Objects:
    kind, what, thinks, behind = shape
    item = {"type": "compaction", "id": f"cmp_{turn}", "encrypted_content": f"é{turn}"}
    made = [item] if kind else []
    reasoning = {"type": "reasoning", "id": f"r{turn}", "summary": [], "encrypted_content": "x"}
    call = {"type": "function_call", "call_id": f"c{turn}", "name": "look", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": f"c{turn}", "output": LONG}
    text = {"type": "output_text", "text": f"{turn} {LONG}"}
    reply = {"type": "message", "role": "assistant", "content": [text]}
    said = {"role": "user", "content": f"go on {turn}"}
    rest = [call, output] if what == "call" else [reply, said]
    rest = [reasoning, *rest] if thinks else rest
    return [*rest, *made] if behind else [*made, *rest]


def list_of(form: str, shapes: Sequence[Shape], *, begun: bool) -> Objects:
    """A list in a form; `begun`: it begins with what a user asks."""
    make = anthropic_turn if form == "anthropic" else responses_turn
    asked: Objects = [{"role": "user", "content": "Do it."}] if begun else []
    return [*asked, *(one for at, shape in enumerate(shapes) for one in make(at, shape))]


def compactions(listed: Any) -> list[str]:
    """The compaction items of a list, as bytes without cache marks, in order."""
    found = []
    for one in listed:
        content = one.get("content")
        for each in [one, *(content if isinstance(content, list) else [])]:
            if each.get("type") == "compaction":
                bare = {key: each[key] for key in each if key != "cache_control"}
                found.append(json.dumps(bare))
    return found


FORMS = {
    "anthropic": ("anthropic/claude-opus-5-5", "messages"),
    "responses": ("openai/gpt-5.6-sol", "input"),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
@settings(max_examples=max(10, settings().max_examples // 3))
@given(shapes=st.lists(SHAPES, min_size=1, max_size=6), begun=st.booleans())
def test_it_comes_back_byte_for_byte_and_in_order(
    policy: Any, form: Any, shapes: Sequence[Shape], begun: bool
) -> None:
    model, key = FORMS[form]
    listed = list_of(form, shapes, begun=begun)
    context = windlass.Context(model, policy)
    for one in listed:
        context.append(one)
        if one.get("role") == "user" or one.get("type") == "function_call_output":
            context.window()
    for window in (context.window(), windlass.bound(listed, model, policy)):
        for sent in (window.messages, window.wire(form)[key]):
            assert compactions(sent) == compactions(listed)
            assert not compactions(listed[:1]) or compactions(sent[:1])
