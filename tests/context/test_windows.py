"""A window tells later what it showed when it was made, and costs what is new in it."""

from __future__ import annotations

import sys
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import windlass
from tests.window.conversations import chats
from windlass.context.window import ChatWindow


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
