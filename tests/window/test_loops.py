"""Attempts and repeated calls."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import conversations
from tests.window.stepping import holds_for_every_window, texts, windows
from windlass.messages import Message, Text, ToolCall, assistant, system, tool, user
from windlass.text.prompts import repair_text, retry_text
from windlass.window.entries import Item
from windlass.window.policies.loops import Loops

LONG = "An answer that goes on. " * 40


def attempts(
    count: int, *, numbered: bool = True, why: str = "Reason {}: too short."
) -> list[Item]:
    """What a phase leaves behind that made `count` attempts and was told to try again."""
    rows = [
        Item("s", system("Be."), "system", "P", 0),
        Item("t", user("Write it."), "user", "P", 0, 1),
    ]
    turn = 0
    for n in range(1, count + 1):
        call = ToolCall(f"c{n}", "look", f'{{"at": "{n}"}}')
        row: dict[str, Any] = {"phase": "P", "attempt": n if numbered else None}
        turn += 2
        rows += [
            Item(f"a{n}", assistant("I look.", calls=[call]), "agent", turn=turn - 1, **row),
            Item(f"r{n}", tool(call, "seen " * 50), "tool_result", turn=turn - 1, **row),
            Item(f"o{n}", assistant(f"Output {n}. {LONG}"), "agent", turn=turn, **row),
        ]
        later: dict[str, Any] = {**row, "attempt": n + 1 if numbered else None}
        told = retry_text(why.format(n), n + 1)
        rows.append(Item(f"v{n}", user(told), "user", turn=turn, **later))
    if not numbered:
        rows = [Item(r.id, r.message, r.node) for r in rows]
    return rows


def cut(n: int, rows: list[Item]) -> str:
    text = f"Output {n}. {LONG}"
    ref = next(r for r in rows if r.id == f"o{n}").message.content_hash
    room = 500 - len(f"\n[... {len(text)} characters; result_{ref[:8]} ...]\n")
    head = int(room * 0.6)
    return (
        f"[Attempt #{n}]\n{text[:head]}\n[... {len(text) - room} characters;"
        f" result_{ref[:8]} ...]\n{text[head - room :]}"
    )


@given(st.lists(st.sampled_from(["a" * 60, "b" * 60, "No."]), min_size=2, max_size=7))
def test_every_reason_in_view_can_be_found_by_its_references(reasons: list[str]) -> None:
    rows = attempts(len(reasons))
    for n, reason in enumerate(reasons, 1):
        at = next(at for at, row in enumerate(rows) if row.id == f"v{n}")
        said = user(retry_text(reason, n + 1))
        rows[at] = Item(said.content_hash, said, "user", "P", rows[at].turn, n + 1)
    shown = texts(windows(rows, Loops())[-1])
    told: dict[int, str] = {}
    number = len(reasons)
    for text in reversed([text for text in shown if text.startswith("[Validation Failed]")]):
        why = text.split("\n")[1]
        same = re.fullmatch(r"For the same reason as attempt #(\d+)\.", why)
        told[number] = told[int(same[1])] if same else why
        assert told[number] == reasons[number - 1]
        number -= 1


def test_a_repair_belongs_to_its_attempt_and_a_person_is_never_folded() -> None:
    rows = attempts(1)
    place: dict[str, Any] = {"phase": "P", "turn": 2, "attempt": 2}
    rows += [
        Item("x", assistant("bad json " * 90), "agent", **place),
        Item("y", user(repair_text("no object")), "user", **place),
        Item("z", assistant("{}"), "agent", **place),
        Item("p", user("Use French."), "user", **place),
        Item("v2", user(retry_text("Empty.", 3)), "user", "P", 3, 3),
        Item("w", assistant("third"), "agent", "P", 4, 3),
        Item("v3", user(retry_text("Still.", 4)), "user", "P", 4, 4),
    ]
    shown = texts(windows(rows, Loops())[-1])
    assert "Use French." in shown
    assert "[Attempt #2]\n{}" in shown
    assert not any("Output Invalid" in text for text in shown)


@pytest.mark.req("AC-48")
@given(st.integers(60, 900), st.integers(1, 1_500))
def test_what_is_shown_of_a_cut_attempt_has_its_characters_with_the_reference(
    chars: int, length: int
) -> None:
    rows = attempts(2)
    said = ("word " * 300)[:length].strip() + "."
    rows[4] = Item("o1", assistant(said), "agent", "P", 2, 1)
    shown = texts(windows(rows, Loops(attempt_chars=chars))[-1])[2]
    head, _, body = shown.partition("\n")
    assert head == "[Attempt #1]"
    if len(said) <= chars:
        assert body == said
    else:
        told = re.search(r"\n\[\.\.\. (\d+) characters; result_\w+ \.\.\.\]\n", body)
        assert told is not None
        assert len(body) - len(told[0]) == len(said) - int(told[1]) >= chars // 2
        assert len(body) <= max(chars, chars // 2 + len(told[0]))


@given(conversations(max_turns=4, min_turns=1), st.integers(1, 3))
def test_every_window_is_valid_small_sticky_and_replayed(
    messages: list[Message], limit: int
) -> None:
    number = 2
    told: list[Message] = []
    for n, message in enumerate(messages):
        is_answer = message.role == "assistant" and not message.tool_calls
        text = Text("And so on. " * 60)
        told.append(message.with_parts(*message.parts, text) if is_answer else message)
        if is_answer:
            told.append(user(retry_text(f"no {n}", number)))
            number += 1
    holds_for_every_window(
        told,
        Loops(loop_history_limit=limit, attempt_chars=50),
    )
