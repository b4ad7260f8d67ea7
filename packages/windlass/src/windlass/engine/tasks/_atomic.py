"""An atomic task: its context becomes the sections of a window, and then it is a phase."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from windlass.cascade.model import Phase
from windlass.engine._phase_run import PhaseMessages, PhaseRun
from windlass.engine.injecting.begin import open_head
from windlass.engine.injecting.injected import PhaseInjected
from windlass.engine.phase.phase import Tried, settle, try_phase
from windlass.engine.phase.phase_setup import open_phase, open_windows
from windlass.engine.phase.rule_texts import with_asks_in_words
from windlass.engine.tasks.frame import (
    Assignment,
    ContextPiece,
    Frame,
    Section,
    assemble,
    section_text,
)
from windlass.engine.tasks.job import Done, Job
from windlass.engine.tasks.task_inputs import Given, description_of, digest, read_inputs
from windlass.errors import NoContext
from windlass.history.base import NodeType, Row
from windlass.history.decisions import FreshContext, Resumed, TaskSection
from windlass.messages import Text, user
from windlass.providers.base import ModelInfo
from windlass.providers.spending import Allowance
from windlass.safety.fairness import wait_for_turn
from windlass.tasks.model import Task
from windlass.text.templates import render
from windlass.window.blocks import Blocks
from windlass.window.entries import Entry, show

MATCHED_CHARS: Final = 4_000
"""Characters of a task's inputs by which its context is looked for."""


def described(job: Job, task: Task) -> str:
    """Return the description of a task, rendered. Raises NoContext where it is empty."""
    where = description_of(job.program.source.file, task)
    text = render(task.description, **job.run.template_values(), where=where).strip()
    if not text:
        raise NoContext(f"{where}: the template renders to nothing, so nothing would be asked")
    return text


async def run_atomic(job: Job, assigned: Assignment) -> Done:
    """Run an atomic task to its end.

    Raises what its phase raises; the outcome is in the record then, too.
    """
    await wait_for_turn()
    task, path = assigned.task, assigned.path
    assert task.leaf is not None
    template = job.program.cascade.phases[task.leaf]
    phase = template if path == template.name else template.model_copy(update={"name": path})
    job = replace(job, run=job.run.within(Allowance(f"task {path!r}", **phase.rules.limits)))
    counter = job.info(task)[0].counter
    worked_on: list[str] = []
    done: list[Done] = []

    async def trying() -> Tried:
        tried = await try_phase(job.run, await _begin(job, assigned, phase, worked_on))
        message = tried.output.message if tried.output is not None else None
        tokens = counter.text(message.text) if message is not None else 0
        key = message.key if message is not None else ""
        status, reason = tried.ending
        done.append(Done(path, status, key, tokens, digest("".join(worked_on)), reason))
        return replace(tried, details=done[0].details)

    await settle(job.run, phase, trying())
    return done[0]


async def _begin(job: Job, assigned: Assignment, phase: Phase, worked_on: list[str]) -> PhaseRun:
    """Fix what the task sees: its sections, its description, its inputs.

    The texts of its inputs are put into `worked_on`.
    """
    run, task = job.run, assigned.task
    rule = job.program.rule(task, run.settings)
    text = described(job, task)
    given = _inputs(job, task, assigned.item)
    worked_on += [content for _, content in given]
    about = "\n\n".join([text, *worked_on])[: len(text) + MATCHED_CHARS]
    frame = _without(context_of(job, assigned, about, phase.name), worked_on)
    parts = [Text(f"{job.material.heading('task')}\n\n{text}")]
    parts += [Text(f"[Input: {name}]\n{content}") for name, content in given]
    instructions = with_asks_in_words(run, phase, user(*parts))
    if run.record.recorded is not None and run.record.recorded.differs(phase.name, instructions):
        run_again(job, phase.name, "what it works on has changed since")
    system, injection = _system(job, phase, job.info(task)[0], text)
    sections = _sections(job, task, phase.name, frame)
    # What a snowball would have sent is counted from what the task was given.
    run.record.born += [entry.item for entry in sections]
    blocks = Blocks(system=system, sources=sections)
    injected = tuple(entry.item for entry in sections if entry.item.phase == phase.name)
    messages = PhaseMessages(blocks, injected=injected)
    phase_run = await open_phase(run, phase, rule, instructions, messages, injection=injection)
    open_windows(run, phase_run)
    return phase_run


def run_again(job: Job, path: str, why: str) -> None:
    """Have a task of a resumed run asked all of it again, and tell why."""
    job.run.journal.forget(path)
    job.run.record.recorded = None
    job.run.record.set_time(None)
    job.run.tell(path, f"{path}: {why}; it is run again", Resumed())


def _inputs(job: Job, task: Task, item: Given | None) -> list[tuple[str, str]]:
    both = [*([item] if item is not None else []), *inputs_of(job, task, split_lists=False)]
    return [(each.name, each.read()) for each in both]


def inputs_of(job: Job, task: Task, *, split_lists: bool) -> list[Given]:
    """Return the inputs that a task declares, as `read_inputs` does."""
    root, file = job.run.settings.root, job.program.source.file
    values = job.run.template_values()
    return read_inputs(task.inputs, root, values=values, file=file, split_lists=split_lists)


def _without(frame: Frame, inputs: Sequence[str]) -> Frame:
    """Return the frame without fresh pieces that the task's inputs hold already."""
    held = " ".join(" ".join(inputs).split())
    fresh = tuple(piece for piece in frame.fresh if " ".join(piece.text.split()) not in held)
    return replace(frame, fresh=fresh)


def context_of(job: Job, assigned: Assignment, about: str, name: str) -> Frame:
    """Return the context of a task, which is to belong to a text.

    What the look for fresh context left out is recorded: the memory ranks nothing, the engine does.
    """
    info, reply = job.info(assigned.task)
    room = info.input_room(reply)
    frame, fresh = assemble(job.material, assigned, about, counter=info.counter, room=room)
    left = fresh.matches - len(fresh.pieces)
    if not left and not fresh.unread:
        return frame
    text = (
        f"fresh context of {name!r}: {len(fresh.pieces)} of {fresh.matches} matches taken, those"
        " that share most with the task and fit"
    )
    text += f"; not looked at: {'; '.join(fresh.unread)}" if fresh.unread else ""
    job.run.tell(name, text, FreshContext(fresh.matches))
    return frame


def _system(
    job: Job, phase: Phase, info: ModelInfo, task: str
) -> tuple[tuple[Entry, ...], PhaseInjected | None]:
    """Return the system prompt with the STABLE blocks, and what the task has of injectors."""
    where = f"{job.program.source.file}, the system prompt of {phase.name!r}"
    message, injection = open_head(job.run, phase, info, where=where, task=task)
    if message is None:
        return (), injection
    reason = "the system prompt"
    row = Row(NodeType.SYSTEM, message=message, phase=phase.name, turn=0)
    return _add_once(job, row, reason), injection


def _sections(job: Job, task: Task, name: str, frame: Frame) -> tuple[Entry, ...]:
    """Return a message for each section that holds something, in one order."""
    listed: tuple[tuple[Section, Sequence[ContextPiece], str], ...] = (
        ("inherited", frame.inherited, f"inherited context ({task.context.inherit_context})"),
        ("previous_outputs", frame.previous, "outputs of earlier tasks"),
        ("fresh", frame.fresh, "fresh context, from memory and files"),
    )
    entries: tuple[Entry, ...] = ()
    for section, pieces, called in listed:
        if pieces:
            message = user(section_text(job.material.heading(section), pieces))
            sources = list(dict.fromkeys(piece.source for piece in pieces))
            details = TaskSection("operators", section, sources[:_LISTED])
            row = Row(NodeType.CONTEXT_INJECTION, message=message, phase=name, turn=0)
            reason = f"{called}: {_named(sources)}"
            entries += _add_once(job, replace(row, details=details), reason)
    return entries


_LISTED: Final = 50
"""Sources that the record names of one section."""
_TOLD: Final = 3


def _named(sources: Sequence[str]) -> str:
    more = len(sources) - _TOLD
    return ", ".join(sources[:_TOLD]) + (f" and {more} more" if more > 0 else "")


def _add_once(job: Job, row: Row, reason: str) -> tuple[Entry, ...]:
    """Return an entry for a message, which the record has once for all tasks that see it."""
    assert row.message is not None
    item = job.material.sections.get(row.message.key)
    if item is None:
        item = job.run.record.add(row)
        job.material.keep(row.message.key, item)
    return show([item], reason)
