"""What of a session's last call to shorten, drop or keep, and the tools that no call used.

A later call *uses* a message where its arguments, or its words, hold a name, a path, a number or a
whole line of it (`replays/measure.py` has what counts). What it would save is by the planner's
formula: an edit is paid once, since what stands behind it is no longer read from the cache, and
saves with each further call.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from windlass.caching.bill import fresh_price
from windlass.caching.rates import input_dollars, prices_of, rate
from windlass.history.base import CallRecord, ShownMessage, StoredRow
from windlass.messages import Message, ToolSpec
from windlass.replays.measure import lines_in, values_in
from windlass.report.calls import SessionRecord, new_in_each
from windlass.report.contents import what_is
from windlass.text.tokens import FamilyCounter
from windlass.window.originals import RECALL

Verdict: TypeAlias = Literal["shorten", "drop", "keep"]

_LARGEST: Final = 60
"""Messages of the last call that are looked at, the largest."""
_LISTED: Final = 6
"""Messages that are told of each verdict."""
_FEWEST: Final = 150
"""Tokens from which on a message is worth a decision; what a digest leaves of it is as many."""
_FEW_CALLS: Final = 20
"""Calls within which an edit must pay, where the session has not made more than that."""
_FRESH: Final = 5
"""Calls after which what none of them used is old."""


@dataclass(frozen=True, slots=True)
class AdvisedMessage:
    """A message of the last call, and what to do with it."""

    message_id: str
    verdict: Verdict
    what: str
    """What it is, in words."""
    why: str
    """Why, in a clause."""
    phase: str | None
    turn: int | None
    tokens: int
    """What was sent of it in the last call, by the engine's count."""
    calls: int
    """The calls that it was sent in."""
    used: int | None
    """The last call that used something of it (None: none did)."""
    next_call: float | None
    """What the next call pays for it in US dollars (None: no price is known)."""
    pays_after: int | None
    """The calls after which an edit has paid for itself (None: it never does, or it is kept)."""


@dataclass(frozen=True, slots=True)
class UnusedTool:
    """A tool that calls were told of and that no reply used."""

    name: str
    calls: int
    """The calls that it was defined in."""
    tokens: int
    """The tokens of its definition, in each of them."""
    dollars: float | None
    """What all of them paid for it in US dollars, read from the cache but for the first time."""


@dataclass(frozen=True, slots=True)
class Advice:
    """What the session's last call says; all empty where there was none."""

    call: int | None
    """The number of the last call."""
    window: int
    """Its tokens, by the engine's count."""
    messages: tuple[AdvisedMessage, ...]
    tools: tuple[UnusedTool, ...]

    def of(self, verdict: Verdict) -> list[AdvisedMessage]:
        """Return the largest messages of a verdict, the largest first."""
        return [each for each in self.messages if each.verdict == verdict][:_LISTED]

    @property
    def kept(self) -> set[str]:
        """Return the ids of all that is to be kept."""
        return {each.message_id for each in self.messages if each.verdict == "keep"}

    @property
    def tokens(self) -> int:
        """Return the tokens of all that may be shortened or dropped."""
        return sum(each.tokens for each in self.messages if each.verdict != "keep")


def advise(record: SessionRecord, name: str) -> Advice:
    """Return what to shorten, drop or keep, at the prices of the model `name`."""
    if not record.sent_calls:
        return Advice(None, 0, (), ())
    last = record.sent_calls[-1]
    window = _LastWindow(record, name)
    ranked = sorted(range(len(last.shown)), key=lambda at: -last.shown[at].tokens)[:_LARGEST]
    advised = [window.advised(at) for at in ranked if last.shown[at].tokens >= _FEWEST]
    messages = tuple(each for each in advised if each is not None)
    tools = sorted(_unused(record, name), key=lambda tool: -tool.tokens * tool.calls)
    return Advice(len(record.sent_calls), last.sent_tokens, messages, tuple(tools))


class _LastWindow:
    """The window of the last call, and what later calls used of each of its messages."""

    def __init__(self, record: SessionRecord, name: str) -> None:
        self._record = record
        self._shown = record.sent_calls[-1].shown
        self._behind = _tokens_behind(self._shown)
        self._uses = list(_texts_of_replies(record))
        self._first = _first_calls(record.sent_calls)
        self._marked = record.callout_names
        self._repeated = _repeats(record, self._shown)
        self._price, self._prices = rate(name), prices_of(name, warn=lambda _: None)
        size = record.sent_calls[-1].sent_tokens
        self._horizon = max(_FEW_CALLS, len(record.sent_calls))
        self._factor = self._prices.factor(size)
        self._fresh = fresh_price(self._prices, size)

    def advised(self, at: int) -> AdvisedMessage | None:
        """Return what to do with the message at a position.

        None: it is new, or not worth an edit.
        """
        shown = self._shown[at]
        stored = self._record.by_id[shown.message_id]
        used = self._last_use(shown, stored)
        verdict, why = self._verdict(shown, stored, used)
        if verdict is None:
            return None
        pays_after = None if verdict == "keep" else self._pays_after(at, verdict)
        if verdict != "keep" and (pays_after is None or pays_after > self._horizon):
            return None
        dollars = None
        if self._price is not None:
            units = shown.tokens * min(1.0, self._prices.read) * self._factor
            dollars = input_dollars(self._price, units)
        return AdvisedMessage(
            message_id=shown.message_id,
            verdict=verdict,
            what=what_is(stored, self._record),
            why=why,
            phase=stored.row.phase,
            turn=stored.row.turn,
            tokens=shown.tokens,
            calls=len(self._record.sent_calls) - self._first[shown.message_id] + 1,
            used=used,
            next_call=dollars,
            pays_after=pays_after,
        )

    def _verdict(
        self, shown: ShownMessage, stored: StoredRow, used: int | None
    ) -> tuple[Verdict | None, str]:
        """Return what to do with a message (None: nothing yet), and why."""
        last = len(self._record.sent_calls)
        age = last - self._first[shown.message_id]
        if name := self._marked.get(shown.message_id):
            return "keep", f"it is called out as {name!r}"
        if stored.row.message is None or stored.row.message.is_system:
            return "keep", "it says what the task is"
        if shown.shown_as is not None:
            return "keep", f"it is shortened already ({shown.because or 'edited'})"
        if shown.message_id in self._repeated:
            return "drop", "a later message says the same, word for word"
        if stored.row.message.role == "user":
            return "keep", "the user said it"
        if used is not None and last - used < _FRESH:
            return "keep", f"call {used} used something of it"
        if age < _FRESH:
            return None, "it is new"
        if stored.row.message.role != "tool":
            return "keep", "it is the model's own words"
        if used is None:
            return "shorten", f"none of {age} later calls used anything of it"
        return "shorten", f"call {used} was the last to use something of it"

    def _pays_after(self, at: int, verdict: Verdict) -> int | None:
        """N of the planner's formula, for which N * r * D = (w - r) * (S + d)."""
        left = _FEWEST if verdict == "shorten" else 0
        removed = self._shown[at].tokens - left
        if removed <= 0:
            return None
        anew = (self._fresh - self._prices.read) * (self._behind[at] + left)
        each = self._prices.read * removed
        return max(1, math.ceil(anew / each)) if each else None

    def _last_use(self, shown: ShownMessage, stored: StoredRow) -> int | None:
        """Return the last call whose reply holds a value or a line of the message."""
        message = stored.row.message
        first = self._first[shown.message_id]
        if message is None or message.role != "tool":
            return None
        own = set(_needed(message.text))
        later = range(len(self._uses), first - 1, -1)
        return next((number for number in later if self._uses[number - 1] & own), None)


def _needed(text: str) -> Iterator[str]:
    yield from values_in(text)
    yield from lines_in(text)


def _texts_of_replies(record: SessionRecord) -> Iterator[set[str]]:
    """Yield the values and lines of the reply of each call, but for those that users gave."""
    given: set[str] = set()
    replies: dict[str, Message] = {}
    for stored in record.rows:
        if (message := stored.row.message) is None:
            continue
        if message.role in ("user", "system", "developer"):
            given.update(_needed(message.text))
        else:
            replies[stored.row.trace_id] = message
    for call in record.sent_calls:
        reply = replies.get(call.trace_id)
        if reply is None:
            yield set()
            continue
        texts = [reply.text, *(each.arguments for each in reply.tool_calls)]
        yield {needed for text in texts for needed in _needed(text)} - given


def _first_calls(calls: Sequence[CallRecord]) -> Mapping[str, int]:
    """Return the first call that was sent each message, by the message's id."""
    first: dict[str, int] = {}
    for number, shown in new_in_each([call.shown for call in calls]):
        first.setdefault(shown.message_id, number)
    return first


def _tokens_behind(shown: Sequence[ShownMessage]) -> list[int]:
    """Return the tokens of a window behind each of its messages."""
    behind, rest = [0] * len(shown), 0
    for at in range(len(shown) - 1, -1, -1):
        behind[at] = rest
        rest += shown[at].tokens
    return behind


def _repeats(record: SessionRecord, shown: Iterable[ShownMessage]) -> set[str]:
    """Return the results that a later one of the same window repeats, by id."""
    last: dict[str, str] = {}
    repeated: set[str] = set()
    for each in shown:
        message = record.by_id[each.message_id].row.message
        if message is None or message.role != "tool" or each.shown_as is not None:
            continue
        if message.text in last:
            repeated.add(last[message.text])
        last[message.text] = each.message_id
    return repeated


def _unused(record: SessionRecord, name: str) -> Iterator[UnusedTool]:
    """Yield the tools that calls were told of, and that none used."""
    messages = (stored.row.message for stored in record.rows)
    used = {call.name for message in messages if message for call in message.tool_calls}
    counts: dict[str, int] = {}
    specs: dict[str, Mapping[str, Any]] = {}
    lists: dict[int, list[str]] = {}
    for call in record.sent_calls:
        names = lists.get(id(call.tools))
        if names is None:
            specs.update({tool["function"]["name"]: tool["function"] for tool in call.tools})
            names = lists[id(call.tools)] = [tool["function"]["name"] for tool in call.tools]
        for tool in names:
            counts[tool] = counts.get(tool, 0) + 1
    counter, price, prices = FamilyCounter(name), rate(name), prices_of(name, warn=lambda _: None)
    for tool, calls in counts.items():
        if tool in used or tool == RECALL.name:
            continue
        spec = ToolSpec(**{key: specs[tool][key] for key in ("name", "description", "parameters")})
        tokens = max(0, counter.tools([spec]) - counter.family.tools_frame)
        units = tokens * (prices.write + (calls - 1) * min(1.0, prices.read))
        yield UnusedTool(
            tool, calls, tokens, None if price is None else input_dollars(price, units)
        )
