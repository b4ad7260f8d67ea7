"""Why a message was chosen, in a few words a person reads."""

from __future__ import annotations

from typing import Final

import numpy as np

from windlass.selection.rank import Unit
from windlass.selection.scoring import Picked

_SAYS_IT: Final = 0.3
"""How well a message matches, as a share of the best, that is a reason by itself."""
_PART: Final = 0.3
"""The share of a score that makes its part a reason."""
_AROUND: Final = 24
"""Messages on either side among which the one is looked for that a passage is about."""
_FADING: Final = 9.0
"""Messages over which a hit counts 1/e as the one that it is about."""


def reasons(picked: Picked) -> list[str]:
    """Why each message is among what was picked, in their order."""
    units = picked.scored.request.index.units
    return [
        _reason(picked, at, units[at], place)
        for at in picked.choice.chosen
        for place in units[at].places
    ]


def _reason(picked: Picked, at: int, unit: Unit, place: int) -> str:
    found = picked.scored
    request = found.request
    index = request.index
    scores = found.total[unit.first : unit.last + 1]
    best = unit.first + int(np.argmax(scores))
    if place != best and found.hits[place] < _SAYS_IT:
        other = index.items[best].id
        return f"belongs to {other}: a call and its results are chosen together"
    if at in picked.asked:
        return "picked by the model that was asked"
    weights = request.options.weights
    told: list[str] = []
    if place in request.marked and weights.callout:
        told.append("marked as important")
    enough = _PART * float(found.total[place])
    said = weights.keyword * float(found.parts.own[place] + found.parts.passage[place])
    if found.hits[place] >= _SAYS_IT and said:
        told.append(_of_words(picked, place))
    elif said >= enough and said:
        told.append(_of_passage(picked, place))
    if weights.recency * float(found.parts.recent[place]) >= enough:
        told.append("among the newest")
    return "; ".join(told) or "fits what was left of the budget"


def _of_words(picked: Picked, place: int) -> str:
    request = picked.scored.request
    words = request.index.matched(request.task, place)
    return f"says {', '.join(words)}" if words else "is near to the task in meaning"


def _of_passage(picked: Picked, place: int) -> str:
    found = picked.scored
    first = max(0, place - _AROUND)
    hits = found.hits[first : place + _AROUND + 1]
    away = np.abs(np.arange(first, first + len(hits)) - place)
    near = first + int(np.argmax(np.square(hits) * np.exp(-away / _FADING)))
    if near == place or not found.hits[near]:
        return "fits what was left of the budget"
    return f"near {found.request.index.items[near].id}, which {_of_words(picked, near)}"
