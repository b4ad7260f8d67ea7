"""What `on_event` is handed, and what becomes of what it raises."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import windlass
from tests.engine.harness import House, by_phase, call, calls, cascade, phase
from tests.support.engine_budget import ENDLESS, loops
from tests.tasks.making import reduce
from windlass.engine.events import (
    CallEnded,
    CallStarted,
    Event,
    LimitHit,
    MessageAdded,
    MessageEdited,
    Noted,
    PhaseEnded,
    PhaseStarted,
    SessionStarted,
    TextArrived,
    ToolEnded,
    ToolStarted,
)
from windlass.errors import UsageError
from windlass.history.base import NodeType
from windlass.providers.scripted import Scripted


async def test_messages_edits_and_limits_are_told_as_they_are_recorded(house: House) -> None:
    def shout(number: int) -> str:
        """Say something long."""
        return f"{number} " + "word and word again " * 900

    replies = [calls(call("shout", json.dumps({"number": n}))) for n in range(9)]
    made = cascade(
        phase("a", tackle=["shout"], rules={"max_turns": 12}),
        auto_context={},
        limits={"max_turns": 10},
    )
    ran = await house.run(made, {"a": [*replies, calls(call("shout", "{}"))]}, tools=[shout])
    assert (ran.result.status, ran.result.reason) == ("incomplete", "turns")
    told = [each for each in ran.events if isinstance(each, MessageAdded)]
    stored = [s for s in ran.rows() if s.row.message is not None]
    assert [(e.message_id, e.role, e.text) for e in told] == [
        (s.id, s.row.message.role, s.row.message.text) for s in stored if s.row.message
    ]
    assert {each.tool for each in told if each.role == "tool"} == {"shout"}
    edits = [each for each in ran.events if isinstance(each, MessageEdited)]
    kept = list(ran.store.edits(ran.session))
    assert len(kept) == len(edits) > 0
    assert {(e.message_id, e.because, e.reason) for e in edits} == {
        (e.message_id, e.because, e.reason) for e in kept
    }
    assert [each for each in ran.events if isinstance(each, LimitHit)] == [
        LimitHit("a", "turns", "the run", 10, 10)
    ]


async def test_max_turns_of_a_phase_and_a_limit_below_are_told_once(
    house: House, tmp_path: Path
) -> None:
    made = cascade(phase("a", tackle=["set_state"], rules={"max_turns": 2}))
    ran = await house.run(made, loops)
    hits = [each for each in ran.events if isinstance(each, LimitHit)]
    assert hits == [LimitHit("a", "turns", "phase 'a'", 2, 2)]
    child = {**ENDLESS, "cascade_id": "child", "limits": {"max_turns": 3}}
    (tmp_path / "child.json").write_text(json.dumps(child))
    (tmp_path / "p.json").write_text(
        json.dumps(cascade(phase("p", sub_cascades=[{"ref": "child.json"}])))
    )
    ran = await house.run(tmp_path / "p.json", loops)
    hits = [each for each in ran.events if isinstance(each, LimitHit)]
    assert hits == [LimitHit("a", "turns", "sub-cascade 'child'", 3, 3)]


WORKS = cascade(phase("a", tackle=["set_state"]), phase("b"))
REPLIES = {"a": [calls(call("set_state", '{"key": "k", "value": 1}')), "done"]}


async def break_at(folder: Path, kind: type[Event], bug: BaseException, made: Any = WORKS) -> Any:
    """What was sent and told until a watcher raised at the first event of a kind."""
    seen: list[Event] = []

    def watch(event: Event) -> None:
        seen.append(event)
        if isinstance(event, kind):
            raise bug

    model = Scripted(by_phase(REPLIES))
    with pytest.raises(type(bug)) as raised:
        await windlass.run(
            made,
            model="scripted/m",
            store=folder / "store",
            providers={"scripted": model},
            on_event=watch,
            session_id="s1",
        )
    assert raised.value is bug
    return model, seen


@pytest.mark.parametrize(
    "kind",
    [
        SessionStarted,
        PhaseStarted,
        MessageAdded,
        CallStarted,
        TextArrived,
        CallEnded,
        ToolStarted,
        ToolEnded,
        PhaseEnded,
    ],
)
async def test_what_a_watcher_raises_ends_the_run_in_order(
    tmp_path: Path, kind: type[Event]
) -> None:
    bug = LookupError("no such row")
    model, seen = await break_at(tmp_path, kind, bug)
    assert isinstance(seen[-1], kind), "it is handed nothing more"
    house = House(tmp_path)
    store = house.open_store()
    (session,) = store.sessions()
    assert session.status == "failed"
    rows = [s.row for s in store.rows("s1")]
    replies = [row for row in rows if row.node_type in (NodeType.AGENT, NodeType.FOLLOW_UP)]
    assert len(replies) == len(model.requests), "no reply that was paid for is lost"
    last = [each for each in store.outcomes("s1") if each.phase is None]
    assert [(each.status, "no such row" in (each.error or "")) for each in last] == [
        ("failed", True)
    ]
    assert not [f for f in store.verify() if f.severity == "damage"]
    house.close()


async def test_soundings_do_not_hide_it(tmp_path: Path) -> None:
    await break_at(tmp_path, CallEnded, UsageError("mine"))
    sounded = cascade(phase("a", soundings={"factor": 2, "evaluator_instructions": "Best?"}))
    await break_at(tmp_path / "2", Noted, KeyError("x"), sounded)


async def test_a_watcher_of_a_task_too(tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("one\ntwo\nthree")
    (tmp_path / "t.xml").write_text(reduce('<file split="lines">lines.txt</file>'))

    def watch(event: Event) -> None:
        if isinstance(event, CallEnded):
            raise OSError("full")

    with pytest.raises(OSError, match="full"):
        await windlass.evaluate(
            tmp_path / "t.xml",
            model="scripted/m",
            store=tmp_path / "store",
            root=tmp_path,
            providers={"scripted": Scripted(lambda _: "ok")},
            on_event=watch,
        )
    house = House(tmp_path)
    assert house.open_store().sessions()[0].status == "failed"
    house.close()
