"""The contract for every client: one JSON object in, one out. opencode's plugin uses it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.support.hooks_events import HookedAgent, listing, log
from windlass.hooks.agent_events import SessionEvent, ToolEvent
from windlass.hooks.agents import adapter_of
from windlass.hooks.handler import HookHandler


def event(call_id: str, text: object, **keys: Any) -> dict[str, Any]:
    told = {"session": "s1", "call_id": call_id, "tool": "bash", "arguments": {"command": "ls"}}
    return {**told, "text": text, **keys}


def test_a_process_that_began_later_knows_what_was_seen(tmp_path: Path) -> None:
    agent = HookedAgent(tmp_path, name="plain")
    for call_id, text in (("c1", log()), ("c2", listing())):
        agent.tell(event(call_id, text))
    agent.answering = HookHandler(lambda: 1.0)
    for call_id, text in (("c3", log()), ("c4", listing())):
        assert agent.tell(event(call_id, text))["text"].startswith("[Same as bash ls")
    agent.tell({"session": "s1", "moment": "compacted"})
    agent.answering = HookHandler(lambda: 1.0)
    assert agent.tell(event("c5", listing())) == {}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
KEYS = st.sampled_from(
    ["session", "thread", "call_id", "tool", "arguments", "text", "folder", "model", "moment"]
)


@given(st.dictionaries(KEYS | st.text(), JSON))
def test_any_object_is_read_or_refused(payload: dict[str, Any]) -> None:
    adapter = adapter_of("plain")
    try:
        read = adapter.read_event(payload)
    except ValueError:
        assert not payload.get("session")
        return
    assert isinstance(read, ToolEvent | SessionEvent)
    if isinstance(read, ToolEvent):
        assert read.text is None or read.text == payload["text"]
        assert read.shown_chars == len(read.text or "")
