"""What calls, phases and sessions cost, beside what a snowball would have cost."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

import windlass
from tests.engine.harness import House, call, calls, cascade, phase
from tests.strategies import png
from windlass.errors import UsageError
from windlass.history.base import NodeType
from windlass.prices import cost, rate
from windlass.providers.base import ModelInfo
from windlass.providers.scripted import Scripted
from windlass.report.costs import session_cost
from windlass.wire.base import Usage

PRICED = "anthropic/claude-sonnet-4-5"


class Hosted(Scripted):
    """A scripted model under the name, and at the prices, of a hosted one."""

    def __init__(self, named: str, script: Any) -> None:
        super().__init__(script)
        self.named = named

    def model(self, name: str) -> ModelInfo:
        return dataclasses.replace(super().model(name), name=self.named, free=False)


def draw() -> bytes:
    """Draw a large picture."""
    return png(1_000, 800)


class TestCostsOfCalls:
    @pytest.mark.req("CA-30")
    async def test_each_call_and_the_session_have_dollars(self, house: House) -> None:
        provider = Hosted("openai/gpt-4o", lambda _: "word " * 100)
        result = await windlass.run(
            cascade(phase("a"), phase("b")),
            model="hosted/x",
            store=house.store,
            providers={"hosted": provider},
        )
        keeper = house.keeper()
        rows = [s.row for s in keeper.rows(result.session_id) if s.row.node_type == NodeType.AGENT]
        for row in rows:
            told = (row.tokens_in or 0, row.tokens_out or 0, row.tokens_cached or 0)
            assert row.cost == cost("openai/gpt-4o", *told)
            assert row.cost is not None
            assert row.cost > 0
        assert result.cost == pytest.approx(sum(row.cost or 0 for row in rows))
        (info,) = keeper.sessions()
        assert info.cost == pytest.approx(result.cost)
        (asked,) = keeper.query("SELECT sum(cost) AS cost FROM unified_logs")
        assert asked["cost"] == pytest.approx(result.cost)

    @pytest.mark.req("CA-30")
    async def test_a_model_without_a_price_makes_the_sum_unknown_never_zero(
        self, house: House
    ) -> None:
        provider = Hosted("nowhere/nothing", lambda _: "said")
        result = await windlass.run(
            cascade(phase("a")),
            model="hosted/x",
            store=house.store,
            providers={"hosted": provider},
        )
        assert result.cost is None
        assert result.usage.tokens_in > 0


class TestSessionCost:
    async def test_a_plain_snowball_costs_what_a_snowball_costs(self, house: House) -> None:
        ran = await house.run(cascade(phase("a"), phase("b"), system="Be."))
        told = session_cost(ran.keeper, ran.session, PRICED)
        assert [line.phase for line in told.phases] == ["a", "b"]
        for line in (*told.phases, told.total):
            assert line.tokens_in == line.snowball
            assert line.dollars == pytest.approx(line.snowball_dollars)
        assert told.total.calls == 2
        usage = Usage(told.total.tokens_in, told.total.tokens_out, told.total.tokens_cached)
        assert usage == ran.result.usage

    @pytest.mark.req("CI-59")
    async def test_pictures_not_carried_are_tokens_and_dollars_not_spent(
        self, house: House
    ) -> None:
        ran = await house.run(
            cascade(
                phase("a", tackle=["draw"]),
                phase("b", context={"from": []}),
                phase("c", context={"from": ["b"]}),
            ),
            {"a": [calls(call("draw")), "drawn"]},
            tools=[draw],
        )
        told = session_cost(ran.keeper, ran.session, PRICED)
        lines = {line.phase: line for line in told.phases}
        assert lines["a"].tokens_in == lines["a"].snowball
        for name in "bc":
            assert lines[name].snowball - lines[name].tokens_in > 700  # gpt-4o's price of it
            assert (lines[name].dollars or 0) < (lines[name].snowball_dollars or 0)
        assert told.total.snowball - told.total.tokens_in == ran.result.saved

    async def test_a_phases_own_system_prompt_is_not_billed_to_the_next(self, house: House) -> None:
        ran = await house.run(cascade(phase("a", system="Be. " * 2_000), phase("b")))
        told = session_cost(ran.keeper, ran.session, PRICED)
        second = told.phases[1]
        assert second.dollars == pytest.approx(second.snowball_dollars)

    async def test_without_a_price_there_are_no_dollars(self, house: House) -> None:
        assert rate("nowhere/nothing") is None
        ran = await house.run(cascade(phase("a")))
        told = session_cost(ran.keeper, ran.session, "nowhere/nothing")
        assert told.total.dollars is None
        assert told.total.tokens_in > 0

    async def test_an_unknown_session(self, house: House) -> None:
        ran = await house.run(cascade(phase("a")))
        with pytest.raises(UsageError):
            session_cost(ran.keeper, "nothing", PRICED)
