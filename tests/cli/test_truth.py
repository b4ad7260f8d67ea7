"""What the end of a run says is true: its result, its prices, its money."""

from __future__ import annotations

import pytest

import windlass as library
from tests.cli.conftest import CommandLine
from tests.engine.harness import by_phase, cascade, phase
from windlass.caching.rates import money
from windlass.errors import ProviderError
from windlass.messages import Message
from windlass.providers.scripted import Scripted
from windlass.wire.base import Request

EARLIER = "the draft of the first phase"
PRICES = '[prices."openai/gpt-4o"]\ninput = 5000\noutput = 5000\n'
TASK = """
<task type="sequential" name="two">
  <description>Do two things</description>
  <steps>
    <task type="atomic" name="one"><description>Do one.</description></task>
    <task type="atomic" name="two"><description>Do two.</description></task>
  </steps>
</task>
"""


def fails_in_the_second(request: Request) -> Message | str:
    if "Do b." in request.messages[-1].text or "Do two." in request.messages[-1].text:
        raise ProviderError("the model is gone")
    return EARLIER


class TestAFailedRun:
    def test_prints_no_earlier_output_as_its_result(self, windlass: CommandLine) -> None:
        windlass.write("c.json", cascade(phase("a"), phase("b")))
        windlass.script = fails_in_the_second
        said = windlass("run", "c.json")
        assert said.code == 1
        assert EARLIER not in said.out
        told = windlass("run", "c.json", "--json").json
        assert told["output"] is None
        assert told["outputs"] == {"a": EARLIER}

    def test_nor_does_a_task(self, windlass: CommandLine) -> None:
        windlass.write("t.xml", TASK)
        windlass.script = fails_in_the_second
        said = windlass("evaluate", "t.xml")
        assert said.code == 1
        before = said.out.partition("finished before it failed")[0]
        assert EARLIER not in before
        assert windlass("evaluate", "t.xml", "--json").json["output"] is None

    def test_nor_does_the_library(self, windlass: CommandLine) -> None:
        result = library.run_sync(
            cascade(phase("a"), phase("b")),
            model="scripted/x",
            providers={"scripted": Scripted(fails_in_the_second)},
            store=windlass.folder / "store",
        )
        assert result.status == "failed"
        assert result.output is None

    def test_that_no_call_answered_has_nothing_to_bill(self, windlass: CommandLine) -> None:
        windlass.write("c.json", cascade(phase("b")))
        windlass.script = fails_in_the_second
        said = windlass("run", "c.json")
        assert "no call was answered, so there is nothing to bill" in said.out
        assert "costs are what" not in said.out


def test_report_tells_costs_at_the_prices_of_the_settings(windlass: CommandLine) -> None:
    windlass.write("c.json", cascade(phase("a"), phase("b")))
    windlass.write("windlass.toml", PRICES)
    windlass.script = by_phase({})  # type: ignore[assignment]
    ran = windlass("run", "c.json", "--session", "s1", "--price-as", "openai/gpt-4o", "--json")
    costs = ran.json["phases"]
    assert costs["total"]["dollars"] > 0.1
    windlass.write("windlass.toml", f'price_as = "openai/gpt-4o"\n{PRICES}')
    assert windlass("report", "s1", "--json").json["total"] == costs["total"]
    assert money(costs["total"]["dollars"]) in windlass("report", "s1").out


@pytest.mark.parametrize(
    ("dollars", "text"),
    [
        (-0.12, "-$0.1200"),
        (-1234.5, "-$1,234.50"),
        (0.0, "$0"),
        (-0.000001, "$0.0000"),
        (None, "no price"),
    ],
)
def test_money_has_its_sign_first(dollars: float | None, text: str) -> None:
    assert money(dollars) == text
