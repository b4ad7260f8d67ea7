"""Asking a person the questions of a turn, before any of its tools runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from windlass.engine._call_needs import CallPhase
from windlass.engine._phase_run import PhaseTools
from windlass.engine._session_run import Run
from windlass.engine.events import QuestionAsked
from windlass.engine.people.questions import YES, Question, ask_human
from windlass.engine.resume.journal import AskingCall
from windlass.errors import AnswerNeeded, UsageError
from windlass.history.step import Step
from windlass.messages import ToolCall
from windlass.tools.base import Tool, ToolOutput
from windlass.tools.runner import run_tool, wrong_arguments


async def _answer(run: Run, asking: AskingCall, question: Question) -> str:
    """The answer to a question of a call: from the record, else of whoever is asked now.

    Raises AnswerNeeded.
    """
    answer = run.journal.answer_to(asking)
    if answer is None:
        answer = await _ask_person(run, question)
    text = f"{question.text} {answer}"
    run.record.decide(question.phase, text, asking.answered(text, question.tool, answer))
    return answer


async def _ask_person(run: Run, question: Question) -> str:
    """Ask a person, and tell the listeners of the question. Raises AnswerNeeded."""
    asked = question.phase, question.text, question.options, question.tool, question.call
    run.emit(QuestionAsked(*asked))
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
            call=question.call,
            why=why,
        )
    return answer


class Asker(Protocol):
    """A phase with tools, of whose calls a person is asked."""

    @property
    def phase(self) -> CallPhase:
        """The phase."""

    @property
    def tools(self) -> PhaseTools:
        """Its tools, and which of them need approval."""


async def answers_to(
    run: Run, phase_run: Asker, turn: Step, calls: Sequence[ToolCall]
) -> dict[int, ToolOutput]:
    """The results of a turn's calls that a person answers or refuses, by their index.

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
        elif tool.function is ask_human:
            answers[at] = await _answer_of(run, phase_run, asking, tool)
    return answers


async def _answer_of(run: Run, phase_run: Asker, asking: AskingCall, tool: Tool) -> ToolOutput:
    """What a person answers to a call of `ask_human`, or why there is no question in it."""
    asked: list[Question] = []

    def ask(question: str, options: tuple[str, ...]) -> str:
        asked.append(Question(phase_run.phase.name, question, options))
        return ""

    output = await run_tool(tool, asking.call, replace(phase_run.tools.context, ask=ask))
    return ToolOutput(await _answer(run, asking, asked[0])) if asked else output


async def _refusal_of(
    run: Run, phase_run: Asker, asking: AskingCall, tool: Tool
) -> ToolOutput | None:
    """What the model is told of a call that a person refuses; None: it may run.

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
    answer = await _answer(run, asking, question)
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
