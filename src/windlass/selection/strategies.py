"""How messages are chosen for a task: by words, by vectors, by a model, or by all of them.

A strategy is a generator: it yields a question where it wants a model's word, is sent the
answer, and returns what it chose. It calls nobody itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice
from typing import Final

import numpy as np

from windlass.errors import UsageError
from windlass.selection._menu import MENU_LINES, ask
from windlass.selection.rank import Scores, normal
from windlass.selection.scoring import Scored, Selecting, SelectionRequest, cut, scored
from windlass.selection.vectors import Embedder, floor_of
from windlass.selection.wordllama import MISSING

_SHARPENED: Final = 1.5
"""The power of a similarity: vectors are near to each other all over a session."""
POOL: Final = 2
"""The pool that a model chooses from holds so many budgets."""
_VECTORS: Final = 0.05
"""What the nearest message gains beside one whose words match best."""


def heuristic(request: SelectionRequest) -> Selecting:
    """Choose by the words that messages and task share."""
    return cut(request, by_keywords(request), "heuristic")
    yield ""  # it is a generator as the others are, and asks nothing


def by_keywords(request: SelectionRequest) -> Scored:
    """The messages' scores by keywords."""
    found = request.index.by_keywords(request.task)
    return scored(request, normal(found), {"keyword": found})


def semantic(request: SelectionRequest) -> Selecting:
    """Choose by vectors. Raises UsageError where no embedding model is at hand."""
    if request.embedder is None:
        raise UsageError(f"strategy 'semantic' compares vectors, and {MISSING}")
    cosines = request.index.by_vectors(request.task, request.embedder)
    near = similar(request, cosines, request.embedder)
    hits = near ** np.float32(_SHARPENED)
    found = scored(request, hits, {"embedding": cosines}, by_words=False, near=near)
    return cut(request, found, "semantic")
    yield ""  # it is a generator as the others are, and asks nothing


def similar(request: SelectionRequest, cosines: Scores, embedder: Embedder) -> Scores:
    """From 0 (under the threshold, or unrelated) to 1 (the nearest message), for each message."""
    floor = floor_of(embedder)
    least = request.options.threshold.cosine(floor)
    top = float(cosines.max(initial=0.0))
    if top < least or top <= floor:
        return np.zeros_like(cosines)
    share = np.maximum(cosines - np.float32(floor), 0) / np.float32(top - floor)
    return np.where(cosines >= least, share, np.float32(0))


def hybrid(request: SelectionRequest) -> Selecting:
    """Choose by keywords and vectors, and let a model choose from twice the budget."""
    found, name, note = fused(request)
    if not request.helper:
        return cut(request, found, name, note)
    pool = found.fill(POOL * request.options.max_tokens)
    inside = frozenset(pool.chosen)
    menu = [at for at in found.order() if at in inside][:MENU_LINES]
    return (yield from ask(request, found, menu, name, note))


def fused(request: SelectionRequest) -> tuple[Scored, str, str]:
    """The scores by keywords and vectors, what they are called, and a note.

    Without an embedding model they are those of keywords alone, and the note says so.
    """
    if request.embedder is None:
        return by_keywords(request), "heuristic", f"by keywords alone: {MISSING}"
    words = request.index.by_keywords(request.task)
    cosines = request.index.by_vectors(request.task, request.embedder)
    near = similar(request, cosines, request.embedder)
    hits = normal(normal(words) + np.float32(_VECTORS) * near)
    signals = {"keyword": words, "embedding": cosines}
    return scored(request, hits, signals, near=near), "hybrid", ""


def llm(request: SelectionRequest) -> Selecting:
    """Let a model choose from the best 100 by score.

    Raises UsageError where there is no model to ask.
    """
    if not request.helper:
        raise UsageError(
            "strategy 'llm' asks a model: pass helper=, a function that takes the question and"
            " returns the model's answer; or use strategy 'hybrid', which needs none"
        )
    found, name, note = fused(request)
    menu = list(islice(found.order(), MENU_LINES))
    return (yield from ask(request, found, menu, name, note, alone=True))


STRATEGIES: Final[Mapping[str, Callable[[SelectionRequest], Selecting]]] = {
    "heuristic": heuristic,
    "semantic": semantic,
    "llm": llm,
    "hybrid": hybrid,
}


def selecting(request: SelectionRequest) -> Selecting:
    """The strategy that the options name, at work."""
    return STRATEGIES[request.options.strategy](request)
