"""What a person decides after a phase: the block in its output that asks, and where it leads."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from windlass.cascade.decision_points import (
    ABORTS,
    AGAIN,
    CUSTOM,
    DECISION_OF,
    GOES_ON,
    DecisionPoints,
    HumanInput,
)
from windlass.cascade.flow import is_graph, leads_from
from windlass.cascade.model import Phase
from windlass.engine._phase_run import PhaseRun
from windlass.engine._session_state import Route
from windlass.engine.cascade_run import CascadeRun
from windlass.engine.people.asking import ask_person
from windlass.engine.people.questions import Question
from windlass.engine.session_tools import read_options
from windlass.errors import PhaseFailed
from windlass.history.base import NodeType, StateChange
from windlass.history.decisions import DecisionUnread, LayoutLeftOut, PersonDecided
from windlass.messages import user
from windlass.safety.foreign import parse_json
from windlass.text.prompts import decision_text
from windlass.text.templates import holds

_BLOCK: Final = re.compile(r"<decision>(.*?)(?:</decision>|\Z)", re.DOTALL | re.IGNORECASE)
_FENCE: Final = re.compile(r"\A```\w*\n(.*?)\n?```\Z", re.DOTALL)
_READ: Final = frozenset(
    {"question", "options", "context", "description", "allow_custom", "timeout_seconds"}
)
"""The keys of a block that say what is asked."""


@dataclass(frozen=True, slots=True)
class AskedDecision:
    """A question with the action that each option names itself, by the option's label."""

    question: Question
    actions: Mapping[str, str]
    layout: tuple[str, ...] = ()


async def decide_after(run: CascadeRun, phase_run: PhaseRun, output: str) -> list[StateChange]:
    """Ask what a phase asks a person after it; what the answers set in the state.

    Where an answer leads elsewhere, the route of the session says so. Raises AnswerNeeded where
    nobody answers, and PhaseFailed where a person ends the run.
    """
    changes: list[StateChange] = []
    points, after = phase_run.phase.decision_points, phase_run.phase.human_input
    if isinstance(points, DecisionPoints) and points.trigger != "error":
        changes += await _decide(run, phase_run, points, output)
    if isinstance(after, HumanInput):
        changes += await _ask_after(run, phase_run, after, output)
    return changes


async def _decide(
    run: CascadeRun, phase_run: PhaseRun, points: DecisionPoints, output: str
) -> list[StateChange]:
    block = _BLOCK.search(output)
    if block is None:
        return []
    phase, name = phase_run.phase, phase_run.phase.name
    decision = read_block(block[1], name, points)
    if isinstance(decision, str):
        text = (
            f"phase {name!r}: its decision block {decision}; nobody is asked, and the run goes on"
        )
        run.tell(name, text, DecisionUnread(decision, block[1][:2_000]))
        return []
    if decision.layout:
        listed = ", ".join(decision.layout)
        text = f"phase {name!r}: {listed} left out of its decision; a person is asked in text"
        run.tell(name, text, LayoutLeftOut("decision", decision.layout))
    question = decision.question
    answer = await ask_person(run, question, "decision", phase_run.now.turn)
    if answer is None:
        text = f"phase {name!r}: nobody decided in time, and the run goes on"
        run.tell(name, text, PersonDecided(question.text, None, "_continue"))
        return []
    id_of = dict(zip(question.options, question.ids, strict=True))
    ident = id_of.get(answer, CUSTOM)
    routing = points.routing
    action = decision.actions.get(answer) or routing.get(ident) or routing.get(answer)
    goes = _follow(run, phase, action or "_continue", answer)
    text = f"phase {name!r}: a person decides {answer!r}: {goes}"
    run.tell(name, text, PersonDecided(question.text, answer, action or "_continue"))
    if action in ABORTS and not _is_phase(run, action):
        raise PhaseFailed(f"phase {name!r}: a person ends the run: {answer}")
    chosen = {
        "choice": ident,
        "label": answer if answer in id_of else ident,
        "custom_text": None if answer in id_of else answer,
        "question": question.text,
    }
    said = _say(run, phase_run, question, answer, id_of.get(answer, answer))
    return [*said, StateChange(name, f"{DECISION_OF}{name}", chosen)]


def read_block(block: str, phase: str, points: DecisionPoints) -> AskedDecision | str:
    """Return what a block asks; or why it asks nothing, as the end of a sentence."""
    text = block.strip()
    fenced = _FENCE.match(text)
    try:
        fields = parse_json(fenced[1] if fenced else text)
    except ValueError as error:
        return f"is not JSON: {error}"
    if not isinstance(fields, Mapping):
        return "is not an object"
    wording, options = fields.get("question"), fields.get("options")
    if not isinstance(wording, str) or not wording.strip():
        return "has no question"
    if not isinstance(options, list) or not options:
        return "has no options"
    listed: list[Any] = [each for each in options if isinstance(each, Mapping | str)]
    labels, ids, descriptions = read_options(listed)
    if not labels or len(set(labels)) != len(options):
        return "has options without a label, or two with the same"
    context = [fields.get("context"), fields.get("description"), descriptions]
    actions = {
        label: str(option["action"])
        for label, option in zip(labels, listed, strict=True)
        if isinstance(option, Mapping) and option.get("action")
    }
    question = Question(
        phase,
        wording.strip(),
        labels,
        context="\n".join(str(part) for part in context if part),
        ids=ids,
        is_open=fields.get("allow_custom") is not False,
        timeout_s=points.timeout_seconds,
    )
    return AskedDecision(question, actions, tuple(sorted({*fields} - _READ)))


def _is_phase(run: CascadeRun, name: str) -> bool:
    return any(each.name == name for each in run.cascade.phases)


def _follow(run: CascadeRun, phase: Phase, action: str, answer: str) -> str:
    """Have the run go on where an action leads; says where, in words."""
    phases, why = run.cascade.phases, f"a person decides {answer!r}"
    if _is_phase(run, action):
        if is_graph(phases) and action not in leads_from(phase):
            ways = ", ".join(leads_from(phase)) or "none"
            return f"{action!r} is no way on from here (ways: {ways}), and the run goes on"
        run.session.route = Route(action, "person", why)
        return f"phase {action!r} comes next"
    if action in GOES_ON:
        return "the run goes on"
    if action in ABORTS:
        return "the run ends"
    if action in AGAIN:
        run.session.route = Route(phase.name, "person", why)
        return "the phase runs again"
    return f"{action!r} is neither a phase nor an action, and the run goes on"


async def _ask_after(
    run: CascadeRun, phase_run: PhaseRun, after: HumanInput, output: str
) -> list[StateChange]:
    """Ask a person about the phase that ended."""
    phase = phase_run.phase
    where = f"phase {phase.name!r}, human_input.condition"
    values, seen = run.template_values(), {"output": output}
    if after.asks_if is not None and not holds(after.asks_if, **values, where=where, moments=seen):
        return []
    wording = after.question or f"What is there to say to the output of {phase.name!r}?"
    choices = after.choices
    value_of = {each.label: each.value or each.label for each in choices}
    told = [f"{each.label}: {each.description}" for each in choices if each.description]
    context, seconds = "\n".join((output, *told)), after.timeout_seconds
    ids = tuple(value_of.values())
    question = Question(
        phase.name, wording, tuple(value_of), context=context, ids=ids, timeout_s=seconds
    )
    answer = await ask_person(run, question, "human_input", phase_run.now.turn)
    if answer is None and after.on_timeout == "abort":
        raise PhaseFailed(f"phase {phase.name!r}: nobody answered in time ({wording})")
    if answer is None and after.on_timeout == "default":
        answer = after.default_value
    if answer is None:
        return []
    return _say(run, phase_run, question, answer, value_of.get(answer, answer))


def _say(
    run: CascadeRun, phase_run: PhaseRun, question: Question, answer: str, value: str
) -> list[StateChange]:
    """Say in the phase what a person answered, so that later calls see it; what the state gets."""
    message = user(decision_text(question.text, answer))
    run.record.add(replace(phase_run.row(NodeType.USER, message), parent_id=phase_run.trace_id))
    return [StateChange(question.phase, question.phase, value)]
