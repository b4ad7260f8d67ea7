"""One contestant over one recording: what its windows cost, and what they kept in view."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Literal, NamedTuple, TypeAlias

from bench.windows.contestants import Contestant
from bench.windows.peer import Peer
from bench.windows.prices import MARKED, VECTORS
from bench.windows.recordings import Recording
from bench.windows.signed import Legality, SentRequest, SignedThinking
from bench.windows.strict import Marked, end_marks, marked, marked_cost
from bench.windows.validity import Validity, chat_problems

from windlass.caching.meter import SharedPrefix
from windlass.replays.measure import MeasuredRecording
from windlass.replays.pricing import Vector, measure_calls

Checks: TypeAlias = Literal["all", "changed", "chat"]
"""Which windows are written for all three providers: all; the last of each recording and
those whose shape is not that of the messages handed over; none. The chat form is always checked."""


@dataclass
class Outcome:
    """Sums over the calls of one recording or more, at one price vector.

    Money is in fresh input tokens; `everything` and `clairvoyant` are what the two
    references cost on the same calls. `strict_own` is the bill where only what ends at the
    contestant's own marks is cached, `strict_end` with marks at the end. `legal` are the calls that
    a model which binds thinking takes, with the `blocks` that they send of `blocks_made`; `epochs`
    the calls that send fewer than could be. All are 0 where the contestant is handed no thinking:
    `signed` says so.
    `seconds` holds each call's time to its window.
    """

    recording: str
    calls: int = 0
    bill: float = 0.0
    again: float = 0.0
    everything: float = 0.0
    clairvoyant: float = 0.0
    strict_own: float = 0.0
    strict_end: float = 0.0
    strict_everything: float = 0.0
    tokens: float = 0.0
    values: int = 0
    values_seen: int = 0
    lines: int = 0
    lines_seen: int = 0
    own: int = 0
    own_seen: int = 0
    misses: int = 0
    invalid: int = 0
    signed: bool = False
    legal: int = 0
    blocks: int = 0
    blocks_made: int = 0
    epochs: int = 0
    problems: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        """Bill with reacquisition, divided by sending everything."""
        return (self.bill + self.again) / self.everything if self.everything else 1.0


class _Windows(NamedTuple):
    """One recording's windows, by the numbers of their messages, with their marks and times.

    `marks` None: it sets none; `legality` None: it was handed no thinking.
    """

    windows: list[list[int]]
    marks: list[Sequence[int]] | None
    seconds: list[float]
    legality: Legality | None


class Bench(MeasuredRecording):
    """One recording with all that does not depend on the contestant."""

    def __init__(self, recording: Recording) -> None:
        super().__init__(recording)
        self.recording = recording
        self.signed = SignedThinking(recording)
        self._whole_marked: dict[int, list[Marked]] = {}
        self.ideal = clairvoyant(self)

    def run(
        self,
        contestant: Contestant,
        vectors: Sequence[Vector] = VECTORS,
        checks: Checks = "changed",
    ) -> dict[str, Outcome]:
        """The contestant's outcome at each of the vectors, by the vector's name."""
        made = self._windows(contestant)
        windows, legality = made.windows, made.legality
        calls = measure_calls(windows, self.shown)
        strict: dict[int, tuple[list[Marked], list[Marked]]] = {}
        missed = self.missed(windows, self.needs)
        own_missed = sum(map(len, self.missed(windows, self.own)))
        own = sum(map(len, self.own.values()))
        invalid, problems = self._invalid(windows, checks)
        outcomes: dict[str, Outcome] = {}
        for vector in vectors:
            least = (vector if vector in MARKED else MARKED[0]).minimum
            if least not in strict:
                strict[least] = (
                    self._marked(least, windows, made.marks),
                    self._marked(least, windows),
                )
            own_marks, at_end = strict[least]
            outcomes[vector.name] = Outcome(
                recording=self.recording.id,
                calls=len(windows),
                tokens=sum(call.tokens for call in calls),
                bill=sum(call.units(vector) for call in calls),
                again=sum(self.again(calls, missed, vector)),
                everything=sum(call.units(vector) for call in self.whole),
                clairvoyant=sum(call.units(vector) for call in self.ideal),
                strict_own=sum(marked_cost(call, vector) for call in own_marks),
                strict_end=sum(marked_cost(call, vector) for call in at_end),
                strict_everything=sum(
                    marked_cost(call, vector) for call in self._everything_marked(least)
                ),
                own=own,
                own_seen=own - own_missed,
                invalid=invalid,
                problems=problems,
                seconds=made.seconds,
                signed=legality is not None,
                **asdict(self.sight(missed)),
                **({} if legality is None else asdict(legality)),
            )
        return outcomes

    def _marked(
        self,
        minimum: int,
        windows: Sequence[Sequence[int]],
        marks: Sequence[Sequence[int]] | None = None,
    ) -> list[Marked]:
        """The calls with their marks, and where a contestant sets none with marks at the end."""
        return marked(windows, marks or map(end_marks, windows), self.shown, minimum)

    def _everything_marked(self, minimum: int) -> list[Marked]:
        if minimum not in self._whole_marked:
            self._whole_marked[minimum] = self._marked(minimum, self.everything)
        return self._whole_marked[minimum]

    def _windows(self, contestant: Contestant) -> _Windows:
        contestant.begin(self.recording)
        signed = self.signed if contestant.signed else None
        messages = list(self.recording.messages if signed is None else signed.messages)
        thoughts: list[list[SentRequest]] = []
        windows: list[list[int]] = []
        marks: list[Sequence[int]] = []
        seconds: list[float] = []
        new_from = 0
        for at in self.recording.calls:
            handed = messages[:at]
            began = time.perf_counter()
            window = contestant.window(handed, new_from)
            took = time.perf_counter() - began
            seconds.append(contestant.seconds if isinstance(contestant, Peer) else took)
            if signed is not None:
                thoughts.append([signed.sent(chat) for chat in window])
                window = [one.billed for one in thoughts[-1]]
            windows.append(self.shown.numbers(window))
            marks.append(contestant.marks)
            new_from = at
        legality = None if signed is None else signed.judged(self.recording.calls, thoughts)
        return _Windows(windows, marks if any(marks) else None, seconds, legality)

    def _invalid(self, windows: Sequence[Sequence[int]], checks: Checks) -> tuple[int, list[str]]:
        """How many windows break a rule, and the first sentences about each."""
        validity = Validity(self.shown)
        count, said = 0, []
        for number, window in enumerate(windows):
            handed = self.originals[: self.recording.calls[number]]
            by_all = checks == "all" or (
                checks == "changed"
                and (number == len(windows) - 1 or not validity.same_shape(window, handed))
            )
            if by_all:
                found = validity.problems(window)
            else:
                found = chat_problems([self.shown.chats[one] for one in window])
            count += bool(found)
            said += [f"{self.recording.id}, call {number}: {wrong}" for wrong in found[:1]]
        return count, said


def clairvoyant(bench: Bench) -> list[SharedPrefix]:
    """The calls of one who knows what will be needed, and drops for free.

    Each message is written once; a tool result stays until the last call that needs
    it; of those that hold the same the latest one does.
    """
    recording, shown = bench.recording, bench.shown
    until: dict[int, int] = {}
    for at, needs in bench.needs.items():
        for need in needs:
            until[need.results[-1]] = max(at, until.get(need.results[-1], 0))
    calls: list[SharedPrefix] = []
    new_from = 0
    for at in recording.calls:
        kept = sum(
            shown.tokens[bench.originals[place]]
            for place in range(new_from)
            if recording.messages[place]["role"] != "tool" or until.get(place, -1) >= at
        )
        new = sum(shown.tokens[number] for number in bench.originals[new_from:at])
        calls.append(SharedPrefix(kept + new, kept))
        new_from = at
    return calls
