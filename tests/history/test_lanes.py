"""What stood before a row, against a slow definition, over sessions of any phases and soundings."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.history.builders import row
from tests.support.lanes import lane_of, said_in, stood_before
from windlass.history.base import StoredRow
from windlass.history.decisions import Remark, SoundingsDecided, VisitBegun
from windlass.history.lanes import Lane, Lanes, standing
from windlass.history.row_details import ReplyDetails, RowDetails, ToolResult
from windlass.messages import Message, assistant, system, tool, user


@dataclass
class Rows:
    """The rows of a session, as a store would give them."""

    listed: list[StoredRow] = field(default_factory=list)
    phase: str | None = None
    sounding: int | None = None

    def add(self, message: Message | None = None, **fields: Any) -> StoredRow:
        """The next row, of the phase and the sounding at hand."""
        seq = len(self.listed) + 1
        one = row(message, **{"phase": self.phase, "sounding_index": self.sounding, **fields})
        name = None if message is None else f"{message.content_hash}-{seq}"
        key = None if message is None else message.key
        self.listed.append(StoredRow(seq, "s", name, key, one))
        return self.listed[-1]

    def decide(self, details: RowDetails) -> None:
        self.add(text="decided", details=details)


class Drawn(Rows):
    """Rows as `draw` decides."""

    def __init__(self, draw: st.DrawFn) -> None:
        super().__init__()
        self.draw = draw
        self.ran: set[str] = set()
        self.last: dict[object, StoredRow] = {}

    def turn(self) -> None:
        """Something is said in the lane at hand: words, a reply that may go on with a cut one."""
        seq, lane = len(self.listed), (self.phase, self.sounding, len(self.ran))
        match self.draw(st.sampled_from(["user", "system", "remark", "tool", "reply", "reply"])):
            case "user":
                self.add(user(f"words {seq}"))
            case "system":
                self.add(system(f"prompt {seq}"))
            case "remark":
                self.decide(Remark("cards"))
            case "tool":
                call = self.draw(st.sampled_from(["one", "two"]))
                interrupted = self.draw(st.booleans())
                details = ToolResult(tool="look", interrupted=interrupted)
                self.add(tool(call, f"result {seq}"), turn=1, details=details)
            case _:
                cut = self.last.get(lane)
                goes_on = cut is not None and self.draw(st.booleans())
                continues = cut.id if goes_on and cut is not None else None
                details_ = ReplyDetails(continues=continues)
                self.last[lane] = self.add(assistant(f"reply {seq}"), turn=1, details=details_)

    def run_phase(self) -> None:
        """A phase runs, perhaps again, by itself or in soundings side by side."""
        self.phase = self.draw(st.sampled_from(["a", "b", "c"]))
        self.last.clear()
        if self.phase in self.ran:
            self.decide(VisitBegun(2, 1))
        self.ran.add(self.phase)
        if self.draw(st.booleans()):
            for _ in range(self.draw(st.integers(1, 3))):
                self.turn()
        else:
            self.sound()
        self.phase = self.draw(st.sampled_from([None, self.phase]))
        self.decide(Remark("memory"))

    def sound(self) -> None:
        """Soundings, of which one is taken, or none; others may refine it before."""
        indexes = self.draw(st.lists(st.sampled_from([None, 0, 1, 2]), min_size=1, max_size=8))
        for self.sounding in indexes:
            if self.sounding is None:
                self.decide(Remark("outputs"))
            else:
                self.turn()
        self.sounding = None
        winner = self.draw(st.sampled_from([None, *(one for one in indexes if one is not None)]))
        if winner is not None or self.draw(st.booleans()):
            self.decide(SoundingsDecided(winner))


@st.composite
def sessions(draw: st.DrawFn) -> list[StoredRow]:
    """The rows of a session of a cascade."""
    drawn = Drawn(draw)
    for _ in range(draw(st.integers(1, 6))):
        drawn.run_phase()
    return drawn.listed


@st.composite
def task_files(draw: st.DrawFn) -> list[StoredRow]:
    """The rows of tasks side by side."""
    drawn = Drawn(draw)
    for phase in draw(st.lists(st.sampled_from([None, "x", "y[0]", "y[1]"]), max_size=20)):
        drawn.phase = phase
        if phase is None:
            drawn.decide(Remark("cards"))
        else:
            drawn.turn()
    return drawn.listed


@given(sessions())
def test_what_stood_before_each_row(rows: list[StoredRow]) -> None:
    lanes = Lanes(rows)
    for one in rows:
        stood = stood_before(rows, one)
        history, lane = lanes.before(one), lanes.lane(one)
        assert history.rows == stood
        assert history.messages == said_in(stood)
        if one.row.phase is not None:
            assert (lane.phase, lane.visit, lane.sounding) == lane_of(rows, one)


@given(task_files())
def test_a_task_hears_nothing_of_the_others(rows: list[StoredRow]) -> None:
    lanes = Lanes(rows, tasks=True)
    for one in rows:
        stood = stood_before(rows, one, tasks=True)
        if one.row.phase is None:
            stood = [each for each in stood if each.row.phase is None]
        else:
            assert lanes.lane(one).continues is None
        assert lanes.before(one).rows == stood
        assert lanes.before(one).messages == said_in(stood)


@given(sessions(), st.data())
def test_what_stands_at_the_end(rows: list[StoredRow], data: st.DataObject) -> None:
    end = Rows(list(rows), "z").add(user("at the end"))
    assert standing(rows) == stood_before(rows, end)
    index = data.draw(st.sampled_from([None, 0, 1, 2]))
    lanes = Lanes(rows)
    sounded = [one for one in rows if one.row.sounding_index is not None]
    if index is not None and sounded:
        phase = sounded[-1].row.phase or ""
        own = Rows(list(rows), phase, index).add(user("at the end"))
        if Lane(phase, lanes.visit(phase), index) in list(lanes):
            assert lanes.standing(phase, index).rows == stood_before(rows, own)


@given(sessions())
def test_a_lane_goes_on_from_what_stood_before_it(rows: list[StoredRow]) -> None:
    lanes = Lanes(rows)
    begun = list(lanes)
    assert len(begun) == len(set(map(str, begun)))
    for lane in begun:
        if lane.continues is None:
            assert lane == begun[0]
            continue
        above = [one for one in rows if one.seq < lane.since and lanes.lane(one) == lane.continues]
        first = next(one for one in rows if one.seq >= lane.since)
        assert all(one in stood_before(rows, first) for one in above)


def test_lanes_in_short() -> None:
    rows = Rows(phase="plan")
    rows.add(user("Plan."))
    rows.phase = "solve"
    rows.decide(VisitBegun(2, 1))
    rows.sounding = 1
    said = rows.add(assistant("Tried."))
    lanes = Lanes(rows.listed)
    assert [str(lane) for lane in lanes.lane(said).chain()] == ["solve#2.1", "solve#2", "plan#1"]


def of_soundings(number: int) -> Sequence[StoredRow]:
    """A long phase, then soundings side by side."""
    rows = Rows(phase="a")
    for _ in range(number):
        rows.add(user("words"))
    rows.phase = "b"
    for at in range(number):
        rows.sounding = at % 4
        rows.add(assistant("reply"))
    return rows.listed


def test_ten_thousand_rows_take_no_time() -> None:
    rows = of_soundings(20_000)
    before = time.perf_counter()
    lanes = Lanes(rows)
    assert sum(lanes.before(one).born for one in rows) > 20_000
    assert time.perf_counter() - before < 2
