"""What one model has in view decides how its next result is shown."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.importing.making import Session, call, result
from tests.support.hooks_events import listing, log

from windlass.window.options import Policy
from windlass_agents.agent_events import AgentPlace, ToolEvent
from windlass_agents.agent_threads import AgentThread, ShortForm, Tail
from windlass_agents.shapes import CLAUDE_CODE

PLACE = AgentPlace("claude-code", "s-1", model="anthropic/claude-sonnet-4-5")
LEAST = 80
"""Characters that a short form saves at least."""


def event(text: str, call_id: str, **keys: Any) -> ToolEvent:
    told = {"shown_chars": len(text), **keys}
    return ToolEvent(PLACE, call_id, "Bash", {"command": f"make {call_id}"}, text, **told)


def new_thread(tail: Tail | None = None) -> AgentThread:
    return AgentThread(Policy().at_birth(), "windlass recall", tail)


def begun_thread() -> AgentThread:
    """One that saw a result."""
    thread = new_thread()
    assert thread.shorten(event(listing(10, "first"), "c0")) is None
    return thread


class Talk:
    """A conversation whose agent records what its model saw."""

    def __init__(self, folder: Path) -> None:
        self.session = Session(model="claude-sonnet-4-5")
        self.path = folder / "t.jsonl"
        self.written = 0
        self.thread = new_thread(Tail(self.path))
        self.say("Build it.")

    def write(self) -> None:
        with self.path.open("a") as file:
            for record in self.session.records[self.written :]:
                file.write(json.dumps(record) + "\n")
        self.written = len(self.session.records)

    def say(self, words: str) -> None:
        self.session.user(words)
        self.write()

    def run(self, call_id: str, text: str, **keys: Any) -> ShortForm | None:
        """A call is made, its result goes by the hook, and what was shown of it is recorded."""
        self.session.answer(f"of {call_id}", call(call_id, command=f"make {call_id}"))
        self.write()
        short = self.thread.shorten(event(text, call_id, **keys))
        self.session.user([result(call_id, text if short is None else short.text)])
        self.write()
        return short


def refers(short: ShortForm | None) -> bool:
    return short is not None and short.text.startswith("[Same as Bash make c1")


def test_a_repeat_is_found_by_a_process_that_began_later(tmp_path: Path) -> None:
    talk = Talk(tmp_path)
    talk.run("c1", listing())
    talk.thread = new_thread(Tail(talk.path))
    assert refers(talk.run("c2", listing()))


def test_nothing_refers_to_a_result_that_the_agent_cleared(tmp_path: Path) -> None:
    talk = Talk(tmp_path)
    talk.run("c1", listing())
    cleared = {"compactedToolIds": ["c1"]}
    talk.session.add("system", subtype="microcompact_boundary", microcompactMetadata=cleared)
    assert talk.run("c2", listing()) is None


def test_calls_without_a_name_are_different_calls() -> None:
    thread = begun_thread()
    assert thread.shorten(event(listing(), "")) is None
    assert thread.shorten(event(listing(name="other"), "")) is None
    assert thread.shorten(event(listing(), "")) is not None


def test_a_new_session_has_nothing_to_prepare(tmp_path: Path) -> None:
    new_thread(Tail(tmp_path / "none.jsonl")).prepare(PLACE)
    new_thread().prepare(PLACE)


# ---- any conversation -----------------------------------------------------------------

POOL = (
    *(listing(count) for count in (3, 12, 13, 40)),
    *(log(count) for count in (20, 21, 600)),
    log(600).replace("worker-300", "worker-x"),
    listing() + "\n" + log(30),
    json.dumps([{"id": at, "name": f"user {at}"} for at in range(200)]),
    "x" * 9_000,
    "done",
    "",
)
NUMBERS = st.integers(0, len(POOL) - 1)
TEXTS = NUMBERS | st.text(max_size=300)


def text_of(drawn: int | str) -> str:
    """One of the pool by its number, since the texts are too long to be told of a failure."""
    return POOL[drawn] if isinstance(drawn, int) else drawn


def shown_in(thread: AgentThread) -> list[str]:
    """The results that the conversation believes to be shown."""
    context = thread._catch_up(PLACE)
    messages = [entry.message for entry in context.window().next_call.entries]
    return [message.text for message in messages if message.role == "tool"]


@given(st.lists(st.tuples(TEXTS, st.booleans()), min_size=1, max_size=12))
def test_what_was_shown_once_is_never_changed(results: list[tuple[int | str, bool]]) -> None:
    thread, shown = begun_thread(), [listing(10, "first")]
    for at, (drawn, is_numbered) in enumerate(results):
        text = text_of(drawn)
        told = event(text, f"n{at}")
        if is_numbered:
            told = replace(told, fits=CLAUDE_CODE[1].fits)
        short = thread.shorten(told)
        if short is not None:
            assert short.original.text == text
            assert len(text) - len(short.text) >= LEAST
            assert told.fits is None or told.fits(short.text, text)
        shown.append(text if short is None else short.text)
        assert shown_in(thread) == shown


@given(st.lists(st.tuples(TEXTS, st.booleans()), min_size=1, max_size=8))
def test_what_is_believed_to_be_shown_is_what_was_recorded(
    tmp_path_factory: pytest.TempPathFactory, results: list[tuple[int | str, bool]]
) -> None:
    talk = Talk(tmp_path_factory.mktemp("talk"))
    shown = []
    for at, (drawn, is_asked) in enumerate(results):
        text = text_of(drawn)
        short = talk.run(f"c{at + 1}", text)
        shown.append(text if short is None else short.text)
        if is_asked:
            talk.say("What of part_7 and /api/users/2107 in worker-301?")
        assert shown_in(talk.thread) == shown
    assert shown_in(new_thread(Tail(talk.path))) == shown
