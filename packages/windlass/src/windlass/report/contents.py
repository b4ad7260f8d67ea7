"""What a call's context was made of, and the messages of a session that were paid for most."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from windlass.caching.meter import Share
from windlass.errors import UsageError
from windlass.history.base import NodeType, Store, StoredRow
from windlass.messages import Message
from windlass.report.account import TOOLS, Account, CallCharge
from windlass.report.calls import SessionRecord, tokens_of_tools

MESSAGES: Final = 10
"""How many of the dearest messages are told."""


@dataclass(frozen=True, slots=True)
class ContextPart:
    """What of a call's context is system, tools, user, assistant, tool results or pictures.

    Tokens by our count; `messages` are the messages that have any of it, or the tools.
    """

    kind: str
    messages: int
    tokens: int
    chars: int


@dataclass(frozen=True, slots=True)
class MessageCost:
    """A message, and what was paid for sending it."""

    session_id: str
    message_id: str
    what: str
    """What it is, in words."""
    phase: str
    """Where it was said, as `turn` is."""
    turn: int | None
    chars: int
    """The characters of the original."""
    tokens: int
    """The tokens of the original."""
    calls: int
    """The calls that it was sent in."""
    tokens_sent: int
    """Its tokens in all those calls together."""
    dollars: float | None
    """US dollars, by our count (None: no price is known)."""


@dataclass(frozen=True, slots=True)
class ToolCost:
    """The results of a tool, and what was paid for sending them.

    `calls` counts how often a result was sent with a call, `tokens_sent` what was sent of them in
    all. US dollars by our count (None: no price is known).
    """

    tool: str
    results: int
    calls: int
    tokens_sent: int
    dollars: float | None


@dataclass(frozen=True, slots=True)
class ContextReport:
    """One call: what it cost, what its context was made of, and its largest messages.

    The `tokens` of those are what was sent of them in this call. `sent` are the ids of all that
    it was sent.
    """

    cost: CallCharge
    parts: tuple[ContextPart, ...]
    messages: tuple[MessageCost, ...]
    sent: frozenset[str] = field(default=frozenset(), repr=False)


def call_report(store: Store, session_id: str, number: int, price_as: str) -> ContextReport:
    """Call `number` of a session, from 1. Raises UsageError where there is none."""
    account = Account(store, session_id, price_as)
    for call in account.costs:
        if call.number == number:
            return call_report_of("", account, call)
    last = max((call.number for call in account.costs), default=0)
    there = f"it has calls 1 to {last}" if last else "it made none"
    raise UsageError(f"session {session_id!r} has no call {number} that was answered; {there}")


def dearest_messages(accounts: Iterable[tuple[str, Account]]) -> list[MessageCost]:
    """Return the messages that were paid for most, the dearest first."""
    messages = [
        _cost_of_message(prefix, account, message_id, paid)
        for prefix, account in accounts
        for message_id, paid in _dearest(account)
    ]
    return sorted(messages, key=lambda each: each.dollars or 0.0, reverse=True)[:MESSAGES]


def costs_by_tool(accounts: Iterable[tuple[str, Account]]) -> list[ToolCost]:
    """Return what the results of each tool were paid for, the dearest tool first."""
    results: dict[str, int] = {}
    paid: dict[str, Share] = {}
    is_priced = False
    for _, account in accounts:
        shares = account.sent.messages
        is_priced = is_priced or bool(shares)
        for message_id, stored in account.record.by_id.items():
            message = stored.row.message
            if message is None or message.role != "tool":
                continue
            name = message.name or account.record.tool_of(message) or "a tool"
            results[name] = results.get(name, 0) + 1
            paid[name] = paid.get(name, Share()) + shares.get(message_id, Share())
    costs = [
        ToolCost(name, results[name], share.calls, share.tokens, share.paid if is_priced else None)
        for name, share in paid.items()
    ]
    return sorted(costs, key=lambda cost: cost.dollars or 0.0, reverse=True)


def _dearest(account: Account) -> list[tuple[str, Share]]:
    """The dearest of a session; what each sounding was sent of its own counts as one message."""
    found: dict[tuple[str | None, ...], tuple[str, Share]] = {}
    for message_id, paid in account.sent.messages.items():
        stored = account.record.by_id.get(message_id)
        if stored is None or stored.row.sounding_index is None:
            key: tuple[str | None, ...] = (message_id,)
        else:
            content = message_id.partition("-")[0]
            key = content, stored.row.phase, str(stored.row.turn)
        first, before = found.get(key, (message_id, Share()))
        found[key] = first, before + paid
    return sorted(found.values(), key=lambda each: each[1].paid, reverse=True)[:MESSAGES]


def _cost_of_message(
    prefix: str, account: Account, message_id: str, paid: Share | None
) -> MessageCost:
    record = account.record
    paid, dollars = paid or Share(), None if paid is None else paid.paid
    common = (paid.calls, paid.tokens, dollars)
    if message_id == TOOLS:
        sent = [call for call in account.calls if call.tools and not call.inherited]
        lists = {id(call.tools): call.tools for call in sent}.values()
        names = {tool["function"]["name"] for tools in lists for tool in tools}
        what = f"definitions of tools ({len(names)})" if names else "what opens each answer"
        if account.missing:
            what = "what was not recorded (tools, system prompt)"
        calls = len(sent) or paid.calls
        tokens = paid.tokens // max(1, calls)
        return MessageCost(record.session_id, TOOLS, what, "", None, 0, tokens, calls, *common[1:])
    stored = record.by_id[message_id]
    row, message = stored.row, stored.row.message or Message("user")
    counter = account.counter(account.calls[0].model)
    return MessageCost(
        record.session_id,
        message_id,
        what_is(stored, record),
        prefix + record.line(row),
        row.turn,
        message.chars,
        record.tokens(counter, message),
        *common,
    )


def what_is(stored: StoredRow, record: SessionRecord) -> str:
    """Return what a message is, in words."""
    row, message = stored.row, stored.row.message
    if message is None or message.is_system:
        return "the system prompt"
    if message.role == "tool":
        called = message.name or record.tool_of(message) or "a tool"
        with_picture = " with a picture" if message.pictures else ""
        return f"the result of {called}{with_picture}"
    if message.role == "assistant":
        return "the reply"
    if row.node_type == NodeType.CONTEXT_INJECTION:
        return "what was brought in"
    return "a picture" if message.pictures and not message.text else "the user's message"


def call_report_of(prefix: str, account: Account, cost: CallCharge) -> ContextReport:
    """Return what a call of an account cost; `prefix` stands before the names of phases."""
    record = account.record
    call = next(each for each in account.calls if each.number == cost.number)
    counter = account.counter(call.model)
    tools = [[len(call.tools), tokens_of_tools(counter, call.tools), len(str(call.tools))]]
    found = dict[str, list[list[int]]](system=[], tools=tools if call.tools else [])
    found |= {"user": [], "assistant": [], "tool results": [], "pictures": []}
    sizes: dict[str, int] = {}
    for shown in call.shown:
        message = record.sent(shown)[1]
        pictures = sum(counter.picture(picture) for picture in message.pictures)
        tokens = record.tokens(counter, message)
        sizes[shown.message_id] = tokens
        kind = "tool results" if message.role == "tool" else message.role
        found["system" if message.is_system else kind].append([1, tokens - pictures, message.chars])
        if pictures:
            found["pictures"].append([len(message.pictures), pictures, 0])
    largest = sorted(sizes, key=sizes.__getitem__, reverse=True)[:MESSAGES]
    paid = account.sent.messages
    return ContextReport(
        cost,
        tuple(
            ContextPart(kind, *map(sum, zip(*sums, strict=True)))
            for kind, sums in found.items()
            if sums
        ),
        tuple(
            replace(_cost_of_message(prefix, account, each, paid.get(each)), tokens=sizes[each])
            for each in largest
        ),
        frozenset(sizes) | ({TOOLS} if call.tools or account.missing else frozenset()),
    )
