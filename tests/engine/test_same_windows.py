"""A phase and a `Context` that are fed the same messages make the same windows and marks."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import windlass
from tests.engine.harness import House, call, calls, cascade, phase
from tests.support.engine_cache import Reporting, honest
from tests.support.engine_injector_marks import CLAUDE
from tests.window.conversations import KINDS, VARIANTS, result_text
from windlass.caching.prices import UNCACHED
from windlass.context.window import ChatWindow
from windlass.history.base import StoredRow
from windlass.messages import Message
from windlass.wire import anthropic
from windlass.wire.openai import to_openai

READERS = [
    name for name in KINDS if name not in {"list_files", "read_file", "http_get", "web_search"}
]
"""Tools with names that Windlass does not have itself."""
TURN = st.tuples(st.sampled_from(READERS), st.integers(0, VARIANTS - 1), st.integers(0, 3))


@pytest.fixture(autouse=True)
def no_breaker(monkeypatch: pytest.MonkeyPatch) -> None:
    """All examples share a store, whose earlier runs would switch the windows of later ones off."""
    monkeypatch.setenv("WINDLASS_BREAKER_SESSIONS", "0")


def tool(name: str) -> Callable[..., str]:
    """A tool that answers what `result_text` says."""

    def answer(variant: int, path: int) -> str:
        del path
        return result_text(name, variant)

    answer.__name__, answer.__doc__ = name, "A tool of the conversation."
    return answer


def replies(turns: list[tuple[str, int, int]]) -> list[Any]:
    """Replies that ask for a tool each, and the last word."""
    asked = [
        calls(call(name, json.dumps({"variant": variant, "path": path})), text="I look.")
        for name, variant, path in turns
    ]
    return [*asked, "done"]


def windows(context: windlass.Context, said: list[Message], count: int) -> Iterator[ChatWindow]:
    """What the context shows at each of so many calls, fed with what was said before each."""
    before = 0
    for _ in range(count):
        end = before + 1
        while end < len(said) and said[end].role != "assistant":
            end += 1
        for message in said[before:end]:
            context.append(to_openai(message))
        before = end
        yield context.window()


def fed(ran: Iterable[StoredRow]) -> list[Message]:
    """What was said in the phase, in order."""
    return [stored.row.message for stored in ran if stored.row.phase == "a" and stored.row.message]


TURNS = st.lists(TURN, min_size=2, max_size=7)
MANY = settings(
    max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)


@given(turns=TURNS, commit=st.sampled_from(["at_once", "priced"]))
@MANY
async def test_the_windows_are_the_same(
    house: House, turns: list[tuple[str, int, int]], commit: str
) -> None:
    one = phase("a", tackle=READERS, rules={"max_turns": 20})
    ran = await house.run(
        cascade(one, auto_context={"commit": commit}),
        {"a": replies(turns)},
        tools=[tool(name) for name in READERS],
    )
    requests = ran.requests("a")
    context = windlass.Context(policy={"commit": commit}, prices=UNCACHED, way_back="")
    shown = windows(context, fed(ran.rows()), len(requests))
    for request, window in zip(requests, shown, strict=True):
        assert window.messages == [to_openai(message) for message in request.messages]


@given(turns=TURNS)
@MANY
async def test_the_requests_are_the_same_with_their_marks(
    house: House, turns: list[tuple[str, int, int]]
) -> None:
    model = Reporting({"a": replies(turns)}, honest, CLAUDE)
    result = await windlass.run(
        cascade(
            phase("a", tackle=READERS, rules={"max_turns": 20}), auto_context={"commit": "at_once"}
        ),
        model="scripted/x",
        store=house.store,
        root=house.folder,
        tools=[tool(name) for name in READERS],
        providers={"scripted": model},
    )
    said = fed(house.open_store().rows(result.session_id))
    tools = [spec.to_openai() for spec in model.requests[0].tools]
    context = windlass.Context(CLAUDE, {"commit": "at_once"}, tools=tools, way_back="")
    marked = 0
    for request, window in zip(
        model.requests, windows(context, said, len(model.requests)), strict=True
    ):
        body = anthropic.body(request)
        assert window.wire("anthropic")["messages"] == body["messages"]
        marked += "cache_control" in json.dumps(body["messages"])
    assert marked == len(model.requests)
