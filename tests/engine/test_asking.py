"""Questions to a person: `ask_human`, `rules.approve`, and where answers come from."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import windlass
from tests.engine.harness import House, Ran, call, calls, cascade, phase
from tests.support.engine_asking import ASKS, WHICH
from tests.support.engine_resume import resumed
from tests.tasks.making import atomic
from windlass.engine.events import PhaseEnded, QuestionAsked
from windlass.engine.people.questions import Question
from windlass.errors import CascadeError, UsageError
from windlass.history.base import NodeType
from windlass.providers.scripted import Scripted


def asking(*others: Any, **question: Any) -> dict[str, Any]:
    """Replies that ask a person in phase a."""
    return {"a": [calls(call("ask_human", json.dumps(question or WHICH)), *others), "done"]}


def results(ran: Ran) -> list[str]:
    rows = ran.rows(NodeType.TOOL_RESULT)
    return [stored.row.message.text for stored in rows if stored.row.message is not None]


@pytest.mark.parametrize(
    "answers",
    [
        ["Basel"],
        ["2"],
        [2],
        ["basel "],
        {"which  CITY?": "Basel"},
        [{"question": "Which city?", "answer": "Basel"}],
    ],
)
async def test_answers_are_taken_in_order_or_by_question(house: House, answers: Any) -> None:
    ran = await house.run(ASKS, asking(), answers=answers)
    assert ran.result.status == "completed"
    assert results(ran) == ["Basel"]
    asked = [each for each in ran.events if isinstance(each, QuestionAsked)]
    assert asked == [QuestionAsked("a", "Which city?", ("Bern", "Basel"))]


async def test_a_callback_is_asked_and_may_be_async(house: House) -> None:
    seen: list[Question] = []

    def at_once(question: Question) -> str:
        seen.append(question)
        return "Bern"

    async def later(question: Question) -> str:
        await asyncio.sleep(0.01)
        return at_once(question)

    for ask in (at_once, later):
        ran = await house.run(ASKS, asking(), on_question=ask)
        assert results(ran) == ["Bern"]
    assert seen[0] == seen[1] == Question("a", "Which city?", ("Bern", "Basel"))


async def test_without_an_answer_the_run_waits_and_nothing_of_the_turn_is_done(
    house: House,
) -> None:
    ran = await house.run(ASKS, asking(call("set_state", '{"key": "k", "value": 1}')))
    result = ran.result
    assert (result.status, result.reason, result.error) == ("waiting", None, None)
    assert result.notes["question"] == {
        "phase": "a",
        "question": "Which city?",
        "options": ["Bern", "Basel"],
        "tool": None,
        "call": None,
        "why": None,
    }
    (asked,) = ran.decisions("question")
    assert (asked["question"], asked["options"]) == ("Which city?", ["Bern", "Basel"])
    assert result.state == {}
    assert results(ran) == []
    endings = [(each.phase, each.status) for each in ran.store.outcomes(ran.session)]
    assert endings == [("a", "waiting"), (None, "waiting")]
    assert PhaseEnded("a", "waiting", "") in ran.events
    assert ran.has_no_damage()
    none = await house.run(ASKS, asking(), on_question=lambda _: None)
    assert none.result.status == "waiting"


async def test_an_answer_that_is_none_of_the_options_leaves_it_open(house: House) -> None:
    for how in ({"answers": ["Paris"]}, {"on_question": lambda _: "Paris"}):
        ran = await house.run(ASKS, asking(), **how)
        assert ran.result.status == "waiting"
        why = "the answer 'Paris' to 'Which city?' is none of its options: 'Bern', 'Basel'"
        assert ran.result.notes["question"]["why"] == why


async def test_what_a_callback_raises_surfaces(house: House) -> None:
    def fails(_: Question) -> str:
        raise LookupError("nobody is here")

    with pytest.raises(LookupError):
        await house.run(ASKS, asking(), on_question=fails, session_id="s1")
    assert house.open_store().sessions()[0].status == "failed"


async def test_a_call_without_a_question_is_the_models_mistake(house: House) -> None:
    ran = await house.run(ASKS, asking(question=" "), answers=["x"])
    assert ran.result.status == "completed"
    assert "the question is empty" in results(ran)[0]


@pytest.mark.parametrize("answers", ["yes", 5, [None], [["a"]], {"a": {}}])
async def test_answers_that_are_none_are_told_before_the_run(house: House, answers: Any) -> None:
    with pytest.raises(UsageError, match="answer"):
        await house.run(ASKS, asking(), answers=answers)
    assert not house.store.exists()


APPROVES = cascade(
    phase("a", tackle=["set_state", "list_files"], rules={"approve": ["set_state"]}), phase("b")
)
SETS = call("set_state", '{"key": "k", "value": 1}')


def setting() -> dict[str, Any]:
    return {"a": [calls(SETS, call("list_files", "{}")), "done"]}


@pytest.mark.parametrize(
    ("answer", "state", "told"),
    [
        ("yes", {"k": 1}, "set state 'k'"),
        (True, {"k": 1}, "set state 'k'"),
        ("no", {}, "[not run: the user refused]"),
        ("use another key", {}, "[not run: the user refused: use another key]"),
    ],
)
async def test_a_tool_runs_when_a_person_says_so(
    house: House, answer: Any, state: Any, told: str
) -> None:
    for how in ({"approve": {"set_state": answer}}, {"on_question": lambda _: answer}):
        ran = await house.run(APPROVES, setting(), **how)
        assert ran.result.status == "completed"
        assert ran.result.state == state
        assert results(ran)[0] == told
        assert len(results(ran)) == 2
        (decided,) = ran.decisions("approval")
        assert decided["tool"] == "set_state"


async def test_without_approval_the_run_waits(house: House) -> None:
    ran = await house.run(APPROVES, setting())
    assert ran.result.status == "waiting"
    question = ran.result.notes["question"]
    assert question["tool"] == "set_state"
    assert '"key": "k"' in question["question"]
    assert results(ran) == []


@pytest.mark.parametrize(
    "wrong", ['{"key": "k"}', '{"key": "k", "value": 1, "more": 2}', "[", "[1]"]
)
async def test_nobody_is_asked_about_arguments_that_the_tool_does_not_take(
    house: House, wrong: str
) -> None:
    asked: list[Question] = []

    def agrees(question: Question) -> str:
        asked.append(question)
        return "yes"

    script = {"a": [calls(call("set_state", wrong)), calls(SETS), "done"]}
    ran = await house.run(APPROVES, script, on_question=agrees)
    assert [each.text for each in asked] == [
        'May the tool set_state run with {"key": "k", "value": 1}?'
    ]
    assert ran.result.state == {"k": 1}
    told = results(ran)
    assert "set_state" in told[0]
    assert told[1] == "set state 'k'"


async def test_only_tools_of_the_phase_are_approved(house: House) -> None:
    wrong = cascade(phase("a", tackle=["set_state"], rules={"approve": ["set_stat"]}))
    with pytest.raises(CascadeError, match=r"'set_stat' is not in the tackle.*'set_state'"):
        await house.run(wrong)


async def test_soundings_sub_cascades_and_tasks_wait_too(house: House, tmp_path: Path) -> None:
    sounded = cascade(
        phase("a", tackle=["ask_human"], soundings={"factor": 2, "evaluator_instructions": "?"})
    )
    assert (await house.run(sounded, asking())).result.status == "waiting"
    whole = cascade(
        phase("a", tackle=["ask_human"]), soundings={"factor": 2, "evaluator_instructions": "?"}
    )
    assert (await house.run(whole, asking())).result.status == "waiting"
    (tmp_path / "child.json").write_text(json.dumps({**ASKS, "cascade_id": "child"}))
    (tmp_path / "p.json").write_text(
        json.dumps(cascade(phase("p", sub_cascades=[{"ref": "child.json"}])))
    )
    ran = await house.run(tmp_path / "p.json", asking())
    assert ran.result.status == "waiting"
    assert ran.result.notes["question"]["phase"] == "a"
    ran = await house.run(tmp_path / "p.json", asking(), answers=["Bern"])
    assert ran.result.status == "completed"
    inside = "<tools><tool>ask_human</tool></tools>"
    (tmp_path / "t.xml").write_text(atomic("a", inside))
    model = Scripted(lambda r: asking()["a"][len(r.messages) > 2])
    options: dict[str, Any] = {"model": "scripted/m", "store": tmp_path / "store"}
    options["providers"] = {"scripted": model}
    task = tmp_path / "t.xml"
    first = await windlass.evaluate(task, session_id="t1", **options)
    assert (first.status, first.notes["question"]["question"]) == ("waiting", "Which city?")
    again = await windlass.resume_task("t1", answers=["Bern"], **options)
    assert (again.status, again.output) == ("completed", "done")


# ---- the tools of other runners that ask ------------------------------------------------------

DECIDES = cascade(
    phase("a", tackle=["ask_human", "request_decision", "ask_human_custom"]),
    phase("b", instructions="Do b. It is {{ state.a }}."),
)
CHOICES = [{"id": "go", "label": "Go on", "description": "as it is"}, {"id": "no", "label": "Stop"}]


def deciding(tool: str, **arguments: Any) -> dict[str, Any]:
    return {"a": [calls(call(tool, json.dumps(arguments))), "done"]}


@pytest.mark.parametrize(
    ("answer", "told", "state"),
    [
        ("go", {"id": "go", "label": "Go on"}, "go"),
        ("Stop", {"id": "no", "label": "Stop"}, "no"),
        ("2", {"id": "no", "label": "Stop"}, "no"),
        ("tomorrow", {"custom": "tomorrow"}, "tomorrow"),
    ],
)
async def test_a_decision_is_one_of_its_options_or_another_answer(
    house: House, answer: str, told: Any, state: str
) -> None:
    script = deciding("request_decision", question="Go?", options=CHOICES, context="All is set.")
    ran = await house.run(DECIDES, script, answers=[answer])
    assert json.loads(results(ran)[0]) == told
    assert ran.result.state == {"a": state}
    assert ran.model.requests[-1].messages[-1].text == f"Do b. It is {state}."
    (asked,) = [each for each in ran.events if isinstance(each, QuestionAsked)]
    assert (asked.options, asked.context) == (("Go on", "Stop"), "All is set.\nGo on: as it is")


async def test_a_decision_may_allow_no_other_answer(house: House) -> None:
    script = deciding("request_decision", question="Go?", options=CHOICES, allow_custom=False)
    ran = await house.run(DECIDES, script, answers=["tomorrow"])
    assert ran.result.status == "waiting"
    assert "is none of its options: 'Go on', 'Stop'" in ran.result.notes["question"]["why"]


async def test_layout_is_left_out_and_the_model_is_told(house: House) -> None:
    script = deciding(
        "request_decision", question="Go?", options=["x"], html="<b>", severity="high"
    )
    ran = await house.run(DECIDES, script, answers=["x"])
    note, _, answer = results(ran)[0].partition("\n")
    assert note == "[left out: html, severity; a person is asked in text]"
    assert json.loads(answer) == {"id": "x", "label": "x"}
    assert ran.decisions("layout")[0]["arguments"] == ["html", "severity"]


async def test_a_custom_question_shows_its_data(house: House) -> None:
    script = deciding(
        "ask_human_custom",
        question="Which?",
        options=["a", "b"],
        images=["x.png"],
        data={"rows": 3},
        layout_hint="grid",
    )
    ran = await house.run(DECIDES, script, answers=["b"])
    assert results(ran) == ["[left out: layout_hint; a person is asked in text]\nb"]
    (asked,) = [each for each in ran.events if isinstance(each, QuestionAsked)]
    assert "Pictures: x.png" in asked.context
    assert '"rows": 3' in asked.context


async def test_a_hint_and_a_context_are_shown_with_a_question(house: House) -> None:
    script = deciding("ask_human", question="Sure?", context="It costs.", ui_hint="confirmation")
    ran = await house.run(DECIDES, script, answers={"Sure?": "yes"})
    assert results(ran) == ["yes"]
    assert ran.result.state == {"a": "yes"}
    (asked,) = [each for each in ran.events if isinstance(each, QuestionAsked)]
    assert (asked.options, asked.context) == (("yes", "no"), "It costs.")


ASKING_TOOLS: dict[str, dict[str, Any]] = {
    "ask_human": {"question": "Go?"},
    "request_decision": {"question": "Go?", "options": CHOICES},
    "ask_human_custom": {"question": "Go?", "data": {"rows": 3}},
}


@pytest.mark.parametrize("tool", ASKING_TOOLS)
async def test_a_question_whose_time_is_over_is_answered_so(house: House, tool: str) -> None:
    async def nobody(_: Question) -> str:
        await asyncio.sleep(60)
        return "go"

    script = deciding(tool, **ASKING_TOOLS[tool], timeout_seconds=0.2)
    ran = await house.run(cascade(phase("a", tackle=[tool])), script, on_question=nobody)
    assert ran.result.status == "completed"
    assert results(ran) == ["[no answer: nobody answered within 0.2 s]"]
    assert ran.result.state == {}
    assert ran.decisions("time over")[0]["name"] == tool


@pytest.mark.parametrize("tool", ASKING_TOOLS)
async def test_a_time_below_zero_is_told_to_the_model(house: House, tool: str) -> None:
    script = deciding(tool, **ASKING_TOOLS[tool], timeout_seconds=-5)
    ran = await house.run(cascade(phase("a", tackle=[tool])), script, answers=["go"])
    assert "timeout_seconds is -5: give seconds above 0" in results(ran)[0]


@pytest.mark.parametrize("tool", ASKING_TOOLS)
async def test_the_time_of_a_question_counts_while_its_run_waits(house: House, tool: str) -> None:
    script = deciding(tool, **ASKING_TOOLS[tool], timeout_seconds=0.3)
    whole = cascade(phase("a", tackle=[tool]))
    waiting = await house.run(whole, script, session_id="s")
    assert waiting.result.status == "waiting"
    await asyncio.sleep(0.4)
    late, sent = await resumed(house, lambda _: "done", tools=())
    assert late.status == "completed"
    assert "[no answer" in sent[0].messages[-1].text


async def test_a_decision_is_answered_when_its_run_is_resumed(house: House) -> None:
    script = deciding("request_decision", question="Go?", options=CHOICES)
    waiting = await house.run(DECIDES, script, session_id="s")
    assert waiting.result.status == "waiting"
    result, sent = await resumed(house, lambda _: "done", tools=(), answers=["go"])
    assert result.status == "completed"
    assert result.state == {"a": "go"}
    assert [request.messages[-1].role for request in sent] == ["tool", "user"]
