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
from tests.caching.requests import mark
from tests.window.cache import LOOKBACK, MOST, Cache, Read, blocks_of, marked_last_only
from tests.window.conversations import chats, policies
from windlass.caching.breakpoints import (
    TOOLS,
    Breakpoints,
    MarkRules,
    Outlook,
    cache_key,
    mark_rules,
    marks,
)
from windlass.caching.prices import Prices
from windlass.messages import (
    Message,
    Opaque,
    Text,
    ToolCall,
    ToolSpec,
    assistant,
    system,
    tool,
    user,
)
from windlass.wire.marks import in_chat

CLAUDE = "anthropic/claude-sonnet-4-5"
MINIMUM = 1_024
RECORDED = json.loads(
    (Path(__file__).parents[1] / "data" / "tau2_retail.json").read_text(encoding="utf-8")
)["messages"]
AT_ONCE = {"mask_observations_after": 2, "see_results": None, "commit": "at_once"}
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
    def test_all_that_holds_of_a_prefix_is_read_in_99_of_100_calls(self) -> None:
        ours, last = found("default")
        assert len(ours) > 200
        assert exact(ours) >= 0.99
        assert exact(last) < 0.6
        assert read(ours) >= 0.99
        assert read(last) < 0.8

    @pytest.mark.parametrize(
        ("policy", "least", "share", "last_only"),
        [(AT_ONCE, 0.9, 0.99, 0.5), ("spec", 0.9, 0.95, 0.9)],
        ids=["masks at once", "spec"],
    )
    def test_edits_at_every_call_leave_most_of_it(
        self, policy: Any, least: float, share: float, last_only: float
    ) -> None:
        """An entry stands only where a mark stood: an edit that nothing foretold has none near."""
        ours, last = found(policy)
        assert exact(ours) >= least
        assert read(ours) >= share
        assert read(last) < last_only

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

    @pytest.mark.parametrize("count", [18, 19, 20, 21, 60])
    def test_many_results_at_once_do_not_lose_the_prefix(self, count: int) -> None:
        said = [system("You are careful. " * 400), user("Go.")]
        calls = [ToolCall(f"c{number}", "look", "{}") for number in range(count)]
        grown = [*said, assistant(calls=calls), *(tool(call, "ok") for call in calls)]
        before = place(said)
        after = place(grown, before, shared=2)
        assert (len(grown) - 1, 0) in after.places
        assert len(after.places) <= MOST
        assert (1, 0) in after.places  # twice as many blocks on, out of reach of the end


class TestPlaces:
    def test_no_more_than_four_in_order_and_none_twice(self) -> None:
        said = [system("x " * 9_000), user("Go.")]
        before, rnd = Breakpoints(), random.Random(7)
        for number in range(60):
            calls = [ToolCall(f"c{number}_{at}", "look", "{}") for at in range(rnd.randrange(1, 9))]
            said += [assistant("I look.", calls=calls), *(tool(c, "long " * 99) for c in calls)]
            shared = rnd.randrange(1, len(said))
            before = place(said, before, shared=shared, soon=[rnd.randrange(len(said))])
            assert len(before.places) <= MOST
            assert list(before.places) == sorted(set(before.places))
            assert set(before.places) <= set(before.entries)
            assert before.places[-1][0] == len(said) - 1

    def test_neither_thinking_nor_empty_text_is_marked(self) -> None:
        thought = Opaque("anthropic", "thinking", '{"type": "thinking"}')
        said = [user("Go."), Message("assistant", (Text("Well."), thought)), user(" \n")]
        assert place(said).places == ((0, 0), (1, 0))

    def test_the_head_is_marked_where_it_is_long_enough(self) -> None:
        said = [system("You are careful. " * 400), user("Go.")]
        told = ToolSpec("look", "Looks. " * 900, {"type": "object"})
        assert mark(None, CLAUDE, said).places == ((0, 0), (1, 0))
        assert mark(None, CLAUDE, said[1:], [told]).places == ((TOOLS, 0), (0, 0))
        assert mark(None, CLAUDE, [system("Brief."), user("Go.")]).places == ((1, 0),)

    def test_other_tools_share_nothing(self) -> None:
        said = [user("Go."), assistant("So."), user("On.")]
        first = mark(None, CLAUDE, said[:1])
        assert mark(first, CLAUDE, said).marks.entries[0] == (0, 0)
        other = mark(None, CLAUDE, said[:1], [ToolSpec("look", "", {})])
        assert mark(other, CLAUDE, said).marks.entries == mark(None, CLAUDE, said).marks.entries

    def test_what_is_not_worth_writing_stands_behind_the_last_mark(self) -> None:
        said = [system("You are careful. " * 400), user("Go.")]
        calls = [ToolCall(f"c{number}", "look", "{}") for number in range(3)]
        grown = [*said, assistant(calls=calls), *(tool(call, "long " * 400) for call in calls)]
        before = place(said)
        assert place(grown, before, shared=2, until=4).places[-1] == (3, 0)
        # What was written before is read, though less than that is worth writing.
        assert place(grown, before, shared=2, until=1).places[-1] == (1, 0)
        assert place(grown, until=0) == Breakpoints((), (), len(grown))
        assert place(grown, until=len(grown)) == place(grown)

    def test_openai_is_asked_at_every_mark_that_was_written(self) -> None:
        said, sent = [system("x " * 4_000), user("Go.")], None
        for number in range(120):
            sent = mark(sent, "openai/gpt-5.6", said)
            assert all(said[at].role != "assistant" for at, _ in sent.places)
            call = ToolCall(f"c{number}", "look", "{}")
            said += [assistant(calls=[call]), tool(call, "long " * 99)]
        assert sent is not None
        assert len(sent.places) == 80
        assert len(sent.marks.entries) > 100
        edited = mark(sent, "openai/gpt-5.6", [*said[:50], user("Else.")])
        assert set(edited.places) >= {(49, 0), (50, 0)}

    @pytest.mark.parametrize("model", ["openai/gpt-4.1", "gemini/gemini-3-pro", "local/qwen"])
    def test_automatic_caches_get_no_marks(self, model: str) -> None:
        provider, _, name = model.partition("/")
        assert mark_rules(provider, name) is None
        assert mark(None, model, [user("Go.")]).places == ()

    def test_requests_that_begin_alike_share_a_key(self) -> None:
        tools = [ToolSpec("look", "", {"type": "object"})]
        one = cache_key([system("S"), user("a")], tools)
        assert one == cache_key([system("S"), user("b"), assistant("c")], tools)
        assert len({one, cache_key([system("S")]), cache_key([system("T")], tools)}) == 3
        assert len(one) <= 64

    def test_parts_in_chat_form_are_those_of_the_content(self) -> None:
        keys = Opaque("openai", "with", "{}")
        call = ToolCall("c", "look", "{}")
        message = Message("assistant", (Text("a"), keys, Text("b")), (call,))
        assert [in_chat(message, part) for part in (0, 2, 3)] == [0, 1, 2]


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

    def test_a_mark_follows_its_message_where_others_are_left_out(self) -> None:
        said = parallel(1, turns=12)
        window = windlass.bound(said, CLAUDE, {"keep_recent_turns": 2, "see_results": None})
        assert len(window.messages) < len(said) / 2
        assert window.breakpoints[0] == (0, 0)
        assert window.breakpoints[-1] == (len(window.messages) - 1, 0)

    def test_a_model_without_marks_gets_none(self) -> None:
        for model in ("openai/gpt-4o", "openai/gpt-4.1"):
            window = windlass.bound(parallel(1, turns=3), model)
            assert window.breakpoints == ()
            assert blocks_of(window.wire("anthropic"))[1] == []

    def test_where_nothing_is_cached_there_are_none(self) -> None:
        said = parallel(1, turns=3)
        window = windlass.bound(said)
        assert window.breakpoints == ()
        assert blocks_of(window.wire("anthropic"))[1] == []
        cache = Prices(read=0.1, write=1.25, minimum=1_024, step=1, ttl_s=300)
        assert windlass.bound(said, policy={"see_results": None}, prices=cache).breakpoints[-1] == (
            len(said) - 1,
            0,
        )

    def test_openais_own_form_has_marks_and_key(self) -> None:
        body = windlass.bound(parallel(1, turns=3), "openai/gpt-5.6").wire("openai")
        assert body["prompt_cache_options"] == {"mode": "explicit"}
        assert body["prompt_cache_key"].startswith("windlass-")
        assert json.dumps(body["messages"]).count('"prompt_cache_breakpoint"') >= 2

    @pytest.mark.req("CE-40")
    def test_the_list_of_tools_never_flickers(self) -> None:
        """A tool that is not defined any more stays so defined when its only call is left out."""
        said = parallel(2, turns=12)
        old = {"name": "gone", "arguments": "{}"}
        said[2:2] = [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "g", "type": "function", "function": old}],
            },
            {"role": "tool", "tool_call_id": "g", "content": "gone " * 200},
        ]
        sent = bodies(said, {"keep_recent_turns": 4})
        assert '"name": "gone"' in json.dumps(sent[2]["messages"])
        assert '"name": "gone"' not in json.dumps(sent[-1]["messages"])
        lists = [json.dumps([one["name"] for one in body["tools"]]) for body in sent[2:]]
        assert set(lists) == {'["gone", "lookup"]'}

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
