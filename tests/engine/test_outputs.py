"""The output of a phase brings what the tools of its last turn gave."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.harness import House, asked_by, call, calls, cascade, phase
from tests.support.engine_context import look_up
from tests.support.engine_resume import Gone, Model, look, resumed
from tests.support.engine_sub_cascades import write
from windlass.wire.base import Request


@pytest.mark.req("CI-11")
async def test_the_results_that_the_last_reply_answers_come_with_it(house: House) -> None:
    first = calls(call("look_up", '{"word": "keel"}'), text="Hm.")
    both = calls(call("look_up", '{"word": "mast"}'), call("look_up", '{"words": 1}'))
    b = phase("b", context={"from": ["a"], "include_input": False}, system="{{ outputs.a }}")
    c = phase("c", context_strategy="minimal")
    ran = await house.run(
        cascade(phase("a", tackle=["look_up"]), b, c), {"a": [first, both, "done"]}, tools=[look_up]
    )
    assert ran.result.outputs["a"] == "done"
    assert ran.seen("b")[0] == ("system", "done")
    told = (
        '[Output from a]:\ndone\n\n[Result of look_up(word="mast")]:\nmast means something'
        "\n\n[Result of look_up(words=1), which failed]:\n"
    )
    assert ran.seen("b")[1][1].startswith(told)
    assert ran.seen("c") == [("user", "[Output from b]:\nok b"), ("user", "Do c.")]


async def test_what_was_looked_up_before_the_last_turn_stays_there(house: House) -> None:
    a = phase("a", tackle=["look_up"], rules={"turn_prompt": "Once more.", "max_turns": 3})
    ran = await house.run(
        cascade(a, phase("b", context={"from": ["a"], "include_input": False})),
        {"a": [calls(call("look_up")), "a beam", "a long beam"]},
        tools=[look_up],
    )
    assert ran.seen("b")[0] == ("user", "[Output from a]:\na long beam")


@pytest.mark.parametrize(
    "b",
    [
        {"context": {"from": [{"phase": "a", "include": ["output", "messages"]}]}},
        {"context": {"from": ["a", {"phase": "a", "include": ["messages"]}]}},
        {"inject_from": ["a"]},
    ],
)
async def test_results_that_are_shown_with_their_calls_are_not_told_again(
    house: House, b: dict[str, Any]
) -> None:
    made = cascade(phase("a", tackle=["look_up"]), phase("b", **b))
    ran = await house.run(made, {"a": [calls(call("look_up")), "done"]}, tools=[look_up])
    assert str(ran.seen("b")).count("x means something") == 1
    assert ("user", "[Output from a]:\ndone") in ran.seen("b")


async def test_what_is_minimal_is_the_text(house: House) -> None:
    made = cascade(phase("a", tackle=["look_up"]), phase("b", context_strategy="minimal"))
    ran = await house.run(made, {"a": [calls(call("look_up")), "done"]}, tools=[look_up])
    assert ran.seen("b") == [("user", "[Output from a]:\ndone"), ("user", "Do b.")]


async def test_what_hides_its_messages_hides_its_results(house: House) -> None:
    a = phase("a", tackle=["look_up"], context_retention="output_only")
    made = cascade(a, phase("b", context={"from": ["a"]}))
    ran = await house.run(made, {"a": [calls(call("look_up")), "done"]}, tools=[look_up])
    assert ("user", "[Output from a]:\ndone") in ran.seen("b")


async def test_a_resumed_run_has_the_results_too(house: House) -> None:
    b = phase("b", context={"from": ["a"]})

    def script(request: Request) -> Any:
        name, last = asked_by(request), request.messages[-1]
        done = name != "a" or last.role == "tool"
        return f"ok {name}" if done else calls(call("look", '{"name": "it"}', id_="c"))

    made = cascade(phase("a", tackle=["look"]), b)
    whole = await house.run(made, script, tools=[look])
    with pytest.raises(Gone):
        await house.run(made, Model(3, script), tools=[look], session_id="s")
    result, sent = await resumed(house, script)
    assert [request.messages for request in sent] == [whole.request("b").messages]
    assert '[Result of look(name="it")]:\nit is well' in sent[0].messages[-2].text
    assert result.outputs == whole.result.outputs


def log() -> str:
    """Read the log."""
    line = "2026-11-27 10:{:02}:{:02} INFO a worker finished in {} ms"
    return "\n".join(line.format(at // 60 % 60, at % 60, at % 97) for at in range(2_000))


@pytest.mark.parametrize("below", [False, True])
async def test_a_long_result_comes_as_its_own_phase_was_shown_it(house: House, below: bool) -> None:
    def script(request: Request) -> Any:
        name, last = asked_by(request), request.messages[-1]
        asks = name == "look" and last.role != "tool"
        return calls(call("log", "{}", id_="c")) if asks else f"ok {name}"

    looks = phase("look", tackle=["log"])
    b = phase("b", context={"from": ["look"], "include_input": False})
    first = phase("a", sub_cascades=[{"ref": "child.json"}]) if below else looks
    write(house, "child.json", looks, auto_context=True)
    made = write(house, "top.json", first, b, auto_context=True)
    ran = await house.run(made, script, tools=[log])
    shown = next(text for role, text in ran.seen("b") if text.startswith("[Output from look]"))
    assert "[Result of log()]:" in shown
    assert len(log()) > 20_000
    assert 200 < len(shown) < 8_000
    assert "result_" in shown, "the original has its reference"
