"""A phase and a `Context` that are fed the same messages make the same windows."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import windlass
from tests.engine.harness import House, call, calls, cascade, phase
from tests.window.conversations import KINDS, VARIANTS, result_text
from windlass.caching.prices import UNCACHED
from windlass.wire.openai import to_openai

READERS = [
    name for name in KINDS if name not in {"list_files", "read_file", "http_get", "web_search"}
]
"""Tools with names that Windlass does not have itself."""
TURN = st.tuples(st.sampled_from(READERS), st.integers(0, VARIANTS - 1), st.integers(0, 3))


def tool(name: str) -> Callable[..., str]:
    """A tool that answers what `result_text` says."""

    def answer(variant: int, path: int) -> str:
        del path
        return result_text(name, variant)

    answer.__name__, answer.__doc__ = name, "A tool of the conversation."
    return answer


@given(turns=st.lists(TURN, min_size=2, max_size=7), commit=st.sampled_from(["at_once", "priced"]))
@settings(
    max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
async def test_the_windows_are_the_same(
    house: House, turns: list[tuple[str, int, int]], commit: str
) -> None:
    replies: list[Any] = [
        calls(call(name, json.dumps({"variant": variant, "path": path})), text="I look.")
        for name, variant, path in turns
    ]
    ran = await house.run(
        cascade(
            phase("a", tackle=READERS, rules={"max_turns": 20}), auto_context={"commit": commit}
        ),
        {"a": [*replies, "done"]},
        tools=[tool(name) for name in READERS],
    )
    requests = ran.requests("a")
    context = windlass.Context(policy={"commit": commit}, prices=UNCACHED)
    before = 0
    whole = [item.row.message for item in ran.rows() if item.row.phase == "a" and item.row.message]
    chats = [to_openai(message) for message in whole]
    for request in requests:
        end = before + 1
        while end < len(chats) and chats[end]["role"] != "assistant":
            end += 1
        for chat in chats[before:end]:
            context.append(chat)
        before = end
        assert context.window().messages == [to_openai(one) for one in request.messages]
