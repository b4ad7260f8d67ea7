"""`llm`: a model reads a menu of summaries and names what the task needs."""

from __future__ import annotations

from itertools import islice

from windlass.cards.menu import MENU_LINES, ask
from windlass.cards.scoring import Selecting, Wanted
from windlass.cards.strategies.hybrid import fused
from windlass.errors import UsageError


def llm(wanted: Wanted) -> Selecting:
    """Let a model choose from the best 100 by score.

    Raises UsageError where there is no model to ask.
    """
    if not wanted.helper:
        raise UsageError(
            "strategy 'llm' asks a model: pass helper=, a function that takes the question and"
            " returns the model's answer; or use strategy 'hybrid', which needs none"
        )
    found, name, note = fused(wanted)
    menu = list(islice(found.order(), MENU_LINES))
    return (yield from ask(wanted, found, menu, name, note, alone=True))
