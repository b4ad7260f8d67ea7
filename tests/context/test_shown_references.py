"""Every reference in a window can be fetched while its context lives."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import openai
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import windlass
from tests.context import loops
from tests.providers.model_server import ModelServer, model_server, reads_logs
from windlass.context.bound import bound
from windlass.context.context import Context

REFERENCE = re.compile(r"result_[0-9a-f]{8,16}")
POLICIES: Sequence[Any] = (
    "default",
    "lean",
    "careful",
    "spec",
    {"profile": "spec", "commit": "at_once"},
    {"profile": "lean", "commit": "at_once"},
)
LOG = "\n".join(f"12:00:{at % 60:02} worker-{at} served /api/users/{at * 7}" for at in range(400))
LISTING = "\n".join(f"part {at} is defined in src/part_{at}.py" for at in range(60))
POOL = (
    LOG,
    LISTING,
    f"before\n{LISTING}\nafter",
    LOG.replace("worker-7 ", "helper-7 "),
    json.dumps([{"id": at, "name": f"user {at}"} for at in range(120)]),
    "Traceback\nValueError: day is out of range\n" * 30,
    "done",
)
CALLS = ("cat", "read_file", "search", "fetch")


def exchange(at: int, drawn: int, tool: str) -> Iterator[dict[str, Any]]:
    """A call, and its result; now and then the user says more."""
    function = {"name": tool, "arguments": json.dumps({"path": f"/p/{drawn}"})}
    calls = [{"id": f"c{at}", "type": "function", "function": function}]
    yield {"role": "assistant", "content": f"Step {at}.", "tool_calls": calls}
    yield {"role": "tool", "tool_call_id": f"c{at}", "content": POOL[drawn]}
    if at % 4 == 3:
        yield {"role": "user", "content": "And now part_7?"}


def dead(messages: Any, recall: Any) -> list[str]:
    """The references in messages that nothing is behind."""
    refs = set(REFERENCE.findall(json.dumps(messages)))
    return [ref for ref in refs if recall(ref).startswith("The reference")]


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, len(POOL) - 1), st.sampled_from(CALLS)), min_size=2, max_size=14
    ),
    st.sampled_from(POLICIES),
)
def test_of_context_and_bound(drawn: list[tuple[int, str]], policy: Any) -> None:
    listed: list[dict[str, Any]] = [{"role": "user", "content": "Look at the project."}]
    context = Context("anthropic/claude-sonnet-4-5", policy)
    context.append(listed[0])
    for at, (number, tool) in enumerate(drawn):
        for message in exchange(at, number, tool):
            listed.append(message)
            context.append(message)
        window = context.window()
        assert dead(window.messages, window.recall) == []
        assert dead(window.messages, context.recall) == []
    whole = bound(listed, "anthropic/claude-sonnet-4-5", policy)
    assert dead(whole.messages, whole.recall) == []


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    with model_server(reads_logs(6)) as served:
        served.lead(monkeypatch)
        yield served


def test_of_wrap(server: ModelServer) -> None:
    client = openai.OpenAI()
    wrapped: Any = windlass.wrap(client, {"profile": "lean", "commit": "at_once"})
    listed: list[dict[str, Any]] = [{"role": "user", "content": "Look."}]
    for at in range(10):
        listed += exchange(at, at % 3, "read_log")
        wrapped.chat.completions.create(model="gpt-5", messages=listed, tools=loops.CHAT_TOOLS)
    client.close()
    sent = [asked.body["messages"] for asked in server.asked]
    assert REFERENCE.search(json.dumps(sent))
    assert dead(sent, wrapped.windlass.recall) == []
