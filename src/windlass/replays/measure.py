"""What windows on recorded calls cost, and what they kept in view: the same for whoever made them.

Money is in fresh input tokens. What a call needed and did not see is taken to be fetched again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from windlass.caching.prices import fetch_cost
from windlass.replays.call_bills import CallTokens, Vector, cost, sent
from windlass.replays.needed import CallsOnMessages, NeededText, needs_and_own
from windlass.replays.numbered import NumberedMessages


@dataclass(frozen=True, slots=True)
class CallBill:
    """One call: its neutral tokens, what they cost, and what was needed and in view.

    `again` is the price of fetching results again that it needed and did not see, `misses` how
    many there are.
    """

    tokens: float
    bill: float
    again: float
    values: int
    values_seen: int
    lines: int
    lines_seen: int
    misses: int


class Ruler:
    """One recording with all that does not depend on who decides what its calls see.

    `told` are as in `needs_and_own`.
    """

    def __init__(self, recording: CallsOnMessages, told: Collection[int] = ()) -> None:
        self.calls = recording.calls
        self.shown = NumberedMessages()
        self.originals = self.shown.numbers(recording.messages)
        self.needs, self.own = needs_and_own(recording, told)
        self.everything = [self.originals[:at] for at in self.calls]
        """The windows of who sends everything."""
        self.whole = sent(self.everything, self.shown)

    def missed(
        self, windows: Sequence[Sequence[int]], needs: Mapping[int, Sequence[NeededText]]
    ) -> list[list[NeededText]]:
        """What each call needed and did not see."""
        given = set(self.originals)
        missed: list[list[NeededText]] = []
        for at, window in zip(self.calls, windows, strict=True):
            wanted = needs.get(at, ())
            seen = set(window) if wanted else set[int]()
            edited = seen - given
            missed.append(
                [
                    need
                    for need in wanted
                    if not any(self.originals[place] in seen for place in need.holders)
                    and not any(self.shown.holds(number, need.text) for number in edited)
                ]
            )
        return missed

    def bills(
        self,
        calls: Sequence[CallTokens],
        missed: Sequence[Sequence[NeededText]],
        vector: Vector,
    ) -> list[CallBill]:
        """What each call cost and kept in view; `missed` is what it needed and did not see."""
        bills: list[CallBill] = []
        for at, call, lost in zip(self.calls, calls, missed, strict=True):
            kinds = [need.kind for need in self.needs.get(at, ())]
            values, lines = kinds.count("value"), kinds.count("line")
            kinds_lost = [need.kind for need in lost]
            again = [
                fetch_cost(
                    call.tokens,
                    self.shown.tokens[self.originals[place]],
                    read=vector.read,
                    write=vector.write,
                )
                for place in fetched(lost)
            ]
            bills.append(
                CallBill(
                    tokens=call.tokens,
                    bill=cost(call, vector),
                    again=sum(again),
                    values=values,
                    values_seen=values - kinds_lost.count("value"),
                    lines=lines,
                    lines_seen=lines - kinds_lost.count("line"),
                    misses=len(again),
                )
            )
        return bills


def fetched(needs: Sequence[NeededText]) -> list[int]:
    """Positions of the results to fetch so that all of `needs` are there again.

    For each need the latest result that holds it, unless one fetched already does.
    """
    places: list[int] = []
    for need in needs:
        if not set(need.results) & set(places):
            places.append(need.results[-1])
    return places
