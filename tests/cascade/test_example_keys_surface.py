"""The small examples of keys, run with a scripted model: each shows what its key does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.engine.harness import House
from windlass.cli.app import app
from windlass.errors import CascadeError, UsageError

KEYS = Path(__file__).parents[2] / "examples" / "keys"


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    house = House(tmp_path)
    yield house
    house.close()


async def test_inputs_schema_refuses_what_is_missing_and_fills_in_defaults(house: House) -> None:
    file = KEYS / "inputs_schema.yaml"
    with pytest.raises(CascadeError, match=r"'city' \(The city that the note is about\.\)"):
        await house.run(file, lambda _: "-")
    ran = await house.run(file, lambda _: "Sunny.", {"city": "Bern"})
    assert "Bern for 3 days" in ran.model.requests[0].messages[-1].text
    assert ran.store.start(ran.session).input == {"city": "Bern", "days": 3}
    ran = await house.run(file, lambda _: "Sunny.", {"city": "Bern", "days": "5"})
    assert "Bern for 5 days" in ran.model.requests[0].messages[-1].text
    with pytest.raises(UsageError, match="'days' must be of the type integer"):
        await house.run(file, lambda _: "-", {"city": "Bern", "days": "many"})


def test_check_tells_the_inputs(tmp_path: Path) -> None:
    file = KEYS / "inputs_schema.yaml"
    told = CliRunner().invoke(app, ["check", str(file)])
    assert told.exit_code == 0
    assert "needs: -i city=..." in told.output
    assert "input days (integer, default 3): How many days it covers." in told.output
    told = CliRunner().invoke(app, ["check", str(file), "--json"])
    assert json.loads(told.output)["inputs"]["days"]["default"] == 3
    unknown = tmp_path / "c.yaml"
    unknown.write_text(file.read_text().replace("input.days", "input.day"))
    told = CliRunner().invoke(app, ["check", str(unknown)])
    assert "'inputs_schema' has no input 'day'; did you mean 'days'?" in told.output
