"""What is read from a file of another program: a conversation, and the calls that were made in it.

Pure values. A recording is one list that only grew: where a client compacted it or took another
branch, a new recording begins, which names the first as its parent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import takewhile
from operator import attrgetter
from typing import Final, Literal, TypeAlias

from windlass.caching.rates import cost
from windlass.messages import Message, Opaque, Part, Text, ToolSpec
from windlass.safety.foreign import parse_json
from windlass.text.titles import dated, first_words
from windlass.text.tokens import FamilyCounter
from windlass.wire.base import Usage

Grade: TypeAlias = Literal["A", "B", "C"]
"""The evidence: A exact requests, B rebuilt and proven by hashes, C a transcript.

In a transcript the tools are missing, and mostly the system prompt: what the calls sent beside the
messages is known by its size only.
"""

Kind: TypeAlias = Literal["session", "side chain", "branch", "after compaction"]
"""Why a recording is one of its own; all kinds but the first have a parent."""

ESTIMATED: Final = (
    "the transcript holds the usage with which answers began; the output of {} is estimated from"
    " the replies"
)
"""A note on calls whose usage is not that of the whole reply; takes their number."""

GRADES: Final[Mapping[Grade, str]] = {
    "A": "exact requests",
    "B": "requests rebuilt, proven by hashes",
    "C": "a transcript",
}


_FEWER: Final = 2
"""Where a reply has so many times the output of its usage, the usage is not that of the reply."""

_FEWEST: Final = 16
"""The fewest tokens of a reply whose usage is doubted: below, both counts are rough."""


def without_signatures(message: Message) -> Message:
    """Give a message as it is counted: signed thinking becomes its words, without the signature."""
    if not any(isinstance(part, Opaque) for part in message.parts):
        return message
    parts: list[Part] = []
    for part in message.parts:
        if not isinstance(part, Opaque):
            parts.append(part)
        elif words := _words(part):
            parts.append(Text(words))
    return message.with_parts(*parts)


def _words(thinking: Opaque) -> str:
    try:
        data = parse_json(thinking.data)
    except ValueError:
        return ""
    words = data.get("thinking") if isinstance(data, Mapping) else None
    return words if isinstance(words, str) else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingFacts:
    """What a recording is, as results of an import or a replay tell it."""

    name: str
    format: str
    grade: Grade
    kind: Kind
    model: str
    skipped: Mapping[str, int]
    """What was left out of the file: how often, by reason."""
    estimated: int = 0
    """Calls whose output was not recorded, and is estimated."""


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """One call of a model."""

    at: int
    """How many messages of the recording it was sent; the reply, if there is one, is the message at
    that place."""
    model: str
    usage: Usage | None = None
    """What the provider counted (None: not recorded)."""
    cost: float | None = None
    """The US dollars that the file names (None: it names none)."""
    time: float | None = None
    """Seconds since 1970 (None: unknown)."""
    id: str = ""
    """The provider's name of the answer."""
    estimated: bool = False
    """Whether the output of the usage was not recorded, and is estimated from the reply."""
    tools: tuple[ToolSpec, ...] | None = None
    """The tools that it was sent (None: those of the recording)."""

    def with_output(self, reply: Message) -> RecordedCall:
        """The same call; its output is estimated where the usage cannot be that of the whole reply.

        A client that records an answer while it is streamed has the usage from its beginning: a few
        tokens of output for pages of text.
        """
        if self.usage is None:
            return self
        counter = FamilyCounter(self.model)
        tokens = counter.message(without_signatures(reply)) - counter.family.frame
        if tokens < max(_FEWEST, self.usage.tokens_out * _FEWER):
            return self
        return replace(self, usage=replace(self.usage, tokens_out=tokens), estimated=True)

    @property
    def dollars(self) -> float | None:
        """Return the cost that was recorded, else what the usage costs at list prices.

        None: unknown.
        """
        if self.cost is not None or self.usage is None:
            return self.cost
        return cost(self.model, **asdict(self.usage))


@dataclass(frozen=True, slots=True)
class Recording:
    """A conversation as another program recorded it."""

    name: str
    """Unique among the recordings of a file or folder, and the same at each reading."""
    format: str
    """What it was read from: a name of the table of formats, as `--as` takes it, or `session` (of a
    store), `messages` (a list that a program gave), `hook` (the calls that a hook noted)."""
    grade: Grade
    model: str
    """`provider/model` of its first call."""
    messages: tuple[Message, ...]
    """They begin with the system prompt, where it is known."""
    calls: tuple[RecordedCall, ...]
    tools: tuple[ToolSpec, ...] | None = None
    """The tools of the last call (None: unknown; empty: there were none)."""
    kind: Kind = "session"
    parent: str | None = None
    """The name of the recording that it belongs to."""
    skipped: Mapping[str, int] = field(default_factory=dict[str, int])
    """What was left out: how often, by reason."""
    source: str = ""
    """The file that it was read from."""
    project: str = ""
    """The folder in which the program worked (empty: not recorded)."""
    beside: float = 0.0
    """US dollars of what models were asked beside these calls: as judges, for summaries."""
    results_as_words: bool = False
    """Whether results of commands were sent as words of the user; calls are then commands in the
    text of answers."""

    @property
    def results(self) -> frozenset[int]:
        """Return the places of the messages that are results of tools or commands."""
        words = len(self.messages)
        if self.results_as_words:  # the user's words before the first answer are the task
            roles = [message.role for message in self.messages]
            words = roles.index("assistant") if "assistant" in roles else 0
        return frozenset(
            at
            for at, message in enumerate(self.messages)
            if message.role == "tool" or (at > words and message.role == "user")
        )

    @property
    def title(self) -> str:
        """Return the user's first words, or the name; words that clients add count only in need."""
        return first_words(self.messages) or self.name

    @property
    def started(self) -> float | None:
        """When its first call was made, in seconds since 1970 (None: unknown)."""
        return next((call.time for call in self.calls if call.time is not None), None)

    @property
    def titled(self) -> str:
        """The day on which it began, in UTC, and its title: `2026-01-21 I forgot to tell you`."""
        if self.started is None:
            return self.title
        return dated(self.title, self.started)

    @property
    def system(self) -> tuple[Message, ...] | None:
        """Return the system messages at the beginning; None: unknown."""
        head = tuple(takewhile(attrgetter("is_system"), self.messages))
        return head if head or self.grade != "C" else None

    @property
    def usage(self) -> Usage:
        """Return the tokens of all calls; a call without a recorded usage counts as nothing."""
        total = Usage(0, 0)
        for call in self.calls:
            if call.usage is not None:
                total = total.plus(call.usage)
        return total

    @property
    def estimated(self) -> int:
        """Return how many calls have an output that was not recorded and is estimated."""
        return sum(call.estimated for call in self.calls)

    @property
    def dollars(self) -> float | None:
        """Return what all of it cost in US dollars; None where the cost of one call is unknown."""
        total = self.beside
        for call in self.calls:
            if (dollars := call.dollars) is None:
                return None
            total += dollars
        return total
