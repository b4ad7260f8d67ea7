"""`heuristic`: keywords, position and callouts; needs no model and no vectors."""

from __future__ import annotations

from windlass.cards.scoring import Scored, Selecting, Wanted, cut, scored
from windlass.window.rank import normal


def heuristic(wanted: Wanted) -> Selecting:
    """Choose by the words that messages and task share."""
    return cut(wanted, by_keywords(wanted), "heuristic")
    yield ""  # it is a generator as the others are, and asks nothing


def by_keywords(wanted: Wanted) -> Scored:
    """The messages' scores by keywords."""
    found = wanted.index.by_keywords(wanted.task)
    return scored(wanted, normal(found), {"keyword": found})
