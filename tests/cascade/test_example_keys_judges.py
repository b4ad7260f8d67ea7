"""The small examples of rules and validators, run with a scripted model: each shows its effect."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.engine.harness import House, call, calls
from windlass.text.prompts import VALIDATOR_SYSTEM
from windlass.wire.base import Request

KEYS = Path(__file__).parents[2] / "examples" / "keys"
LONG = "How the tides of the Wadden Sea shape what lives between land and water"


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    house = House(tmp_path)
    yield house
    house.close()


def in_turn(*replies: Any) -> Any:
    """A script that says these replies, one a call."""
    said = iter(replies)
    return lambda _: next(said)


def last(request: Request) -> str:
    return request.messages[-1].text


async def test_validators(house: House) -> None:
    replies = ("In 2020, 5 %.", "Hm.", '{"valid": false, "reason": "no source"}')
    script = in_turn(*replies, "5 % (WHO).", 'Yes: {"valid": true}')
    ran = await house.run(KEYS / "validators.yaml", script, {"topic": "air"})
    asked = ran.model.requests
    assert ran.result.output == "5 % (WHO)."
    assert "validator 'cites': it names a source for each figure\nYou have 2 att" in last(asked[0])
    assert asked[1].messages[0].text == VALIDATOR_SYSTEM
    assert last(asked[1]) == "Does this name a source for each figure? In 2020, 5 %."
    assert last(asked[2]).startswith("[Answer Invalid]")
    assert "no source" in last(asked[3])


async def test_loop_until(house: House) -> None:
    ran = await house.run(KEYS / "loop_until.yaml", in_turn("Tides", LONG), {"topic": "tides"})
    assert ran.result.output == LONG
    assert "It has 5 characters; at least 50 are asked for." in last(ran.model.requests[1])


async def test_retry_instructions(house: House) -> None:
    script = in_turn("Tides", "Sea tides", LONG)
    ran = await house.run(KEYS / "retry_instructions.yaml", script, {"topic": "tides"})
    told = [last(each) for each in ran.model.requests[1:]]
    assert told == [
        "[Validation Failed]\nTry 2 of 3: It has 5 characters; at least 50 are asked for.",
        "[Validation Failed]\nTry 3 of 3: It has 9 characters; at least 50 are asked for.",
    ]


async def test_turn_prompt(house: House) -> None:
    file = KEYS / "turn_prompt.yaml"
    ran = await house.run(file, in_turn("Roses", "Waves", "The tide"), {"topic": "tide"})
    told = [last(each) for each in ran.model.requests[1:]]
    assert told == ["Turn 2 of 3: make it better.", "Turn 3 of 3: make it better."]
    assert ran.result.output == "The tide"
    assert ran.result.status == "completed"
    ran = await house.run(file, in_turn("Roses", "A tide"), {"topic": "tide"})
    assert ran.result.output == "A tide", "accepted early, and not asked once more"


async def test_loop_until_prompt(house: House) -> None:
    given = {"topic": "tides", "min_length": 9}
    ran = await house.run(KEYS / "loop_until_prompt.yaml", in_turn("Sea tides"), given)
    (asked,) = ran.model.requests
    assert last(asked).endswith("It needs 9 characters; you have 3 tries.")
    assert "length_check" not in last(asked)


async def test_loop_until_silent(house: House) -> None:
    script = in_turn("Tides", LONG)
    ran = await house.run(KEYS / "loop_until_silent.yaml", script, {"topic": "tides"})
    first, second = ran.model.requests
    assert last(first) == "A title for a talk on tides."
    assert "at least 50" in last(second)


async def test_output_schema(house: House) -> None:
    said = 'It is fine.\n```json\n{"stars": 4}\n```\nRead it.'
    ran = await house.run(KEYS / "output_schema.yaml", in_turn(said, "good"), {"book": "Emma"})
    assert ran.result.outputs["rate"] == said
    assert ran.result.state == {"validated_output": {"stars": 4}}
    assert last(ran.model.requests[1]) == "Say in a word what 4 stars mean."


async def test_tools(house: House) -> None:
    def script(request: Request) -> Any:
        asked = last(request)
        if asked.startswith("How is"):
            return "as Professor"
        if asked.startswith("Is this polite?"):
            polite = "Dear" in asked
            return f'{{"valid": {str(polite).lower()}, "reason": "no greeting"}}'
        if request.messages[-1].role == "tool":
            return f"Hello, {asked}"
        if "no greeting" in asked:
            return "Dear Professor"
        return calls(call("find_title", '{"name": "Ada"}'))

    ran = await house.run(KEYS / "tools.yaml", script, {"name": "Ada"})
    assert ran.result.output == "Dear Professor"
    assert any(last(each) == "How is Ada addressed?" for each in ran.model.requests)
    assert [told["valid"] for told in ran.decisions("validator")] == [False, True]
    assert len(ran.decisions("sub_cascade")) == 3
