"""A transcript, read as it grows, says what the model has in view."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.importing.making import Session, call, result, text

from windlass_agents.agent_events import SeenCall
from windlass_agents.agent_threads import Tail


def lines(records: Iterable[Any]) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def tail_of(path: Path, records: Iterable[Any]) -> Tail:
    path.write_bytes(lines(records))
    tail = Tail(path)
    tail.read()
    return tail


def told(tail: Tail) -> list[str]:
    """What is in view: the user's words, and calls with their results."""
    return [
        one if isinstance(one, str) else f"{one.call_id}={one.result}" for one in tail.in_view()
    ]


def add(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def test_the_words_before_a_call_are_of_the_same_answer(tmp_path: Path) -> None:
    session = Session()
    session.answer("m1", text("I am done."))
    session.user("Go on.")
    session.answer("m2", call("c1"))
    session.answer("m2", text("And then:"))
    session.answer("m2", call("c2"))
    session.answer("m2", call("c3"))
    session.user([result("c1"), result("c2"), result("c3")])
    tail = tail_of(tmp_path / "t.jsonl", session.records)
    before = {"c1": "", "c2": "And then:", "c3": ""}
    seen = [one for one in tail.in_view() if isinstance(one, SeenCall)]
    assert {one.call_id: one.before for one in seen} == before
    assert {ident: tail.before(ident) for ident in before} == before


def test_what_a_compaction_was_built_of_is_in_view_and_nothing_before(tmp_path: Path) -> None:
    session = Session()
    session.user("Go.")
    session.answer("m1", call("c1"))
    session.user([result("c1", "long")])
    session.answer("m2", call("c2"))
    session.user([result("c2", "short")])
    path = tmp_path / "t.jsonl"
    tail = tail_of(path, session.records)
    before, session.last = len(session.records), None
    session.add("system", subtype="compact_boundary")
    session.user("What was said.")
    session.model = "<synthetic>"
    session.answer("built", call("c2"))
    session.user([result("c2", "short")])
    add(path, lines(session.records[before:]))
    assert not tail.read()
    assert told(tail) == ["What was said.", "c2=short"]


def test_an_attachment_stands_between_two_records(tmp_path: Path) -> None:
    session = Session()
    session.user("Go.")
    session.add("attachment", attachment={"type": "x"})
    session.answer("m1", call("c1"))
    session.user([result("c1", "one")])
    session.add("progress", data={"type": "hook_progress"})
    session.answer("m2", text("Done."))
    path = tmp_path / "t.jsonl"
    tail = tail_of(path, session.records)
    assert told(tail) == ["Go.", "c1=one"]
    session.user("More.")
    add(path, lines(session.records[-1:]))
    assert tail.read()


def test_a_file_that_is_missing_or_damaged_says_nothing(tmp_path: Path) -> None:
    tail = Tail(tmp_path / "none.jsonl")
    assert tail.read()
    assert told(tail) == []
    odd = [b"\xff\xfe", b"[1]", b"{", b"[" * 100_000, b'{"type": "user", "uuid": 3}', b"null"]
    messages: tuple[Any, ...] = (3, [])
    odd += [json.dumps({"type": "user", "uuid": "u", "message": one}).encode() for one in messages]
    blocks = {"role": "user", "content": [3, {"type": "tool_result"}, {"type": "tool_use"}]}
    odd.append(json.dumps({"type": "user", "uuid": "v", "message": blocks}).encode())
    (tmp_path / "odd.jsonl").write_bytes(b"\n".join(odd) + b"\n")
    tail = Tail(tmp_path / "odd.jsonl")
    tail.read()
    assert told(tail) == []


# ---- reading in pieces ----------------------------------------------------------------


@st.composite
def sessions(draw: st.DrawFn) -> list[dict[str, Any]]:
    """The records of a session: answers with up to three calls, rewinds, compactions."""
    session = Session()
    for turn in range(draw(st.integers(1, 6))):
        if session.records and draw(st.integers(0, 4)) == 0:
            session.last = draw(st.sampled_from(session.records))["uuid"]
        if draw(st.integers(0, 6)) == 0:
            session.last = None
            session.add("system", subtype="compact_boundary")
        session.user(f"words {turn}")
        if draw(st.booleans()):
            session.add("attachment")
        calls = [f"c{turn}.{at}" for at in range(draw(st.integers(0, 3)))]
        session.answer(f"m{turn}", text(f"answer {turn}"))
        made = {one: session.answer(f"m{turn}", call(one))["uuid"] for one in calls}
        for one in draw(st.permutations(calls)):
            session.last = made[one]
            session.user([result(one, f"result {one}")])
    return session.records


@given(records=sessions(), data=st.data())
def test_reading_in_pieces_is_reading_at_once(
    tmp_path_factory: pytest.TempPathFactory, records: list[dict[str, Any]], data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("tail") / "t.jsonl"
    whole = lines(records)
    cuts = data.draw(st.lists(st.integers(0, len(whole)), max_size=8).map(sorted))
    at_once, in_pieces = Tail(path), Tail(path)
    path.touch()
    for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True):
        before = list(in_pieces.in_view())
        add(path, whole[start:end])
        if in_pieces.read():
            assert [one for one in in_pieces.in_view() if one in before] == before
    at_once.read()
    assert list(in_pieces.in_view()) == list(at_once.in_view())
    assert in_pieces.model == at_once.model
