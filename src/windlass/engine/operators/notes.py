"""Notes on finished steps that declare none, written by the user's helper model; else by rule."""

from __future__ import annotations

from windlass.engine.card_indexer.indexer import options_of
from windlass.engine.card_indexer.maker import Summariser
from windlass.engine.operators.job import Done, Job, declared_notes
from windlass.engine.record import usage_columns
from windlass.errors import WindlassError
from windlass.history.base import NodeType
from windlass.messages import assistant
from windlass.operators.model import Task
from windlass.selection.making import summary_in
from windlass.selection.summary import VERBATIM


def helper_of(job: Job) -> str | None:
    """The model that writes notes where one has to; None: nobody is asked."""
    hands_on = any(_hands_on(task) for task in job.program.task.walk())
    return options_of(job.run.settings, {}).summariser if hands_on else None


def _hands_on(task: Task) -> bool:
    """Whether steps of a task see notes on those before them."""
    context = task.context
    return context.accumulation_format == "notes_only" and len(task.steps) > 1


async def write_notes(job: Job, done: Done) -> None:
    """Have the helper model say what a finished step came to, where one is named.

    Once for each output; its tokens are charged and on the record. Where the step says it
    itself or in few words, and where the model fails, the notes are those made by rule.
    """
    text, name = job.text(done), options_of(job.run.settings, {}).summariser
    if name is None or done.key in job.summaries or len(text) < VERBATIM:
        return
    if declared_notes(text) is not None:
        return
    run, options = job.run, options_of(job.run.settings, {})
    provider, info = run.resolve(name)
    metadata = {"kind": "notes", "step": done.path}
    try:
        answer, usage = await Summariser(name, provider, info).ask(assistant(text), options)
    except WindlassError as error:
        run.record.decide(done.path, f"notes on {done.path} are made by rule: {error}", **metadata)
        return
    summary = summary_in(answer, options)
    if summary is not None:
        job.summaries[done.key] = summary
    row = run.record.row(
        NodeType.DECISION,
        phase=done.path,
        turn=0,
        metadata={**metadata, "text": f"notes on {done.path} by {name}", "answer": answer},
        **usage_columns(name, usage, run.charge(info, usage, saved=0)),
    )
    run.record.append([row])
