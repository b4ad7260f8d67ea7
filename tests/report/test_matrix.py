"""The matrix of messages by calls says of each cell what an explanation of that call says."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.engine.harness import House, call, calls, cascade, phase
from tests.support.report_matrix import SESSION, sessions
from windlass.history.base import Store
from windlass.history.row_details import ReplyDetails
from windlass.report import matrix as module
from windlass.report.call_views import view_recorded, view_session
from windlass.report.calls import SessionRecord
from windlass.report.explanation import MessageDecision, explain_call
from windlass.report.matrix import Cell, Matrix, cell_text, matrix_of

PLAIN = {Cell.SHOWN, Cell.READ, Cell.WRITTEN}
SHORTENED = {
    "mask": Cell.MASKED,
    "expire": Cell.MASKED,
    "prune": Cell.MASKED,
    "fold": Cell.FOLDED,
    "summarise": Cell.FOLDED,
    "compact": Cell.FOLDED,
    "compress": Cell.DIGESTED,
    "digest": Cell.DIGESTED,
    "encode": Cell.DIGESTED,
}


def expected(decision: MessageDecision) -> set[Cell]:
    """What a cell may be, by the explanation of the call."""
    match decision.action:
        case "shortened":
            return {SHORTENED[(decision.because or "").split(", ")[0]]}
        case "brought in":
            return {Cell.BROUGHT_IN}
        case "with a block":
            return {*PLAIN, Cell.BROUGHT_IN}
        case "folded":
            return {Cell.FOLDED}
        case "not shown":
            return {Cell.DROPPED}
    return PLAIN


def drawn(record: SessionRecord, first: int = 1) -> Matrix:
    calls = enumerate(view_recorded(record).calls, start=1)
    return matrix_of(record, {number: call.cost for number, call in calls}, first)


def column(matrix: Matrix, at: int) -> dict[str, Cell]:
    return {row.message_id: matrix.cell(place, at) for place, row in enumerate(matrix.rows)}


def agrees_with_explanations(store: Store, session: str) -> Matrix:
    """Check each cell of a session's matrix; returns it."""
    matrix = drawn(SessionRecord(store, session))
    views = view_session(store, session).calls
    for at, call_column in enumerate(matrix.columns):
        cells = column(matrix, at)
        for decision in explain_call(store, session, call_column.number).decisions:
            cell = cells.pop(decision.message_id)
            assert cell in expected(decision), (call_column.number, decision)
        # An explanation tells of a call's history; a window may have more, and that is shown, too.
        seen = {seen.message_id for seen in views[at].seen}
        assert {ident for ident, cell in cells.items() if cell} <= seen
    return matrix


def agrees_with_usage(store: Store, session: str, matrix: Matrix) -> None:
    """Check what was read and written, message by message."""
    rows = (stored.row for stored in store.rows(session))
    replies = filter(None, (ReplyDetails.read(row) for row in rows))
    tokens_written = [reply.tokens_written for reply in replies]
    for at, view in enumerate(view_session(store, session).calls):
        cells, written = column(matrix, at), view.tokens_cached + tokens_written[at]
        before = float(view.sent_tokens - sum(seen.tokens for seen in view.seen))
        for seen in view.seen:
            middle = (before + seen.tokens / 2) * view.tokens_in / (view.sent_tokens or 1)
            before += seen.tokens
            wanted = Cell.SHOWN
            if middle < view.tokens_cached:
                wanted = Cell.READ
            elif middle < written:
                wanted = Cell.WRITTEN
            if cells[seen.message_id] in PLAIN and view.sent_tokens:
                assert cells[seen.message_id] == wanted


@settings(suppress_health_check=list(HealthCheck))
@given(st.data())
def test_each_cell_is_what_the_call_is_explained_by(data: st.DataObject) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        data.draw(sessions(Path(folder))) as store,
    ):
        matrix = agrees_with_explanations(store, SESSION)
        agrees_with_usage(store, SESSION, matrix)
        for place, runs in enumerate(matrix.runs()):
            told = {number: cell for cell, first, last in runs for number in range(first, last + 1)}
            cells = dict(enumerate(map(Cell, matrix.row(place)), start=1))
            assert told == {number: cell for number, cell in cells.items() if cell}


@settings(suppress_health_check=list(HealthCheck))
@given(st.data())
def test_the_text_of_a_cell_has_the_reason_of_its_explanation(data: st.DataObject) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        data.draw(sessions(Path(folder))) as store,
    ):
        record = SessionRecord(store, SESSION)
        matrix = drawn(record)
        at = data.draw(st.integers(0, len(matrix.columns) - 1))
        rows = {row.message_id: place for place, row in enumerate(matrix.rows)}
        for decision in explain_call(store, SESSION, at + 1).decisions:
            text = cell_text(record, matrix, rows[decision.message_id], at)
            assert matrix.cell(rows[decision.message_id], at).words in text
            if decision.action == "shortened" or (decision.action == "folded" and decision.because):
                assert f"({decision.because}: {decision.reason})" in text
            elif decision.tokens and decision.because is None:
                assert f"{decision.tokens} token" in text
                assert f"({decision.reason})" in text


@settings(suppress_health_check=list(HealthCheck))
@given(st.data())
def test_a_part_has_the_cells_of_the_whole(data: st.DataObject) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        data.draw(sessions(Path(folder))) as store,
        pytest.MonkeyPatch.context() as patch,
    ):
        record = SessionRecord(store, SESSION)
        whole = drawn(record)
        first = data.draw(st.integers(1, whole.calls))
        patch.setattr(module, "CALLS", data.draw(st.integers(1, 3)))
        part = drawn(record, first)
        assert part.first == first
        for at, _ in enumerate(part.columns):
            cells, mine = column(whole, first - 1 + at), column(part, at)
            assert {ident: cells[ident] for ident in mine} == mine
            missing = {cell for ident, cell in cells.items() if ident not in mine}
            assert missing <= {Cell.ABSENT, Cell.DROPPED, Cell.FOLDED}


async def test_a_compaction_is_one_text_for_all_that_it_stands_for(house: House) -> None:
    def look(number: int) -> str:
        """Look.

        Args:
            number: At which.
        """
        return "\n".join(f"crane_{number}_{at} = lift({at * number})" for at in range(400))

    script = [calls(call("look", json.dumps({"number": number}))) for number in range(24)]
    moments = {"free_moments": {"threshold": 40_000}}
    ran = await house.run(
        cascade(phase("a", tackle=[look.__name__], rules={"max_turns": 30}), auto_context=moments),
        {"a": [*script, "done"]},
        tools=[look],
    )
    assert ran.result.status == "completed"
    matrix = agrees_with_explanations(ran.store, ran.session)
    folds = [
        at for at, _ in enumerate(matrix.columns) if Cell.FOLDED in column(matrix, at).values()
    ]
    assert folds
    explained = explain_call(ran.store, ran.session, folds[0] + 1)
    gone = [one for one in explained.decisions if one.because == "compact"]
    assert len(gone) > 4
    assert {one.action for one in gone} <= {"folded", "shortened"}
    assert all("the window is nearly full; " in one.reason for one in gone)
    assert "compaction" in explained.selection["strategy"].split("+")
    cells = column(matrix, folds[0])
    assert {cells[one.message_id] for one in gone} == {Cell.FOLDED}
    row = next(at for at, each in enumerate(matrix.rows) if each.message_id == gone[0].message_id)
    text = cell_text(SessionRecord(ran.store, ran.session), matrix, row, folds[0])
    assert "folded" in text
    assert "(compact: the window is nearly full; " in text
