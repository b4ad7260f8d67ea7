"""`context_strategy: recent`: what is carried over the boundary of a phase."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import windlass
from tests.strategies import conversations
from windlass.messages import Message, ToolCall, assistant
from windlass.providers.scripted import Scripted
from windlass.window.entries import Item, show
from windlass.window.replayed import last_turns, turns
from windlass.wire.openai import check_sequence


def run(store: Path, turns_said: int | None) -> list[Message]:
    """What the second phase sees first, after one with three calls and an answer."""
    calls = [
        assistant(calls=[ToolCall(f"c{n}", "set_state", f'{{"key": "k", "value": {n}}}')])
        for n in range(3)
    ]
    said: list[Message | str] = [*calls, "done", "end"]
    replies = iter(said)
    model = Scripted(lambda _: next(replies))
    second: dict[str, Any] = {"name": "b", "instructions": "Do b.", "context_strategy": "recent"}
    if turns_said is not None:
        second["turns"] = turns_said
    cascade = {
        "cascade_id": "c",
        "system": "Be.",
        "phases": [{"name": "a", "instructions": "Do a.", "tackle": ["set_state"]}, second],
    }
    windlass.run_sync(cascade, model="s/x", store=store, providers={"s": model}).check()
    return list(model.requests[-1].messages)


@pytest.mark.req("CA-6")
@pytest.mark.parametrize(("said", "kept"), [(None, 2), (1, 1), (3, 3), (9, 4)])
def test_system_and_the_last_turns_are_carried_over(
    tmp_path: Path, said: int | None, kept: int
) -> None:
    system, task, *carried, instructions = run(tmp_path, said)
    assert (system.text, task.text, instructions.text) == ("Be.", "Do a.", "Do b.")
    assert sum(message.role == "assistant" for message in carried) == kept
    assert carried[-1].text == "done"
    check_sequence([system, task, *carried, instructions], None)


@pytest.mark.req("CA-6")
@given(conversations(), st.integers(1, 5))
def test_what_is_left_is_whole_and_begins_with_the_user(messages: list[Message], n: int) -> None:
    entries = show([Item(str(at), one, "x") for at, one in enumerate(messages)], "said")
    kept = last_turns(entries, n)
    assert [entry for entry in entries if entry in kept] == list(kept)
    assert kept[-1] == entries[-1]
    if len(turns(entries)) > n:
        assert kept[0].message.role == "user"
        assert len(turns(kept)) == n
    check_sequence([entry.message for entry in kept], None)
