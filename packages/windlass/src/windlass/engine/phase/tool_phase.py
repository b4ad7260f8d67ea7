"""A phase that runs a tool and asks no model: its attempts, its result, and where it goes on.

The result is the phase's output. Later calls see it as a message that no model asked for, with a
line before it that says what ran; windows treat it like every other tool result.
"""

from __future__ import annotations

from asyncio import sleep
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from windlass.cascade.deterministic import DEFAULT, INPUTS, SQL, Retry
from windlass.cascade.flow import is_graph
from windlass.cascade.handoffs import END, targets_of
from windlass.cascade.model import Phase
from windlass.cascade.tools_named import RUN_SQL
from windlass.engine._phase_run import BarePhase
from windlass.engine._session_state import Route
from windlass.engine._subcascades import call_cascade, run_children
from windlass.engine.cascade_run import CascadeRun
from windlass.engine.events import PhaseEnded, ToolStarted
from windlass.engine.people.asking import answers_to
from windlass.engine.phase.phase import extract_state, failure_recorded
from windlass.engine.phase.phase_setup import bare_phase
from windlass.engine.phase.remembering import memory_callbacks
from windlass.engine.phase.rule_texts import recorded_in
from windlass.engine.phase.tools import result_row, tell_result, tools_to_approve
from windlass.engine.phase.verdicts import Guard
from windlass.errors import ContextError, PhaseFailed, UsageError
from windlass.history.base import COMPLETED, Ending, NodeType, Outcome, Row, StateChange, ending_of
from windlass.history.decisions import ToolCalled
from windlass.history.row_details import ToolAttemptFailed, ToolsStarted
from windlass.history.step import Step
from windlass.messages import Message, Text, ToolCall, canonical_json, user
from windlass.safety.fairness import wait_for_turn
from windlass.safety.files import PROMPT_BYTES, UnreadableError
from windlass.safety.foreign import parse_json
from windlass.settings.plugins import QUERIES, load_plugin
from windlass.text.prompts import cut_text, tool_phase_text
from windlass.text.templates import LAST_ERROR, as_value, render
from windlass.tools.base import TIMEOUT_S, Tool, ToolOutput
from windlass.tools.registry import make_tool
from windlass.tools.runner import run_tool
from windlass.window.entries import Item

CALL: Final = "tool_phase"
"""The id of the call that a tool phase makes."""


def call_of(run: CascadeRun, phase: Phase, tool: Tool) -> ToolCall:
    """Return the call of the tool, with the phase's inputs as arguments. Raises ContextError."""
    arguments = rendered_inputs(run, phase)
    if phase.tool is not None and phase.tool.startswith(SQL):
        arguments = {"query": _query(run, phase, arguments)}
    return ToolCall(CALL, tool.spec.name, canonical_json(with_numbers(arguments, tool)))


def with_numbers(arguments: Mapping[str, Any], tool: Tool) -> dict[str, Any]:
    """Return the arguments with numbers in place of their texts, where the tool takes a number.

    A tool that is a function reads its own arguments.
    """
    properties: Mapping[str, Any] = tool.spec.parameters.get("properties", {})
    taken = dict(arguments)
    for name, value in arguments.items() if tool.parse is None else ():
        described = properties.get(name)
        kind = described.get("type") if isinstance(described, Mapping) else None
        if isinstance(value, str) and (number := _number(value, kind)) is not None:
            taken[name] = number
    return taken


def _number(text: str, kind: object) -> int | float | None:
    """Return the number that a text is, where one of this kind is taken (None: it is none)."""
    try:
        if kind == "integer":
            return int(text)
        return float(text) if kind == "number" else None
    except ValueError:
        return None


def sql_tool(phase: Phase) -> Tool | None:
    """Return what runs the query of a `sql:` phase; None: it runs another tool."""
    if phase.tool is None or not phase.tool.startswith(SQL):
        return None
    return make_tool(_language().query_rows, name=RUN_SQL)


def _language() -> Any:
    """Return what answers queries in SQL: `query_rows`, and `QueryValues` for their templates."""
    return load_plugin(QUERIES, SQL.removesuffix(":"))


def rendered_inputs(run: CascadeRun, phase: Phase) -> dict[str, Any]:
    """Return the inputs with their templates rendered; what looks like JSON is read as such.

    Raises ContextError.
    """

    def rendered(value: Any, key: str) -> Any:
        match value:
            case str():
                seen, where = run.template_values(), run.where(phase, key)
                text = render(value, **seen, where=where, moments=recorded_in(run, value))
                return as_value(text)
            case dict():
                return {name: rendered(each, f"{key}.{name}") for name, each in value.items()}
            case list() | tuple():
                return [rendered(each, f"{key}[{at}]") for at, each in enumerate(value)]
            case _:
                return value

    return {name: rendered(value, f"inputs.{name}") for name, value in phase.inputs.items()}


def _query(run: CascadeRun, phase: Phase, arguments: dict[str, Any]) -> str:
    """Return the query in the file of a `sql:` phase, with its inputs as literals.

    Raises UsageError, and ContextError where it cannot be rendered.
    """
    assert phase.tool is not None
    name = phase.tool.removeprefix(SQL).strip()
    try:
        template = run.ready.folders.read_text(name, PROMPT_BYTES)
    except UnreadableError as error:
        raise UsageError(f"phase {phase.name!r}: {name!r} {error}") from error
    seen = {**run.template_values(), "input": {**run.input, **arguments}}
    where, values = str(run.ready.folders.at(name)), _language().QueryValues()
    moments = {**arguments, INPUTS: arguments}
    query = render(template, **seen, where=where, moments=moments, stand_in=values.stand_in)
    try:
        return str(values.fill(query))
    except ValueError as error:
        raise ContextError(f"{where}: the query {error}") from error


SUCCESS: Final = "success"
"""The key of `routing` for a result that says neither `_route` nor `status`."""

_LONGEST_TOLD: Final = 200
"""Characters of arguments that are told in words; the record has them whole."""

_ONCE: Final = Retry(max_attempts=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolPhase(BarePhase):
    """A phase that runs a tool, in hand: the tool, and its call."""

    tool: Tool
    call: ToolCall


@dataclass(frozen=True, slots=True)
class _Tried:
    """What the last attempt came to: its place, its output, and how long it took in seconds.

    `final`: no further attempt would help.
    """

    turn: Step
    output: ToolOutput
    seconds: float = 0.0
    final: bool = False


async def run_tool_phase(run: CascadeRun, phase: Phase) -> Ending:
    """Run a phase's tool to its end, after its sub-cascades, and record what came of it.

    Where the tool fails, the phase under `on_error` comes next. Raises PhaseFailed where there is
    none, and PersonNeeded where a person is to answer.
    """
    await wait_for_turn()
    name, record, session = phase.name, run.record, run.session
    with failure_recorded(run, name):
        guard = Guard(run, phase)
        below = await run_children(run, phase)
        await guard.check_input()
        work = _open(run, phase)
        tried = await _try(run, work)
        output = _record_result(run, work, tried)
        failed = tried.output.error
        if not failed:
            await guard.check("post", work, output.message.text)
        changes = [_last_error(work, tried)] if failed else await extract_state(run, phase, output)
    outcome = Outcome(
        "failed" if failed else "completed",
        record.clock(),
        name,
        error=tried.output.text if failed else None,
        output_trace=record.traces[output.id],
        hidden=phase.context_retention == "output_only",
    )
    own = () if failed else work.now.state.changes(name)
    record.append(outcomes=[outcome], state=[*own, *changes])
    session.state.update({} if failed else work.now.state)
    session.state.update({change.key: change.value for change in changes})
    _choose_way(run, phase, None if failed else output.message.text)
    run.emit(PhaseEnded(name, outcome.status, output.message.text))
    return ending_of([below, COMPLETED])


def _open(run: CascadeRun, phase: Phase) -> ToolPhase:
    """Return the phase in hand: its tool is found, and its inputs are rendered.

    Raises ContextError where a template cannot be rendered, UsageError where there is no tool.
    """
    assert phase.tool is not None
    tool = sql_tool(phase) or run.registry.get(phase.tool)
    if phase.timeout is not None:
        tool = replace(tool, timeout_s=phase.timeout)
    elif tool.timeout_s == TIMEOUT_S:
        tool = replace(tool, timeout_s=run.settings.tool_timeout_s)
    bare = bare_phase(run, phase)
    bare.tools.context = replace(bare.tools.context, memory=memory_callbacks(run, phase))
    bare.tools.by_name = {tool.spec.name: tool}
    bare.tools.approve = tools_to_approve(run.registry, phase, [tool])
    call = call_of(run, phase, tool)
    return ToolPhase(phase=phase, now=bare.now, tools=bare.tools, tool=tool, call=call)


async def _try(run: CascadeRun, work: ToolPhase) -> _Tried:
    """Attempts until the tool does not fail; what the record holds of them is not done again.

    Raises PhaseFailed where the last one fails and the phase has no `on_error`.
    """
    phase = work.phase
    retry = phase.retry or _ONCE
    attempt = 0
    while True:
        attempt += 1
        tried = await _attempt(run, work, attempt, last=attempt == retry.max_attempts)
        if not tried.output.error:
            return tried
        last = attempt == retry.max_attempts or tried.final
        if last and phase.on_error is not None:
            return tried
        what = f"phase {phase.name!r}: the tool {work.tool.spec.name!r} failed"
        tries = f" (attempt {attempt} of {retry.max_attempts})" if phase.retry else ""
        text = f"{what}{tries}: {tried.output.text}"
        details = ToolAttemptFailed(tried.turn, work.tool.spec.name, tried.output.text)
        run.tell(phase.name, text, details)
        if last:
            raise PhaseFailed(text)
        if not run.record.follows_record:
            await sleep(retry.wait_before(attempt + 1))


async def _attempt(run: CascadeRun, work: ToolPhase, attempt: int, *, last: bool) -> _Tried:
    """Return one attempt: as the record holds it, else made now."""
    phase = work.phase
    turn = run.record.turn(phase.name, attempt, run.session.visit.after_turn + attempt)
    recorded = run.journal.tool_phase_at(turn)
    if (
        recorded is not None
        and recorded.error is not None
        and not (last and phase.on_error is None)
    ):
        return _Tried(turn, ToolOutput(recorded.error, error=True))
    if recorded is not None and recorded.results:
        (result,) = recorded.results
        work.now.state.update(recorded.state)
        output = ToolOutput(result.text, result.pictures, result.failed)
        return _Tried(turn, output, final=True)  # of attempts that fail only the last has one
    return await _run_now(run, work, turn)


async def _run_now(run: CascadeRun, work: ToolPhase, turn: Step) -> _Tried:
    """Run the tool, unless a person answers in its place or refuses it."""
    name, tool, call = work.phase.name, work.tool, work.call
    run.check_time()
    run.record.set_time(None)
    text = f"phase {name!r} runs {tool.spec.name} with {cut_text(call.arguments, _LONGEST_TOLD)}"
    run.record.decide(name, text, ToolCalled(turn, tool.spec.name, call.arguments))
    started = run.record.clock()
    answers = await answers_to(run, work, turn, [call])
    if 0 in answers:
        return _Tried(turn, answers[0], final=True)
    run.emit(ToolStarted(name, tool.spec.name, call.arguments))
    if tool.effects == "external":
        run.record.decide(
            name, f"{turn}: {tool.spec.name} run", ToolsStarted(turn, [tool.spec.name])
        )
    context = replace(work.tools.context, run_cascade=partial(call_cascade, run, turn))
    output = await run_tool(tool, call, context)
    tell_result(run, name, call, output)
    return _Tried(turn, output, run.record.clock() - started)


def _record_result(run: CascadeRun, work: ToolPhase, tried: _Tried) -> Item:
    """Record what ran, and its result as a message that no model asked for."""
    record, output, turn, name = run.record, tried.output, tried.turn, work.tool.spec.name
    heading = tool_phase_text(turn.phase, name, work.call.parsed(), failed=output.error)
    at = Row(NodeType.USER, phase=turn.phase, turn=turn.turn, attempt=turn.attempt)
    heading_row = record.stamp(replace(at, message=user(heading)))
    message = Message("tool", (Text(output.text), *output.pictures), name=name, failed=output.error)
    row = replace(
        at,
        node_type=NodeType.TOOL_RESULT,
        message=message,
        parent_id=heading_row.trace_id,
        duration_ms=tried.seconds * 1_000,
    )
    state = {change.key: change.value for change in work.now.state.changes(turn.phase)}
    result = result_row(run, row, work.tool, work.call, output, state=state)
    return record.append([heading_row, result])[-1]


def _last_error(work: ToolPhase, tried: _Tried) -> StateChange:
    """Return what the state says of a tool that failed, for the phase under `on_error`."""
    phase, tool = work.phase.name, work.phase.tool
    failure = {
        "phase": phase,
        "tool": tool,
        "error": tried.output.text,
        "inputs": work.call.parsed(),
    }
    return StateChange(phase, LAST_ERROR, failure)


def _choose_way(run: CascadeRun, phase: Phase, result: str | None) -> None:
    """Choose what comes next, by the phase's result (None: its tool failed)."""
    if not is_graph(run.cascade.phases):
        return
    if result is None:
        run.session.route = Route(str(phase.on_error), "error", "its tool failed")
        return
    key = route_key(result)
    first = (*targets_of(phase.handoffs), END)[0]
    target = phase.routing.get(key, phase.routing.get(DEFAULT, first))
    if phase.routing:
        run.session.route = Route(target, "result", f"its result says {key!r}")
    elif target == END:
        run.session.route = Route(END, "only", "nothing comes after it")


def route_key(result: str) -> str:
    """Return what a result says for `routing`: its `_route`, else its `status`, else `success`.

    >>> route_key('{"status": "empty"}'), route_key("[1, 2]")
    ('empty', 'success')
    """
    try:
        value = parse_json(result)
    except ValueError:
        return SUCCESS
    match value:
        case {"_route": str(key)} | {"status": str(key)}:
            return key
        case _:
            return SUCCESS
