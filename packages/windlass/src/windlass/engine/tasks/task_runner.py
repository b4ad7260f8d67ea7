"""Running a task of any kind: steps in their order, inputs side by side, their reduction.

Results that do not fit one request are reduced in groups.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from windlass.engine.events import InputEnded, PhaseStarted
from windlass.engine.tasks._atomic import context_of, described, inputs_of, run_again, run_atomic
from windlass.engine.tasks.frame import FRESH_TOKENS, Assignment, ContextPiece, Frame
from windlass.engine.tasks.job import Done, Job, hand_on, write_notes
from windlass.engine.tasks.task_inputs import Given, digest
from windlass.errors import (
    ContextTooLong,
    InputFailed,
    StepDiffers,
    StepFailed,
    StoreError,
    TaskError,
    WindlassError,
    person_needed_in,
    run_limit_in,
)
from windlass.history.base import Outcome, ending_of, in_words
from windlass.history.decisions import ReducedInGroups, Resumed
from windlass.tasks.model import Task
from windlass.text.templates import PhaseOutput
from windlass.text.tokens import request_tokens


async def run_task(job: Job, assigned: Assignment) -> Done:
    """Run a task of any kind; one that a session had finished is not run again.

    Raises WindlassError.
    """
    path, item = assigned.path, assigned.item
    finished = finished_before(job, path, item)
    if finished is not None:
        job.run.record.catch_up(finished.at)
        return finished
    match assigned.task.kind:
        case "atomic":
            return await _run_leaf(job, assigned)
        case "sequential":
            done = await _run_steps(job, assigned)
        case "reduce":
            done = await _run_reduce(job, assigned)
    of_input = digest(item.read()) if item is not None else ""
    done = replace(done, path=path, input=of_input)
    now, reason = job.run.record.clock(), done.reason
    ended = Outcome(done.status, now, path, details=done.details, reason=reason)
    job.run.record.append(outcomes=[ended])
    return done


async def _run_leaf(job: Job, assigned: Assignment) -> Done:
    """Run an atomic task: a resumed one with the answers that its record holds.

    Where these alone do not complete it, or where it would ask something else now and that is
    accepted, it is run anew.
    """
    with job.for_task() as own:
        record = own.run.record
        try:
            done = await run_atomic(own, assigned)
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
    with job.for_task() as own:
        run_again(own, assigned.path, why)
        return await run_atomic(own, assigned)


def finished_before(job: Job, path: str, item: Given | None) -> Done | None:
    """Return the task as a resumed session had finished it; None: it is to run."""
    finished = job.finished.get(path)
    if finished is None or item is None or finished.input == digest(item.read()):
        return finished
    text = f"{path}: its input has changed since; it is run again"
    job.run.tell(path, text, Resumed())
    return None


def _context_of(job: Job, assigned: Assignment) -> Frame:
    """Return the context of a task that has others below it, which inherit from it."""
    task, item = assigned.task, assigned.item
    frame = context_of(job, assigned, described(job, task), task.path)
    if item is None:
        return frame
    piece = ContextPiece(f"input: {item.name}", item.read())
    return replace(frame, inherited=(*frame.inherited, piece))


def _path_below(path: str, name: str, *, root: bool) -> str:
    """Return the path of a task in another; the root's own name is left out."""
    return name if root or not path else f"{path}.{name}"


async def _run_steps(job: Job, assigned: Assignment) -> Done:
    """The steps in their order. Raises StepFailed, which keeps the outputs of finished steps."""
    task, path = assigned.task, assigned.path
    frame = _context_of(job, assigned)
    root = task is job.program.task
    how = task.context.accumulation_format
    done: list[Done] = []
    for index, step in enumerate(task.steps):
        handed: tuple[ContextPiece, ...] = ()
        if how is not None:
            counter = job.info(step)[0].counter
            handed = tuple(hand_on(job, result, how, counter) for result in done)
        of_step = _path_below(path, step.name, root=root)
        words = job.program.rule(step).carried
        assert words is not None
        job.run.emit(PhaseStarted(of_step, index + 1, len(task.steps), f"sees {words.words}"))
        try:
            result = await run_task(job, Assignment(step, of_step, frame, handed))
        except (StoreError, StepDiffers):
            raise
        except WindlassError as error:
            kept = [
                {"index": number, "step": task.steps[number].name, "output": job.text(each)}
                for number, each in enumerate(done)
            ]
            failed = {"index": index, "step": step.name, **_failure_notes(error)}
            sentence = f"step {index} ({step.name!r}) of {path!r} failed: {error}"
            notes = {"partialResults": kept, "failed": failed}
            raise StepFailed(sentence, step=step.name, index=index, notes=notes) from error
        done.append(result)
        if how == "notes_only" and index + 1 < len(task.steps):
            await write_notes(job, result)
        job.run.session.outputs[step.path] = output_of(job, result)
    return _ended_as(done[-1], done)


def _ended_as(done: Done, others: Sequence[Done]) -> Done:
    """Return the task that gives the output, ended as those that it stands for ended together."""
    status, reason = ending_of(each.ending for each in others)
    return replace(done, status=status, reason=reason)


def _failure_notes(error: WindlassError) -> dict[str, Any]:
    """Return the notes on a failure: its type and text, and the results kept below it."""
    notes: dict[str, Any] = {"error": type(error).__name__, "text": str(error)}
    if isinstance(error, TaskError) and error.notes:
        notes["notes"] = dict(error.notes)
    return notes


def output_of(job: Job, done: Done) -> PhaseOutput:
    """Return the output of a finished task, for templates."""
    return PhaseOutput(text=partial(job.text, done))


def _outputs_of(
    job: Job, results: Sequence[Done | None], names: Sequence[str]
) -> list[Mapping[str, Any]]:
    """Return the outputs of those that finished, by index, with the names of their inputs."""
    return [
        {"index": index, "input": names[index], "output": job.text(result)}
        for index, result in enumerate(results)
        if result is not None
    ]


async def _run_reduce(job: Job, assigned: Assignment) -> Done:
    """Run the inner task on every input, then the reduction on what they gave.

    Raises InputFailed naming the input, StepFailed where the reduction fails; both keep all
    inner results that were there.
    """
    task, path = assigned.task, assigned.path
    assert task.inner is not None
    assert task.reduction is not None
    root = task is job.program.task
    frame = _context_of(job, assigned)
    given = inputs_of(job, task, split_lists=True)
    names = [each.name for each in given]
    of_inner = _path_below(path, task.inner.name, root=root)
    work: Callable[[int, Given], Awaitable[Done]]
    work = partial(job.spread or run_one, job, Assignment(task.inner, of_inner, frame))
    results, failed = await side_by_side(
        given, work, task.parallel, _count_ended(job, of_inner, names)
    )
    if failed:
        kept = _outputs_of(job, results, names)
        index, error = failed[0]
        in_order = sorted(failed, key=lambda each: each[0])
        told = [f"input {at} ({names[at]}) of {path!r} failed: {why}" for at, why in in_order]
        told.append(f"{len(kept)} of {len(given)} results are kept, nothing was tried again")
        also = [{"index": n, "input": names[n], **_failure_notes(why)} for n, why in in_order]
        notes = {"partialResults": kept, "failed": also}
        raise InputFailed("; ".join(told), input=names[index], index=index, notes=notes) from error
    finished = [result for result in results if result is not None]
    try:
        return await _reduce_results(job, task, frame, finished, names, path=path, root=root)
    except (StoreError, StepDiffers):
        raise
    except WindlassError as error:
        notes = {
            "partialResults": _outputs_of(job, results, names),
            "failed": _failure_notes(error),
        }
        sentence = f"the reduction of {path!r} failed: {error}; all {len(given)} results are kept"
        raise StepFailed(sentence, step=task.reduction.name, index=1, notes=notes) from error


async def run_one(job: Job, assigned: Assignment, index: int, item: Given) -> Done:
    """Run an inner task on an input, with its own state and its own part of the record."""
    value = item.value if item.value is not None else item.read()
    values = {**job.run.input, "item": value, "index": index}
    with job.beside_others(values) as own:
        path = f"{assigned.path}[{index}]"
        return await run_task(own, replace(assigned, path=path, item=item))


def _count_ended(job: Job, path: str, names: Sequence[str]) -> Callable[[int], None]:
    count = 0

    def ended(index: int) -> None:
        nonlocal count
        count += 1
        job.run.emit(InputEnded(path, index, names[index], count, len(names)))

    return ended


async def _reduce_results(
    job: Job,
    task: Task,
    frame: Frame,
    results: Sequence[Done],
    names: Sequence[str],
    *,
    path: str,
    root: bool,
) -> Done:
    """Return the results made one, by tree where they do not fit one request."""
    reduction = task.reduction
    assert reduction is not None
    of_it = _path_below(path, reduction.name, root=root)
    room = room_for_results(job, reduction, frame)
    level, called, depth = list(results), list(names), 0
    while True:
        groups = list(grouped([each.tokens + PIECE_TOKENS for each in level], room))
        if len(groups) == 1:
            pieces = _pieces(job, level, called, 0)
            done = await run_task(job, Assignment(reduction, of_it, frame, pieces))
            job.run.session.outputs[reduction.path] = output_of(job, done)
            return _ended_as(done, [*results, done])
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
        assigned = Assignment(reduction, f"{of_it}[{depth}", frame)
        level = await _reduce_groups(job, assigned, parts, task.parallel)
        called = [f"{called[first]} to {called[last - 1]}" for first, last in groups]
        depth += 1


async def _reduce_groups(
    job: Job,
    assigned: Assignment,
    groups: Sequence[Callable[[], tuple[ContextPiece, ...]]],
    parallel: int,
) -> list[Done]:
    """Return the reduction of each group, side by side."""

    async def reduced(index: int, _: Given) -> Done:
        with job.beside_others() as own:
            path = f"{assigned.path}-{index}]"
            return await run_task(own, replace(assigned, path=path, previous=groups[index]()))

    given = [Given(f"group {number}", "") for number in range(len(groups))]
    results, failed = await side_by_side(given, reduced, parallel, lambda _: None)
    if failed:
        raise failed[0][1]
    return [result for result in results if result is not None]


def _pieces(
    job: Job, level: Sequence[Done], names: Sequence[str], first: int
) -> tuple[ContextPiece, ...]:
    return tuple(
        ContextPiece(f"result {number}: {name}", job.text(result))
        for number, (result, name) in enumerate(zip(level, names, strict=True), start=first)
    )


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


PIECE_TOKENS: Final = 24
"""The most tokens that the heading of a result takes."""


MARGIN_TOKENS: Final = 64
"""The most tokens that the headings of a request's sections take."""


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


def room_for_results(job: Job, reduction: Task, frame: Frame) -> int:
    """Return the tokens of results that one request of the reduction has room for."""
    info, reply = job.info(reduction)
    leaf = reduction.first_leaf.leaf
    assert leaf is not None
    phase = job.program.cascade.phases[leaf]
    budget = job.program.rule(reduction.first_leaf, job.run.settings).budget.limit
    room = info.input_room(reply)
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
