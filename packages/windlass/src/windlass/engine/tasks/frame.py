"""A task's context, section by section: inherited, previous outputs, fresh.

Extension, never merging: what a task has is what its parent has, whole or filtered, and what is
added; pieces keep where they are from, and inherited and accumulated ones stay apart.
"""

from __future__ import annotations

import re
import sqlite3
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, TypeAlias

from windlass.engine.cascade_run import CascadeRun
from windlass.engine.tasks.task_inputs import Given
from windlass.errors import MatchingFailed
from windlass.injectors.markdown import folder_in
from windlass.memory.association import HEADINGS, Associations, ContextGenerationInput, MemoryMatch
from windlass.memory.banks import Banks
from windlass.memory.matching import fitting, matches
from windlass.memory.passages import split_text
from windlass.messages import user
from windlass.selection.index import Index
from windlass.selection.index import Query as Wanted
from windlass.tasks.model import Task
from windlass.text.tokens import Counter
from windlass.window.entries import Item

Section: TypeAlias = Literal["inherited", "previous_outputs", "fresh"]

FRESH_TOKENS: Final = 4_000
"""The most tokens that fresh context brings to a task, and at most a quarter of its window."""

_KEPT: Final = 16
"""Sections at hand, so that tasks that inherit the same share one message of the record."""


@dataclass(frozen=True, slots=True)
class ContextPiece:
    """A text of a context and where it is from, such as `output of read` or `docs/a.md:12`."""

    source: str
    text: str


@dataclass(frozen=True, slots=True)
class Frame:
    """The context of a task, without its own description and inputs."""

    inherited: tuple[ContextPiece, ...] = ()
    previous: tuple[ContextPiece, ...] = ()
    fresh: tuple[ContextPiece, ...] = ()

    @property
    def whole(self) -> tuple[ContextPiece, ...]:
        """All of it: what a task below inherits in full."""
        return self.inherited + self.previous + self.fresh


@dataclass(frozen=True, slots=True)
class Assignment:
    """A task that is to run, and what it is given."""

    task: Task
    path: str
    """Its name with those of the tasks above it, and with the numbers of inner tasks."""
    parent: Frame = Frame()
    """The context of its parent."""
    previous: tuple[ContextPiece, ...] = ()
    """Outputs of earlier steps, or notes on them."""
    item: Given | None = None
    """Its input, where it is the inner task of a reduce."""


@dataclass(slots=True)
class Found:
    """The result of a search for fresh context: the pieces taken, and how many matched."""

    pieces: tuple[ContextPiece, ...] = ()
    matches: int = 0
    unread: tuple[str, ...] = ()


@dataclass(slots=True)
class Material:
    """The sources of tasks' context: the memory, and the sections made so far."""

    run: CascadeRun
    looks: dict[tuple[tuple[str, ...], tuple[str, ...]], Associations] = field(
        default_factory=dict[tuple[tuple[str, ...], tuple[str, ...]], Associations]
    )
    sections: OrderedDict[str, Item] = field(default_factory=OrderedDict[str, Item])

    def heading(self, name: str) -> str:
        """Return the heading of a section, by the settings."""
        return getattr(self.run.settings.headings, name) or HEADINGS[name]

    def fresh(
        self,
        task: Task,
        text: str,
        has: Sequence[ContextPiece],
        previous: Sequence[ContextPiece],
        *,
        counter: Counter,
        room: int,
    ) -> Found:
        """Pieces of banks and folders that belong to a task and are new, within `room` tokens.

        The memory matches and does not rank; of what it found, what shares most words with the
        task is taken. Raises MatchingFailed where it could not be searched twice.
        """
        if not task.banks and not task.folders:
            return Found()
        request = ContextGenerationInput(text, _joined(has), _joined(previous))
        context = self._look(task).get_relevant_context_for(request)
        taken = _best(text, context.matches, counter, room)
        return Found(taken, len(context.matches), context.unread)

    def _look(self, task: Task) -> Associations:
        key = task.banks, task.folders
        if key not in self.looks:
            record = self.run.record
            banks = Banks(record.store, record.clock, record.new_id) if task.banks else None
            root, here = self.run.settings.root, Path.cwd()
            folders = [folder_in(root, name, hidden=False) for name in task.folders]
            folders = [f.relative_to(here) if f.is_relative_to(here) else f for f in folders]
            closed = [record.store.folder]
            self.looks[key] = Associations(banks, task.banks, folders, closed=closed)
        return self.looks[key]

    def keep(self, key: str, item: Item) -> None:
        """Have a section's message at hand for the tasks that see the same."""
        self.sections[key] = item
        if len(self.sections) > _KEPT:
            self.sections.popitem(last=False)

    def close(self) -> None:
        """Let the indexes go."""
        for look in self.looks.values():
            look.close()


def _joined(pieces: Sequence[ContextPiece]) -> str:
    return "\n\n".join(piece.text for piece in pieces)


def _best(
    text: str, matches: frozenset[MemoryMatch], counter: Counter, room: int
) -> tuple[ContextPiece, ...]:
    """The matches that share most words with the task and fit, in the order of their names."""
    listed = sorted(matches, key=lambda match: (match.source, match.reference))
    index = Index()
    sizes = [counter.text(match.excerpt) for match in listed]
    for number, (match, tokens) in enumerate(zip(listed, sizes, strict=True)):
        index.append(Item(str(number), user(match.excerpt), "context_injection"), tokens)
    if not listed:
        return ()
    scores = index.by_keywords(Wanted.of(text))
    best = sorted(range(len(listed)), key=lambda n: (-float(scores[n]), n))
    taken, _ = fitting(best, lambda some: sum(sizes[n] for n in some) <= room)
    return tuple(ContextPiece(listed[n].reference, listed[n].excerpt) for n in sorted(taken))


_BLANK: Final = re.compile(r"\n\s*\n")


def _paragraphs(text: str) -> Iterator[str]:
    """Yield a text in its paragraphs, a heading with what follows it, long ones in passages."""
    heading = ""
    for paragraph in _BLANK.split(text):
        if paragraph.lstrip().startswith("#") and "\n" not in paragraph.strip():
            heading += f"{paragraph}\n\n"
            continue
        yield from (part for _, part in split_text(heading + paragraph))
        heading = ""
    yield from (part for _, part in split_text(heading))


def subset(text: str, pieces: Sequence[ContextPiece]) -> tuple[ContextPiece, ...]:
    """Return the passages of a parent's context that belong to a task, in their order.

    The look is tried once more where it fails, and then raises MatchingFailed.
    """
    parts = [(piece, part) for piece in pieces for part in _paragraphs(piece.text)]

    def said(each: tuple[ContextPiece, str]) -> str:
        return f"{each[0].source}\n{each[1]}"

    try:
        matching = matches(text, parts, said)
    except sqlite3.Error:
        try:
            matching = matches(text, parts, said)
        except sqlite3.Error as error:
            sentence = f"the parent's context could not be searched, also not twice: {error}"
            raise MatchingFailed(sentence) from error
    kept: list[ContextPiece] = []
    for piece, part in matching:
        if kept and kept[-1].source == piece.source:
            kept[-1] = ContextPiece(piece.source, f"{kept[-1].text}\n\n{part}")
        else:
            kept.append(ContextPiece(piece.source, part))
    return tuple(kept)


def assemble(
    material: Material, assigned: Assignment, text: str, *, counter: Counter, room: int
) -> tuple[Frame, Found]:
    """Return a task's context: inherited, then what earlier steps left, then what the memory has.

    `text` is what the task is, with its inputs: what context must belong to. What a task has
    by inheritance or accumulation is not brought again. Accumulated outputs are always carried,
    whether or not the memory is asked.
    """
    task, parent, previous = assigned.task, assigned.parent, assigned.previous
    context = task.context
    match context.inherit_context:
        case "full":
            inherited = parent.whole
        case "subset":
            inherited = subset(text, parent.whole)
        case "none":
            inherited = ()
    fresh = Found()
    if context.fresh_context:
        most = min(FRESH_TOKENS, max(0, room) // 4)
        fresh = material.fresh(task, text, inherited, previous, counter=counter, room=most)
    return Frame(inherited, previous, fresh.pieces), fresh


def section_text(heading: str, pieces: Sequence[ContextPiece]) -> str:
    """Return the text of a section: its heading, then each piece under where it is from."""
    return "\n\n".join([heading, *(f"[{piece.source}]\n{piece.text.strip()}" for piece in pieces)])
