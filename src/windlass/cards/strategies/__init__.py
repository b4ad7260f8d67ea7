"""How messages are chosen for a task: one file a strategy, all of one type.

A strategy is a generator: it yields a question where it wants a model's word, is sent the
answer, and returns what it chose. It calls nobody itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from windlass.cards.scoring import Selecting, Wanted
from windlass.cards.strategies.heuristic import heuristic
from windlass.cards.strategies.hybrid import hybrid
from windlass.cards.strategies.llm import llm
from windlass.cards.strategies.semantic import semantic

STRATEGIES: Final[Mapping[str, Callable[[Wanted], Selecting]]] = {
    "heuristic": heuristic,
    "semantic": semantic,
    "llm": llm,
    "hybrid": hybrid,
}


def selecting(wanted: Wanted) -> Selecting:
    """The strategy that the options name, at work."""
    return STRATEGIES[wanted.options.strategy](wanted)
