"""Names listed once: a list of names loses those that a newer message in view contains.

Folded calls and attempts end in a list of names that nothing else in view held when they were
written. Later messages often contain them again, and then the older list would repeat them in every
further call. This module knows which texts have such a list and how to find it; other modules
decide when to write one. Digests are left alone: there are many more of them, and rewriting them
would take too long for what it saves.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final

from windlass.messages import Message
from windlass.window._pending import PendingEdits, Proposal
from windlass.window._survive import ALSO, with_text
from windlass.window.digests import chars_of
from windlass.window.entries import Entry, Fold, Replace
from windlass.window.names import whole_names

_LESS: Final = ", less names that a newer message said"
_LISTS: Final = frozenset({"fold", "retry", "summarise"})
"""Edits whose texts end in such a list."""
_MOST_CHARS: Final = 400
"""A result with more characters of names is no reason to look at older lists: what it is digested
to may not hold all of them."""


@dataclass(frozen=True, slots=True)
class Listed:
    """Rewrites lists of names without those that new messages contain.

    It rewrites old messages, so it is useful only if the prices have no cache.
    """

    name: str = "listed"

    def propose(self, pending: PendingEdits) -> Iterable[Proposal]:
        """The lists with names that new messages contain."""
        index = pending.derived(_Index)
        index.grow(pending)
        for at in index.places_of_new(pending):
            edit = pending.edit(at)
            if isinstance(edit, Replace | Fold):
                folds = isinstance(edit, Fold)
                span = pending.exchange(at) if folds else (at,)
                reason = edit.reason.removesuffix(_LESS) + _LESS
                write = partial(_write, at=at)
                yield Proposal(span, edit.because, reason, write, folds=folds)


class _Index:
    """The positions of the lists that contain each name."""

    def __init__(self) -> None:
        self._upto = 0
        self._places: dict[str, list[int]] = {}

    def grow(self, pending: PendingEdits) -> None:
        """Take in what was edited for good since."""
        changes = pending.changes
        for at in dict.fromkeys(changes[self._upto :]):
            entry = pending.stood(at)
            for name in names_listed(entry) if entry is not None else ():
                places = self._places.setdefault(name, [])
                if at not in places:
                    places.append(at)
        self._upto = len(changes)

    def places_of_new(self, pending: PendingEdits) -> list[int]:
        """The positions of the lists with names of new messages, in order."""
        places: set[int] = set()
        for at in pending.fresh:
            names = pending.names(at)
            if pending.original(at).role != "tool" or chars_of(names) <= _MOST_CHARS:
                places.update(*[self._places[name] for name in names & self._places.keys()])
        return sorted(places)


def names_listed(entry: Entry) -> list[str]:
    """The names that a text lists at its end, in order; empty if it lists none."""
    if entry.because not in _LISTS:
        return []
    before, _, line = entry.message.text.rpartition("\n")
    if not before or not line.startswith(ALSO):
        return []
    words = line.removeprefix(ALSO).split(" ")
    return words if words == list(whole_names(line.removeprefix(ALSO))) else []


def _write(pending: PendingEdits, at: int) -> Message | None:
    entry = pending.entry(at)
    if entry is None:
        return None
    words = names_listed(entry)
    still = pending.names_held_only((at,), words)
    if len(still) == len(words):
        return None
    text = entry.message.text
    before = text[: text.rindex("\n")]
    return with_text(entry.message, f"{before}\n{ALSO}{' '.join(still)}" if still else before)
