"""What a person is asked after a phase, and where the answer leads."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.engine.harness import House, Ran, asked_by, cascade, phase
from tests.support.cascade_check import mistakes
from tests.support.engine_resume import resumed
from windlass.report.explanation import explain_call
from windlass.wire.base import Request

ASKED = {
    "question": "Send it?",
    "options": [
        {"id": "yes", "label": "Send"},
        {"id": "no", "label": "Write again", "description": "with a remark"},
        {"id": "stop", "label": "Stop", "action": "_abort"},
    ],
}


def block(said: Any = ASKED) -> str:
    text = said if isinstance(said, str) else json.dumps(said)
    return f"A draft. <decision>{text}</decision>"


def drafting(**points: Any) -> dict[str, Any]:
    a = phase("a", decision_points={"routing": {"no": "_retry", "custom": "self"}, **points})
    return cascade(a, phase("b", instructions="Do b. It is {{ state.a }}."))


async def test_an_answer_goes_on_and_later_calls_see_it(house: House) -> None:
    ran = await house.run(drafting(), {"a": [block()]}, answers=["Send"])
    assert ran.result.status == "completed"
    assert ran.result.state["a"] == "yes"
    seen = [message.text for message in ran.model.requests[-1].messages]
    assert seen[-2:] == ["[Decision of a person]\nSend it?\nSend", "Do b. It is yes."]
    (decided,) = ran.decisions("decision point")
    assert (decided["answer"], decided["action"]) == ("Send", "_continue")
    assert ran.has_no_damage()


DECISION = "Do b. {% set d = state._decision_a %}{{ d.choice }}, {{ d.label }}: {{ d | tojson }}"


@pytest.mark.parametrize(
    ("answer", "decision"),
    [
        ("yes", {"choice": "yes", "label": "Send", "custom_text": None}),
        ("later", {"choice": "custom", "label": "custom", "custom_text": "later"}),
    ],
)
async def test_the_state_holds_the_whole_decision(
    house: House, answer: str, decision: dict[str, Any]
) -> None:
    made = cascade(phase("a", decision_points=True), phase("b", instructions=DECISION))

    def script(request: Request) -> str:
        return block() if asked_by(request) == "a" else "done"

    waiting = await house.run(made, script, session_id="s")
    assert waiting.result.status == "waiting"
    done, sent = await resumed(house, script, answers=[answer])
    held = {**decision, "question": "Send it?"}
    assert done.state["_decision_a"] == held
    words = f"Do b. {held['choice']}, {held['label']}: {json.dumps(held)}"
    assert [request.messages[-1].text for request in sent] == [words]
    whole = await house.run(made, script, answers=[answer])
    assert whole.result.state == done.state


async def test_an_answer_may_run_the_phase_again(house: House) -> None:
    ran = await house.run(drafting(), {"a": [block(), block()]}, answers=["too long", "1"])
    assert [asked_by(request) for request in ran.model.requests[:2]] == ["a", "a"]
    assert "too long" in str(ran.model.requests[1].messages)
    assert ran.result.state["a"] == "yes"
    assert "person" in [each["by"] for each in ran.decisions("route")]
    assert [each["visit"] for each in ran.decisions("visit")] == [2]


async def test_an_answer_may_lead_to_another_phase(house: House) -> None:
    a = phase("a", decision_points={"routing": {"no": "c"}})
    c = phase("c", instructions="Do c. {{ outputs.b }}", context={"from": ["b", "previous"]})
    ran = await house.run(cascade(a, phase("b"), c), {"a": [block()]}, answers=["no"])
    assert list(ran.result.outputs) == ["a", "c"]
    assert "A draft." in str(ran.model.requests[-1].messages)
    (number,) = [view.number for view in ran.views("a")]
    notes = explain_call(ran.store, ran.session, number).notes
    assert "phase 'a': a person decides 'Write again': phase 'c' comes next" in notes
    notes = explain_call(ran.store, ran.session, number + 1).notes
    assert "phase 'a' goes on with 'c': a person decides 'Write again'" in notes


async def test_a_phase_that_is_no_way_on_in_a_graph_is_told(house: House) -> None:
    said = {"question": "Where?", "options": [{"id": "x", "label": "X", "action": "c"}]}
    phases = phase("a", decision_points=True, handoffs=["b"]), phase("b"), phase("c")
    ran = await house.run(cascade(*phases), {"a": [block(said)]}, answers=["x"])
    assert list(ran.result.outputs) == ["a", "b"]
    assert "'c' is no way on from here (ways: b)" in ran.decisions("decision point")[0]["text"]


async def test_an_answer_may_end_the_run(house: House) -> None:
    ran = await house.run(drafting(), {"a": [block()]}, answers=["stop"])
    assert ran.result.status == "failed"
    assert str(ran.result.error) == "phase 'a': a person ends the run: Stop"


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("{not json", "is not JSON"),
        ("[]", "is not an object"),
        ({"options": ["a"]}, "has no question"),
        ({"question": "Q"}, "has no options"),
        ({"question": "Q", "options": [{}]}, "has options without a label"),
    ],
)
async def test_a_broken_block_is_told_and_the_run_goes_on(
    house: House, said: Any, why: str
) -> None:
    ran = await house.run(cascade(phase("a", decision_points=True)), {"a": [block(said)]})
    assert ran.result.status == "completed"
    assert ran.decisions("decision unread")[0]["why"].startswith(why)


async def test_layout_of_a_block_is_left_out_and_told(house: House) -> None:
    said = {**ASKED, "html": "<b>Send?</b>"}
    ran = await house.run(drafting(), {"a": [block(said)]}, answers=["yes"])
    assert ran.decisions("layout")[0]["arguments"] == ["html"]


async def test_a_run_that_waits_is_answered_when_it_is_resumed(house: House) -> None:
    def script(request: Request) -> str:
        return block() if asked_by(request) == "a" else "done"

    waiting = await house.run(drafting(), script, session_id="s")
    assert waiting.result.status == "waiting"
    asked = waiting.result.notes["question"]
    assert (asked["question"], asked["options"]) == ("Send it?", ["Send", "Write again", "Stop"])
    assert asked["context"] == "Write again: with a remark"
    again, sent = await resumed(house, script, answers=["no"])
    assert again.status == "waiting"  # the phase ran again, and asks again
    assert len(sent) == 1
    done, sent = await resumed(house, script, answers=["yes"])
    assert done.status == "completed"
    assert [asked_by(request) for request in sent] == ["b"]
    ran = Ran(done, waiting.model, house.open_store())
    assert [each["answer"] for each in ran.decisions("decision point")] == ["Write again", "Send"]
    assert ran.has_no_damage()


async def test_after_its_time_the_run_goes_on(house: House) -> None:
    async def nobody(_: Any) -> str:
        await asyncio.sleep(60)
        return "yes"

    whole = cascade(phase("a", decision_points={"timeout_seconds": 0.2}), phase("b"))
    ran = await house.run(whole, {"a": [block()]}, on_question=nobody)
    assert ran.result.status == "completed"
    assert ran.decisions("time over")[0]["name"] == "decision"
    assert ran.decisions("decision point")[0]["answer"] is None


async def test_of_soundings_the_best_asks_once(house: House) -> None:
    def script(request: Request) -> str:
        return "PICK" if "Which" in request.messages[-1].text else block()

    soundings = {"factor": 3, "evaluator": "human"}
    a = phase("a", decision_points=True, soundings=soundings)
    ran = await house.run(cascade(a), script, answers=["attempt 2", "Send"])
    assert len(ran.decisions("decision point")) == 1
    assert ran.result.state["a"] == "yes"


async def test_a_person_is_asked_after_a_phase(house: House) -> None:
    for written in (True, "Is it good?", {"prompt": "Is it good?", "options": ["fine"]}):
        a = phase("a", human_input=written)
        ran = await house.run(cascade(a, phase("b")), {}, answers=["fine"])
        assert ran.result.state == {"a": "fine"}
        assert "fine" in ran.model.requests[-1].messages[-2].text


async def test_a_switched_off_one_asks_nothing(house: House) -> None:
    for points in ({"enabled": False}, {"trigger": "error"}, False):
        whole = cascade(phase("a", decision_points=points))
        ran = await house.run(whole, {"a": [block()]})
        assert ran.result.status == "completed"


def test_a_route_to_nowhere_is_a_mistake() -> None:
    a = phase("a", decision_points={"routing": {"no": "aa", "yes": "_abort"}})
    (told,) = mistakes(a)
    assert told == (
        "phase 'a', decision_points.routing.no: 'aa' is neither a phase nor an action; did you"
        " mean 'a'? known: _abort, _continue, _retry, a, next, self"
    )
