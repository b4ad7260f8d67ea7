"""The small examples of soundings and of questions to people, run with a scripted model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import windlass
from tests.engine.harness import House, Ran
from tests.support.report_costs import Hosted
from windlass.text.prompts import REWRITES, VARIATIONS
from windlass.wire.base import Request

KEYS = Path(__file__).parents[2] / "examples" / "keys"
DRAFT = (
    'A note. <decision>{"question": "Send it?", "options": [{"id": "yes", "label": "Send"},'
    ' {"id": "no", "label": "Write it again"}]}</decision>'
)


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    house = House(tmp_path)
    yield house
    house.close()


def titles(end: str = "") -> Any:
    """A script: each attempt has a title of its own, and a model picks the second."""
    numbers = iter(range(100))

    def script(request: Request) -> str:
        role, asked = request.messages[0].text, request.messages[-1].text
        if role.startswith("You judge"):
            return '{"winner": 1}'
        if role.startswith("You choose among"):
            return '{"keep": [0, 3]}'
        if role.startswith("You write the instructions"):
            return f"anew: {asked.rpartition(chr(10))[2]}"
        return "one list" if role.startswith("You are given") else f"title {next(numbers)}{end}"

    return script


async def run(house: House, key: str, **options: Any) -> tuple[Ran, list[str]]:
    """A run of an example, and what its attempts were asked."""
    ran = await house.run(KEYS / f"{key}.yaml", titles(), {"text": "rain"}, **options)
    asked = [request.messages[-1].text for request in ran.model.requests]
    return ran, [text for text in asked if "[Task" not in text and "[Instructions" not in text]


async def test_soundings_take_the_best(house: House) -> None:
    ran, asked = await run(house, "soundings")
    assert ran.result.output == "title 1"
    assert asked == ["A title for rain."] * 3


async def test_mutate_varies_all_but_the_first(house: House) -> None:
    _, asked = await run(house, "mutate")
    plain = "A title for rain."
    assert sorted(asked) == sorted([plain, *(f"{plain}\n{text}" for text in VARIATIONS[:2])])


async def test_mutation_mode_has_a_model_write_them_anew(house: House) -> None:
    ran, asked = await run(house, "mutation_mode")
    assert asked == ["A title for rain.", f"anew: {REWRITES[0]}"]
    assert ran.decisions("rewording")[0]["order"] == REWRITES[0]


async def test_mutations_are_own_texts(house: House) -> None:
    _, asked = await run(house, "mutations")
    assert {text.rpartition("\n")[2] for text in asked[1:]} == {"Be playful.", "Be sober."}


@pytest.mark.parametrize(("key", "counts"), [("models", {2, 1}), ("model_strategy", None)])
async def test_models_make_the_attempts(house: House, key: str, counts: set[int] | None) -> None:
    sent: dict[str, list[Request]] = {}

    def model(name: str) -> Hosted:
        def script(request: Request) -> str:
            if "You judge" in request.messages[0].text:
                return '{"winner": 0}'
            sent.setdefault(name, []).append(request)
            return f"by {name}"

        return Hosted(name, script)

    written = yaml.safe_load((KEYS / f"{key}.yaml").read_text())
    result = await windlass.run(
        {**written, "model": "local/smollm2"},
        {"text": "rain"},
        store=house.store,
        root=house.folder,
        providers={"local": model("local/smollm2"), "openai": model("openai/gpt-4o")},
    )
    assert result.status == "completed"
    if counts:
        assert {name: len(requests) for name, requests in sent.items()} == {
            "local/smollm2": 2,
            "openai/gpt-4o": 1,
        }
        assert sent["local/smollm2"][0].temperature == 0.9
    assert sum(map(len, sent.values())) == (3 if counts else 4)


async def test_cost_aware_evaluation_tells_the_cost(house: House) -> None:
    ran, _ = await run(house, "cost_aware_evaluation")
    text = ran.model.requests[-1].messages[1].text
    assert "Weigh quality against cost 0.6 to 0.4" in text
    assert text.count("relative cost") == 4


async def test_human_eval_asks_a_person(house: House) -> None:
    ran, _ = await run(house, "human_eval", answers=["attempt 3"])
    assert ran.result.output == "title 2"
    waiting, _ = await run(house, "human_eval")
    assert waiting.result.status == "waiting"


async def test_llm_prefilter_shortens_the_list(house: House) -> None:
    ran, _ = await run(house, "llm_prefilter", answers=["attempt 2"])
    assert ran.result.output == "title 3"


async def test_aggregate_joins(house: House) -> None:
    ran, _ = await run(house, "aggregate")
    assert ran.result.output == "one list"
    assert ran.decisions("soundings")[0]["joined"] == [0, 1, 2]


async def test_reforge_refines_until_the_threshold_accepts(house: House) -> None:
    ran, asked = await run(house, "reforge")
    assert [each["round"] for each in ran.decisions("sounding")] == [0, 0, 1, 2]
    assert "title 1" in asked[2]
    assert asked[2].endswith("Cut a third.")
    long = await house.run(KEYS / "reforge.yaml", titles(" " + "very " * 12), {"text": "rain"})
    assert [each["round"] for each in long.decisions("sounding")] == [0, 0]


async def test_decision_points_route(house: House) -> None:
    def script(request: Request) -> str:
        return DRAFT if "Write a note" in request.messages[-1].text else "Sent."

    given = {"text": "rain"}
    ran = await house.run(
        KEYS / "decision_points.yaml", script, given, answers=["shorter, please", "Send"]
    )
    assert ran.result.output == "Sent."
    ran = await house.run(KEYS / "decision_points.yaml", script, given, answers=["no", "yes"])
    assert [each["visit"] for each in ran.decisions("visit")] == [2]
    assert ran.result.state["draft"] == "yes"
    assert ran.result.state["_decision_draft"]["choice"] == "yes"


async def test_human_input_asks_after_the_phase(house: House) -> None:
    script = titles()
    ran = await house.run(KEYS / "human_input.yaml", script, {"text": "rain"}, answers=["shorter"])
    assert "as the person wants it: shorter" in ran.model.requests[-1].messages[-1].text
