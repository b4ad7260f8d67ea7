"""Which messages stand before each call of a session: those of another sounding do not.

It says for all calls at once what `call_views.rows_before` says for one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from windlass.history.base import StoredRow
from windlass.history.decisions import SoundingsDecided, VisitBegun


class _Sounding(NamedTuple):
    """A sounding of one visit of a phase; `at` is its index (None: rows of no sounding)."""

    phase: str
    visit: int
    at: int | None


Bools: TypeAlias = NDArray[np.bool_]


class Histories:
    """The soundings of a session, and for each call the messages that are part of its history.

    Args:
        rows: The rows of the session, in order.
        messages: Those of them that are asked about.
    """

    def __init__(self, rows: Iterable[StoredRow], messages: Sequence[StoredRow]) -> None:
        self._of: dict[int, _Sounding] = {}
        self._taken: dict[_Sounding, int] = {}
        visits = Counter[str]()
        for stored in rows:
            phase, index = stored.row.phase or "", stored.row.sounding_index
            visits[phase] += VisitBegun.read(stored.row) is not None
            self._of[stored.seq] = _Sounding(phase, visits[phase], index)
            if (decided := SoundingsDecided.read(stored.row)) is not None:
                one = _Sounding(phase, visits[phase], decided.winner)
                self._taken.setdefault(one, stored.seq)
        numbers: dict[_Sounding, int] = {}
        self._number_of = np.array(
            [numbers.setdefault(self._of[each.seq], len(numbers)) for each in messages], np.intp
        )
        self._soundings = list(numbers)

    @classmethod
    def read(cls, rows: Sequence[StoredRow], messages: Sequence[StoredRow]) -> Histories | None:
        """The histories of a session; None: it has no soundings, so what was said stands."""
        sounded = any(stored.row.sounding_index is not None for stored in rows)
        return cls(rows, messages) if sounded else None

    def before(self, call: StoredRow) -> Bools:
        """Whether each of the messages counts for a call, if it was said before it."""
        counts = [self._counts(each, call.seq) for each in self._soundings]
        return np.array(counts, np.bool_)[self._number_of]

    def _counts(self, one: _Sounding, seq: int) -> bool:
        own = self._of[seq]
        if one.at is None or one == own:
            return True
        beside = own.at is not None and one[:2] == own[:2]
        return not beside and self._taken.get(one, seq) < seq
