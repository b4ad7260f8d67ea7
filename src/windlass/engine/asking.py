"""Putting a turn's questions to a person, before anything of the turn is done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from windlass.engine.events import QuestionAsked
from windlass.engine.journal import QUESTIONS
from windlass.engine.questions import YES, Question, ask_human
from windlass.engine.state import PhaseRun, Run
from windlass.errors import AnswerNeeded, UsageError
from windlass.history.base import STEP
from windlass.messages import ToolCall
from windlass.tools.base import Tool, ToolOutput
from windlass.tools.runner import run_tool


async def _answer(run: Run, place: str, call: ToolCall, question: Question) -> str:
    """The answer to a question of a call: from the record, else of whoever is asked now.

    Raises AnswerNeeded.
    """
    answer = run.journal.answer_to(place, call)
    if answer is None:
        answer = await _put(run, question)
    kind = QUESTIONS[question.tool is not None]
    told = {STEP: place, "call": call.id, "tool": question.tool, "answer": answer}
    run.record.decide(question.phase, f"{question.text} {answer}", kind=kind, **told)
    return answer


async def _put(run: Run, question: Question) -> str:
    """The answer to a question, which is told to who watches. Raises AnswerNeeded."""
    run.emit(QuestionAsked(question.phase, question.text, question.options, question.tool))
    why = None
    try:
        answer = await run.answers.answer_to(question)
    except UsageError as error:
        answer, why = None, str(error)
    if answer is None:
        raise AnswerNeeded(
            phase=question.phase,
            question=question.text,
            options=question.options,
            tool=question.tool,
            why=why,
        )
    return answer


async def answers_to(
    run: Run, phase_run: PhaseRun, place: str, calls: Sequence[ToolCall]
) -> dict[int, ToolOutput]:
    """The results of a turn's calls that a person answers or refuses, by their index.

    `place` is that of the turn. Raises AnswerNeeded where nobody answers.
    """
    answers: dict[int, ToolOutput] = {}
    for at, call in enumerate(calls):
        tool = phase_run.progress.tools.get(call.name)
        if tool is None:
            continue
        refused = await _refusal_of(run, phase_run, place, call)
        if refused is not None:
            answers[at] = refused
        elif tool.function is ask_human:
            answers[at] = await _answer_of(run, phase_run, place, tool, call)
    return answers


async def _answer_of(
    run: Run, phase_run: PhaseRun, place: str, tool: Tool, call: ToolCall
) -> ToolOutput:
    """What a person answers to a call of `ask_human`, or why there is no question in it."""
    asked: list[Question] = []

    def ask(question: str, options: tuple[str, ...]) -> str:
        asked.append(Question(phase_run.phase.name, question, options))
        return ""

    output = await run_tool(tool, call, replace(phase_run.progress.context, ask=ask))
    return ToolOutput(await _answer(run, place, call, asked[0])) if asked else output


async def _refusal_of(
    run: Run, phase_run: PhaseRun, place: str, call: ToolCall
) -> ToolOutput | None:
    """What the model is told of a call that a person refuses; None: it may run.

    Raises AnswerNeeded where nobody says so.
    """
    name, phase = call.name, phase_run.phase.name
    if name not in phase_run.phase.rules.approve:
        return None
    text = f"May the tool {name} run with {call.arguments}?"
    answer = await _answer(run, place, call, Question(phase, text, YES, name))
    if answer == "yes":
        return None
    why = "" if answer == "no" else f": {answer}"
    return ToolOutput(f"[not run: the user refused{why}]", error=True)
