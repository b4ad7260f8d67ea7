"""Running a task of any kind, and steps in their order: what failed and what is kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from windlass.engine.check import input_room
from windlass.engine.events import Noted, PhaseStarted
from windlass.engine.operators.atomic import described, run_atomic, tell_fresh
from windlass.engine.operators.frame import Frame, Piece, assemble
from windlass.engine.operators.inputs import Given, digest
from windlass.engine.operators.job import Done, Job, add_up, carried
from windlass.engine.operators.notes import write_notes
from windlass.errors import StepFailed, StoreError, TaskError, WindlassError
from windlass.history.base import Outcome, Status
from windlass.operators.model import Task
from windlass.templates import PhaseOutput


async def run_task(
    job: Job,
    task: Task,
    parent: Frame,
    previous: tuple[Piece, ...] = (),
    *,
    path: str,
    item: Given | None = None,
) -> Done:
    """Run a task of any kind under a context; one that a session had finished is not run again.

    `previous` is what earlier steps left for it, `path` its name with the numbers of inner tasks,
    `item` its input where it is the inner task of a reduce. Raises WindlassError.
    """
    known = finished_before(job, path, item)
    if known is not None:
        return known
    if task.kind == "atomic":
        own = job.under(job.run)
        try:
            return await run_atomic(own, task, parent, previous, path=path, item=item)
        finally:
            add_up(job.run, own.run)
    if task.kind == "sequential":
        done = await _run_steps(job, task, parent, previous, path=path, item=item)
    else:
        from windlass.engine.operators.reduce import run_reduce

        done = await run_reduce(job, task, parent, previous, path=path)
    of_input = digest(item.read()) if item is not None else ""
    done = Done(path, done.status, done.key, done.tokens, of_input)
    ended = Outcome(done.status, job.run.record.clock(), path, details=done.details)
    job.run.record.append(outcomes=[ended])
    return done


def finished_before(job: Job, path: str, item: Given | None) -> Done | None:
    """The task as a resumed session had finished it; None: it is to run."""
    known = job.finished.get(path)
    if known is None or item is None or known.input == digest(item.read()):
        return known
    text = f"{path}: its input has changed since; it is run again"
    job.run.record.decide(path, text, kind="resume")
    job.run.emit(Noted(path, text))
    return None


def framed(
    job: Job, task: Task, parent: Frame, previous: tuple[Piece, ...], item: Given | None = None
) -> Frame:
    """The context of an operator, which its tasks inherit from."""
    info, reply = job.info(task)
    text = described(job, task)
    room = input_room(info, reply)
    frame, found = assemble(
        job.material, task, text, parent, previous, counter=info.counter, room=room
    )
    tell_fresh(job, task.path, found)
    if item is None:
        return frame
    return Frame((*frame.inherited, Piece(f"input: {item.name}", item.read())), *_rest(frame))


def _rest(frame: Frame) -> tuple[tuple[Piece, ...], tuple[Piece, ...]]:
    return frame.previous, frame.fresh


def joined(path: str, name: str, *, root: bool) -> str:
    """The path of a task in another; the root's own name is left out."""
    return name if root or not path else f"{path}.{name}"


async def _run_steps(
    job: Job,
    task: Task,
    parent: Frame,
    previous: tuple[Piece, ...],
    *,
    path: str,
    item: Given | None,
) -> Done:
    """The steps in their order. Raises StepFailed, which keeps the outputs of finished steps."""
    frame = framed(job, task, parent, previous, item)
    root = task is job.program.task
    how = task.context.accumulation_format if task.context.accumulates else None
    done: list[Done] = []
    for index, step in enumerate(task.steps):
        handed: tuple[Piece, ...] = ()
        if how is not None:
            counter = job.info(step)[0].counter
            handed = tuple(carried(job, one, how, counter) for one in done)
        of_step = joined(path, step.name, root=root)
        words = job.program.rule(step).carried
        assert words is not None
        job.run.emit(PhaseStarted(of_step, index + 1, len(task.steps), f"sees {words.words}"))
        try:
            one = await run_task(job, step, frame, handed, path=of_step)
        except StoreError:
            raise
        except WindlassError as error:
            kept = [
                {"index": number, "step": task.steps[number].name, "output": job.text(each)}
                for number, each in enumerate(done)
            ]
            failed = {"index": index, "step": step.name, **failure(error)}
            told = f"step {index} ({step.name!r}) of {path!r} failed: {error}"
            notes = {"partialResults": kept, "failed": failed}
            raise StepFailed(told, step=step.name, index=index, notes=notes) from error
        done.append(one)
        if how == "notes_only" and index + 1 < len(task.steps):
            await write_notes(job, one)
        job.run.progress.outputs[step.path] = output_of(job, one)
    return replace(done[-1], status=status_of(done))


def status_of(done: Sequence[Done]) -> Status:
    """How tasks ended together: incomplete where one of them did."""
    return "incomplete" if any(one.status == "incomplete" for one in done) else "completed"


def failure(error: WindlassError) -> dict[str, Any]:
    """What notes say of a failure: its type and text, and what was kept below it."""
    told: dict[str, Any] = {"error": type(error).__name__, "text": str(error)}
    if isinstance(error, TaskError) and error.notes:
        told["notes"] = dict(error.notes)
    return told


def output_of(job: Job, done: Done) -> PhaseOutput:
    """What templates see of a finished task."""
    return PhaseOutput(text=partial(job.text, done))


def texts_of(
    job: Job, results: Sequence[Done | None], names: Sequence[str]
) -> list[Mapping[str, Any]]:
    """The outputs of those that finished, by index, with the names of their inputs."""
    return [
        {"index": index, "input": names[index], "output": job.text(one)}
        for index, one in enumerate(results)
        if one is not None
    ]
