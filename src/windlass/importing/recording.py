"""What comes out of a file of another program: a conversation, and the calls that were made in it.

Pure values. A recording is one list that only grew: where a client compacted or took another
branch, another recording begins, which names the first as its parent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from operator import attrgetter
from typing import Final, Literal, TypeAlias

from windlass.caching.rates import cost
from windlass.messages import Message, ToolSpec
from windlass.wire.base import Usage

Grade: TypeAlias = Literal["A", "B", "C"]
"""The evidence: A exact requests, B rebuilt and proven by hashes, C a transcript.

In a transcript the tools are missing, and mostly the system prompt: what the calls sent beside the
messages is known by its size only.
"""

Kind: TypeAlias = Literal["session", "side chain", "branch", "after compaction"]
"""Why a recording stands by itself; all but the first have a parent."""

GRADES: Final[Mapping[Grade, str]] = {
    "A": "exact requests",
    "B": "requests rebuilt, proven by hashes",
    "C": "a transcript",
}


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """One call of a model.

    It was sent the first `at` messages of its recording; its reply is the message at that place,
    if there is one. `usage` is what the provider counted (None: not recorded), `cost` the US
    dollars that the file names (None: it names none), `time` seconds since 1970 (None: unknown).
    `id` is the provider's name of the answer.
    """

    at: int
    model: str
    usage: Usage | None = None
    cost: float | None = None
    time: float | None = None
    id: str = ""

    @property
    def dollars(self) -> float | None:
        """The cost that was recorded, else what the usage costs at list prices (None: unknown)."""
        if self.cost is not None or self.usage is None:
            return self.cost
        used = self.usage
        return cost(
            self.model,
            used.tokens_in,
            used.tokens_out,
            used.tokens_cached,
            used.tokens_written,
            tokens_written_long=used.tokens_written_long,
        )


@dataclass(frozen=True, slots=True)
class Recording:
    """A conversation as another program recorded it.

    `name` is unique among the recordings of a file or folder and the same at each reading.
    `model` is `provider/model` of its first call. `messages` begin with the system prompt, where it
    is known. `tools` are those of the last call (None: unknown; empty: there were none). `parent`
    is the name of the recording that it belongs to. `skipped` counts what was left out, by reason.
    `source` is the file that it was read from.
    """

    name: str
    format: str
    grade: Grade
    model: str
    messages: tuple[Message, ...]
    calls: tuple[RecordedCall, ...]
    tools: tuple[ToolSpec, ...] | None = None
    kind: Kind = "session"
    parent: str | None = None
    skipped: Mapping[str, int] = field(default_factory=dict[str, int])
    source: str = ""

    @property
    def system(self) -> tuple[Message, ...] | None:
        """The system messages in front of all others; None: unknown."""
        head = tuple(takewhile(attrgetter("is_system"), self.messages))
        return head if head or self.grade != "C" else None

    @property
    def usage(self) -> Usage:
        """The tokens of all calls; those whose usage was not recorded count nothing."""
        total = Usage(0, 0)
        for call in self.calls:
            if call.usage is not None:
                total = total.plus(call.usage)
        return total

    @property
    def dollars(self) -> float | None:
        """What all calls cost in US dollars; None where that of one is unknown."""
        total = 0.0
        for call in self.calls:
            dollars = call.dollars
            if dollars is None:
                return None
            total += dollars
        return total
