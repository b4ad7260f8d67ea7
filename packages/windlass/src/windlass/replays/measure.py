"""What windows on recorded calls cost and kept in view, whoever made the windows.

Money is in fresh input tokens. What a call needed and did not see counts as fetched again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from windlass.caching.meter import SharedPrefix
from windlass.caching.prices import fetch_cost
from windlass.replays.call_bills import Vector, measure_calls
from windlass.replays.needed import CallsOnMessages, NeededText, needs_and_own
from windlass.replays.numbered import NumberedMessages


class Sight(NamedTuple):
    """What calls needed of earlier results, and how much of it was in view."""

    values: int
    values_seen: int
    lines: int
    lines_seen: int
    misses: int
    """Results to fetch again."""


class MeasuredRecording:
    """One recording, with all that does not depend on who decides what its calls see.

    `results_as_words` are as in `needs_and_own`.
    """

    def __init__(self, recording: CallsOnMessages, results_as_words: Collection[int] = ()) -> None:
        self.calls = recording.calls
        self.shown = NumberedMessages()
        self.originals = self.shown.numbers(recording.messages)
        self.needs, self.own = needs_and_own(recording, results_as_words)
        self.everything = [self.originals[:at] for at in self.calls]
        """The windows where every call is sent everything."""
        self.whole = measure_calls(self.everything, self.shown)

    def missed(
        self, windows: Sequence[Sequence[int]], needs: Mapping[int, Sequence[NeededText]]
    ) -> list[list[NeededText]]:
        """Return what each call needed and did not see."""
        originals = set(self.originals)
        missed: list[list[NeededText]] = []
        for at, window in zip(self.calls, windows, strict=True):
            needed = needs.get(at, ())
            seen = set(window) if needed else set[int]()
            edited = seen - originals
            missed.append(
                [
                    need
                    for need in needed
                    if not any(self.originals[place] in seen for place in need.holders)
                    and not any(self.shown.holds(number, need.text) for number in edited)
                ]
            )
        return missed

    def sight(self, missed: Iterable[Sequence[NeededText]]) -> Sight:
        """Return what all calls needed and saw; `missed` is what they needed and did not see."""
        kinds = Counter(need.kind for at in self.calls for need in self.needs.get(at, ()))
        lost, misses = Counter[str](), 0
        for needs in missed:
            lost.update(need.kind for need in needs)
            misses += len(results_to_fetch(needs))
        values, lines = kinds["value"], kinds["line"]
        return Sight(values, values - lost["value"], lines, lines - lost["line"], misses)

    def again(
        self,
        calls: Iterable[SharedPrefix],
        missed: Iterable[Sequence[NeededText]],
        vector: Vector,
    ) -> list[float]:
        """Return what each call pays to fetch again what it missed, in fresh input tokens."""
        tokens = self.shown.tokens
        return [
            sum(
                fetch_cost(
                    call.tokens,
                    tokens[self.originals[place]],
                    read=vector.read,
                    write=vector.write,
                )
                for place in results_to_fetch(needs)
            )
            for call, needs in zip(calls, missed, strict=True)
        ]


def results_to_fetch(needs: Sequence[NeededText]) -> list[int]:
    """Positions of the results to fetch so that all of `needs` are in view again.

    For each need it is the latest result that holds it, unless one already listed does.
    """
    places: list[int] = []
    for need in needs:
        if not set(need.results) & set(places):
            places.append(need.results[-1])
    return places
