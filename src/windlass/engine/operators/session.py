"""A task file from its start to its end, and what it leaves in the record; also taken up again."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Final

from windlass.engine.breaker import check_breaker
from windlass.engine.cascade import (
    add_server_tools,
    models_seeing,
    needed_servers,
    run_session,
)
from windlass.engine.events import Noted, SessionStarted
from windlass.engine.operators.frame import ContextPiece, Frame
from windlass.engine.operators.job import Done, Job
from windlass.engine.operators.notes import helper_of
from windlass.engine.operators.tasks import output_of, run_task
from windlass.engine.result import Result
from windlass.errors import StoreError, UsageError, WindlassError
from windlass.history.base import NodeType, SessionStart, Status, Store
from windlass.operators.model import OPERATORS
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
    models = models_seeing(run, *filter(None, [helper_of(job)]))
    if not resumed:
        record.append(start=_start(job, models, context))
    run.emit(SessionStarted(record.session_id, run.cascade.cascade_id, models))
    if resumed:
        text = f"taken up again; {len(job.finished):,} finished tasks are not repeated"
        run.tell("", text, kind="resume", finished=len(job.finished))
        _restore(job)
    for warning in job.program.warnings:
        run.emit(Noted("", f"warning: {warning}"))
    run = check_breaker(run)
    done: list[Done] = []

    async def work() -> Status:
        try:
            await add_server_tools(run, servers)
            own = replace(job, run=run)
            done.append(await run_task(own, task, _parent(job, context), path=task.path))
        except StoreError:
            raise
        except WindlassError as error:
            metadata = {"kind": "failed", "error": type(error).__name__, "text": str(error)}
            record.append([record.row(NodeType.ERROR, metadata=metadata)])
            raise
        return done[0].status

    result = await run_session(run, work())
    if not done:
        return replace(result, output="")
    output = job.text(done[0])
    return replace(result, output=output, outputs=result.outputs or {task.path: output})


def _restore(job: Job) -> None:
    """Let templates see what finished tasks left; inner tasks leave nothing to others."""
    record = job.run.record
    for path, done in job.finished.items():
        if "[" not in path:
            job.run.progress.outputs[path] = output_of(job, done)
    for change in record.store.state(record.session_id):
        if "[" not in change.phase and change.phase in job.finished:
            job.run.progress.state[change.key] = change.value


def _start(job: Job, models: tuple[str, ...], context: str) -> SessionStart:
    source = job.program.source
    data = {
        OPERATORS: _FORM,
        "file": source.file,
        "xml": source.raw.decode("utf-8", "surrogateescape"),
        "context": context,
        "root": str(job.run.settings.root.resolve()),
        "model": flag.value if (flag := job.run.settings.layers["flags"].get("model")) else None,
    }
    name = job.program.cascade.cascade_id
    return SessionStart(name, ", ".join(models), job.run.input, data, job.run.record.clock())


def _parent(job: Job, context: str) -> Frame:
    """What the caller hands the root: its words, and the input where the file does not place it."""
    pieces = [ContextPiece("the caller", context)] if context.strip() else []
    if job.run.input and not job.program.source.uses_input:
        text = json.dumps(job.run.input, indent=2, ensure_ascii=False)
        pieces.append(ContextPiece("the input", text))
    return Frame(inherited=tuple(pieces))


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
