"""The sets of questions by name: as they were labelled, made, or put in other words.

`irc-plain` is every eighth question of `irc`, read as a plain question whatever it says: it
stands for questions in the third person whose answer is one message. `agents` are made from
recorded agent runs. Sets whose names end in `-led` hold the same questions behind a sentence that
leads up to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Final, TypeAlias

from bench.choosing.runs import load_runs
from bench.choosing.talks import Question, Talk, load

Asked: TypeAlias = Iterator[tuple[Talk, list[Question]]]
"""Conversations, each with its questions."""

LEADS: Final = (
    "Look through the notes. {}",
    "Here is a question about the conversation above. {}",
    "I need this for a report that I am writing. {} Answer briefly.",
    "You are given what was said so far. Use it to answer the question of the user.\n\n{}",
    "Please help me out: {}",
    "Hi! {} Thanks in advance.",
)
"""What a question may stand behind, or in: they take turns."""
PLAIN_EVERY: Final = 8


def plain(talks: Asked) -> Asked:
    """Every eighth question, to be read as a plain one."""
    for talk, questions in sampled(talks, PLAIN_EVERY):
        yield talk, [replace(question, plain=True) for question in questions]


def led(talks: Asked) -> Asked:
    """The same questions behind lead-ins."""
    leads = cycle(LEADS)
    for talk, questions in talks:
        yield (
            talk,
            [replace(question, text=next(leads).format(question.text)) for question in questions],
        )


def sampled(talks: Asked, every: int) -> Asked:
    """Each `every`-th question, counted over the whole set."""
    count = 0
    for talk, questions in talks:
        kept = [one for at, one in enumerate(questions, count) if at % every == 0]
        count += len(questions)
        if kept:
            yield talk, kept


SETS: Final[dict[str, Callable[[Path], Asked]]] = {
    "qmsum": lambda folder: load(folder, "qmsum"),
    "qmsum-led": lambda folder: led(load(folder, "qmsum")),
    "irc": lambda folder: load(folder, "irc"),
    "irc-plain": lambda folder: plain(load(folder, "irc")),
    "agents": load_runs,
    "agents-led": lambda folder: led(load_runs(folder)),
}
