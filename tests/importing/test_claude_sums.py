"""Sums that Claude Code writes at the end: of a run (`result`), and of a session (`cost-state`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import windlass
from tests.importing.making import Session, call, result, text, used, write_lines
from windlass.history.sqlite import SqliteStore
from windlass.importing.recording import Recording
from windlass.importing.streams import recordings
from windlass.wire.base import Usage

MODEL = "claude-sonnet-4-5-20250929"
HAIKU = "claude-haiku-4-5-20251001"


def model_usage(fresh: int, out: int, read: int, written: int, dollars: float) -> dict[str, Any]:
    return {
        "inputTokens": fresh,
        "outputTokens": out,
        "cacheReadInputTokens": read,
        "cacheCreationInputTokens": written,
        "webSearchRequests": 0,
        "costUSD": dollars,
    }


def closing(kind: str, **models: dict[str, Any]) -> dict[str, Any]:
    """A closing record with the sums of models, named without what a keyword cannot hold."""
    usage = {"sonnet": MODEL, "haiku": HAIKU}
    told = {usage[key]: one for key, one in models.items()}
    total = sum(one["costUSD"] for one in models.values())
    ids = {"session_id": "s-1"} if kind == "result" else {"sessionId": "s-1"}
    dollars = "total_cost_usd" if kind == "result" else "totalCostUSD"
    return {"type": kind, **ids, dollars: total, "modelUsage": told}


def begun() -> Session:
    """Two answers, recorded while they began: one token each of output."""
    session = Session("s-1", model=MODEL)
    session.user("Go.")
    usage = used(10, 1, written=1_000)
    session.answer("m1", text("words " * 100), call("t1"), usage=usage, stopped=False)
    session.user([result("t1")])
    usage = used(5, 1, read=1_000)
    session.answer("m2", text("words " * 300), usage=usage, stopped=False)
    return session


def test_a_closing_result_tells_what_answers_had_not(tmp_path: Path) -> None:
    session = Session("s-1", model=MODEL)
    session.user("Go.")
    session.answer("m1", text("hi"), usage=used(10, 1, written=1_000), stopped=False)
    dollars = (10 * 3 + 320 * 15 + 1_000 * 3.75) / 1e6
    end = closing("result", sonnet=model_usage(10, 320, 0, 1_000, dollars))
    path = write_lines(tmp_path / "a.jsonl", [*session.records, end])
    (one,) = recordings(path)
    assert one.usage == Usage(1_010, 320, 0, 1_000)
    assert one.estimated == 0
    assert one.dollars == pytest.approx(dollars)
    (stored,) = windlass.import_sessions(path, store=tmp_path / "store").sessions
    assert stored.tokens_out == 320
    assert stored.cost == pytest.approx(dollars)


def test_the_output_of_several_answers_is_their_sum(tmp_path: Path) -> None:
    dollars = 0.05
    end = closing("result", sonnet=model_usage(15, 1_001, 1_000, 1_000, dollars))
    (one,) = recordings(write_lines(tmp_path / "a.jsonl", [*begun().records, end]))
    first, second = (made.usage.tokens_out for made in one.calls if made.usage)
    assert first + second == 1_001
    assert second > 2 * first
    assert one.estimated == 2
    assert one.dollars == pytest.approx(dollars)  # the client's own


def _others(path: Path) -> tuple[Recording, list[Recording]]:
    first, *others = recordings(path)
    return first, others


@pytest.mark.parametrize("kind", ["result", "cost-state"])
def test_calls_that_no_record_tells_are_in_the_bill(tmp_path: Path, kind: str) -> None:
    """Titles and classifiers of a small model, a compaction by that of the session."""
    session = Session("s-1", model=MODEL)
    session.user("Go.")
    session.answer("m1", text("hi"), usage=used(10, 50, written=1_000))
    mine = (10 * 3 + 50 * 15 + 1_000 * 3.75) / 1e6
    end = closing(
        kind,
        sonnet=model_usage(30, 450, 5_000, 1_000, mine + 0.02),
        haiku=model_usage(700, 20, 0, 0, 0.0008),
    )
    path = write_lines(tmp_path / "s-1.jsonl", [*session.records, end, end])
    first, others = _others(path)
    assert first.usage == Usage(1_010, 50, 0, 1_000)
    assert [(one.kind, one.parent) for one in others] == [("side chain", "s-1")] * 2
    assert [one.usage for one in others] == [Usage(5_020, 400, 5_000), Usage(700, 20)]
    assert [one.dollars for one in others] == [pytest.approx(0.02), 0.0008]
    imported = windlass.import_sessions(path, store=tmp_path / "store").sessions
    assert sum(one.cost or 0 for one in imported) == pytest.approx(mine + 0.0208)
    replay = windlass.replay(path, policies=["everything"])
    recorded = sum(row.recorded or 0 for row in replay.recordings)
    assert recorded == pytest.approx(mine + 0.0208)
    again = windlass.import_sessions(path, store=tmp_path / "store").sessions
    assert {one.state for one in again} == {"unchanged"}
    more = closing(
        kind,
        sonnet=model_usage(30, 450, 5_000, 1_000, mine + 0.02),
        haiku=model_usage(1_400, 40, 0, 0, 0.0016),
    )
    write_lines(path, [*session.records, end, more])
    windlass.import_sessions(path, store=tmp_path / "store")
    with SqliteStore(tmp_path / "store") as history:
        stored = history.sessions(limit=None)
    assert sum(one.tokens_in for one in stored if one.parent_id) == 5_020 + 1_400


def test_side_chains_are_among_the_sums(tmp_path: Path) -> None:
    session = Session("s-1", model=MODEL)
    session.user("Go.")
    session.answer("m1", text("hi"), usage=used(10, 50))
    side = Session("s-1", model=MODEL)
    side.user("Look.", isSidechain=True, agentId="a1")
    side.answer("m2", text("there"), usage=used(20, 60), isSidechain=True, agentId="a1")
    end = closing("cost-state", sonnet=model_usage(30, 110, 0, 0, 110 * 15e-6 + 30 * 3e-6))
    path = write_lines(tmp_path / "s-1.jsonl", [*session.records, end])
    write_lines(tmp_path / "s-1" / "subagents" / "agent-a1.jsonl", side.records)
    for place in (path, tmp_path):
        read = list(recordings(place))
        assert [one.kind for one in read] == ["session", "side chain"]
        assert sum(one.usage.tokens_out for one in read) == 110


def test_sums_of_runs_add_up_and_others_are_left_alone(tmp_path: Path) -> None:
    session = Session("s-1", model=MODEL)
    records: list[dict[str, Any]] = []
    for number, kept in ((1, 40), (2, 30)):
        session.user(f"Go {number}.")
        session.answer(f"m{number}", text("hi"), usage=used(kept, 1), stopped=False)
        records += [*session.records[-2:], closing("result", sonnet=model_usage(kept, 9, 0, 0, 0))]
    (one,) = recordings(write_lines(tmp_path / "a.jsonl", records))
    assert one.usage == Usage(70, 18)
    less = closing("result", sonnet=model_usage(1, 9, 0, 0, 0))  # of another run than is here
    (one,) = recordings(write_lines(tmp_path / "b.jsonl", [*begun().records, less]))
    assert one.usage.tokens_in == 2_015
    elsewhere = closing("result", haiku=model_usage(9_000, 9, 0, 0, 0))  # of other models
    (one,) = recordings(write_lines(tmp_path / "c.jsonl", [*begun().records, elsewhere]))
    assert one.usage.tokens_in == 2_015


def test_an_older_result_has_the_sum_of_one_model(tmp_path: Path) -> None:
    session = Session("s-1", model=MODEL)
    session.user("Go.")
    session.answer("m1", text("hi"), usage=used(10, 1), stopped=False)
    end = {"type": "result", "session_id": "s-1", "usage": used(10, 320), "total_cost_usd": 0.01}
    (one,) = recordings(write_lines(tmp_path / "a.jsonl", [*session.records, end]))
    assert (one.usage, one.dollars) == (Usage(10, 320), 0.01)


def test_a_compaction_without_sums_is_said(tmp_path: Path) -> None:
    session = Session("s-1", model=MODEL)
    session.user("Go.")
    session.answer("m1", text("hi"), usage=used(10, 5))
    metadata = {"trigger": "manual", "preTokens": 900}
    session.add("system", subtype="compact_boundary", compactMetadata=metadata, parentUuid=None)
    session.user("A summary.", isCompactSummary=True)
    session.answer("m2", text("on"), usage=used(10, 5))
    path = write_lines(tmp_path / "s-1.jsonl", session.records)
    reason = "calls that wrote a summary, of which transcripts without sums say nothing"
    assert next(recordings(path)).skipped[reason] == 1
    side = Session("s-1", model=MODEL)  # where the client wrote it with an agent, it is told
    side.user("Sum up.", isSidechain=True, agentId="acompact-1")
    usage = used(900, 80)
    side.answer("m3", text("A summary."), usage=usage, isSidechain=True, agentId="acompact-1")
    write_lines(tmp_path / "s-1" / "subagents" / "agent-acompact-1.jsonl", side.records)
    read = list(recordings(path))
    assert all(reason not in one.skipped for one in read)
    assert sum(one.usage.tokens_in for one in read) == 920


def test_words_of_the_clients_own_are_no_call(tmp_path: Path) -> None:
    """An "API Error" is an answer of nobody, however its record says so."""
    session = Session("s-1", model=MODEL)
    session.user("Go.")
    session.answer("m1", text("hi"), usage=used(10, 5))
    error = text("API Error: 529 Overloaded")
    session.user("More.")
    session.answer("e1", error, usage=used(0, 0), isApiErrorMessage=True)
    session.user("Once more.")
    session.answer("e3", error, usage=used(0, 0), error="server_error")
    session.user("And more.")
    session.model = "<synthetic>"
    session.answer("e2", error, usage=used(0, 0))
    path = write_lines(tmp_path / "s-1.jsonl", session.records)
    (stored,) = windlass.import_sessions(path, store=tmp_path / "store").sessions
    assert stored.calls == 1
    assert stored.cost == pytest.approx((10 * 3 + 5 * 15) / 1e6)
