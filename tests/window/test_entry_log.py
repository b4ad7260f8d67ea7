"""What stands for good, and how it stood at an earlier moment."""

from __future__ import annotations

import sys
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import windlass
from tests.window.conversations import chats
from windlass.loop.window import ChatWindow
from windlass.messages import user
from windlass.window.entries import Drop, Edit, Entry, Item, Replace, changed
from windlass.window.entry_log import EntryLog, Moment

STEPS = st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=30)
"""At each step an entry is added, then one of those there is shortened or dropped."""


@given(STEPS)
def test_a_moment_is_told_later_as_it_was(steps: list[tuple[int, bool]]) -> None:
    standing = EntryLog()
    then: list[tuple[Moment, list[Entry], dict[int, Edit], list[int]]] = []
    for number, (place, drops) in enumerate(steps):
        message = user(f"said {number}")
        standing.now.append(Entry(Item(f"m{number}", message, "user"), message, "said"))
        at = place % len(standing.now)
        entry = standing.now[at]
        if entry is not None:
            ident = entry.item.id
            edit: Edit = Replace(ident, user(f"short {number}"), "mask", "")
            edit = Drop(ident, "prune", "") if drops else edit
            standing.change(at, changed(entry, edit), edit)
        gone = [one for one, entry in enumerate(standing.now) if entry is None]
        shown = [one for one in standing.now if one is not None]
        then.append((standing.moment, shown, dict(standing.edits), gone))
        assert standing.gone == gone
        for one in range(len(standing.now) + 1):
            assert standing.shown_before(one) == one - sum(place < one for place in gone)
    for moment, shown, edits, _ in then:
        assert standing.entries_at(moment, {}) == shown
        assert standing.edits_at(moment, {}) == edits


@given(chats(), st.sampled_from(["default", "lean", "spec"]), st.booleans())
def test_a_window_tells_later_what_it_told_at_once(said: Any, profile: str, blocks: bool) -> None:
    asked, late = windlass.Context(policy=profile), windlass.Context(policy=profile)
    told: list[Any] = []
    windows: list[ChatWindow] = []
    for message in said:
        asked.append(message)
        late.append(message)
        block = f"Message {len(told)} was said." if blocks else None
        windows.append(late.window(block))
        one = asked.window(block)
        told.append((one.entries, one.breakpoints, one.counted, one.saved_tokens))
    for one, (entries, breakpoints, counted, saved) in zip(windows, told, strict=True):
        assert (one.entries, one.breakpoints) == (entries, breakpoints)
        assert (one.counted, one.saved_tokens) == (counted, saved)


def test_a_call_does_no_more_at_a_greater_length() -> None:
    """Counted in functions called: what walks over all messages would call more of them."""
    context = windlass.Context()
    context.append({"role": "user", "content": "Find out why job 7 fails."})
    calls: list[int] = []

    def counted(_frame: Any, event: str, _arg: Any) -> None:
        calls[-1] += event in ("call", "c_call")

    for turn in range(240):
        lines = [f"src/part_{turn}/file_{at}.py:{at}: value_{turn}_{at}" for at in range(30)]
        call = {"name": "grep", "arguments": f'{{"pattern": "value_{turn}"}}'}
        calls.append(0)
        sys.setprofile(counted)
        context.append(
            {
                "role": "assistant",
                "content": f"I look at part {turn}.",
                "tool_calls": [{"id": f"c{turn}", "type": "function", "function": call}],
            }
        )
        context.append({"role": "tool", "tool_call_id": f"c{turn}", "content": "\n".join(lines)})
        context.window()
        sys.setprofile(None)
    early, late = sorted(calls[20:60])[20], sorted(calls[200:])[20]
    assert late <= 1.05 * early, (early, late)
