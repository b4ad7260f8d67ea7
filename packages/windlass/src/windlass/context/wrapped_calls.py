"""What a wrapped client did, call by call, and their sums: what `client.windlass` tells."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Protocol

from windlass.caching.rates import cost, many, money
from windlass.context.context import Context
from windlass.context.recall import answer_call
from windlass.context.window import ChatWindow
from windlass.messages import Message, ToolSpec
from windlass.text.intervals import Interval, difference_of_means
from windlass.window.entries import Drop, Edit, Entry, Item
from windlass.window.options import Policy
from windlass.window.originals import reference
from windlass.wire.base import Usage

_LOGGER: Final = logging.getLogger("windlass")
AS_IT_CAME: Final = "as it came"
"""The kind of note that the first request is which goes out as it came."""
HELD_OUT: Final = "its conversation is held out"
"""Why a request goes out as it came whose conversation is left as it is, for comparison."""
_UNKNOWN: Final = "no conversation so far"
_FEWEST: Final = 2
"""Conversations on each side from which on they are compared."""
_DONE: Final = {
    "repeat": "shown once",
    "supersede": "superseded",
    "fold": "folded",
    "compact": "compacted",
    "strip": "without thinking",
    "prune": "left out",
    "expire": "expired",
    "encode": "re-encoded",
}
"""What became of messages, by why; all else is shortened."""


@dataclass(frozen=True, slots=True)
class Change:
    """A message that a call showed otherwise than it was said, for the first time.

    `position` is its place in the caller's list, `reference` what `recall` takes, `because` and
    `reason` say why. Sizes are in characters of its text.
    """

    position: int | None
    reference: str
    because: str
    reason: str
    chars_before: int
    chars_after: int

    def __str__(self) -> str:
        sizes = f"{self.chars_before:,} -> {self.chars_after:,} characters"
        where = "" if self.position is None else f"message {self.position}, "
        return f"{where}{self.reference}: {self.reason} ({sizes})"


@dataclass(slots=True)
class Marks:
    """The cache marks of a request: the caller's own, and those that were added."""

    own: int = 0
    added: int = 0


@dataclass(slots=True)
class Timing:
    """When a call was sent, and for how long it went on (None: it does), in seconds.

    `at` is in seconds since 1970.
    """

    at: float = 0.0
    seconds: float | None = None


@dataclass(slots=True)
class WrappedCall:
    """A call that a wrapped client made.

    `thread` is the number of its conversation (0: it could not be read), `messages` how many it
    had. `tokens` were sent by our count, and sending everything would have been `saved_tokens`
    more. `changes` are what it was first to show otherwise, `changed` how many messages it showed
    so. `passed_because`: why the request went out as it came (empty: a window was sent). `usage` is
    what the provider counted, `plain_usage` what it would have counted of the request as it came
    (None: it did not say). `assumed` is what was not known, `failed` why there was no answer
    (empty: there was one).
    """

    number: int
    thread: int
    model: str
    messages: int
    tokens: int = 0
    saved_tokens: int = 0
    changes: tuple[Change, ...] = ()
    changed: int = 0
    marks: Marks = field(default_factory=Marks)
    passed_because: str = ""
    assumed: tuple[str, ...] = ()
    usage: Usage | None = None
    plain_usage: Usage | None = None
    failed: str = ""
    timing: Timing = field(default_factory=Timing)

    @property
    def held_out(self) -> bool:
        """Return whether its conversation is left as it is, for comparison."""
        return self.passed_because == HELD_OUT

    @property
    def is_over(self) -> bool:
        """Return whether its answer came to an end, or failed."""
        return self.timing.seconds is not None

    @property
    def cost(self) -> float | None:
        """Return US dollars (None: no price is known, or the provider said no usage)."""
        return _dollars(self.model, self.usage)

    @property
    def plain_cost(self) -> float | None:
        """Return US dollars of the request as it came, likewise."""
        return _dollars(self.model, self.plain_usage)

    @property
    def counts(self) -> bool:
        """Return whether the call was sent and answered, or at least billed."""
        return self.is_over and (not self.failed or self.usage is not None)

    def __str__(self) -> str:
        clauses = [f"call {self.number}, conversation {self.thread}"]
        clauses.append(many(self.messages, "message"))
        if self.passed_because:
            clauses.append(f"sent as it came: {self.passed_because}")
        kinds = Counter(_DONE.get(change.because, "shortened") for change in self.changes)
        clauses += [f"{count:,} {what}" for what, count in kinds.items()]
        if self.changed > len(self.changes):
            clauses.append(f"{self.changed:,} in all shown otherwise than they were said")
        if self.marks.added:
            clauses.append(f"{many(self.marks.added, 'cache mark')} added")
        if self.marks.own:
            clauses.append(f"{many(self.marks.own, 'cache mark')} of yours kept")
        if self.failed:
            clauses.append(f"failed: {self.failed}")
        if (paid := self.cost) is not None:
            plain = self.plain_cost
            beside = "" if plain is None else f", {money(plain)} without windows"
            clauses.append(money(paid) + beside)
        return "; ".join(clauses)


@dataclass(slots=True)
class CallContents:
    """What was said in a call: `said` are all messages of its list, `shown` what it was sent.

    `edits` are those that it was first to show. `policy` is the one of its window (None: it went
    out as it came). `reply` is what the model said (None: nothing, or nothing that can be read).
    """

    call: WrappedCall
    said: Sequence[Item]
    shown: Sequence[Entry]
    tools: Sequence[ToolSpec]
    edits: Sequence[Edit] = ()
    policy: Policy | None = None
    reply: Message | None = None


def _dollars(model: str, usage: Usage | None) -> float | None:
    return None if usage is None else cost(model, **asdict(usage))


class Conversations(Protocol):
    """The conversations of a client, as far as they are kept."""

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """Return what is to be held while several things are read that belong together."""
        ...

    def contexts(self) -> list[Context]:
        """Return their contexts, the one that was used last first."""
        ...

    def contents(self) -> Mapping[int, CallContents]:
        """Return what was said in their calls, by the numbers of the calls."""
        ...


@dataclass
class WrapReport:
    """What a wrapped client sent so far.

    `calls` are all that were made, also those that failed. `passed` says how often a request went
    out as it came, by reason. `notes` are what a user would want to know, each once; the logger
    `windlass` warns of them.
    """

    calls: list[WrappedCall] = field(default_factory=list[WrappedCall])
    passed: Counter[str] = field(default_factory=Counter[str])
    notes: dict[str, str] = field(default_factory=dict[str, str])
    conversations: Conversations | None = field(default=None, repr=False)

    @property
    def answered(self) -> list[WrappedCall]:
        """Return the calls that were answered, or at least billed."""
        return [call for call in self.calls if call.counts]

    @property
    def tokens(self) -> int:
        """Return input tokens that were sent, by our count."""
        return sum(call.tokens for call in self.answered)

    @property
    def saved_tokens(self) -> int:
        """Return input tokens that sending everything would have been more."""
        return sum(call.saved_tokens for call in self.answered)

    @property
    def cost(self) -> float:
        """Return US dollars of the calls whose price and usage are known."""
        return sum(call.cost or 0.0 for call in self.answered)

    @property
    def plain_cost(self) -> float:
        """Return US dollars that the same calls would have cost as they came."""
        return sum(call.plain_cost or 0.0 for call in self.answered)

    @property
    def comparison(self) -> Interval | None:
        """Return what windows change in the cost of a call, compared with conversations held out.

        Each conversation's cost is taken as a share of what its requests would have cost as they
        came. From where to where the difference of the means lies in 95 of 100 cases: -0.4 is 40 %
        less. None: there are fewer than two conversations on a side.
        """
        sides: dict[bool, list[float]] = {False: [], True: []}
        for held_out, plain, paid in self._by_thread():
            if plain:
                sides[held_out].append(paid / plain)
        if min(map(len, sides.values())) < _FEWEST:
            return None
        return difference_of_means(sides[False], sides[True])

    def _by_thread(self) -> list[tuple[bool, float, float]]:
        """Return each conversation: whether it is held out, its plain cost and its cost."""
        sums: dict[int, tuple[bool, float, float]] = {}
        for call in self.answered:
            _, plain, paid = sums.get(call.thread, (False, 0.0, 0.0))
            plain, paid = plain + (call.plain_cost or 0.0), paid + (call.cost or 0.0)
            sums[call.thread] = call.held_out, plain, paid
        return list(sums.values())

    def note(self, kind: str, text: str) -> None:
        """Note something that a user would want to know, once for each kind."""
        if kind not in self.notes:
            self.notes[kind] = text
            _LOGGER.warning("%s", text)

    def recall(
        self, ref: str, grep: str = "", lines: str = "", path: str = "", part: str = ""
    ) -> str:
        """Get the original behind a reference in any of the conversations; see `ChatWindow.recall`.

        Where there are several, the beginning of a reference is none: it might mean another's.
        """
        contexts = self._contexts
        for context in contexts:
            if len(contexts) == 1 or context.knows(ref):
                return context.recall(ref, grep, lines, path, part)
        why = "no conversation has it" if contexts else _UNKNOWN
        return f"The reference {ref!r:.200} names no message here: {why}"

    @property
    def _contexts(self) -> list[Context]:
        return self.conversations.contexts() if self.conversations else []

    def answer(self, block: Any) -> Any:
        """Get the result of a model's call of `recall`, to be appended; see `ChatWindow.answer`."""
        return answer_call(block, self)

    def original(self, ref: str) -> Message | None:
        """Return the message behind a reference in any of the conversations (None: in none)."""
        contexts = self._contexts
        known = (one for one in contexts if len(contexts) == 1 or one.knows(ref))
        return next((one.original(ref) for one in known), None)

    def __str__(self) -> str:
        calls = self.answered
        threads = len({call.thread for call in calls} - {0})
        sums = f"{self.tokens:,} tokens sent, {self.saved_tokens:,} left out, {money(self.cost)}"
        if plain := self.plain_cost:
            sums += f" ({self.cost / plain:.0%} of {money(plain)} without windows)"
        lines = [f"{many(len(calls), 'call')} in {many(threads, 'conversation')}: {sums}"]
        lines += [f"{count} passed on as they were: {why}" for why, count in self.passed.items()]
        if failed := sum(call.is_over for call in self.calls) - len(calls):
            lines.append(f"{many(failed, 'call')} failed, and no cost of theirs is known")
        if silent := sum(call.usage is None for call in calls):
            lines.append(f"the usage of {many(silent, 'call')} is not known, so is not in the cost")
        notes = [text for kind, text in self.notes.items() if kind != AS_IT_CAME]
        return "\n".join([*lines, *self._groups(), *notes])

    def _groups(self) -> Sequence[str]:
        """Return conversations with windows beside those that are held out."""
        held = [paid for held_out, _, paid in self._by_thread() if held_out]
        if not held:
            return ()
        text = f"{many(len(held), 'conversation')} held out, {money(sum(held))}"
        if (interval := self.comparison) is None:
            return (f"{text}: too few to compare",)
        low, high = interval
        return (f"{text}: beside these, windows change the cost by {low:+.0%} to {high:+.0%}",)


def describe(
    record: WrappedCall, window: ChatWindow, shown: dict[int, Edit], *, ahead: int
) -> list[Edit]:
    """Say in a record what a window shows otherwise than it was said; returns what is new of it.

    `shown` are the edits that the calls before showed, by position; those that are new are added.
    `ahead` is how many messages stand in front of the caller's list.
    """
    record.tokens, record.saved_tokens = window.tokens, window.saved_tokens
    record.changed = sum(at >= ahead for at in window.edits)
    changes: list[Change] = []
    edits: dict[int, Edit] = {}
    for at, edit in window.edits.items():
        if shown.get(at) is edit:
            continue
        shown[at] = edits[id(edit)] = edit
        if at < ahead:
            continue
        before, position = window.as_said(at)
        after = 0 if isinstance(edit, Drop) else edit.replacement.chars
        changes.append(
            Change(
                None if position is None else position - ahead,
                reference(before),
                edit.because,
                edit.reason,
                before.chars,
                after,
            )
        )
    record.changes = tuple(changes)
    return list(edits.values())
