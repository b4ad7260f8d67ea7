"""A transcript, read as it grows, says what the model has in view."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.importing.making import DATA, Session, call, result, text

from windlass.importing.streams import recordings
from windlass_agents.agent_events import SeenCall
from windlass_agents.agent_threads import Tail

OWN_MODEL = "anthropic/claude-opus-4-5-20251101"


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


def parallel(order: Sequence[int]) -> Session:
    """Two calls of one answer, whose results come in this order."""
    session = Session()
    session.user("Go.")
    calls = [session.answer("m1", call("c1")), session.answer("m1", call("c2"))]
    for at in order:
        session.last = calls[at]["uuid"]
        session.user([result(f"c{at + 1}", f"r{at + 1}")])
    return session


def test_words_calls_and_results_in_their_order(tmp_path: Path) -> None:
    session = Session()
    session.user("Go.")
    session.answer("m1", text("I look."))
    session.answer("m1", call("c1", "Read", file_path="/a"))
    session.user([result("c1", "one")])
    session.answer("m2", text("Done."))
    session.user([text("Thanks."), text("")])
    tail = tail_of(tmp_path / "t.jsonl", session.records)
    assert list(tail.in_view()) == [
        "Go.",
        SeenCall("c1", "Read", {"file_path": "/a"}, "one", "I look."),
        "Thanks.",
    ]
    assert tail.model == OWN_MODEL
    assert tail.before("c1") == "I look."
    assert tail.before("c2") == ""


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


def test_a_result_of_several_blocks_is_their_text(tmp_path: Path) -> None:
    session = Session()
    session.answer("m1", call("c1"))
    picture = {"type": "image", "source": {"type": "base64", "data": "aGk="}}
    blocks = {
        "type": "tool_result",
        "tool_use_id": "c1",
        "content": [text("a"), picture, text("b")],
    }
    session.user([blocks])
    assert told(tail_of(tmp_path / "t.jsonl", session.records)) == ["c1=a\nb"]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_parallel_calls_only_append_in_whatever_order_they_end(
    tmp_path: Path, order: Sequence[int]
) -> None:
    session = parallel(order)
    session.answer("m2", call("c3"))
    session.user([result("c3", "r3")])
    path = tmp_path / "t.jsonl"
    path.touch()
    tail = Tail(path)
    for record in session.records:
        add(path, lines([record]))
        assert tail.read()
    ended = [f"c{at + 1}=r{at + 1}" for at in order]
    assert told(tail) == ["Go.", *ended, "c3=r3"]


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


def test_what_the_user_took_back_is_not_in_view(tmp_path: Path) -> None:
    session = Session()
    session.user("Go.")
    first = session.answer("m1", call("c1"))
    kept = session.user([result("c1", "one")])
    session.answer("m2", call("c2"))
    session.user([result("c2", "two")])
    path = tmp_path / "t.jsonl"
    tail = tail_of(path, session.records)
    assert told(tail) == ["Go.", "c1=one", "c2=two"]
    session.last = kept["uuid"]
    session.user("Otherwise.")
    add(path, lines(session.records[-1:]))
    assert not tail.read()
    assert told(tail) == ["Go.", "c1=one", "Otherwise."]
    session.last = first["parentUuid"]
    session.user("From the start.")
    add(path, lines(session.records[-1:]))
    assert not tail.read()
    assert told(tail) == ["Go.", "From the start."]


def test_what_stood_before_a_compaction_is_not_in_view(tmp_path: Path) -> None:
    session = Session()
    session.user("Go.")
    session.answer("m1", call("c1"))
    session.user([result("c1", "one")])
    path = tmp_path / "t.jsonl"
    tail = tail_of(path, session.records)
    before, session.last = session.last, None
    session.add("system", subtype="compact_boundary", logicalParentUuid=before)
    session.user("A summary.", isCompactSummary=True)
    add(path, lines(session.records[-2:]))
    assert not tail.read()
    assert told(tail) == ["A summary."]


def test_results_that_the_agent_cleared_are_not_in_view(tmp_path: Path) -> None:
    session = parallel((0, 1))
    path = tmp_path / "t.jsonl"
    tail = tail_of(path, session.records)
    cleared = {"trigger": "auto", "compactedToolIds": ["c1"]}
    session.add("system", subtype="microcompact_boundary", microcompactMetadata=cleared)
    add(path, lines(session.records[-1:]))
    assert not tail.read()
    assert told(tail) == ["Go.", "c1=", "c2=r2"]


def test_a_line_is_read_when_it_is_whole(tmp_path: Path) -> None:
    session = parallel((0, 1))
    path = tmp_path / "t.jsonl"
    tail = tail_of(path, session.records[:-1])
    last = lines(session.records[-1:])
    add(path, last[:40])
    assert tail.read()
    assert told(tail) == ["Go.", "c1=r1"]
    add(path, last[40:])
    assert tail.read()
    assert told(tail) == ["Go.", "c1=r1", "c2=r2"]


@pytest.mark.parametrize("more", [0, 500])
def test_another_file_of_the_same_name_is_read_from_its_beginning(
    tmp_path: Path, more: int
) -> None:
    path = tmp_path / "t.jsonl"
    tail = tail_of(path, parallel((0, 1)).records)
    session = Session("s-2")
    session.user("Another." + "x" * 10 * more)
    (tmp_path / "new").write_bytes(lines(session.records))
    (tmp_path / "new").replace(path)
    assert not tail.read()
    assert told(tail) == [session.records[0]["message"]["content"]]
    assert tail.model == OWN_MODEL


def test_a_file_that_was_cut_is_read_from_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    tail = tail_of(path, parallel((0, 1)).records)
    path.write_bytes(lines(parallel((0, 1)).records[:1]))
    assert not tail.read()
    assert told(tail) == ["Go."]


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


def test_records_that_name_each_other_end(tmp_path: Path) -> None:
    session = Session()
    session.user("Go.")
    session.user("On.")
    session.records[0]["parentUuid"] = session.records[1]["uuid"]
    assert told(tail_of(tmp_path / "t.jsonl", session.records)) == ["Go.", "On."]


def test_of_a_transcript_of_20_mb_the_end_is_read_in_time(tmp_path: Path) -> None:
    session = Session()
    session.user("Go.")
    for at in range(1_000):
        session.answer(f"m{at}", call(f"c{at}"))
        session.user([result(f"c{at}", f"{at} " + "x" * 20_000)])
    path = tmp_path / "t.jsonl"
    path.write_bytes(lines(session.records))
    assert path.stat().st_size > 20_000_000
    began = time.process_time()
    tail = Tail(path)
    tail.read()
    seen = list(tail.in_view())
    assert time.process_time() - began < 2
    assert isinstance(seen[-1], SeenCall)
    assert seen[-1].call_id == "c999"
    assert 700 < len(seen) < 900  # the last 16 MB
    session.user("More.")
    add(path, lines(session.records[-1:]))
    began = time.process_time()
    assert tail.read()
    assert time.process_time() - began < 0.1


def test_a_leap_over_what_is_too_much_to_read_is_no_appending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("windlass_agents.agent_threads._MOST_BYTES", 1_000)
    session = parallel((0, 1))
    path = tmp_path / "t.jsonl"
    tail = tail_of(path, session.records[:1])
    session.answer("m2", call("c3", text="x" * 2_000))
    session.user([result("c3", "r3")])
    add(path, lines(session.records[1:]))
    assert not tail.read()
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


def test_a_recorded_session_only_appends(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.touch()
    tail = Tail(path)
    with (DATA / "claude_code.jsonl").open("rb") as file:
        for line in file:
            add(path, line)
            assert tail.read()
    seen = list(tail.in_view())
    calls = [one for one in seen if isinstance(one, SeenCall)]
    # The task, and a listing that the client adds for the model.
    assert [isinstance(one, str) for one in seen] == [True, True, False, False, False, False]
    assert len({one.call_id for one in calls}) == 4
    assert all(one.result and one.tool and one.arguments for one in calls)


def test_what_is_in_view_is_what_an_import_says_of_the_last_call(tmp_path: Path) -> None:
    session = parallel((1, 0))
    session.answer("m2", text("I look."), call("c3"))
    kept = session.user([result("c3", "r3")])
    session.answer("m3", text("Taken back."))
    session.user("No.")
    session.last = kept["uuid"]
    session.add("attachment", attachment={"type": "listing", "content": "- a skill"})
    session.answer("m4", text("Done."))
    path = tmp_path / "t.jsonl"
    tail = tail_of(path, session.records)
    main, *_ = recordings(path)
    said = [
        one.text if one.role == "user" else f"{one.tool_call_id}={one.text}"
        for one in main.messages
        if one.role in ("user", "tool")
    ]
    assert told(tail) == said == ["Go.", "c2=r2", "c1=r1", "c3=r3", "- a skill"]
