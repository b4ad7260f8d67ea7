"""Cache marks: where they stand, and that what still holds of a prefix is read."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import windlass
from tests.window.cache import LOOKBACK, MOST, Cache, Read, blocks_of, marked_last_only
from tests.window.conversations import chats, policies
from windlass.caching.breakpoints import (
    Breakpoints,
    MarkRules,
    Outlook,
    marks,
)
from windlass.messages import (
    Message,
    ToolCall,
    assistant,
    tool,
    user,
)

CLAUDE = "anthropic/claude-sonnet-4-5"
MINIMUM = 1_024
RECORDED = json.loads(
    (Path(__file__).parents[1] / "data" / "tau2_retail.json").read_text(encoding="utf-8")
)["messages"]
RULES = MarkRules(most=MOST, lookback=LOOKBACK)


def parallel(seed: int, turns: int = 25) -> list[dict[str, Any]]:
    """An agent's loop with up to thirty calls at once, results long and short, and a few users."""
    rnd = random.Random(seed)
    said: list[dict[str, Any]] = [
        {"role": "system", "content": "You are careful. " * 300},
        {"role": "user", "content": "Compare the orders."},
    ]
    for number in range(turns):
        count = rnd.choice((1, 1, 1, 2, 3, 30 if number % 8 == 4 else 1))
        ids = [f"call_{number}_{at}" for at in range(count)]
        function = {"name": "lookup", "arguments": '{"order": 1}'}
        calls = [{"id": one, "type": "function", "function": function} for one in ids]
        said.append({"role": "assistant", "content": "I look.", "tool_calls": calls})
        for at, one in enumerate(ids):
            text = f"order {number}/{at}: " + "paid and sent. " * rnd.choice((2, 60, 200))
            said.append({"role": "tool", "tool_call_id": one, "content": text})
        if rnd.random() < 0.2:
            said.append({"role": "assistant", "content": "Which one?"})
            said.append({"role": "user", "content": f"The one of day {number}."})
    return said


def bodies(said: Sequence[dict[str, Any]], policy: Any) -> list[dict[str, Any]]:
    """What each call of a loop would send to Anthropic."""
    context = windlass.Context(CLAUDE, policy)
    sent = []
    for number, message in enumerate(said):
        if message["role"] == "assistant" and said[number - 1]["role"] in ("user", "tool"):
            sent.append(context.window().wire("anthropic"))
        context.append(message)
    return sent


def reads(sent: Sequence[dict[str, Any]], *, seconds: float = 5) -> list[Read]:
    """What the cache finds of each request."""
    cache = Cache(MINIMUM)
    return [cache.send(body, number * seconds) for number, body in enumerate(sent)]


def exact(found: Sequence[Read]) -> float:
    """The share of requests of which all that an earlier one shares was read."""
    return sum(one.read == one.shared for one in found) / len(found)


def found(policy: Any, *, seconds: float = 5) -> tuple[list[Read], list[Read]]:
    """What the cache finds of a recorded and of generated loops, and with one mark at the end."""
    loops = [bodies(RECORDED, policy), *(bodies(parallel(seed), policy) for seed in range(8))]
    ours = [one for sent in loops for one in reads(sent, seconds=seconds)]
    bare = [[marked_last_only(body) for body in sent] for sent in loops]
    return ours, [one for sent in bare for one in reads(sent, seconds=seconds)]


def read(found: Sequence[Read]) -> float:
    """The blocks read as a share of those that an earlier request shares."""
    return sum(one.read for one in found) / sum(one.shared for one in found)


def place(
    messages: Sequence[Message], before: Breakpoints | None = None, shared: int = 0, **more: Any
) -> Breakpoints:
    before = before or Breakpoints()
    return marks(messages, RULES, before, Outlook(**more), shared=shared)


class TestTheCacheIsRead:
    def test_a_slow_loop_keeps_its_entries_alive(self) -> None:
        """A minute a call: an entry that is not used for five of them is gone."""
        ours, _ = found("default", seconds=60)
        assert exact(ours) >= 0.99

    def test_after_an_edit_the_last_unchanged_block_is_marked(self) -> None:
        said = [user("Go.")]
        for number in range(40):
            call = ToolCall(f"c{number}", "look", "{}")
            said += [assistant(calls=[call]), tool(call, "long " * 100)]
        before = Breakpoints()
        for end in range(1, len(said) + 1, 2):
            before = place(said[:end], before, shared=max(0, end - 2))
        edited = said.copy()
        edited[20] = tool("c9", "short")
        after = place(edited, before, shared=20)
        assert (19, 0) in after.places
        # Out of reach of the end, so the next mark before it stands more than 20 blocks on.
        assert len(said) - 1 - 19 > LOOKBACK
        grown = place([*said, assistant("So."), user("On.")], before, shared=len(said))
        assert (19, 0) not in grown.places


class TestWindows:
    @given(chats(), policies())
    def test_whole_lists_and_single_messages_are_marked_alike(
        self, said: list[dict[str, Any]], policy: dict[str, Any]
    ) -> None:
        context = windlass.Context(CLAUDE, policy)
        for message in said:
            context.append(message)
            context.window()
        window, whole = context.window(), windlass.bound(said, CLAUDE, policy)
        assert window.breakpoints == whole.breakpoints == context.window().breakpoints
        assert len(whole.breakpoints) <= MOST
        for at, part in whole.breakpoints:
            message = whole.messages[at]
            content, calls = message["content"], message.get("tool_calls") or ()
            parts = len(content) if isinstance(content, list) else int(content is not None)
            assert part < max(1, parts) + len(calls)
        assert len(blocks_of(whole.wire("anthropic"))[1]) == len(whole.breakpoints)
        assert "cache_control" not in json.dumps(whole.messages)

    @given(st.permutations(["type", "properties", "required", "additionalProperties"]))
    @pytest.mark.req("CE-40")
    def test_a_schemas_keys_are_sent_in_one_order(self, keys: list[str]) -> None:
        schema = {
            "type": "object",
            "properties": {"b": {"type": "string", "enum": ["z", "a"]}, "a": {"type": "number"}},
            "required": ["b", "a"],
            "additionalProperties": False,
        }
        told = {key: schema[key] for key in keys}
        tools = [{"type": "function", "function": {"name": "look", "parameters": told}}]
        for provider in ("openai", "anthropic", "gemini"):
            window = windlass.bound([{"role": "user", "content": "Go."}], tools=tools)
            text = json.dumps(window.wire(provider)["tools"])
            assert text.index('"additionalProperties"') < text.index('"a"') < text.index('"b"')
            assert '["z", "a"]' in text
            assert '["b", "a"]' in text
