"""A block at the end of each call of a loop: `Context.window(block=...)`."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given

import windlass
from tests.support.context_bound import lookup, loop
from tests.support.window_intake import problems
from tests.window.conversations import chats, policies
from windlass.caching.prices import Prices

ANTHROPIC = Prices(read=0.1, write=1.25, minimum=1_024, step=1, ttl_s=300)


def texts(chat: dict[str, Any]) -> list[str]:
    """The texts of a chat dict's content."""
    content = chat["content"] or ""
    if isinstance(content, str):
        return [content]
    return [part["text"] for part in content if part["type"] == "text"]


def blocks(window: Any) -> dict[int, str]:
    """The blocks in a window, by the message at whose end they stand."""
    ends = {at: texts(chat)[-1:] for at, chat in enumerate(window.messages)}
    return {at: end[0] for at, end in ends.items() if end and end[0].startswith("<block")}


def windows(messages: list[dict[str, Any]], size: int = 10, **options: Any) -> list[Any]:
    """The window of each call, told `<block N>` at its end."""
    context = windlass.Context(**options)
    made: list[Any] = []
    for number, message in enumerate(messages):
        if message["role"] == "assistant" and number:
            made.append(context.window(f"<block {len(made)}>" + "." * size))
        context.append(message)
    if messages[-1]["role"] != "assistant":
        made.append(context.window(f"<block {len(made)}>" + "." * size))
    return made


@pytest.mark.req("CE-15")
class TestBlocks:
    @given(chats(), policies())
    def test_blocks_stand_at_the_ends_until_something_in_front_changes(
        self, messages: list[dict[str, Any]], options: dict[str, Any]
    ) -> None:
        given = copy.deepcopy(messages)
        made = windows(messages, policy=options, prices=ANTHROPIC)
        before: list[Any] = []
        for number, window in enumerate(made):
            found, shown = blocks(window), window.messages
            assert problems(window) == []
            if shown[-1]["role"] in ("user", "tool"):
                assert found.pop(len(shown) - 1).startswith(f"<block {number}>")
            same = 0
            while same < min(len(before), len(shown)) and before[same] == shown[same]:
                same += 1
            # What stands of older ones is all that stood there, and nothing stands behind.
            assert all(at < same for at in found)
            assert found == {at: text for at, text in standing(before) if at < same}
            before = shown
        assert messages == given

    @pytest.mark.parametrize("reported", [False, True])
    def test_a_report_with_the_answer_leaves_the_block_in_place(self, reported: bool) -> None:
        context = windlass.Context(prices=ANTHROPIC)
        for number, message in enumerate(loop(4)):
            if message["role"] == "assistant" and number:
                window = context.window(f"<block {number}>")
                usage = {"prompt_tokens": window.tokens, "completion_tokens": 3}
                context.append({**message, "usage": usage} if reported else message)
            else:
                context.append(message)
        assert blocks(context.window("")) == {0: "<block 1>", 2: "<block 3>", 4: "<block 5>"}

    def test_asking_again_changes_nothing(self) -> None:
        context = windlass.Context(prices=ANTHROPIC)
        for message in loop(2):
            context.append(message)
        first = context.window("<block>")
        assert context.window().messages == context.window("<block>").messages == first.messages
        other = context.window("<block> other")
        assert blocks(other) == {len(other.messages) - 1: "<block> other"}
        context.append({"role": "assistant", "content": "done"})
        context.append({"role": "user", "content": "More."})
        assert "<block> other" in blocks(context.window()).values()

    def test_where_nothing_is_cached_only_the_last_is_sent(self) -> None:
        *_, last = windows(loop(4), prices=Prices(1, 1, 0, 1, None))
        assert list(blocks(last)) == [len(last.messages) - 1]
        kept = windows(loop(4), prices=ANTHROPIC, policy={"profile": "default", "enabled": False})
        assert len(blocks(kept[-1])) == 5

    def test_a_long_pause_takes_older_ones(self) -> None:
        context = windlass.Context(prices=ANTHROPIC)
        context.append({"role": "user", "content": "Go on.", "at": 0})
        context.window("<block 0>")
        context.append({"role": "assistant", "content": "Yes?", "at": 10})
        context.append({"role": "user", "content": "Here.", "at": 1_000})
        assert blocks(context.window("<block 1>")) == {2: "<block 1>"}

    def test_a_limit_holds_with_blocks(self) -> None:
        bare = windows(loop(6), max_input_tokens=9_000, prices=ANTHROPIC)
        assert max(window.tokens for window in bare) <= 9_000
        long = windows(loop(6), size=12_000, max_input_tokens=9_000, prices=ANTHROPIC)
        assert max(window.tokens for window in long) <= 9_000
        assert all(len(blocks(window)) >= 1 for window in long)

    def test_the_planner_is_told_what_stands(self) -> None:
        # Fewer than 1,024 tokens were sent, too few to be cached: when a long result comes, all of
        # it may change for nothing. With blocks the same prefix is cached, and stays.
        said = loop(0)
        for number, lines in enumerate((60, 2, 300)):
            told = "\n".join(f"order {number}{at} went out in good time" for at in range(lines))
            said += lookup(number, told)
        bare = windows(said, prices=ANTHROPIC)
        more = windows(said, size=1_000, prices=ANTHROPIC)
        said_by = [
            sum(len(text) for chat in w.messages for text in texts(chat))
            for w in (bare[-2], more[-2])
        ]
        assert said_by[0] / 4 < ANTHROPIC.minimum < said_by[1] / 4
        assert bare[-1].messages[2] != bare[-2].messages[2]
        assert more[-1].messages[: len(more[-2].messages)] == more[-2].messages

    def test_marks_stand_in_front_of_what_changes(self) -> None:
        context = windlass.Context("anthropic/claude-sonnet-4-5")
        context.append({"role": "user", "content": "Long. " * 2_000})
        window = context.window("<block>")
        assert window.breakpoints == ((0, 0),)
        (said,) = window.wire("anthropic")["messages"]
        assert ["cache_control" in part for part in said["content"]] == [True, False]

    def test_entries_and_tokens_tell_of_it(self) -> None:
        context = windlass.Context(prices=ANTHROPIC)
        context.append({"role": "user", "content": "Go on."})
        bare = context.window()
        window = context.window("<block>")
        (one,) = window.entries
        assert (one.action, one.because) == ("shown", "inject")
        assert window.tokens > bare.tokens
        assert window.saved_tokens == bare.saved_tokens == 0

    def test_an_answer_without_a_window_has_no_block(self) -> None:
        context = windlass.Context(prices=ANTHROPIC)
        context.append({"role": "user", "content": "One."})
        context.window("<block>")
        context.append({"role": "user", "content": "Two."})  # another call than was asked about
        context.append({"role": "assistant", "content": "Yes."})
        context.append({"role": "user", "content": "Three."})
        assert blocks(context.window()) == {}


def standing(messages: list[Any]) -> list[tuple[int, str]]:
    """The blocks in a list of messages."""
    found: list[tuple[int, str]] = []
    for at, chat in enumerate(messages):
        end = texts(chat)[-1:]
        if end and end[0].startswith("<block"):
            found.append((at, end[0]))
    return found
