"""Phases of sub-cascades as sources of the phases after them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.harness import House, Ran, asked_by, call, calls, phase
from tests.support.engine_resume import Gone, Model, look, resumed
from tests.support.engine_sub_cascades import write
from windlass.errors import CascadeError
from windlass.wire.base import Request


def outputs(ran: Ran, name: str = "finish") -> list[str]:
    """The first line of each output that a phase sees, and what it says."""
    texts = [text for role, text in ran.seen(name) if role == "user"]
    return [text for text in texts if text.startswith("[Output")]


async def finish(house: House, *sources: Any, **keys: Any) -> Ran:
    """A phase that takes these sources, after a phase with a sub-cascade."""
    write(house, "child.json", phase("find"), phase("name", tackle=["set_state"]))
    delegate = phase("delegate", sub_cascades=[{"ref": "child.json"}])
    last = phase("finish", context={"from": list(sources), **keys})
    put = calls(call("set_state", '{"key": "fruit", "value": "fig"}'))
    made = write(house, "top.json", phase("start"), delegate, last)
    return await house.run(made, {"find": ["a fig"], "name": [put, "Fig"]})


FIND, NAME = "[Output from find]:\na fig", "[Output from name]:\nFig"
START, DELEGATE = "[Output from start]:\nok start", "[Output from delegate]:\nok delegate"


@pytest.mark.parametrize(
    ("sources", "seen"),
    [
        (["all"], [START, FIND, NAME, DELEGATE]),
        (["find"], [FIND]),
        (["child_find", "delegate"], [FIND.replace("find", "child_find"), DELEGATE]),
        (["child"], ["[Output from child]:\nFig"]),
        (["previous"], [DELEGATE]),
        (["first"], [START]),
        ([{"phase": "name", "if": "{{ 'fig' in outputs.find }}"}], [NAME]),
    ],
)
async def test_after_a_sub_cascade_its_phases_are_sources(
    house: House, sources: list[Any], seen: list[str]
) -> None:
    assert outputs(await finish(house, *sources)) == seen


@pytest.mark.parametrize("name", ["find", "child_find"])
async def test_they_may_be_excluded(house: House, name: str) -> None:
    ran = await finish(house, "all", exclude=[name, "start"])
    assert outputs(ran) == [NAME, DELEGATE]


async def test_messages_and_state_of_them_are_taken(house: House) -> None:
    source = {"phase": "name", "include": ["messages", "state"], "messages_filter": "last_turn"}
    ran = await finish(house, source)
    texts = [text for _, text in ran.seen("finish")]
    assert texts == [
        "[Conversation from name]:",
        "",
        "set state 'fruit'",
        "Fig",
        '[State from name]:\n{\n  "fruit": "fig"\n}',
        "Do finish.",
    ]
    assert ran.has_no_damage()


async def test_the_phase_that_runs_it_may_take_them(house: House) -> None:
    write(house, "child.json", phase("find"))
    sub = {"ref": "child.json"}
    made = write(
        house, "top.json", phase("a", sub_cascades=[sub], context={"from": ["find", "all"]})
    )
    ran = await house.run(made, {"find": ["a fig"]})
    assert outputs(ran, "a") == [FIND, FIND]


async def test_a_phase_of_the_cascade_itself_goes_before(house: House) -> None:
    write(house, "child.json", phase("find"))
    write(house, "other.json", phase("find"), phase("look"))
    subs = [{"ref": "child.json"}, {"ref": "other.json"}]
    made = write(
        house,
        "top.json",
        phase("look", sub_cascades=subs),
        phase("finish", context={"from": ["look", "find", "child_find", "all"]}),
    )
    ran = await house.run(made)
    names = [text.partition("]")[0].removeprefix("[Output from ") for text in outputs(ran)]
    assert names == ["look", "find", "child_find", "child_find", "find", "other_look", "look"]


async def test_of_several_visits_the_last_counts(house: House) -> None:
    write(house, "child.json", phase("find"))
    again = phase("again", sub_cascades=[{"ref": "child.json"}], handoffs=["again", "finish"])
    made = write(house, "top.json", again, phase("finish", context={"from": ["all"]}))
    ran = await house.run(made, {"find": ["a fig", "a pear"], "again": ["again", "finish"]})
    assert outputs(ran) == [FIND.replace("fig", "pear"), "[Output from again]:\nfinish"]


@pytest.mark.parametrize(
    ("picked", "said"),
    [
        ({"evaluator": "human"}, "fig 2"),
        ({"aggregate": True}, "## Attempt 0\n\nfig 1\n\n## Attempt 1\n\nfig 2"),
    ],
)
async def test_a_cascade_with_soundings_gives_what_came_of_them(
    house: House, picked: dict[str, Any], said: str
) -> None:
    write(house, "child.json", phase("find"), soundings={"factor": 2, **picked})
    delegate = phase("delegate", sub_cascades=[{"ref": "child.json"}])
    made = write(house, "top.json", delegate, phase("finish", context={"from": ["find"]}))
    ran = await house.run(made, {"find": ["fig 1", "fig 2"]}, answers=["attempt 2"])
    assert outputs(ran) == [f"[Output from find]:\n{said}"]


@pytest.mark.parametrize("name", ["find", "child_find", "child"])
async def test_what_stays_below_is_no_source(house: House, name: str) -> None:
    write(house, "child.json", phase("find"))
    delegate = phase("delegate", sub_cascades=[{"ref": "child.json", "context_out": False}])
    last = phase("finish", context={"from": [name]})
    with pytest.raises(CascadeError, match=f"there is no phase '{name}'; known: all, delegate"):
        await house.run(write(house, "top.json", delegate, last))
    last["context"]["from"] = ["all"]
    ran = await house.run(write(house, "top.json", delegate, last))
    assert outputs(ran) == [DELEGATE]


async def test_phases_before_it_cannot_take_them_and_a_wrong_name_is_told(house: House) -> None:
    write(house, "child.json", phase("find"))
    delegate = phase("delegate", sub_cascades=[{"ref": "child.json"}])
    early = phase("early", context={"from": ["find"]})
    with pytest.raises(CascadeError, match=r"top\.json:\d+: phase 'early', context\.from\[0\]"):
        await house.run(write(house, "top.json", early, delegate))
    late = phase("late", context={"from": ["fnid"]})
    with pytest.raises(CascadeError, match=r"there is no phase 'fnid'; did you mean 'find'\?"):
        await house.run(write(house, "top.json", delegate, late))


@pytest.mark.parametrize("at", [3, 4])
async def test_a_resumed_run_sees_the_same_and_pays_once(house: House, at: int) -> None:
    write(house, "child.json", phase("find", tackle=["look"]))
    delegate = phase("delegate", sub_cascades=[{"ref": "child.json"}])
    made = write(house, "top.json", delegate, phase("finish", context={"from": ["all", "find"]}))

    def script(request: Request) -> Any:
        name, last = asked_by(request), request.messages[-1]
        done = name != "find" or last.role == "tool"
        return f"ok {name}" if done else calls(call("look", '{"name": "it"}', id_="c"))

    whole = await house.run(made, script, tools=[look])
    assert [text.count("it is well") for text in outputs(whole)] == [1, 0, 1]
    with pytest.raises(Gone):
        await house.run(made, Model(at, script), tools=[look], session_id="s")
    result, sent = await resumed(house, script)
    assert len(sent) == 5 - at
    assert sent[-1].messages == whole.request("finish").messages
    assert result.outputs == whole.result.outputs
    assert result.usage.tokens_in == whole.result.usage.tokens_in
