"""A task file that runs, and the outputs and notes that finished tasks leave for others."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

from windlass.engine.cards.maker import Summariser, card_options
from windlass.engine.cascade_run import CascadeRun
from windlass.engine.events import Event, Noted, Waiting
from windlass.engine.tasks.frame import ContextPiece, Material
from windlass.engine.turn.record import with_usage
from windlass.engine.turn.send import take_step
from windlass.errors import WindlassError
from windlass.history.base import Ending, NodeType, Reason, Row, Status
from windlass.history.decisions import TaskNotes
from windlass.history.details import OutcomeDetails
from windlass.history.step import NOTES, Step
from windlass.messages import Message, assistant
from windlass.providers.base import ModelInfo
from windlass.safety.foreign import parse_json
from windlass.selection.making import VERBATIM, summary_in, summary_of
from windlass.tasks.compile import Program
from windlass.tasks.model import Format, Task
from windlass.text.tokens import Counter
from windlass.window.originals import reference

NOTES_TOKENS: Final = 300
"""The most tokens that `notes_only` carries of a step."""

_REFERENCE_TOKENS: Final = 40
"""The most of them that the reference to the full output takes."""


@dataclass(frozen=True, slots=True)
class Done:
    """A task that finished: its path, how, the key of its output's body, and the tokens of that.

    `path` counts inner tasks: `inner[3]`. `input` is a digest of the inputs it worked on. `at` is
    when it finished, in seconds since 1970 (None: in this run).
    The text is in the store and not here.
    """

    path: str
    status: Status
    key: str
    tokens: int
    input: str = ""
    reason: Reason | None = None
    at: float | None = None

    @property
    def ending(self) -> Ending:
        """How it ended."""
        return Ending(self.status, self.reason)

    @property
    def details(self) -> OutcomeDetails:
        """The details of its outcome in the record, by which a resumed run finds it."""
        return OutcomeDetails(key=self.key, tokens=self.tokens, input=self.input)


@dataclass(slots=True)
class Job:
    """A task file in hand.

    `run` holds the session's store, models and totals; `finished` are tasks that a session had
    finished before it was resumed, by path; `accept` has a task that would ask something else now
    run anew; `spread` runs an inner task elsewhere (None: here).
    `summaries` are what a helper model said of outputs, by the key of their body.
    """

    program: Program
    run: CascadeRun
    material: Material
    finished: dict[str, Done] = field(default_factory=dict[str, Done])
    accept: bool = False
    spread: Callable[..., Awaitable[Done]] | None = None
    summaries: dict[str, str] = field(default_factory=dict[str, str])

    def info(self, task: Task) -> tuple[ModelInfo, int]:
        """The model of the first atomic task in `task`, and the most tokens of its replies."""
        leaf = task.first_leaf.leaf
        assert leaf is not None
        generation = self.run.generation_of(self.program.cascade.phases[leaf])
        return self.run.resolve(generation.model)[1], generation.max_output_tokens

    def text(self, done: Done) -> str:
        """Return the whole output of a finished task."""
        return self.run.record.store.message(done.key).text if done.key else ""

    @contextmanager
    def for_task(self, *, parallel: bool = False) -> Iterator[Job]:
        """The same job with a run of its own: what one task says is no burden to the next.

        What it used is added to the whole. `parallel`: it runs beside others, so that it has its
        own state and knows its own part of the models' caches only.
        """
        run, totals = self.run, self.run.totals.fork()
        try:
            with run.record.fresh_recorder() as record:
                own = replace(
                    run,
                    record=record,
                    session=run.session.for_task(parallel=parallel),
                    caches=run.caches.for_task(parallel=parallel),
                    injected=run.injected.for_task(),
                    totals=totals,
                )
                yield replace(self, run=own)
        finally:
            # Calls are numbered from the first of each task.
            run.totals.add(totals.usage, totals.cost, totals.saved_tokens)

    @contextmanager
    def beside_others(self, given: Mapping[str, Any] | None = None) -> Iterator[Job]:
        """The same for one of ten thousand tasks side by side, perhaps with an input of its own.

        Of these only what is out of the ordinary is told.
        """
        tell = self.run.emit

        def emit(event: Event) -> None:
            if isinstance(event, Noted | Waiting):
                tell(event)

        with self.for_task(parallel=True) as own:
            run = replace(own.run, emit=emit, input=own.run.input if given is None else given)
            yield replace(own, run=run)


def hand_on(job: Job, done: Done, how: Format, counter: Counter) -> ContextPiece:
    """Hand a later step the full output of a finished one, or notes on it."""
    text = job.text(done)
    if how == "full_output":
        return ContextPiece(f"output of {done.path}", text or "(it said nothing)")
    message = assistant(text)
    notes = job.summaries.get(done.key) or notes_of(message, counter)
    ref = f"full output: {reference(message)}, {done.tokens:,} tokens"
    return ContextPiece(f"notes on {done.path}", f"{notes}\n({ref})" if notes else f"({ref})")


def notes_of(message: Message, counter: Counter) -> str:
    """Return the notes on an output, in at most 300 tokens.

    They are those that it declares (`notes` in a JSON object, or `<notes>...</notes>`), else the
    summary its card has.
    """
    notes = declared_notes(message.text)
    if notes is None:
        return summary_of(message)
    most = NOTES_TOKENS - _REFERENCE_TOKENS
    while (tokens := counter.text(notes)) > most:
        notes = notes[: max(1, len(notes) * most // (tokens + 1))].rstrip() + "…"
    return notes


def declared_notes(text: str) -> str | None:
    """Return the notes that an output declares; None where it declares none.

    >>> declared_notes('{"answer": 4, "notes": "two and two"}')
    'two and two'
    >>> declared_notes("Four.<notes>two and two</notes>")
    'two and two'
    """
    declared, closed, _ = text.partition("<notes>")[2].partition("</notes>")
    if closed:
        return declared.strip()
    if text.lstrip()[:1] != "{":
        return None
    try:
        value = parse_json(text)
    except ValueError:
        return None
    notes = value.get("notes") if isinstance(value, dict) else None
    if notes is None:
        return None
    return notes if isinstance(notes, str) else json.dumps(notes, ensure_ascii=False)


# ---- notes by the user's helper model --------------------------------------------------------


def notes_model(job: Job) -> str | None:
    """The model that writes notes where steps see notes on those before them; None: nobody does."""
    sees_notes = any(
        task.context.accumulation_format == "notes_only" and len(task.steps) > 1
        for task in job.program.task.walk()
    )
    return card_options(job.run.settings, {}).summariser if sees_notes else None


async def write_notes(job: Job, done: Done) -> None:
    """Have the helper model say what a finished step came to, where one is named.

    Once for each output; its tokens are charged and on the record. Where the step says it
    itself or in few words, and where the model fails, the notes are those made by rule.
    """
    run, text, options = job.run, job.text(done), card_options(job.run.settings, {})
    name = options.summariser
    if name is None or done.key in job.summaries or len(text) < VERBATIM:
        return
    if declared_notes(text) is not None:
        return
    provider, info = run.resolve(name)
    try:
        request = Summariser(name, provider, info).request(assistant(text), options)
        taken = await take_step(run, Step(done.path, asks=NOTES), provider, name, request)
        answer, usage = taken.reply.message.text, taken.reply.usage
    except WindlassError as error:
        text = f"notes on {done.path} are made by rule: {error}"
        run.record.decide(done.path, text, TaskNotes(done.path))
        return
    summary = summary_in(answer, options)
    if summary is not None:
        job.summaries[done.key] = summary
    text, notes = f"notes on {done.path} by {name}", TaskNotes(done.path, answer)
    row = Row(NodeType.DECISION, phase=done.path, turn=0, text=text, details=notes)
    run.record.append([with_usage(row, name, usage, run.charge(info, usage))])
