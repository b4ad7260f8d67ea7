"""The small examples of tool phases and wards, run with a scripted model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.harness import House, Ran
from windlass.errors import WardRefused
from windlass.wire.base import Request

KEYS = Path(__file__).parents[2] / "examples" / "keys"


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    house = House(tmp_path)
    yield house
    house.close()


def write(house: House, name: str, value: object) -> dict[str, str]:
    """Write a JSON file into the root, and name it as the input does."""
    (house.folder / name).write_text(json.dumps(value))
    return {"path": name}


def asked(ran: Ran, number: int = 0) -> str:
    """The last message of a request."""
    return ran.model.requests[number].messages[-1].text


async def test_tool(house: House) -> None:
    given = write(house, "stock.json", {"items": ["tea", "rice"]})
    ran = await house.run(KEYS / "tool.yaml", lambda _: "Tea.", given)
    assert asked(ran) == "Which of these 2 items run low?"
    assert '"rice"' in ran.model.requests[0].messages[-2].text


async def test_inputs(house: House) -> None:
    replies = iter(['["rain", "cost"]', "Rain."])
    ran = await house.run(KEYS / "inputs.yaml", lambda _: next(replies), {"plan": "a fair"})
    assert ran.result.state == {"risks": ["rain", "cost"]}
    assert asked(ran, 1) == "Which is the worst of these 2: rain, cost?"


async def test_routing(house: House) -> None:
    given = write(house, "open.json", {"status": "open", "text": "Where is it?"})
    ran = await house.run(KEYS / "routing.yaml", lambda _: "Here.", given)
    assert asked(ran) == "Answer the ticket: Where is it?"
    given = write(house, "closed.json", {"status": "closed", "text": "Thanks!"})
    ran = await house.run(KEYS / "routing.yaml", lambda _: "Welcome.", given)
    assert asked(ran) == "Thank the customer in one line."


async def test_on_error(house: House) -> None:
    replies = iter(["about 10", "They are about 10."])
    ran = await house.run(KEYS / "on_error.yaml", lambda _: next(replies))
    assert asked(ran).startswith("Estimate the prices; ")
    assert asked(ran, 1) == "Write a line about these prices: about 10"


async def test_retry(house: House) -> None:
    ran = await house.run(KEYS / "retry.yaml", lambda _: "Rain.", {"city": "Bern"})
    assert len(ran.decisions("tool failed")) == 1
    assert len(ran.decisions("tool phase")) == 2
    assert asked(ran) == "Guess the weather in Bern."


async def test_timeout(house: House) -> None:
    ran = await house.run(KEYS / "timeout.yaml", lambda _: "It took too long.")
    assert "its time limit of 0.2 s" in asked(ran)


async def test_wards(house: House) -> None:
    def script(request: Request) -> str:
        text = request.messages[-1].text
        if text.startswith("Is this about an order?"):
            return json.dumps(
                {"valid": "weather" not in text, "reason": "it is about something else"}
            )
        if text.startswith("Answer the customer") or "Validation Failed" in text:
            return next(replies)
        return '{"valid": true, "reason": ""}'

    replies = iter(["Soon.", "Your parcel left our house this morning and arrives tomorrow."])
    ran = await house.run(KEYS / "wards.yaml", script, {"mail": "Where is my order?"})
    assert ran.result.output == "Your parcel left our house this morning and arrives tomorrow."
    judged = [(row["place"], row["validator"], row["valid"]) for row in ran.decisions("ward")]
    assert judged == [
        ("pre", "on_topic", True),
        ("turn", "content_safety", True),
        ("post", "length_check", False),
        ("turn", "content_safety", True),
        ("post", "length_check", True),
    ]
    ran = await house.run(KEYS / "wards.yaml", script, {"mail": "Nice weather!"})
    assert isinstance(ran.result.error, WardRefused)
