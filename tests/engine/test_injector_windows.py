"""Windows under injectors: the planner is told what blocks stand in the last request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.engine.harness import House, call, calls, cascade, phase
from tests.engine.logs import asks, logs, lookup, reading
from tests.support.engine_planning import planned, set_prices
from windlass.messages import ToolCall

REMINDER = "tests.engine.own_injectors:Reminder"
NEWS = "[New in user_memory]\n- tone (version 1): Be brief."


@pytest.mark.req("CE-15")
async def test_the_planner_counts_the_blocks_that_go_with_its_edits(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_prices(house)
    monkeypatch.chdir(house.folder)
    one = lookup(rules={"max_turns": 40})
    made = cascade(one, system="Be good.", auto_context={}, injectors={"own": [REMINDER]})
    builds = [str(number) for number in range(12)]
    ran = await house.run(made, reading(*builds), tools=[logs()])
    _, *others = ran.calls()
    stood, gone = 1, 0  # the first call's own
    (block,) = {sum(said["tokens"] for said in dynamic(told.details.as_json())) for told in others}
    for told in others:
        stands = told.details.as_json()["injectors"]["old"]["blocks"]
        if planned(told).get("verdict") == "commit":
            # The planner's number is that of the blocks that this request has no more.
            assert planned(told)["blocks"] == block * (stood - stands)
            gone += stood - stands
        else:
            assert stands == stood
        stood = stands + 1
    assert gone > 5
    assert [planned(told)["verdict"] for told in others[1:3]] == ["defer", "commit"]


def dynamic(details: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The blocks of a call that are its own."""
    return [one for one in details["injectors"]["blocks"] if one["tier"] == "DYNAMIC"]


def remember(key: str, text: str) -> ToolCall:
    return call("remember", f'{{"text":"{text}","bank":"likes","key":"{key}"}}')


@pytest.mark.req("CE-52")
@pytest.mark.parametrize("policy", [{}, {"fold_after": 1, "see_results": None}])
async def test_what_was_told_of_a_change_stays_when_its_message_is_not_shown_as_it_was(
    house: House, monkeypatch: pytest.MonkeyPatch, policy: dict[str, Any]
) -> None:
    set_prices(house)
    monkeypatch.chdir(house.folder)
    tackle = ["remember", "build_log"]
    one = phase("a", tackle=tackle, rules={"max_turns": 40})
    made = cascade(
        phase("z", tackle=tackle),
        one,
        system="S.",
        auto_context={"commit": "at_once", "intra_phase": policy},
        memory=["likes"],
        injectors=True,
    )
    both = calls(remember("tone", "Be brief."), call("build_log", '{"build": "1"}'))
    replies = {
        "z": [calls(remember("x", "Likes soup.")), "ok"],
        "a": [both, *(asks(str(number)) for number in range(5)), "done"],
    }
    ran = await house.run(made, replies, tools=[logs()])
    first, told, *others = ran.requests("a")
    assert others
    assert not any(NEWS in message.text for message in first.messages)
    assert NEWS in told.messages[-1].text
    for request in others:
        (said,) = [message for message in request.messages if NEWS in message.text]
        own = said.tool_call_id == told.messages[-1].tool_call_id
        assert own == (not policy)  # what was folded is told again at the end of a call
        assert not own or len(said.text) < 300
