"""What each message paid of each call, and the life of one: its calls, its edits, its recalls.

A provider's cache holds the beginning of a request, so that a message pays for its place: what
stands in the cached part is read, the rest is fresh or written. The shares of a call's messages and
of its tools add up to the bill of its input.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from windlass.caching.bill import fresh_price
from windlass.caching.prices import Prices
from windlass.caching.rates import Rate, prices_of, rate
from windlass.errors import UsageError
from windlass.history.base import CallRecord, ShownMessage, StoredRow
from windlass.history.row_details import ReplyDetails
from windlass.messages import ToolCall
from windlass.report.call_views import SessionView
from windlass.report.calls import Call, SessionRecord
from windlass.report.contents import what_is
from windlass.window.originals import RECALL, matching, reference


@dataclass(frozen=True, slots=True)
class PaidMessage:
    """A message in one call, and its share of the bill of the call's input."""

    call: int
    phase: str | None
    position: int
    """Its place among the messages, from 0."""
    tokens: int
    """What was sent of it, by the engine's count."""
    dollars: float | None
    """US dollars (None: no price is known)."""
    read: float
    """The share of it that the provider read from its cache, from 0 to 1."""
    reason: str
    because: str | None
    """The names of the edits that changed it."""
    is_whole: bool
    """Whether it was sent as it was said."""

    @property
    def state(self) -> str:
        """Return how it was sent: `whole`, or `changed (digest)`."""
        return "whole" if self.is_whole else f"changed ({self.because or 'edited'})"


@dataclass(frozen=True, slots=True)
class EditOfMessage:
    """An edit of a message, and the first call that was sent without what it took.

    `call` is None where no call came after it.
    """

    call: int | None
    kind: str
    because: str
    reason: str


@dataclass(frozen=True, slots=True)
class MessageLife:
    """A message from its birth on. `stored` is its row."""

    message_id: str
    what: str
    """What it is, in words."""
    reference: str
    """What `recall` takes."""
    stored: StoredRow
    born: int | None
    """The number of the call whose reply it is (None: no call's)."""
    paid: tuple[PaidMessage, ...]
    edits: tuple[EditOfMessage, ...]
    recalls: tuple[int, ...]
    """The calls whose replies asked for it again."""
    callout: str | None

    @property
    def dollars(self) -> float | None:
        """Return what all calls paid for it in US dollars (None: no price is known)."""
        known = [each.dollars for each in self.paid if each.dollars is not None]
        return sum(known) if known else None

    @property
    def spans(self) -> list[str]:
        """Return how it was sent, and in which calls: `whole in calls 3-41`."""
        numbered = ((each.state, each.call - at) for at, each in enumerate(self.paid))
        spans: list[str] = []
        at = 0
        for (state, _), group in groupby(numbered):
            length = len(list(group))
            first, last = self.paid[at].call, self.paid[at + length - 1].call
            at += length
            spans.append(
                f"{state} in call {first}" if length == 1 else f"{state} in calls {first}-{last}"
            )
        return spans


class ModelPrices(NamedTuple):
    """What a model charges: its rate (None: no price is known), and its cache's prices."""

    rate: Rate | None
    prices: Prices

    @classmethod
    def by(cls, name: str) -> ModelPrices:
        """Return what the model `name` charges."""
        return cls(rate(name), prices_of(name, warn=lambda _: None))


@dataclass(frozen=True, slots=True)
class SpanPrices:
    """The bill of one call's input, so that any span of its tokens has a price.

    Tokens are by the engine's count; `cached` of them are read, and prices are US dollars a token.
    """

    cached: float
    read: float | None
    rest: float | None

    @classmethod
    def of(cls, call: Call, charged: ModelPrices, written: int | None) -> SpanPrices:
        """Return the bill of a call.

        `written` are the tokens that the provider wrote to its cache (None: all that it could).
        """
        tokens_in = call.tokens_in or call.sent_tokens
        scale = tokens_in / call.sent_tokens if call.sent_tokens else 1.0
        cached = call.tokens_cached
        if not call.tokens_in:  # nothing was reported: what stands as in the call before
            prefix = call.details.prefix
            cached = prefix.shared_tokens if prefix else 0
        cached = min(cached, tokens_in)
        if charged.rate is None or not tokens_in:
            return cls(cached / scale, None, None)
        prices, fresh = charged.prices, tokens_in - cached
        if written is None:
            share, dearer = 1.0, fresh_price(prices, tokens_in)
        else:
            share = min(written, fresh) / fresh if fresh else 0.0
            dearer = charged.rate.cache_write / charged.rate.input if charged.rate.input else 1.0
        token = prices.factor(tokens_in) * charged.rate.input / 1e6 * scale
        return cls(cached / scale, token * prices.read, token * (share * dearer + 1.0 - share))

    def share(self, begin: int, end: int) -> tuple[float | None, float]:
        """Return the price of the tokens of a span, and the share of them that was read."""
        inside = max(0.0, min(end, self.cached) - begin)
        share = inside / (end - begin) if end > begin else 0.0
        if self.read is None or self.rest is None:
            return None, share
        return inside * self.read + (end - begin - inside) * self.rest, share


def head_tokens(call: CallRecord) -> int:
    """Return the tokens of a call that no message has: its tools, and what opens the answer."""
    return max(0, call.sent_tokens - sum([shown.tokens for shown in call.shown]))


def paid_in(record: SessionRecord, call: Call, name: str) -> Iterator[PaidMessage]:
    """Yield what each message of a call paid, in order, at the prices of the model `name`."""
    recorded = record.sent_calls[call.number - 1]
    written = _written(record) if name == call.model else {}
    bill = SpanPrices.of(call, ModelPrices.by(name), written.get(recorded.trace_id))
    begin = head_tokens(recorded)
    for position, shown in enumerate(recorded.shown):
        yield _paid_message(call, position, shown, bill, begin)
        begin += shown.tokens


def _paid_message(
    call: Call, position: int, shown: ShownMessage, bill: SpanPrices, begin: int
) -> PaidMessage:
    """Return an entry of a window whose tokens begin behind `begin` others."""
    dollars, read = bill.share(begin, begin + shown.tokens)
    return PaidMessage(
        call=call.number,
        phase=call.phase,
        position=position,
        tokens=shown.tokens,
        dollars=dollars,
        read=read,
        reason=shown.reason,
        because=shown.because,
        is_whole=shown.shown_as is None,
    )


def life_of(
    record: SessionRecord, view: SessionView, name_of: Callable[[str], str], message_id: str
) -> MessageLife:
    """The life of a message; `name_of` names the model at whose prices a model's calls are told.

    Raises UsageError where the session has no such message.
    """
    stored = record.by_id.get(message_id)
    if stored is None or stored.row.message is None:
        raise UsageError(f"session {record.session_id!r} has no message {message_id!r}")
    born = {call.trace_id: number for number, call in enumerate(record.sent_calls, start=1)}
    edits = enumerate(record.store.edits(record.session_id), start=1)
    names = {call.model: name_of(call.model) for call in view.calls}
    return MessageLife(
        message_id,
        what_is(stored, record),
        reference(stored.row.message),
        stored,
        born.get(stored.row.trace_id),
        tuple(_paid(record, view.calls, names, message_id)),
        tuple(
            EditOfMessage(_call_of(view.calls, number), edit.kind, edit.because, edit.reason)
            for number, edit in edits
            if edit.message_id == message_id
        ),
        tuple(_recalls(view.calls, stored.row.message.content_hash)),
        next((each.name for each in view.callouts if each.message_id == message_id), None),
    )


def _paid(
    record: SessionRecord, calls: Sequence[Call], names: Mapping[str, str], message_id: str
) -> Iterator[PaidMessage]:
    at: int | None = None
    written = _written(record)
    charged = {name: ModelPrices.by(name) for name in set(names.values())}
    for call, recorded in zip(calls, record.sent_calls, strict=True):
        at = _place(recorded.shown, message_id, at)
        if at is not None:
            name = names[call.model]
            of_call = written.get(recorded.trace_id) if name == call.model else None
            begin = head_tokens(recorded) + sum([each.tokens for each in recorded.shown[:at]])
            bill = SpanPrices.of(call, charged[name], of_call)
            yield _paid_message(call, at, recorded.shown[at], bill, begin)


def _place(shown: Sequence[ShownMessage], message_id: str, before: int | None) -> int | None:
    """Return where a message stands in a window; most stand where they did in the one `before`."""
    if before is not None and before < len(shown) and shown[before].message_id == message_id:
        return before
    places = (at for at, each in enumerate(shown) if each.message_id == message_id)
    return next(places, None)


def _written(record: SessionRecord) -> Mapping[str, int]:
    """Return the tokens that each call wrote to the provider's cache, as it reported."""
    rows = (stored.row for stored in record.rows if stored.row.model is not None)
    replies = ((row.trace_id, ReplyDetails.read(row)) for row in rows)
    return {trace: reply.tokens_written for trace, reply in replies if reply is not None}


def _call_of(calls: Sequence[Call], edit: int) -> int | None:
    """Return the first call that edit number `edit` of the session shaped."""
    known = (call.number for call in calls if (call.details.edits or 0) >= edit)
    return next(known, None)


def _recalls(calls: Iterable[Call], content_hash: str) -> Iterator[int]:
    """Yield the calls whose replies ask for a message again."""
    for call in calls:
        for asked in call.reply.tool_calls:
            if asked.name == RECALL.name and _is_meant(asked, content_hash):
                yield call.number


def _is_meant(asked: ToolCall, content_hash: str) -> bool:
    try:
        ref = asked.parsed().get("ref")
    except (ValueError, RecursionError):
        return False
    return bool(matching(str(ref), [content_hash]))
