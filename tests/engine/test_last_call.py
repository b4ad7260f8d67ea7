"""Cache marks of a run's last call: what no call reads again is not written."""

from __future__ import annotations

from typing import Any

import windlass
from tests.engine.harness import House, call, calls, cascade, phase
from tests.support.engine_cache import Reporting, honest

CLAUDE = "anthropic/claude-sonnet-4-5"
SYSTEM = "Be careful with each build. " * 400


def read(build: str) -> str:
    """Read a log."""
    return f"build {build} went as it always goes. " * 4


async def places(house: House, made: dict[str, Any], said: dict[str, Any]) -> list[list[list[int]]]:
    """The places of the marks of each call of a run."""
    result = await windlass.run(
        made,
        model="scripted/x",
        store=house.store,
        root=house.folder,
        tools=[read],
        providers={"scripted": Reporting(said, honest, CLAUDE)},
    )
    assert result.error is None
    found = house.open_store().calls(result.session_id)
    return [[list(place) for place in each.details.as_json()["marks"]["places"]] for each in found]


async def test_a_phase_without_tools_writes_no_more_than_the_head(house: House) -> None:
    marks = await places(
        house, cascade(phase("a"), phase("b"), system=SYSTEM), {"a": ["A"], "b": ["B"]}
    )
    assert marks[0] == [[0, 0], [1, 0]]
    assert marks[1] == [[0, 0], [1, 0]]  # read, and nothing behind it


async def test_a_closing_call_writes_nothing(house: House) -> None:
    made = cascade(phase("a", tackle=["read"], rules={"max_turns": 1}), system=SYSTEM)
    asks = calls(call("read", '{"build": "7"}'))
    marks = await places(house, made, {"a": [asks, "It went well."]})
    assert marks[0][-1] == [1, 0]
    assert marks[1][-1] == [1, 0]


async def test_an_output_that_may_be_refused_is_written(house: House) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    made = cascade(phase("a", output_schema=schema), system=SYSTEM)
    marks = await places(house, made, {"a": ['{"n": 1}']})
    assert marks == [[[0, 0], [1, 0]]]
