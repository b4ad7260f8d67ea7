"""A sliding window of turns."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import conversations
from tests.window.stepping import holds_for_every_window, texts, windows
from windlass.messages import Message, ToolCall, assistant, system, tool, user
from windlass.window._pending import PendingEdits
from windlass.window._standing import Notes
from windlass.window.conversation import Conversation
from windlass.window.entries import Item
from windlass.window.policies.sliding import Sliding


def run_of(turns: int) -> list[Message]:
    said = [system("Be brief."), user("Do it.")]
    for n in range(1, turns + 1):
        call = ToolCall(f"c{n}", "look", f'{{"at": {n}}}')
        said += [assistant(f"turn {n}", calls=[call]), tool(call, f"result {n}")]
    return said


@pytest.mark.req("CA-2", "CA-16", "AC-38", "AC-39")
def test_keeps_the_system_prompt_the_task_and_the_newest_turns_whole() -> None:
    last = windows(run_of(5), Sliding(keep_recent_turns=2))[-1]
    assert texts(last) == ["Be brief.", "Do it.", "turn 4", "result 4", "turn 5", "result 5"]
    assert all(entry.because is None for entry in last.entries)


def test_what_a_user_said_leaves_with_the_turn_that_answered() -> None:
    said = [user("task"), assistant("one"), user("second"), assistant("two"), user("third")]
    said += [assistant("three"), user("fourth")]
    assert texts(windows(said, Sliding(keep_recent_turns=1))[-1]) == [
        "task",
        "third",
        "three",
        "fourth",
    ]


def test_each_drop_says_why_and_asks_nobody() -> None:
    conversation = Conversation([Sliding(keep_recent_turns=1)])
    for n, message in enumerate(run_of(3)):
        conversation.append(Item(str(n), message, message.role))
    (first, second) = conversation.window().edits
    assert first.because == second.because == "prune"
    assert first.reason == "older than the newest 1 turns"
    step = PendingEdits(conversation.rules, conversation.transcript, conversation.standing, Notes())
    assert [p.must for p in Sliding(keep_recent_turns=1).propose(step)] == [True]


def test_what_is_pinned_stays_until_it_is_not() -> None:
    said = run_of(4)
    conversation = Conversation([Sliding(keep_recent_turns=1)])
    for n, message in enumerate(said[:4]):
        conversation.append(Item(str(n), message, message.role))
    conversation.pin("3", until=4)  # the result of turn 1
    seen = []
    for n, message in enumerate([*said[4:], user("on"), assistant("ok"), user("end")], start=4):
        if message.role == "assistant":
            seen.append(texts(conversation.window()))
        conversation.append(Item(str(n), message, message.role))
    assert seen[-2][2:4] == ["turn 1", "result 1"]  # call 4
    assert "turn 1" not in seen[-1]


def test_the_instructions_of_the_phase_in_hand_stay() -> None:
    rows = [
        Item("a", user("task A"), "user", "A", 0),
        Item("b", assistant("A done"), "agent", "A", 1),
        Item("c", user("task B"), "user", "B", 0),
        *(Item(f"d{n}", assistant(f"B {n}"), "agent", "B", n) for n in range(1, 5)),
        Item("e", user("more"), "user", "B", 4),
    ]
    assert texts(windows(rows, Sliding(keep_recent_turns=1))[-1]) == [
        "task A",
        "task B",
        "B 4",
        "more",
    ]
    rows += [Item("f", assistant("B 5"), "agent", "B", 5), Item("g", user("C"), "user", "C", 0)]
    assert texts(windows(rows, Sliding(keep_recent_turns=1))[-1])[:2] == ["task A", "more"]


@given(conversations(max_turns=6), st.integers(1, 3))
def test_every_window_is_valid_small_sticky_and_replayed(messages: list[Message], n: int) -> None:
    seen = holds_for_every_window(messages, Sliding(keep_recent_turns=n))
    if seen:
        answers = [m for m in seen[-1].messages if m.role == "assistant"]
        assert len(answers) <= n
