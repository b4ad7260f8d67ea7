"""Each task is told by what it was given itself, however many run beside it."""

from __future__ import annotations

from tests.support.session_lanes import agrees_with_the_run, replays_as_sent
from tests.tasks.conftest import TaskHouse
from tests.tasks.making import atomic, block, reduce, sequential


async def test_each_task_is_told_by_its_own_sections(house: TaskHouse) -> None:
    each = reduce("".join(f"<input>{n}</input>" for n in range(5)), parallel=3)
    xml = sequential(atomic("a", block("full", "enabled")), each, atomic("b"))
    ran = await house.run(xml, context="Known to all.")
    record = agrees_with_the_run(ran.store, ran.result.session_id)
    assert len(record.calls) > 6
    assert all(call.lane.continues is None for call in record.calls)
    replays_as_sent(record)
