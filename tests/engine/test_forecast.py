"""What a run would send first, and the most that it could cost."""

from __future__ import annotations

import pytest

from tests.engine.harness import House, cascade, phase
from tests.support.engine_forecast import PRICED, forecast
from tests.support.report_costs import Hosted
from windlass.caching.rates import cost, override
from windlass.providers.scripted import Scripted
from windlass.settings.fields import PriceSettings

TWO = cascade(
    phase("one", rules={"max_turns": 3}, max_output_tokens=100),
    phase("two", rules={"max_turns": 2}, max_output_tokens=100, model="b/x"),
)


async def test_each_hosted_model_is_told_at_its_own_prices(house: House) -> None:
    told = await forecast(
        house.folder,
        TWO,
        a=Hosted("openai/gpt-4o", lambda _: ""),
        b=Scripted(lambda _: "", window=10_000),
    )
    assert told.priced_as == {"openai/gpt-4o": "openai/gpt-4o", "scripted/function": PRICED}
    assert told.dollars == pytest.approx(told.tokens * 2.5 / 1e6)
    first = cost("openai/gpt-4o", 200_000 - 100, 100)
    second = cost(PRICED, 10_000 - 100, 100)
    assert first is not None
    assert second is not None
    assert told.most_calls == 10, "each reply may be cut and go on"
    assert told.most_dollars == pytest.approx(6 * first + 4 * second, rel=0.02)


async def test_a_graph_may_go_round_a_loop_as_often_as_it_may(house: House) -> None:
    rules = {"max_turns": 1}
    made = cascade(
        phase("one", rules=rules, handoffs=["two"]),
        phase("two", rules=rules, handoffs=["one", "end"], max_output_tokens=100),
        phase("never", rules=rules),
    )
    told = await forecast(house.folder, made, a=Scripted(lambda _: ""))
    assert told.phase == "one"
    assert told.most_calls == 25 * 2 + 25 * 4, "two may choose, and answer what it chose"


async def test_a_model_without_a_price_makes_the_bound_unknown(house: House) -> None:
    told = await forecast(
        house.folder,
        TWO,
        a=Scripted(lambda _: ""),
        b=Hosted("nowhere/nothing", lambda _: ""),
    )
    assert told.priced_as == {"scripted/function": PRICED, "nowhere/nothing": "nowhere/nothing"}
    assert told.dollars is not None
    assert told.most_dollars is None


async def test_the_bound_knows_the_dearer_tier(house: House) -> None:
    made = cascade(phase("one", rules={"max_turns": 1}, max_output_tokens=100))
    bounds: list[float] = []
    for window in (200_000, 400_000):
        model = Hosted("gemini/gemini-2.5-pro", lambda _: "", window=window)
        told = await forecast(house.folder, made, a=model)
        bounds.append(told.most_dollars or 0.0)
    assert bounds[1] > 3.9 * bounds[0]


async def test_ones_own_price_is_used(house: House) -> None:
    made = cascade(phase("one"))
    with override({"nowhere/nothing": PriceSettings(input=10.0, output=0.0)}):
        told = await forecast(house.folder, made, a=Hosted("nowhere/nothing", lambda _: ""))
    assert told.dollars is not None
    assert told.dollars > 0


async def test_asking_what_to_choose_is_in_the_bound(house: House) -> None:
    selection = {"strategy": "llm", "selector_model": "b/x"}
    choosing = phase(
        "two",
        rules={"max_turns": 2},
        max_output_tokens=100,
        context={"mode": "auto", "selection": selection},
    )
    told = [
        await forecast(
            house.folder / str(number),
            cascade(TWO["phases"][0], second),
            a=Hosted("openai/gpt-4o", lambda _: ""),
            b=Hosted("openai/gpt-4o-mini", lambda _: ""),
        )
        for number, second in enumerate((choosing, {**choosing, "context": {"mode": "auto"}}))
    ]
    assert [one.most_calls for one in told] == [11, 10]
    asking = cost("openai/gpt-4o-mini", 10_000, 1_024)
    assert asking is not None
    assert told[0].most_dollars == pytest.approx((told[1].most_dollars or 0) + asking)
    assert "openai/gpt-4o-mini" in told[0].priced_as


@pytest.mark.req("CA-31")
async def test_soundings_and_refinements_are_all_counted(house: House) -> None:
    soundings = {
        "factor": 3,
        "models": ["a/x", "b/x"],
        "evaluator_instructions": "The best.",
        "reforge": {"honing_prompt": "Better.", "steps": 2, "factor_per_step": 2},
    }
    one = phase("one", rules={"max_turns": 1}, max_output_tokens=100, soundings=soundings)
    told = await forecast(
        house.folder,
        cascade(one),
        a=Hosted("openai/gpt-4o", lambda _: ""),
        b=Scripted(lambda _: "", window=10_000),
    )
    first = cost("openai/gpt-4o", 200_000 - 100, 100)
    second = cost(PRICED, 10_000 - 100, 100)
    asked = cost("openai/gpt-4o", 200_000 - 1_024, 1_024)
    assert first is not None
    assert second is not None
    assert asked is not None
    # Each reply may be cut and go on, each answer of the evaluator may be mended.
    assert told.most_calls == 2 * (3 + 2 * 2) + 2 * 3
    dollars = 2 * (4 * first + 3 * second) + 6 * asked
    assert told.most_dollars == pytest.approx(dollars, rel=0.02)
    assert told.models == ("a/x", "b/x")
