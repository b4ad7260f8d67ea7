"""When the windows of a run are edited: at the cache prices of the phase's model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest

import windlass
from tests.engine.harness import House, Ran, by_phase, call, calls, cascade, phase
from tests.engine.logs import log, logs, lookup, reading, shown
from tests.support.engine_planning import planned, set_prices
from windlass.history.base import CallRecord
from windlass.providers.base import ModelInfo
from windlass.providers.scripted import Scripted

BUILDS = tuple(str(number) for number in range(12))


@pytest.fixture
def priced(house: House, monkeypatch: pytest.MonkeyPatch) -> House:
    """A house whose scripted model has a cache that costs what Anthropic's does."""
    monkeypatch.chdir(house.folder)
    set_prices(house)
    return house


def verdicts(recorded: Sequence[CallRecord]) -> list[str]:
    return [planned(one).get("verdict", "") for one in recorded]


def kept(recorded: Sequence[CallRecord]) -> list[bool]:
    """Of each call but the first, whether it began with all that the call before it was sent."""
    pairs = pairwise(recorded)
    return [
        now.details.as_json()["prefix"]["shared_tokens"] == was.sent_tokens for was, now in pairs
    ]


@pytest.mark.parametrize("write", [1.25, 12.5])
async def test_a_prefix_is_given_up_only_where_the_sum_says_that_it_pays(
    priced: House, write: float
) -> None:
    set_prices(priced, write)
    ran = await priced.run(cascade(lookup(), auto_context={}), reading(*BUILDS), tools=[logs()])
    recorded = ran.calls()
    assert {"commit", "defer"} >= set(verdicts(recorded)) - {""}
    assert "commit" in verdicts(recorded)
    for one, whole in zip(recorded[1:], kept(recorded), strict=True):
        told = planned(one)
        assert whole == (told.get("verdict") != "commit")
        if not whole:
            saved = told["calls"] * told["read"] * told["removed"]
            dear = (told["write"] - told["read"]) * (told["stay"] + told["put"])
            assert told["gain"] == pytest.approx(saved - dear)
            assert told["gain"] > 0
            ids = [seen.message_id for seen in one.shown if seen.because]
            assert told["message_id"] in ids
    assert ran.has_no_damage()


async def test_where_writing_is_too_dear_all_waits_and_is_told(priced: House) -> None:
    set_prices(priced, 100)
    ran = await priced.run(cascade(lookup(), auto_context={}), reading(*BUILDS), tools=[logs()])
    recorded = ran.calls()
    assert set(verdicts(recorded)) == {"", "defer"}
    assert all(kept(recorded))
    told = [planned(one) for one in recorded[2:]]
    assert [one["waiting"] for one in told] == list(range(1, len(BUILDS)))
    assert all(one["gain"] < 0 for one in told)


async def two_phases(house: House, *tools: str) -> Ran:
    """A phase that read logs, the last of them once, and one that goes on with these tools."""
    said = [calls(*(call("build_log", f'{{"build": "{n}"}}') for n in BUILDS[:3]))]
    return await house.run(
        cascade(
            lookup(intra_context={"see_results": None}),
            phase("b", tackle=[*tools]),
            auto_context={},
        ),
        {"a": [*said, "ok"]},
        tools=[logs()],
    )


async def test_a_phase_with_other_tools_begins_cold(priced: House) -> None:
    ran = await two_phases(priced, "set_state")
    first = ran.calls()[-1]
    assert planned(first)["verdict"] == "cold"
    assert any(len(text) < len(log("0")) / 3 for text in shown(ran, 1, "b"))


async def test_a_phase_with_the_same_tools_begins_warm(priced: House) -> None:
    ran = await two_phases(priced, "build_log")
    assert planned(ran.calls()[-1])["verdict"] != "cold"


async def test_without_a_price_each_edit_is_made_at_once(house: House) -> None:
    ran = await house.run(cascade(lookup(), auto_context={}), reading(*BUILDS), tools=[logs()])
    assert set(verdicts(ran.calls())) == {""}
    for number in range(2, len(BUILDS) + 2):
        results = shown(ran, number)
        assert [text == log(build) for text, build in zip(results, BUILDS, strict=False)] == [
            *[False] * (number - 2),
            True,
        ]


class OnThisMachine(Scripted):
    """A scripted model that is called as those on this machine are."""

    def model(self, name: str) -> ModelInfo:
        return replace(super().model(name), name="local/x")


async def test_the_local_model_keeps_its_prefix_whatever_waits(house: House) -> None:
    model = OnThisMachine(by_phase(reading(*BUILDS)))
    result = await windlass.run(
        cascade(lookup(), auto_context={}),
        model="local/x",
        store=house.store,
        root=house.folder,
        tools=[logs()],
        providers={"local": model},
    )
    ran = Ran(result, model, house.open_store())
    assert set(verdicts(ran.calls())) <= {"", "defer", "quiet"}
    assert "defer" in verdicts(ran.calls())
    assert all(kept(ran.calls()))
    assert shown(ran, len(BUILDS) + 1) == [log(build) for build in BUILDS]
