"""Marks that end before what the next call will shorten, through `Context`."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

import windlass
from tests.window.conversations import chats, policies
from windlass.caching.prices import Prices

CLAUDE = "anthropic/claude-sonnet-4-5"
CACHE = Prices(read=0.1, write=1.25, minimum=1_024, step=1, ttl_s=300)
RULES = {"role": "system", "content": "You are careful with each order. " * 200}


def listing(number: int, lines: int = 150) -> str:
    """Output of which a digest keeps little."""
    return "\n".join(f"row {number}-{line} is well and nothing to see" for line in range(lines))


def turn(number: int, *texts: str) -> list[dict[str, Any]]:
    """A turn of one call for each text."""
    ids = [f"call_{number}_{at}" for at in range(len(texts))]
    function = {"name": "run", "arguments": f'{{"command": "job {number}"}}'}
    calls = [{"id": each, "type": "function", "function": function} for each in ids]
    results = zip(ids, texts, strict=True)
    return [
        {"role": "assistant", "content": "I look.", "tool_calls": calls},
        *({"role": "tool", "tool_call_id": each, "content": text} for each, text in results),
    ]


def context(policy: Any = "default", **more: Any) -> windlass.Context:
    """A conversation with a task."""
    made = windlass.Context(CLAUDE, policy, prices=CACHE, way_back="", **more)
    for message in (RULES, {"role": "user", "content": "Look after the jobs."}):
        made.append(message)
    return made


class TestMarksAhead:
    @pytest.mark.parametrize("commit", ["priced", "at_once"])
    def test_a_result_that_the_next_call_sees_as_a_digest_is_not_written(self, commit: str) -> None:
        loop = context({"commit": commit, "cuts": None})
        for message in turn(1, listing(1)):
            loop.append(message)
        first = loop.window()
        assert first.messages[3]["content"] == listing(1)
        assert first.breakpoints[-1][0] == 2
        for message in turn(2, listing(2)):
            loop.append(message)
        second = loop.window()
        assert len(second.messages[3]["content"]) < 800
        assert second.messages[:3] == first.messages[:3]
        assert second.breakpoints[-1][0] == 4

    def test_a_result_that_stays_is_written(self) -> None:
        loop = context()
        for message in turn(1, "All 12 jobs are done."):
            loop.append(message)
        assert loop.window().breakpoints[-1][0] == 3

    def test_a_pinned_result_is_written(self) -> None:
        loop = context(pins=[3])
        for message in turn(1, listing(1)):
            loop.append(message)
        assert loop.window().breakpoints[-1][0] == 3

    def test_what_was_not_written_is_shortened_for_nothing(self) -> None:
        """A result before one that stays: where both are written a digest would not pay."""
        stays = "\n".join(f"def step_{line}(order): return {line}" for line in range(120))
        said = turn(1, listing(1), stays)
        reads = {"name": "read_file", "arguments": '{"path": "steps.py"}'}
        said[0]["tool_calls"][1]["function"] = reads

        def second_call(model: str) -> list[dict[str, Any]]:
            loop = windlass.Context(model, {"cuts": None}, prices=CACHE, way_back="")
            for message in (RULES, {"role": "user", "content": "Go."}, *said, *turn(2, "Done.")):
                loop.append(message)
            return loop.window().messages

        without_marks = second_call("openai/gpt-4o")
        assert [message["content"] for message in without_marks[3:5]] == [listing(1), stays]
        marked = second_call(CLAUDE)
        assert len(marked[3]["content"]) < 800
        assert marked[4]["content"] == stays

    def test_what_was_not_written_is_not_expected_in_the_cache(self) -> None:
        loop = context()
        for message in turn(1, listing(1)):
            loop.append(message)
        first = loop.window()
        for message in turn(2, "All is done."):
            loop.append(message)
        loop.conversation.pin(loop.ident_at(3))  # so it stays, though it was not written
        second = loop.window()
        assert second.messages[:4] == first.messages
        written = first.messages[: first.breakpoints[-1][0] + 1]
        whole = windlass.Context(CLAUDE, {"enabled": False}, prices=CACHE)
        for message in written:
            whole.append(message)
        assert 0 < second.planned.expected <= whole.window().tokens

    def test_before_the_shortest_prefix_that_is_kept_all_is_written(self) -> None:
        loop = windlass.Context(CLAUDE, prices=CACHE)
        for message in ({"role": "user", "content": "Look."}, *turn(1, listing(1, 60))):
            loop.append(message)
        assert loop.window().breakpoints[-1][0] == 2

    @given(chats(), policies())
    def test_marks_ahead_never_lose_what_was_written(self, said: Any, policy: Any) -> None:
        """A later request marks at least as far as an earlier one, while its head is the same."""
        loop = windlass.Context(CLAUDE, policy, prices=CACHE)
        before: list[Any] = []
        until = -1
        for message in said:
            if message["role"] == "assistant" and loop.appended:
                window = loop.window()
                places = [at for at, _ in window.breakpoints]
                if places and window.messages[: until + 1] == before[: until + 1]:
                    assert places[-1] >= min(until, len(window.messages) - 1)
                before, until = list(window.messages), max(places, default=-1)
            loop.append(message)
