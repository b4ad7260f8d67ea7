"""What a session's phases sent and cost, beside what a snowball would have.

Two streams of requests are billed alike, at the prices of one hosted model and
with its prompt cache (`prices.bill_stream`): the requests as they were sent, and
the requests a plain snowball would have sent at the same calls. Both are counted
by the hosted model's own counter, so that pictures have its price even where the
model that ran could not see them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from windlass.engine.record import BORN
from windlass.history.base import Keeper, NodeType, Row, StoredRow
from windlass.messages import Message, ToolSpec, canonical_json
from windlass.prices import bill_stream, rate
from windlass.tokens import FamilyCounter

Weighed = list[tuple[str, int]]


@dataclass(slots=True)
class PhaseCost:
    """One phase's line. Tokens in, cached and out as the provider reported them.

    `snowball` are the input tokens a snowball would have sent, by the engine's count.
    `dollars` and `snowball_dollars` are US dollars at the hosted model's prices (None:
    no price known), output included in both.
    """

    phase: str
    calls: int = 0
    tokens_in: int = 0
    tokens_cached: int = 0
    tokens_out: int = 0
    snowball: int = 0
    dollars: float | None = 0.0
    snowball_dollars: float | None = 0.0


@dataclass(frozen=True, slots=True)
class SessionCost:
    """A session's phases in order, and their sum. `priced_as` names the hosted model."""

    phases: tuple[PhaseCost, ...]
    total: PhaseCost
    priced_as: str


@dataclass(slots=True)
class _Streams:
    """The requests of a session as they were sent, and as a snowball would have sent them."""

    sent: list[Weighed] = field(default_factory=list[Weighed])
    snowball: list[Weighed] = field(default_factory=list[Weighed])
    output: list[int] = field(default_factory=list[int])
    rows: list[StoredRow] = field(default_factory=list[StoredRow])
    full: list[int] = field(default_factory=list[int])


def session_cost(keeper: Keeper, session_id: str, priced_as: str) -> SessionCost:
    """What each phase of a session cost at the prices of `priced_as`.

    Raises UsageError for an unknown session.
    """
    streams = _streams(keeper, session_id, FamilyCounter(priced_as))
    price = rate(priced_as)
    phases: dict[str, PhaseCost] = {}
    total = PhaseCost("all phases")
    billed: list[tuple[float | None, float | None]]
    if price is None:
        billed = [(None, None)] * len(streams.rows)
    else:
        billed = [
            (
                sent.dollars + out * price.output / 1e6,
                snowball.dollars + out * price.output / 1e6,
            )
            for sent, snowball, out in zip(
                bill_stream(price, streams.sent),
                bill_stream(price, streams.snowball),
                streams.output,
                strict=True,
            )
        ]
    for stored, full, (dollars, snowball_dollars) in zip(
        streams.rows, streams.full, billed, strict=True
    ):
        name = stored.row.phase or "-"
        for line in (phases.setdefault(name, PhaseCost(name)), total):
            line.calls += 1
            line.tokens_in += stored.row.tokens_in or 0
            line.tokens_cached += stored.row.tokens_cached or 0
            line.tokens_out += stored.row.tokens_out or 0
            line.snowball += full
            line.dollars = _sum(line.dollars, dollars)
            line.snowball_dollars = _sum(line.snowball_dollars, snowball_dollars)
    return SessionCost(tuple(phases.values()), total, priced_as)


def _sum(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other


def _streams(keeper: Keeper, session_id: str, counter: FamilyCounter) -> _Streams:
    keeper.start(session_id)  # an unknown session is told here
    calls = {call.trace_id: call for call in keeper.calls(session_id)}
    messages: dict[str, Message] = {}
    keys: dict[str, str] = {}
    system: Row | None = None
    born: Weighed = []
    streams = _Streams()
    for stored in keeper.rows(session_id):
        row = stored.row
        if row.message is not None and stored.id is not None and stored.key is not None:
            messages[stored.key] = row.message
            keys[stored.id] = stored.key
        if row.node_type == NodeType.SYSTEM:
            system = row
        call = calls.get(row.trace_id)
        if call is not None and row.message is not None:
            tools = _weighed_tools(counter, call.tools)
            shown = [shown.shown_as or keys[shown.message_id] for shown in call.shown]
            edited = {body.key: body for body in call.bodies}
            sent = [(key, _count(counter, key, messages, edited, keeper)) for key in shown]
            prompt = system.message if system and system.phase == row.phase else None
            first = [] if prompt is None else [(prompt.key, counter.message(prompt))]
            streams.sent.append([tools, *sent])
            streams.snowball.append([tools, *first, *born])
            streams.output.append(counter.message(row.message))
            streams.rows.append(stored)
            streams.full.append(call.full_tokens)
        if row.node_type in BORN and row.message is not None:
            born.append((row.message.key, counter.message(row.message)))
    return streams


def _count(
    counter: FamilyCounter,
    key: str,
    messages: Mapping[str, Message],
    edited: Mapping[str, Message],
    keeper: Keeper,
) -> int:
    message = messages.get(key) or edited.get(key) or keeper.message(key)
    return counter.message(message)


def _weighed_tools(counter: FamilyCounter, tools: Sequence[Mapping[str, Any]]) -> tuple[str, int]:
    specs = [
        ToolSpec(
            tool["function"]["name"],
            tool["function"]["description"],
            tool["function"]["parameters"],
        )
        for tool in tools
    ]
    return "tools:" + canonical_json(list(tools)), counter.tools(specs) + counter.opening
