"""The contract for every client: one JSON object in, one out. opencode's plugin uses it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.hooks_events import HookedAgent, kept, listing, log
from windlass.hooks.agent_events import SessionEvent, ToolEvent
from windlass.hooks.agents import adapter_of
from windlass.hooks.handler import HookHandler

BOTH = pytest.mark.parametrize("name", ["plain", "opencode"])


def event(call_id: str, text: object, **keys: Any) -> dict[str, Any]:
    told = {"session": "s1", "call_id": call_id, "tool": "bash", "arguments": {"command": "ls"}}
    return {**told, "text": text, **keys}


@BOTH
def test_a_text_goes_in_and_a_shorter_one_comes_out(tmp_path: Path, name: str) -> None:
    agent = HookedAgent(tmp_path, name=name)
    told = agent.tell(event("c1", log()))
    assert told.keys() == {"text"}
    assert len(told["text"]) < len(log()) / 2
    assert agent.tell(event("c2", log()))["text"].startswith("[Same as bash")
    (first, _) = agent.lines("s1")
    assert (first.agent, first.outcome) == (name, "shortened")
    assert kept(agent.journal, first.original).text == log()


@BOTH
def test_what_stays_is_an_empty_object(tmp_path: Path, name: str) -> None:
    agent = HookedAgent(tmp_path, name=name)
    assert agent.tell(event("c1", "done")) == {}
    assert agent.tell(event("c2", log(), failed=True)) == {}
    assert agent.tell(event("c3", {"not": "a text"})) == {}
    assert agent.tell(event("c4", log(), arguments={"command": "windlass recall result_12"})) == {}
    outcomes = [line.outcome for line in agent.lines("s1")]
    assert outcomes == ["whole", "failed result", "unknown shape", "whole"]


def test_after_a_compaction_nothing_is_referred_to(tmp_path: Path) -> None:
    agent = HookedAgent(tmp_path, name="plain")
    agent.tell(event("c1", log()))
    assert agent.tell({"session": "s1", "moment": "compacted"}) is None
    assert not agent.tell(event("c2", log()))["text"].startswith("[Same as")


def test_what_was_seen_earlier_is_referred_to(tmp_path: Path) -> None:
    agent = HookedAgent(tmp_path, name="opencode")
    agent.tell(event("c1", log()))
    seen = agent.tell(event("c2", listing()))
    assert seen == {}
    short = kept_text(agent, "c1")
    # A fork has another name, and the same calls.
    earlier = [
        {"call_id": "c1", "tool": "bash", "arguments": {"command": "make"}, "text": short},
        {"call_id": "c2", "tool": "bash", "arguments": {"command": "ls"}, "text": listing()},
        {"call_id": "", "tool": "bash", "text": "nameless"},
        {"call_id": "c3", "text": 3},
        "junk",
    ]
    agent.tell({"session": "fork", "moment": "began"})
    first = agent.tell(event("c4", log(), session="fork", earlier=earlier))["text"]
    second = agent.tell(event("c5", listing(), session="fork", earlier=earlier))["text"]
    for text, original in ((first, log()), (second, listing())):
        assert text.startswith("[Same as bash")
        assert kept(agent.journal, text[-16:-1]).text == original
    assert agent.tell(event("c6", listing(30, "new"), session="new", earlier="junk")) == {}
    calls = [call.call_id for call in agent.journal.calls("opencode", "fork")]
    assert calls == ["c1", "c2", "c4", "c5"]


def kept_text(agent: HookedAgent, call_id: str) -> str:
    """What the model saw of a call."""
    return next(
        call.result for call in agent.journal.calls("opencode", "s1") if call.call_id == call_id
    )


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


def test_threads_of_a_session_are_apart(tmp_path: Path) -> None:
    agent = HookedAgent(tmp_path, name="plain")
    agent.tell(event("c1", log()))
    assert not agent.tell(event("c1", log(), thread="t"))["text"].startswith("[Same as")


def test_the_folder_is_the_projects(tmp_path: Path) -> None:
    agent = HookedAgent(tmp_path, name="plain")
    agent.tell(event("c1", "done", folder=str(tmp_path / "sub")))
    assert (tmp_path / "sub" / ".windlass" / "hooks" / "plain" / "s1.jsonl").exists()


@pytest.mark.parametrize(
    ("model", "read"), [("openai/gpt-5", "openai/gpt-5"), ("gpt-5", None), (3, None), (None, None)]
)
def test_a_model_is_named_with_its_provider(model: object, read: str | None) -> None:
    event_read = adapter_of("plain").read_event(event("c1", "a", model=model))
    assert event_read is not None
    assert event_read.place.model == read


def test_a_session_is_needed() -> None:
    for payload in ({}, {"session": ""}, {"tool": "bash", "text": "a"}):
        with pytest.raises(ValueError, match="session"):
            adapter_of("plain").read_event(payload)


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
