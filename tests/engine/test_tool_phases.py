"""Phases that run a tool in place of asking a model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.engine.harness import House, cascade, phase
from tests.support import steps

READ = "tests.support.steps:read_orders"


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    steps.ran.clear()
    steps.failures.clear()
    house = House(tmp_path)
    yield house
    house.close()


def step(name: str, tool: str = READ, **keys: Any) -> dict[str, Any]:
    """A phase that runs a tool."""
    return {"name": name, "tool": tool, **keys}


async def test_a_tools_result_is_the_phases_output(house: House) -> None:
    ran = await house.run(
        cascade(
            step("load", inputs={"path": "{{ input.path }}", "limit": "3"}),
            phase("report", context={"from": ["load"]}),
            {"name": "end", "instructions": "Do end. {{ outputs.load.json.orders[2] }}"},
        ),
        {},
        {"path": "a.csv"},
    )
    assert ran.result.status == "completed"
    assert ran.result.outputs["load"] == '{"status": "read", "orders": ["a.csv", "a.csv", "a.csv"]}'
    assert ran.result.state == {"read": "a.csv"}
    assert '[Output from load]:\n{"status": "read"' in ran.seen("report")[1][1]
    assert ran.seen("end")[:2] == [
        ("user", '[Phase load ran the tool read_orders(limit="3", path="a.csv"). Its result:]'),
        ("user", ran.result.outputs["load"]),
    ]
    assert ran.seen("end")[-1] == ("user", "Do end. a.csv")
    assert not ran.request("end").tools
