"""A task file from its start to its end, and what it leaves in the record; also taken up again."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from windlass.engine.breaker import check_breaker, told_of_windows
from windlass.engine.cascade import add_server_tools, interrupted, needed_servers
from windlass.engine.events import Noted, SessionStarted
from windlass.engine.operators.frame import ContextPiece, Frame
from windlass.engine.operators.job import Done, Job
from windlass.engine.operators.notes import helper_of
from windlass.engine.operators.tasks import output_of, run_task
from windlass.engine.result import Result
from windlass.errors import StoreError, TaskError, UsageError, WindlassError
from windlass.history.base import NodeType, Outcome, SessionStart, Status, Store
from windlass.operators.model import OPERATORS

_FORM: Final = 1
"""The form in which a session keeps its task file."""


async def run_program(job: Job, context: str = "", *, resumed: bool = False) -> Result:
    """Run a task file and record how the session ended.

    `context` is the context of the root's parent, in words of the caller's. A failure of a
    task, a provider or a limit is in the result's `error`; a StoreError is raised. A cancelled
    run is recorded as interrupted and the cancellation goes on.
    """
    servers = needed_servers(job.run)
    try:
        return await _run(job, context, servers, resumed=resumed)
    finally:
        job.material.close()
        await servers.stop()


async def _run(job: Job, context: str, servers: Any, *, resumed: bool) -> Result:
    run, program = job.run, job.program
    record = run.record
    models = _models(job)
    if not resumed:
        record.append(start=_start(job, models, context))
    run.emit(SessionStarted(record.session_id, program.cascade.cascade_id, models))
    if resumed:
        text = f"taken up again; {len(job.finished):,} finished tasks are not repeated"
        record.decide("", text, kind="resume", finished=len(job.finished))
        run.emit(Noted("", text))
        _restore(job)
    for warning in program.warnings:
        run.emit(Noted("", f"warning: {warning}"))
    run = check_breaker(run)
    job = replace(job, run=run)
    error: WindlassError | None = None
    status: Status = "completed"
    done: Done | None = None
    try:
        await add_server_tools(run, servers)
        task = program.task
        done = await run_task(job, task, _parent(job, context), path=task.path)
        status = done.status
    except StoreError as failure:
        failure.session_id = record.session_id
        with suppress(StoreError):
            _stop(job, failure)
        raise
    except WindlassError as failure:
        status, error = "failed", failure
        error.session_id = record.session_id
        told = {"kind": "failed", "error": type(failure).__name__, "text": str(failure)}
        record.append([record.row(NodeType.ERROR, metadata=told)])
    except Exception as bug:
        _stop(job, bug)
        raise
    except BaseException:
        record.append(outcomes=[interrupted(run)])
        raise
    said = str(error) if error else None
    details = told_of_windows(run)
    record.append(outcomes=[Outcome(status, record.clock(), error=said, details=details)])
    outputs = {name: str(output) for name, output in run.progress.outputs.items()}
    output = job.text(done) if done is not None else ""
    return Result(
        status=status,
        output=output,
        outputs=outputs or ({program.task.path: output} if done is not None else {}),
        state=dict(run.progress.state),
        session_id=record.session_id,
        usage=run.progress.usage,
        cost=run.progress.cost,
        saved=run.progress.saved_tokens,
        error=error,
        notes=dict(error.notes) if isinstance(error, TaskError) else {},
    )


def _restore(job: Job) -> None:
    """Let templates see what finished tasks left; inner tasks leave nothing to others."""
    record = job.run.record
    for path, done in job.finished.items():
        if "[" not in path:
            job.run.progress.outputs[path] = output_of(job, done)
    for change in record.store.state(record.session_id):
        if "[" not in change.phase and change.phase in job.finished:
            job.run.progress.state[change.key] = change.value


def _models(job: Job) -> tuple[str, ...]:
    run = job.run
    seeing = [run.generation_of(phase).model for phase in run.cascade.phases]
    seeing += [run.search.model] if run.search else []
    seeing += [helper] if (helper := helper_of(job)) else []
    return tuple(dict.fromkeys(seeing))


def _start(job: Job, models: tuple[str, ...], context: str) -> SessionStart:
    source = job.program.source
    told = {
        OPERATORS: _FORM,
        "file": source.file,
        "xml": source.raw.decode("utf-8", "surrogateescape"),
        "context": context,
        "root": str(job.run.settings.root.resolve()),
        "model": flag.value if (flag := job.run.settings.layers["flags"].get("model")) else None,
    }
    name = job.program.cascade.cascade_id
    return SessionStart(name, ", ".join(models), job.run.input, told, job.run.record.clock())


def _parent(job: Job, context: str) -> Frame:
    """What the caller hands the root: its words, and the input where the file does not place it."""
    pieces = [ContextPiece("the caller", context)] if context.strip() else []
    if job.run.input and not job.program.source.uses_input:
        text = json.dumps(job.run.input, indent=2, ensure_ascii=False)
        pieces.append(ContextPiece("the input", text))
    return Frame(inherited=tuple(pieces))


def _stop(job: Job, failure: Exception) -> None:
    record = job.run.record
    told = f"{type(failure).__name__}: {failure}".removesuffix(": ")
    failed = Outcome("failed", record.clock(), error=told, details=told_of_windows(job.run))
    record.append([record.failure(None, failure)], outcomes=[failed])


def what_was_begun(store: Store, session_id: str) -> tuple[SessionStart, dict[str, Done]]:
    """How a session of a task file began, and which of its tasks are finished, by path.

    Raises UsageError where it is unknown, is no task's, or has nothing left to do.
    """
    start = store.start(session_id)
    if start.cascade.get(OPERATORS) != _FORM:
        raise UsageError(
            f"session {session_id!r} ran a cascade, not a task file; only tasks can be resumed"
        )
    finished: dict[str, Done] = {}
    for outcome in store.outcomes(session_id):
        if outcome.phase is None:
            if outcome.status == "completed":
                raise UsageError(
                    f"session {session_id!r} completed; there is nothing to resume."
                    f" What it did: windlass show {session_id}"
                )
        elif outcome.status == "completed" and "key" in outcome.details:
            done = Done.of(outcome.phase, outcome.status, outcome.details)
            finished[outcome.phase] = done
    return start, finished
