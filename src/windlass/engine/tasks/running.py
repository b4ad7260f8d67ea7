"""Running a task of any kind: steps in their order, inputs side by side, their reduction."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from windlass.cascade.rules import Rule
from windlass.engine.cascade import (
    add_server_tools,
    models_seeing,
    needed_servers,
    run_session,
)
from windlass.engine.events import Event, InputEnded, Noted, PhaseStarted, SessionStarted, Waiting
from windlass.engine.result import Result
from windlass.engine.resume.resuming import describe_setup
from windlass.engine.tasks._atomic import described, run_anew, run_atomic, tell_fresh
from windlass.engine.tasks.frame import FRESH_TOKENS, ContextPiece, Frame, assemble
from windlass.engine.tasks.job import Done, Job, carried, helper_of, write_notes
from windlass.engine.tasks.task_inputs import Given, digest, given_by
from windlass.engine.turn.breaker import check_breaker
from windlass.engine.turn.fitting import input_room
from windlass.errors import (
    ContextTooLong,
    InputFailed,
    StepDiffers,
    StepFailed,
    StoreError,
    TaskError,
    UsageError,
    WindlassError,
    person_needed_in,
    run_limit_in,
)
from windlass.history.base import (
    Ending,
    Outcome,
    SessionStart,
    Store,
    ending_of,
    in_words,
)
from windlass.history.decisions import ReducedInGroups, Resumed
from windlass.tasks.model import OPERATORS, Task
from windlass.text.templates import PhaseOutput
from windlass.text.tokens import request_tokens
from windlass.tools.mcp import Servers


async def run_task(
    job: Job,
    task: Task,
    parent: Frame,
    previous: tuple[ContextPiece, ...] = (),
    *,
    path: str,
    item: Given | None = None,
) -> Done:
    """Run a task of any kind under a context; one that a session had finished is not run again.

    `previous` is what earlier steps left for it, `path` its name with the numbers of inner tasks,
    `item` its input where it is the inner task of a reduce. Raises WindlassError.
    """
    finished = finished_before(job, path, item)
    if finished is not None:
        job.run.record.catch_up(finished.at)
        return finished
    if task.kind == "atomic":
        return await _run_leaf(job, task, parent, previous, path=path, item=item)
    if task.kind == "sequential":
        done = await _run_steps(job, task, parent, previous, path=path, item=item)
    else:
        done = await run_reduce(job, task, parent, previous, path=path)
    of_input = digest(item.read()) if item is not None else ""
    done = replace(done, path=path, input=of_input)
    now, reason = job.run.record.clock(), done.reason
    ended = Outcome(done.status, now, path, details=done.details, reason=reason)
    job.run.record.append(outcomes=[ended])
    return done


async def _run_leaf(
    job: Job,
    task: Task,
    parent: Frame,
    previous: tuple[ContextPiece, ...],
    *,
    path: str,
    item: Given | None,
) -> Done:
    """Run an atomic task: a resumed one with the answers that its record holds.

    Where these alone do not complete it, or where it would ask something else now and that is
    accepted, it is run anew.
    """
    with job.apart() as own:
        record = own.run.record
        try:
            done = await run_atomic(own, task, parent, previous, path=path, item=item)
            if done.status == "completed" or not record.follows_record:
                return done
            why = f"it ended {in_words(*done.ending)} by what was answered"
        except StoreError:
            raise
        except StepDiffers as differs:
            if not job.accept:
                raise
            why = f"{' and '.join(differs.changed)} changed since"
        except WindlassError as error:
            limit, needed = run_limit_in(error), person_needed_in(error)
            if not record.follows_record or limit is not None or needed is not None:
                raise
            why = f"it failed by what was answered ({error})"
    with job.apart() as own:
        run_anew(own, path, why)
        return await run_atomic(own, task, parent, previous, path=path, item=item)


def finished_before(job: Job, path: str, item: Given | None) -> Done | None:
    """The task as a resumed session had finished it; None: it is to run."""
    finished = job.finished.get(path)
    if finished is None or item is None or finished.input == digest(item.read()):
        return finished
    text = f"{path}: its input has changed since; it is run again"
    job.run.tell(path, text, Resumed())
    return None


def framed(
    job: Job,
    task: Task,
    parent: Frame,
    previous: tuple[ContextPiece, ...],
    item: Given | None = None,
) -> Frame:
    """The context of an operator, which its tasks inherit from."""
    info, reply = job.info(task)
    text = described(job, task)
    room = input_room(info, reply)
    frame, fresh = assemble(
        job.material, task, text, parent, previous, counter=info.counter, room=room
    )
    tell_fresh(job, task.path, fresh)
    if item is None:
        return frame
    piece = ContextPiece(f"input: {item.name}", item.read())
    return replace(frame, inherited=(*frame.inherited, piece))


def joined(path: str, name: str, *, root: bool) -> str:
    """The path of a task in another; the root's own name is left out."""
    return name if root or not path else f"{path}.{name}"


async def _run_steps(
    job: Job,
    task: Task,
    parent: Frame,
    previous: tuple[ContextPiece, ...],
    *,
    path: str,
    item: Given | None,
) -> Done:
    """The steps in their order. Raises StepFailed, which keeps the outputs of finished steps."""
    frame = framed(job, task, parent, previous, item)
    root = task is job.program.task
    how = task.context.accumulation_format
    done: list[Done] = []
    for index, step in enumerate(task.steps):
        handed: tuple[ContextPiece, ...] = ()
        if how is not None:
            counter = job.info(step)[0].counter
            handed = tuple(carried(job, result, how, counter) for result in done)
        of_step = joined(path, step.name, root=root)
        words = job.program.rule(step).carried
        assert words is not None
        job.run.emit(PhaseStarted(of_step, index + 1, len(task.steps), f"sees {words.words}"))
        try:
            result = await run_task(job, step, frame, handed, path=of_step)
        except (StoreError, StepDiffers):
            raise
        except WindlassError as error:
            kept = [
                {"index": number, "step": task.steps[number].name, "output": job.text(each)}
                for number, each in enumerate(done)
            ]
            failed = {"index": index, "step": step.name, **failure(error)}
            sentence = f"step {index} ({step.name!r}) of {path!r} failed: {error}"
            notes = {"partialResults": kept, "failed": failed}
            raise StepFailed(sentence, step=step.name, index=index, notes=notes) from error
        done.append(result)
        if how == "notes_only" and index + 1 < len(task.steps):
            await write_notes(job, result)
        job.run.progress.outputs[step.path] = output_of(job, result)
    return ended_with(done[-1], done)


def ended_with(done: Done, others: Sequence[Done]) -> Done:
    """The task that gives the output, ended as those that it stands for ended together."""
    status, reason = ending_of(each.ending for each in others)
    return replace(done, status=status, reason=reason)


def failure(error: WindlassError) -> dict[str, Any]:
    """What notes say of a failure: its type and text, and what was kept below it."""
    notes: dict[str, Any] = {"error": type(error).__name__, "text": str(error)}
    if isinstance(error, TaskError) and error.notes:
        notes["notes"] = dict(error.notes)
    return notes


def output_of(job: Job, done: Done) -> PhaseOutput:
    """What templates see of a finished task."""
    return PhaseOutput(text=partial(job.text, done))


def texts_of(
    job: Job, results: Sequence[Done | None], names: Sequence[str]
) -> list[Mapping[str, Any]]:
    """The outputs of those that finished, by index, with the names of their inputs."""
    return [
        {"index": index, "input": names[index], "output": job.text(result)}
        for index, result in enumerate(results)
        if result is not None
    ]


PIECE_TOKENS: Final = 24
"""What stands round a result beside its own tokens, at most."""
MARGIN_TOKENS: Final = 64
"""What stands round the sections of a request, at most."""


async def run_reduce(
    job: Job, task: Task, parent: Frame, previous: tuple[ContextPiece, ...], *, path: str
) -> Done:
    """Run the inner task on every input, then the reduction on what they gave.

    Raises InputFailed naming the input, StepFailed where the reduction fails; both keep all
    inner results that were there.
    """
    assert task.inner is not None
    assert task.reduction is not None
    root = task is job.program.task
    frame = framed(job, task, parent, previous)
    values = job.run.template_values()
    file = job.program.source.file
    given = given_by(task.inputs, job.run.settings.root, values=values, file=file, apart=True)
    names = [each.name for each in given]
    of_inner = joined(path, task.inner.name, root=root)
    work: Callable[[int, Given], Awaitable[Done]]
    work = partial(job.spread or run_one, Inner(job, task.inner, frame, of_inner))
    results, failed = await side_by_side(given, work, task.parallel, _watcher(job, of_inner, names))
    if failed:
        kept = texts_of(job, results, names)
        index, error = failed[0]
        sentence = (
            f"input {index} ({names[index]}) of {path!r} failed: {error};"
            f" {len(kept)} of {len(given)} results are kept, nothing was tried again"
        )
        also = [{"index": n, "input": names[n], **failure(why)} for n, why in failed]
        notes = {"partialResults": kept, "failed": also}
        raise InputFailed(sentence, input=names[index], index=index, notes=notes) from error
    finished = [result for result in results if result is not None]
    try:
        return await _reduced(job, task, frame, finished, names, path=path, root=root)
    except (StoreError, StepDiffers):
        raise
    except WindlassError as error:
        notes = {"partialResults": texts_of(job, results, names), "failed": failure(error)}
        sentence = f"the reduction of {path!r} failed: {error}; all {len(given)} results are kept"
        raise StepFailed(sentence, step=task.reduction.name, index=1, notes=notes) from error


async def side_by_side(
    given: Sequence[Given],
    work: Callable[[int, Given], Awaitable[Done]],
    limit: int,
    ended: Callable[[int], None],
) -> tuple[list[Done | None], list[tuple[int, WindlassError]]]:
    """Run `work` on every input, at most `limit` at a time, begun in order.

    Returns the results in the order of the inputs, and what failed with its index. After a
    failure nothing new is begun; what is in flight is awaited. StoreError and StepDiffers stop
    everything.
    """
    results: list[Done | None] = [None] * len(given)
    failed: list[tuple[int, WindlassError]] = []
    todo = iter(range(len(given)))

    async def worker() -> None:
        for index in todo:
            if failed:
                return
            try:
                results[index] = await work(index, given[index])
            except (StoreError, StepDiffers):
                raise
            except WindlassError as error:
                failed.append((index, error))
            ended(index)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(limit, len(given))):
                group.create_task(worker())
    except BaseExceptionGroup as several:
        raise several.exceptions[0] from several
    return results, failed


@dataclass(frozen=True, slots=True)
class Inner:
    """What the inner tasks of a reduce share: the task, its parent's context, its path."""

    job: Job
    task: Task
    frame: Frame
    path: str


async def run_one(inner: Inner, index: int, item: Given) -> Done:
    """One inner task, with its own state and its own part of the record."""
    job = inner.job
    value = item.value if item.value is not None else item.read()
    values = {**job.run.input, "item": value, "index": index}
    with job.apart(aside=True, input=values, emit=partial(_quiet, job.run.emit)) as own:
        path = f"{inner.path}[{index}]"
        return await run_task(own, inner.task, inner.frame, path=path, item=item)


def _quiet(emit: Callable[[Event], None], event: Event) -> None:
    """Of ten thousand tasks side by side only what is out of the ordinary is told."""
    if isinstance(event, Noted | Waiting):
        emit(event)


def _watcher(job: Job, path: str, names: Sequence[str]) -> Callable[[int], None]:
    count = 0

    def ended(index: int) -> None:
        nonlocal count
        count += 1
        job.run.emit(InputEnded(path, index, names[index], count, len(names)))

    return ended


# ---- the reduction -------------------------------------------------------------------


async def _reduced(
    job: Job,
    task: Task,
    frame: Frame,
    results: Sequence[Done],
    names: Sequence[str],
    *,
    path: str,
    root: bool,
) -> Done:
    """The results made one, by tree where they do not fit one request."""
    reduction = task.reduction
    assert reduction is not None
    of_it = joined(path, reduction.name, root=root)
    room = _room(job, reduction, frame)
    level, called, depth = list(results), list(names), 0
    while True:
        groups = list(grouped([each.tokens + PIECE_TOKENS for each in level], room))
        if len(groups) == 1:
            pieces = _pieces(job, level, called, 0)
            done = await run_task(job, reduction, frame, pieces, path=of_it)
            job.run.progress.outputs[reduction.path] = output_of(job, done)
            return ended_with(done, [*results, done])
        largest = max(each.tokens for each in level)
        if len(groups) == len(level) or largest > room:
            raise ContextTooLong(
                f"{of_it!r}: {len(level)} results of up to {largest:,} tokens cannot be reduced"
                f" in groups: a request has room for {room:,} tokens of them. Have the inner task"
                " answer shorter, or take a model with a larger window"
            )
        text = f"{of_it}: {len(level):,} results exceed the window; reduced in {len(groups)} groups"
        job.run.tell(of_it, text, ReducedInGroups(depth, len(groups), room))
        parts = [
            partial(_pieces, job, level[first:last], called[first:last], first)
            for first, last in groups
        ]
        inner = Inner(job, reduction, frame, f"{of_it}[{depth}")
        level = await _level(inner, parts, task.parallel)
        called = [f"{called[first]} to {called[last - 1]}" for first, last in groups]
        depth += 1


async def _level(
    inner: Inner, groups: Sequence[Callable[[], tuple[ContextPiece, ...]]], parallel: int
) -> list[Done]:
    """The reduction of each group, side by side."""
    job = inner.job

    async def reduced(index: int, _: Given) -> Done:
        with job.apart(aside=True, emit=partial(_quiet, job.run.emit)) as own:
            path = f"{inner.path}-{index}]"
            return await run_task(own, inner.task, inner.frame, groups[index](), path=path)

    given = [Given(f"group {number}", "") for number in range(len(groups))]
    results, failed = await side_by_side(given, reduced, parallel, lambda _: None)
    if failed:
        raise failed[0][1]
    return [result for result in results if result is not None]


def grouped(sizes: Sequence[int], room: int) -> Iterator[tuple[int, int]]:
    """Neighbours in as few groups as fit `room` each, as (first, behind the last).

    Groups are of about the same size, so that no result is weighed against many alone. What is
    larger than the room makes a group by itself.

    >>> list(grouped([5, 5, 5, 5], 12))
    [(0, 2), (2, 4)]
    """
    total = sum(sizes)
    fair = total / max(1, -(-total // max(1, room)))
    first = held = 0
    for index, size in enumerate(sizes):
        if index > first and (held + size > room or held + size / 2 > fair):
            yield first, index
            first, held = index, 0
        held += size
    yield first, len(sizes)


def _pieces(
    job: Job, level: Sequence[Done], names: Sequence[str], first: int
) -> tuple[ContextPiece, ...]:
    return tuple(
        ContextPiece(f"result {number}: {name}", job.text(result))
        for number, (result, name) in enumerate(zip(level, names, strict=True), start=first)
    )


def _room(job: Job, reduction: Task, frame: Frame) -> int:
    """The tokens of results that one request of the reduction has room for."""
    info, reply = job.info(reduction)
    leaf = reduction.first_leaf.leaf
    assert leaf is not None
    phase = job.program.cascade.phases[leaf]
    budget = job.program.rule(reduction.first_leaf, job.run.settings).budget.limit
    room = input_room(info, reply)
    limit = min(room, budget or room)
    specs = () if isinstance(phase.tackle, str) else phase.tackle
    tools = [tool.spec for tool in job.run.registry.of_tackle(specs)]
    texts = [described(job, reduction), phase.system or "", *(i.value for i in reduction.inputs)]
    if reduction.context.inherit_context != "none":
        texts += [piece.text for piece in frame.whole]
    fixed = request_tokens(info.counter, (), tools) + sum(map(info.counter.text, texts))
    looked = reduction.context.fresh_context and (reduction.banks or reduction.folders)
    fresh = min(FRESH_TOKENS, room // 4) if looked else 0
    return max(1, limit - fixed - fresh - MARGIN_TOKENS - PIECE_TOKENS * len(frame.whole))


# ---- a task file from its start to its end ----------------------------------------------------

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
            done.append(await run_task(own, task, _parent(job, context), path=task.path))
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
        **describe_setup(job.run, source.raw.decode("utf-8", "surrogateescape"), rules_of(job)),
    }
    name = job.program.cascade.cascade_id
    return SessionStart(name, ", ".join(models), job.run.input, data, job.run.record.clock())


def rules_of(job: Job) -> list[Rule]:
    """The rules of the atomic tasks, in their order."""
    program, settings = job.program, job.run.settings
    return [program.rule(task, settings) for task in program.task.walk() if task.leaf is not None]


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
            finished[outcome.phase] = Done(
                outcome.phase,
                outcome.status,
                outcome.details["key"],
                outcome.details["tokens"],
                outcome.details.get("input", ""),
                at=outcome.timestamp,
            )
    return start, finished
