"""Resuming and forking sessions: what they ran, and what of it has changed since."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from windlass.cascade.compile import compile_rule
from windlass.cascade.model import Cascade, tool_names
from windlass.cascade.rules import Rule
from windlass.cascade.tool_cascades import is_path
from windlass.cascade.tools_named import asking_phases, judges_of, tools_of
from windlass.engine.cascade_run import CascadeRun
from windlass.engine.resume.journal import read_journal
from windlass.engine.turn.record import Recorded
from windlass.errors import UsageError, did_you_mean
from windlass.history.base import CHAT, RAN, Row, SessionStart, Store
from windlass.history.row_details import CallSent, ReplyDetails
from windlass.history.step import Step
from windlass.messages import canonical_json
from windlass.tasks.model import OPERATORS


def definition_of(cascade: Cascade) -> dict[str, Any]:
    """Return a cascade as JSON, as its user wrote it."""
    return cascade.model_dump(mode="json", by_alias=True, exclude_unset=True)


def describe_run(run: CascadeRun) -> dict[str, Any]:
    """What the start of a session says of its run: its file, and what `describe_setup` adds."""
    lenient = {"lenient": True} if run.cascade.is_lenient else {}
    setup = describe_setup(run, definition_of(run.cascade), _rules_of(run))
    return {"file": run.cascade.file, **lenient, **setup}


def describe_setup(run: CascadeRun, definition: Any, rules: Sequence[Rule]) -> dict[str, Any]:
    """Return the root and the model of a run, and what its steps depend on."""
    flag, through = run.settings.layers["flags"].get("model"), run.settings.models.through
    return {
        **({"through": through} if through else {}),
        "root": str(run.settings.root.resolve()),
        "model": run.settings.routed(flag.value) if flag else None,
        "depends_on": _depends_on(run, definition, rules),
    }


def _rules_of(run: CascadeRun) -> list[Rule]:
    return [compile_rule(run.cascade, phase, run.settings) for phase in run.cascade.phases]


def _depends_on(run: CascadeRun, definition: Any, rules: Sequence[Rule]) -> dict[str, str]:
    """Digests of what the steps of a run depend on, by what people call it."""
    cascade = run.cascade
    models = [run.generation_of(phase).model for phase in asking_phases(cascade)]
    named = {name for phase in cascade.phases for name in tool_names(tools_of(phase))}
    named |= {name.rpartition(":")[2] for name in judges_of(cascade)}
    return {
        "the cascade": _digest(definition),
        "the input": _digest(run.input),
        "the model": _digest(models),
        "the policy": _digest(repr(rules)),
        **{
            f"the tool {name!r}": _digest(_source_of(run, name))
            for name in sorted(named & {*run.registry.names()})
        },
    }


def _source_of(run: CascadeRun, name: str) -> Any:
    tool = run.registry.get(name)
    try:
        return inspect.getsource(tool.function)
    except (OSError, TypeError):
        return tool.spec.to_openai()


def _digest(value: Any) -> str:
    return hashlib.sha256(canonical_json(value).encode("ascii")).hexdigest()[:16]


def resume_run(run: CascadeRun, again: Iterable[str] = ()) -> CascadeRun:
    """Return the run with the steps that the record of its session holds."""
    start = run.record.store.start(run.record.session_id)
    ran, definition = start.cascade.get(RAN, {}), definition_of(run.cascade)
    run = restore_journal(run, ran, definition, _rules_of(run), again=again)
    run.record.set_time(start.timestamp)
    return run


def restore_journal(
    run: CascadeRun,
    ran: Mapping[str, Any],
    definition: Any,
    rules: Sequence[Rule],
    *,
    again: Iterable[str],
    finished: Container[str] = (),
) -> CascadeRun:
    """The run with the journal of its session, which began as `ran` says, without `finished`."""
    before, now = ran.get("depends_on", {}), _depends_on(run, definition, rules)
    changed = [name for name in dict.fromkeys([*before, *now]) if before.get(name) != now.get(name)]
    if "the cascade" in changed:  # it says the others, too
        changed = [name for name in changed if name not in ("the model", "the policy")]
    run.record.recorded = Recorded(run.record.store, run.record.session_id, finished)
    return replace(run, journal=read_journal(run.record.recorded.rows, changed, again))


def fork_run(run: CascadeRun, origin: str, before: float, message: str = "") -> CascadeRun:
    """Return the run with the answers that the record of another session held before a moment."""
    rows = [each for each in run.record.store.rows(origin) if each.row.timestamp < before]
    journal = read_journal(rows, (), ())
    turns = {step: replace(turn, started=()) for step, turn in journal.turns.items()}
    journal = replace(journal, turns=turns, origin=origin, before=before, message=message)
    return replace(run, journal=journal)


def change_definition(recorded: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The definition that a session recorded, with other values for some keys. Raises UsageError.

    Files of sub-cascades and of tools are named from its own folder.
    """
    definition = json.loads(json.dumps({k: v for k, v in recorded.items() if k != RAN}))
    phases = {phase["name"]: phase for phase in definition["phases"]}
    if folder := recorded[RAN]["file"]:
        for sub in (sub for phase in phases.values() for sub in phase.get("sub_cascades", ())):
            sub["ref"] = str(Path(folder).resolve().parent / sub["ref"])
        if tools := definition.get("tools"):
            beside = Path(folder).resolve().parent
            definition["tools"] = [str(beside / each) if is_path(each) else each for each in tools]
    for key, value in changes.items():
        name, dot, of_phase = key.rpartition(".")
        if key == "profile":
            auto = definition.get("auto_context")
            own = auto if isinstance(auto, dict) else {}
            definition["auto_context"] = {**own, "profile": value}
        elif not dot:
            definition[key] = value
        elif name in phases:
            phases[name][of_phase] = value
        else:
            raise UsageError(f"there is no phase {name!r}; {did_you_mean(name, phases)}")
    return dict(definition)


def time_of_call(store: Store, session_id: str, number: int) -> float:
    """When a call of a session was sent, in seconds since 1970. Raises UsageError."""
    calls = store.calls(session_id)
    if not 1 <= number <= len(calls):
        raise UsageError(
            f"session {session_id!r} has no call {number}; its calls are 1 to {len(calls)}"
        )
    trace = calls[number - 1].trace_id
    rows = [each.row for each in store.rows(session_id)]
    reply = next(ReplyDetails.read(row) for row in rows if row.trace_id == trace)
    sent = (row.timestamp for row in rows if reply and _sends(row, reply.step))
    return check_sent_time(next(sent, None), session_id)


def _sends(row: Row, step: Step | None) -> bool:
    sent = CallSent.read(row)
    return sent is not None and sent.step == step


def check_sent_time(sent: float | None, session_id: str) -> float:
    """When a call of a session was sent. Raises UsageError where its record does not say."""
    if sent is None:
        raise UsageError(f"session {session_id!r} was recorded before runs could be forked")
    return sent


def start_to_resume(store: Store, session_id: str, *, ended: bool = False) -> SessionStart:
    """Return how a session of a cascade began. Raises UsageError where nobody can go on with it.

    `ended`: one that completed will do.
    """
    start = store.start(session_id)
    if OPERATORS in start.cascade:
        raise UsageError(
            f"session {session_id!r} ran a task file: windlass evaluate --resume {session_id}"
        )
    if start.parent_id is not None:
        raise UsageError(
            f"session {session_id!r} is part of another: windlass run --resume {start.parent_id}"
        )
    if start.cascade["phases"][-1].get("instructions") == CHAT:
        raise UsageError(f"session {session_id!r} is a chat: windlass chat --session {session_id}")
    if RAN not in start.cascade:
        raise UsageError(f"session {session_id!r} was recorded before runs could be resumed")
    endings = [outcome for outcome in store.outcomes(session_id) if outcome.phase is None]
    if endings and endings[-1].status == "completed" and not ended:
        raise UsageError(
            f"session {session_id!r} completed; there is nothing to resume."
            f" What it did: windlass show {session_id}"
        )
    return start
