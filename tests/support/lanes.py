"""What stood before a row of a session, told slowly: row by row, as the words of lanes say it."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.history.base import BORN, NodeType, StoredRow
from windlass.history.decisions import SoundingsDecided, VisitBegun
from windlass.history.row_details import ReplyDetails, ToolResult


def visit_of(rows: Sequence[StoredRow], one: StoredRow) -> int:
    """For which time the phase of a row ran when it was written."""
    return 1 + sum(
        VisitBegun.read(each.row) is not None
        for each in rows
        if each.row.phase == one.row.phase and each.seq <= one.seq
    )


def lane_of(rows: Sequence[StoredRow], one: StoredRow) -> tuple[str | None, int, int | None]:
    return one.row.phase, visit_of(rows, one), one.row.sounding_index


def is_taken(rows: Sequence[StoredRow], one: StoredRow, before: int) -> bool:
    """Whether it was decided before row number `before` that the sounding of a row is taken."""
    return any(
        decided.winner == one.row.sounding_index
        and (each.row.phase, visit_of(rows, each)) == lane_of(rows, one)[:2]
        for each in rows
        if each.seq < before and (decided := SoundingsDecided.read(each.row)) is not None
    )


def stood_before(
    rows: Sequence[StoredRow], one: StoredRow, *, tasks: bool = False
) -> list[StoredRow]:
    """The rows that stood before a row of the session."""

    def counts(each: StoredRow) -> bool:
        if tasks:
            return each.row.phase in (None, one.row.phase)
        own, its = lane_of(rows, one), lane_of(rows, each)
        if its[2] is None or its == own:
            return True
        is_beside = own[2] is not None and own[:2] == its[:2]
        return not is_beside and is_taken(rows, each, one.seq)

    return [each for each in rows if each.seq < one.seq and counts(each)]


def said_in(stood: Sequence[StoredRow]) -> list[StoredRow]:
    """The messages among rows that stood, without those that another one of them stands for."""
    replies = [ReplyDetails.read(each.row) for each in stood]
    cut = {reply.continues for reply in replies if reply is not None}
    return [
        each
        for at, each in enumerate(stood)
        if each.row.node_type in BORN
        and each.row.message is not None
        and each.id not in cut
        and not _ran_again(each, stood[at + 1 :])
    ]


def _ran_again(one: StoredRow, after: Sequence[StoredRow]) -> bool:
    """Whether the tool ran again that had been interrupted, so that there is another result."""
    result = ToolResult.read(one.row)
    return bool(result and result.interrupted) and any(
        each.row.node_type == NodeType.TOOL_RESULT and _asked(each) == _asked(one) for each in after
    )


def _asked(one: StoredRow) -> tuple[object, ...]:
    row = one.row
    called = row.message.tool_call_id if row.message is not None else None
    return row.phase, row.sounding_index, row.attempt, row.turn, called
