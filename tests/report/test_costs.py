"""What calls, phases and sessions cost, beside what a snowball would have cost."""

from __future__ import annotations

from typing import Any

import pytest

import windlass
from tests.engine.harness import House, call, calls, cascade, phase
from tests.strategies import png
from tests.support.report_costs import PRICED, Hosted
from windlass.caching.rates import cost, rate
from windlass.errors import UsageError
from windlass.history.base import NodeType
from windlass.history.row_details import json_of
from windlass.providers.scripted import Scripted
from windlass.report.costs import session_cost
from windlass.wire.base import Usage


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
        store = house.open_store()
        rows = [s.row for s in store.rows(result.session_id) if s.row.node_type == NodeType.AGENT]
        for row in rows:
            told = (row.tokens_in or 0, row.tokens_out or 0, row.tokens_cached or 0)
            assert row.cost == cost("openai/gpt-4o", *told)
            assert row.cost is not None
            assert row.cost > 0
        assert result.cost == pytest.approx(sum(row.cost or 0 for row in rows))
        (info,) = store.sessions()
        assert info.cost == pytest.approx(result.cost)
        (asked,) = store.query("SELECT sum(cost) AS cost FROM unified_logs")
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
        told = session_cost(ran.store, ran.session, PRICED)
        assert [line.phase for line in told.phases] == ["a", "b"]
        for line in (*told.phases, told.total):
            assert line.tokens_in == line.snowball
            assert line.dollars == pytest.approx(line.snowball_dollars)
        assert told.total.calls == 2
        usage = Usage(told.total.tokens_in, told.total.tokens_out, told.total.tokens_cached)
        assert usage == ran.result.usage

    async def test_a_reply_that_was_cut_costs_no_more_than_sending_everything(
        self, house: House
    ) -> None:
        script: dict[str, list[Any]] = {"a": [("word " * 3_000, "length"), "rest"], "b": ["done"]}
        ran = await house.run(cascade(phase("a"), phase("b")), script)
        told = session_cost(ran.store, ran.session, PRICED)
        for line in (*told.phases, told.total):
            assert line.tokens_in == line.snowball
            assert line.dollars == pytest.approx(line.snowball_dollars)

    async def test_a_local_session_is_told_at_the_prices_of_another(self, house: House) -> None:
        ran = await house.run(cascade(phase("a"), phase("b")))
        told = session_cost(ran.store, ran.session, PRICED)
        assert told.priced_as == {"scripted/function": PRICED}
        assert not told.billed
        assert told.total.dollars == told.total.simulated_dollars
        assert told.total.dollars is not None
        assert told.total.dollars > 0

    async def test_a_hosted_model_is_billed_as_itself_by_what_it_reported(
        self, house: House
    ) -> None:
        usage = Usage(50_000, 100, 20_000, 10_000, 4_000)
        result = await windlass.run(
            cascade(phase("a"), phase("b")),
            model="hosted/x",
            store=house.store,
            providers={"hosted": Hosted("anthropic/claude-haiku-4-5", lambda _: "word", usage)},
        )
        told = session_cost(house.open_store(), result.session_id, "openai/gpt-4o")
        assert told.priced_as == {"anthropic/claude-haiku-4-5": "anthropic/claude-haiku-4-5"}
        assert told.billed
        # 20,000 fresh at 1, 20,000 read at 0.1, 6,000 written at 1.25, 4,000 at 2, 100 out at 5
        by_hand = (20_000 + 20_000 * 0.1 + 6_000 * 1.25 + 4_000 * 2 + 100 * 5) / 1e6
        assert [line.dollars for line in told.phases] == pytest.approx([by_hand] * 2)
        assert told.total.dollars == pytest.approx(result.cost)
        # Everything was sent, so that a snowball costs what was billed.
        assert told.is_everything
        assert told.total.snowball == told.total.tokens_in
        assert told.total.snowball_dollars == pytest.approx(told.total.dollars)
        # By our count alone it is the messages themselves, and those are few.
        assert (told.total.simulated_dollars or 1) < by_hand / 100
        rows = [s.row for s in house.open_store().rows(result.session_id) if s.row.tokens_in]
        assert {json_of(row)["tokens_written_long"] for row in rows} == {4_000}
        assert {(json_of(row)["tries"], json_of(row)["waited_s"]) for row in rows} == {(2, 1.5)}
        assert result.usage.tokens_written_long == 8_000

    async def test_each_model_has_a_cache_of_its_own(self, house: House) -> None:
        # 6,000 tokens of system prompt for both: the second model has not seen them.
        def run(first: str, second: str) -> Any:
            return windlass.run(
                cascade(
                    phase("a", model="one/x"), phase("b", model="two/x"), system="Be. " * 3_000
                ),
                store=house.store,
                providers={
                    "one": Hosted(first, lambda _: "a"),
                    "two": Hosted(second, lambda _: "b"),
                },
            )

        same = await run("openai/gpt-4o", "openai/gpt-4o")
        other = await run("openai/gpt-4o", "openai/gpt-4o-2024-08-06")
        store = house.open_store()
        bills = [
            session_cost(store, result.session_id, PRICED).phases[1].simulated_dollars or 0.0
            for result in (same, other)
        ]
        assert bills[0] < 0.6 * bills[1]

    async def test_a_hosted_model_without_a_price_is_never_told_at_anothers(
        self, house: House
    ) -> None:
        result = await windlass.run(
            cascade(phase("a", model="one/x"), phase("b", model="two/x")),
            store=house.store,
            providers={
                "one": Hosted("nowhere/nothing", lambda _: "a"),
                "two": Scripted(lambda _: "b"),
            },
        )
        told = session_cost(house.open_store(), result.session_id, PRICED)
        assert told.priced_as == {
            "nowhere/nothing": "nowhere/nothing",
            "scripted/function": PRICED,
        }
        first, second = told.phases
        assert (first.dollars, first.simulated_dollars, first.snowball_dollars) == (None,) * 3
        assert second.dollars is not None
        assert told.total.dollars == pytest.approx(second.dollars), "the others have one"
        assert (told.total.unpriced, first.unpriced, second.unpriced) == (1, 1, 0)

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
        told = session_cost(ran.store, ran.session, PRICED)
        lines = {line.phase: line for line in told.phases}
        assert lines["a"].tokens_in == lines["a"].snowball
        for name in "bc":
            assert lines[name].snowball - lines[name].tokens_in > 700  # gpt-4o's price of it
            assert (lines[name].dollars or 0) < (lines[name].snowball_dollars or 0)
        assert told.total.snowball - told.total.tokens_in == ran.result.saved

    async def test_a_phases_own_system_prompt_is_not_billed_to_the_next(self, house: House) -> None:
        ran = await house.run(cascade(phase("a", system="Be. " * 2_000), phase("b")))
        told = session_cost(ran.store, ran.session, PRICED)
        second = told.phases[1]
        assert second.dollars == pytest.approx(second.snowball_dollars)

    async def test_without_a_price_there_are_no_dollars(self, house: House) -> None:
        assert rate("nowhere/nothing") is None
        ran = await house.run(cascade(phase("a")))
        told = session_cost(ran.store, ran.session, "nowhere/nothing")
        assert told.total.dollars is None
        assert told.total.tokens_in > 0

    async def test_an_unknown_session(self, house: House) -> None:
        ran = await house.run(cascade(phase("a")))
        with pytest.raises(UsageError):
            session_cost(ran.store, "nothing", PRICED)
