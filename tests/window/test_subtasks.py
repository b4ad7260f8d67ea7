"""Finished sub-tasks."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import conversations
from tests.window.stepping import holds_for_every_window, texts, windows
from windlass.messages import Message, Text, ToolCall, assistant, tool, user
from windlass.window.policies.rare import Subtasks


def steps(first: int, last: int) -> list[Message]:
    said: list[Message] = []
    for n in range(first, last + 1):
        call = ToolCall(f"c{n}", "read", f'{{"path": "f{n}.py"}}')
        said += [assistant(f"Step {n}.", calls=[call]), tool(call, f"line of file {n}\n" * 30)]
    return said


def test_many_calls_are_counted() -> None:
    said = [user("Check."), *steps(1, 12), assistant("Done."), user("a"), assistant("b"), user("c")]
    said += [assistant("d"), user("e")]
    told = texts(windows(said, Subtasks(after=2, most_lines=3))[-1])[1].split("\n")
    assert told[0] == '[9 calls before, the first read("f1.py")]'
    assert [line[:9] for line in told[1:4]] == ["[Turn 10]", "[Turn 11]", "[Turn 12]"]


def plan(number: int, status: str) -> list[Message]:
    todos = [{"content": "read", "status": status}, {"content": "write", "status": "pending"}]
    call = ToolCall(f"p{number}", "TodoWrite", json.dumps({"todos": todos}))
    return [assistant("Plan.", calls=[call]), tool(call, "ok")]


def test_steps_between_two_plans_fold_when_an_item_is_done() -> None:
    said = [user("Go"), *plan(1, "in_progress"), *steps(1, 2), *plan(2, "completed"), *steps(3, 4)]
    shown = texts(windows(said, Subtasks(after=1))[-1])
    assert shown[1:3] == ["Plan.", "ok"]
    assert shown[3].startswith('[Turn 2] read("f1.py") -> ')
    assert shown[4:6] == ["Plan.", "ok"]
    same = [user("Go"), *plan(1, "pending"), *steps(1, 2), *plan(2, "pending"), *steps(3, 4)]
    assert windows(same, Subtasks(after=1))[-1].messages == tuple(same)


@given(conversations(max_turns=6), st.integers(1, 3), st.integers(1, 3))
def test_every_window_is_valid_small_sticky_and_replayed(
    messages: list[Message], after: int, lines: int
) -> None:
    longer = [
        m.with_parts(*m.parts, Text("name_1 text " * 30)) if m.role == "tool" else m
        for m in messages
    ]
    for window in holds_for_every_window(longer, Subtasks(after, lines)):
        users = [e for e in window.entries if e.item.message.role == "user"]
        assert all(e.because is None for e in users)
