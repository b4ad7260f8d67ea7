"""`hybrid`: keywords and vectors fused to one order; a model, where there is one, chooses from it.

Fused are scores, each brought to a top of 1: fusing ranks found less in every measurement.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from windlass.cards.menu import MENU_LINES, ask
from windlass.cards.scoring import Scored, Selecting, Wanted, cut, scored
from windlass.cards.strategies.heuristic import by_keywords
from windlass.cards.strategies.semantic import similar
from windlass.cards.wordllama import MISSING
from windlass.window.rank import normal

POOL: Final = 2
"""The pool that a model chooses from holds so many budgets."""
_VECTORS: Final = 0.05
"""What the nearest message gains beside one whose words match best."""


def hybrid(wanted: Wanted) -> Selecting:
    """Choose by keywords and vectors, and let a model choose from twice the budget."""
    found, name, note = fused(wanted)
    if not wanted.helper:
        return cut(wanted, found, name, note)
    pool = found.fill(POOL * wanted.options.max_tokens)
    inside = frozenset(pool.chosen)
    menu = [at for at in found.order() if at in inside][:MENU_LINES]
    return (yield from ask(wanted, found, menu, name, note))


def fused(wanted: Wanted) -> tuple[Scored, str, str]:
    """The scores by keywords and vectors, what they are called, and a note.

    Without an embedding model they are those of keywords alone, and the note says so.
    """
    if wanted.embedder is None:
        return by_keywords(wanted), "heuristic", f"by keywords alone: {MISSING}"
    words = wanted.index.by_keywords(wanted.task)
    cosines = wanted.index.by_vectors(wanted.task, wanted.embedder)
    near = similar(wanted, cosines, wanted.embedder)
    hits = normal(normal(words) + np.float32(_VECTORS) * near)
    signals = {"keyword": words, "embedding": cosines}
    return scored(wanted, hits, signals, near=near), "hybrid", ""
