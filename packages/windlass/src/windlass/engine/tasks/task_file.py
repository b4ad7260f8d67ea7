"""A task file from its start to its end, and where a resumed one goes on."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Final

from windlass.cascade.rules import Rule
from windlass.engine.cascade import add_server_tools, models_seeing, needed_servers, run_session
from windlass.engine.events import Noted, SessionStarted
from windlass.engine.result import Result
from windlass.engine.resume.resuming import describe_setup
from windlass.engine.tasks.frame import Assignment, ContextPiece, Frame
from windlass.engine.tasks.job import Done, Job, notes_model
from windlass.engine.tasks.task_runner import output_of, run_task
from windlass.engine.turn.breaker import check_breaker
from windlass.errors import (
    StepDiffers,
    StoreError,
    UsageError,
    WindlassError,
    person_needed_in,
    run_limit_in,
)
from windlass.history.base import Ending, SessionStart, Store
from windlass.history.decisions import Resumed
from windlass.tasks.model import OPERATORS
from windlass.tools.mcp import Servers

_FORM: Final = 1
"""The form in which a session keeps its task file."""


async def run_program(job: Job, context: str = "", *, resumed: bool = False) -> Result:
    """Run a task file and record how the session ended, as `run_session` does.

    `context` is the context of the root's parent, in words of the caller's.
    """
    servers = needed_servers(job.run)
    try:
        return await _run(job, context, servers, resumed=resumed)
    finally:
        job.material.close()
        await servers.stop()


async def _run(job: Job, context: str, servers: Servers, *, resumed: bool) -> Result:
    run, task, record = job.run, job.program.task, job.run.record
    models = models_seeing(run, *filter(None, [notes_model(job)]))
    if not resumed:
        record.append(start=_start(job, models, context))
    run.emit(SessionStarted(record.session_id, run.cascade.cascade_id, models))
    if resumed:
        text = f"taken up again; {len(job.finished):,} finished tasks are not repeated"
        run.tell("", text, Resumed(len(job.finished)))
        _restore(job)
        record.set_time(record.store.start(record.session_id).timestamp)
    for warning in job.program.warnings:
        run.emit(Noted("", f"warning: {warning}"))
    run = check_breaker(run)
    done: list[Done] = []

    async def work() -> Ending:
        try:
            await add_server_tools(run, servers)
            own = replace(job, run=run)
            done.append(await run_task(own, Assignment(task, task.path, _parent(job, context))))
        except (StoreError, StepDiffers):
            raise
        except WindlassError as error:
            if run_limit_in(error) is None and person_needed_in(error) is None:
                record.append([record.failure(None, error)])
            raise
        return done[0].ending

    result = await run_session(run, work())
    if not done:
        return replace(result, output=None)
    output = job.text(done[0])
    return replace(result, output=output, outputs=result.outputs or {task.path: output})


def _restore(job: Job) -> None:
    """Let templates see what finished tasks left; inner tasks leave nothing to others."""
    record = job.run.record
    for path, done in job.finished.items():
        if "[" not in path:
            job.run.session.outputs[path] = output_of(job, done)
    for change in record.store.state(record.session_id):
        if "[" not in change.phase and change.phase in job.finished:
            job.run.session.state[change.key] = change.value


def _start(job: Job, models: tuple[str, ...], context: str) -> SessionStart:
    source = job.program.source
    data = {
        OPERATORS: _FORM,
        "file": source.file,
        "xml": source.raw.decode("utf-8", "surrogateescape"),
        "context": context,
        **describe_setup(job.run, source.raw.decode("utf-8", "surrogateescape"), rules_of(job)),
    }
    name = job.program.cascade.cascade_id
    return SessionStart(name, ", ".join(models), job.run.input, data, job.run.record.clock())


def rules_of(job: Job) -> list[Rule]:
    """Return the rules of the atomic tasks, in their order."""
    program, settings = job.program, job.run.settings
    return [program.rule(task, settings) for task in program.task.walk() if task.leaf is not None]


def _parent(job: Job, context: str) -> Frame:
    """The context of the root: the caller's words, and the input unless the file places it."""
    pieces = [ContextPiece("the caller", context)] if context.strip() else []
    if job.run.input and not job.program.source.uses_input:
        text = json.dumps(job.run.input, indent=2, ensure_ascii=False)
        pieces.append(ContextPiece("the input", text))
    return Frame(inherited=tuple(pieces))


def what_was_begun(store: Store, session_id: str) -> tuple[SessionStart, dict[str, Done]]:
    """Return how a session of a task file began, and which of its tasks are finished, by path.

    Raises UsageError where it is unknown, is no task's, or has nothing left to do.
    """
    start = store.start(session_id)
    if start.cascade.get(OPERATORS) != _FORM:
        raise UsageError(
            f"session {session_id!r} ran a cascade, not a task file: windlass run --resume"
            f" {session_id}"
        )
    finished: dict[str, Done] = {}
    for outcome in store.outcomes(session_id):
        if outcome.phase is None:
            if outcome.status == "completed":
                raise UsageError(
                    f"session {session_id!r} completed; there is nothing to resume."
                    f" What it did: windlass show {session_id}"
                )
        elif outcome.status == "completed" and (key := outcome.details.key) is not None:
            tokens, worked_on = outcome.details.tokens or 0, outcome.details.input or ""
            finished[outcome.phase] = Done(
                outcome.phase, outcome.status, key, tokens, worked_on, at=outcome.timestamp
            )
    return start, finished
