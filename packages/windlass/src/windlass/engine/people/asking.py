"""Asking a person: the questions of a turn, before any of its tools runs, and those of a phase."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from windlass.engine._phase_run import BarePhase
from windlass.engine.cascade_run import CascadeRun
from windlass.engine.events import QuestionAsked
from windlass.engine.people.questions import YES, Question
from windlass.engine.resume.journal import AskingCall
from windlass.engine.session_tools import ASKING, request_decision
from windlass.errors import AnswerNeeded, UsageError
from windlass.history.decisions import Asks, LayoutLeftOut
from windlass.history.row_details import TimeOver
from windlass.history.step import Step
from windlass.messages import ToolCall, canonical_json
from windlass.tools.base import Tool, ToolOutput
from windlass.tools.runner import run_tool, wrong_arguments

_A_MOMENT = 0.2
"""Seconds in which an answer is taken that is there already, where time is over."""


async def ask_person(run: CascadeRun, question: Question, asks: str, *about: Any) -> str | None:
    """Return what a person answers to a question that a phase asks by itself; None: time is over.

    `asks` names what is asked for, and `about` are JSON values that the question is about: what
    is recorded answers the same question about the same. Raises AnswerNeeded.
    """
    place = run.journal.next_step(Step(question.phase, run.record.sounding_index, asks=asks))
    told = canonical_json([question.text, question.options, *about])
    return await _answer(run, AskingCall(place, 0, ToolCall(asks, asks, told)), question)


async def _answer(run: CascadeRun, asking: AskingCall, question: Question) -> str | None:
    """Return the answer to a question of a call: from the record, else of whoever is asked now.

    None: nobody answered in time. Raises AnswerNeeded.
    """
    answer = run.journal.answer_to(asking)
    if answer is None:
        run.record.set_time(None)
        answer = await _asked_now(run, question)
    if answer:
        text = f"{question.text} {answer}"
        run.record.decide(question.phase, text, asking.answered(text, question.tool, answer))
        return answer
    text = f"{question.text} [nobody answered within {question.timeout_s:g} s]"
    call, at, arguments = asking.call, asking.position, asking.arguments
    over = TimeOver(text, call.id, "", asking.turn, at, call.name, arguments)
    run.tell(question.phase, text, over)
    return None


async def _asked_now(run: CascadeRun, question: Question) -> str:
    """Ask a person, and tell the listeners of the question; empty: time is over.

    The time of a question counts from when it was first asked, also by a run that waited for it.
    Raises AnswerNeeded.
    """
    asked = question.phase, question.text, question.options, question.tool, question.call
    run.emit(QuestionAsked(*asked, context=question.context))
    left, why, answer = _time_left(run, question), None, None
    try:
        answering = run.access.answers.answer_to(question)
        answer = await asyncio.wait_for(answering, None if left is None else max(left, _A_MOMENT))
    except TimeoutError:
        return ""
    except UsageError as error:
        why = str(error)
    if answer is None and why is None and left is not None and left <= 0:
        return ""
    if answer is None:
        raise AnswerNeeded(
            phase=question.phase,
            question=question.text,
            options=question.options,
            tool=question.tool,
            call=question.call,
            why=why,
            context=question.context,
        )
    return answer


def _time_left(run: CascadeRun, question: Question) -> float | None:
    """Seconds in which a question may still be answered (None: it waits)."""
    if question.timeout_s is None:
        return None
    rows = (stored.row for stored in run.record.store.rows(run.record.session_id))
    before = [
        row.timestamp
        for row in rows
        if row.phase == question.phase
        and (asks := Asks.read(row)) is not None
        and asks.question == question.text
    ]
    now = run.record.clock()
    return question.timeout_s - (now - min(before, default=now))


async def answers_to(
    run: CascadeRun, phase_run: BarePhase, turn: Step, calls: Sequence[ToolCall]
) -> dict[int, ToolOutput]:
    """Return the results of a turn's calls that a person answers or refuses, by their index.

    Raises AnswerNeeded where nobody answers.
    """
    answers: dict[int, ToolOutput] = {}
    for at, call in enumerate(calls):
        tool = phase_run.tools.by_name.get(call.name)
        if tool is None:
            continue
        asking = AskingCall(turn, at, call)
        refused = await _refusal_of(run, phase_run, asking, tool)
        if refused is not None:
            answers[at] = refused
        elif tool.function in ASKING:
            answers[at] = await _answer_of(run, phase_run, asking, tool)
    return answers


async def _answer_of(
    run: CascadeRun, phase_run: BarePhase, asking: AskingCall, tool: Tool
) -> ToolOutput:
    """What a person answers to a call of a tool that asks, or why there is no question in it.

    The answer stands in the state under the name of the phase, an option by its id.
    """
    asked: list[Question] = []

    def ask(
        question: str,
        options: tuple[str, ...],
        *,
        context: str = "",
        ids: tuple[str, ...] = (),
        is_open: bool = False,
        timeout_s: float | None = None,
    ) -> str:
        told = Question(phase_run.phase.name, question, options, context=context, ids=ids)
        asked.append(replace(told, is_open=is_open, timeout_s=timeout_s))
        return ""

    call, left_out = _without_layout(asking.call, tool)
    output = await run_tool(tool, call, replace(phase_run.tools.context, ask=ask))
    if not asked:
        return output
    question, note = asked[0], ""
    if left_out:
        note = f"[left out: {', '.join(left_out)}; a person is asked in text]\n"
        text = f"{call.name}: {', '.join(left_out)} left out; a person is asked in text"
        run.tell(question.phase, text, LayoutLeftOut(call.name, left_out))
    answer = await _answer(run, asking, question)
    if answer is None:
        return ToolOutput(f"{note}[no answer: nobody answered within {question.timeout_s:g} s]")
    known = dict(zip(question.options, question.ids, strict=False))
    phase_run.tools.context.state[question.phase] = known.get(answer, answer)
    if tool.function is request_decision:
        ident = known.get(answer)
        chosen = {"custom": answer} if ident is None else {"id": ident, "label": answer}
        answer = json.dumps(chosen, ensure_ascii=False)
    return ToolOutput(note + answer)


def _without_layout(call: ToolCall, tool: Tool) -> tuple[ToolCall, list[str]]:
    """Return a call without the arguments that its tool does not take, and their names."""
    try:
        given = call.parsed()
    except ValueError:
        return call, []  # what is wrong with it is told where it runs
    known = tool.spec.parameters.get("properties", {})
    left_out = [name for name in given if name not in known]
    kept = {name: value for name, value in given.items() if name in known}
    return (replace(call, arguments=json.dumps(kept)) if left_out else call), left_out


async def _refusal_of(
    run: CascadeRun, phase_run: BarePhase, asking: AskingCall, tool: Tool
) -> ToolOutput | None:
    """Return what the model is told of a call that a person refuses; None: it may run.

    Nobody is asked about arguments that the tool does not take. Raises AnswerNeeded where nobody
    says so.
    """
    name, phase = asking.call.name, phase_run.phase.name
    known_as = phase_run.tools.approve.get(name)
    if known_as is None:
        return None
    if (wrong := await wrong_arguments(tool, asking.call)) is not None:
        return wrong
    text = f"May the tool {name} run with {_shown(asking.arguments)}?"
    ident = asking.name_in(run.record.session_id)
    question = Question(phase, text, YES, name, ident, known_as)
    answer = await _answer(run, asking, question) or "no"
    if answer == "yes":
        return None
    why = "" if answer == "no" else f": {answer}"
    return ToolOutput(f"[not run: the user refused{why}]", error=True)


def _shown(arguments: str) -> str:
    """Arguments as a person reads them: as they count, and with nothing that cannot be seen."""
    try:
        text = json.dumps(json.loads(arguments), ensure_ascii=False)
    except (ValueError, RecursionError):
        text = arguments
    return text if text.isprintable() else ascii(text)[1:-1]
