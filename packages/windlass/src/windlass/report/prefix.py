"""What each call shares with the one before it, and what broke the rest: the prefix report.

A provider's cache holds beginnings of requests. Where a request differs from the one before,
at a message and a character, all behind it is read anew; here stands where, and because of what.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from windlass.caching.bill import fresh_price
from windlass.caching.rates import input_dollars, prices_of, rate
from windlass.history.base import Store
from windlass.history.lanes import Lane
from windlass.messages import Message, Text
from windlass.report.calls import Call, SeenMessage, SessionRecord

_SHOWN = 40


@dataclass(frozen=True, slots=True)
class Prefix:
    """One call: what of it stands as in the call before, and what broke the rest."""

    call: int
    phase: str | None
    turn: int | None
    sent: int
    """Tokens, by the engine's count."""
    shared: int
    """Those that stand as in the call before."""
    predicted: int | None
    """Those that should have been read from the cache (None: no cache of the model is known)."""
    reported: int
    """Those that the provider says were read from it."""
    message: int | None = None
    """The first message that differs, from 0 (None: nothing differs, or the tools do)."""
    character: int | None = None
    """Where in it the texts part."""
    injector: str | None = None
    """Whose block stands there."""
    broken_by: str = ""
    """What broke it, in a clause (empty: the call only goes on)."""


@dataclass(frozen=True, slots=True)
class PrefixBreak:
    """Where a call parts from the one before: what stood behind there, and had to be read anew."""

    prefix: Prefix
    tokens: int
    """Tokens of the call before that no longer stood as they were."""
    dollars: float | None
    """What they cost beyond being read from the cache, in US dollars (None: no price is known)."""


def breaks_of(
    calls: Sequence[Call], prefixes: Sequence[Prefix], name_of: Callable[[str], str]
) -> Iterator[PrefixBreak]:
    """Yield the breaks of a session, in order.

    `name_of` names the model at whose prices a model's calls are told.
    """
    for call, before in with_before(calls):
        prefix = prefixes[call.number - 1]
        if prefix.broken_by and before is not None:
            tokens = max(0, before.sent_tokens - prefix.shared)
            yield PrefixBreak(prefix, tokens, _dearer(name_of(call.model), call, tokens))


def _dearer(name: str, call: Call, tokens: int) -> float | None:
    """Return what tokens of a call cost beyond being read from the cache of the model `name`."""
    price = rate(name)
    if price is None:
        return None
    prices = prices_of(name, warn=lambda _: None)
    fresh = fresh_price(prices, call.sent_tokens)
    units = prices.factor(call.sent_tokens) * tokens * (fresh - prices.read)
    return input_dollars(price, units) if prices.caches else 0.0


def prefix_of(store: Store, session_id: str) -> tuple[Prefix, ...]:
    """Return the prefix of each call of a session, in order.

    Raises UsageError for an unknown session.
    """
    return prefixes_of(SessionRecord(store, session_id).calls)


def prefixes_of(calls: Sequence[Call]) -> tuple[Prefix, ...]:
    """Return the prefix of each of these calls of a session."""
    return tuple(_prefix(call, before) for call, before in with_before(calls))


def with_before(calls: Sequence[Call]) -> Iterator[tuple[Call, Call | None]]:
    """Each call with the one that it goes on from: of its lane, or of that which this continues.

    A task begins anew, after whatever call was made before.
    """
    newest: dict[Lane, Call] = {}
    last: Call | None = None
    for call in calls:
        begins = last if call.lane.continues is None else None
        before = (newest[lane] for lane in call.lane.chain() if lane in newest)
        yield call, next(before, begins)
        newest[call.lane] = last = call


def _prefix(call: Call, before: Call | None) -> Prefix:
    recorded, cache = call.details.prefix, call.details.cache
    prefix = Prefix(
        call=call.number,
        phase=call.phase,
        turn=call.turn,
        sent=call.sent_tokens,
        shared=recorded.shared_tokens if recorded else 0,
        predicted=cache.expected if cache else None,
        reported=call.tokens_cached,
    )
    if before is None or recorded is None or recorded.broken_by is None:
        return prefix
    if recorded.broken_by == "tools":
        mine, its = call.tool_names, before.tool_names
        changed = [name for name in (*mine, *its) if (name in mine) != (name in its)]
        names = f": {', '.join(dict.fromkeys(changed))}" if changed else ""
        return replace(prefix, broken_by=f"other tools{names}")
    at = _first_other(call, before)
    if at is None:
        missing = len(before.shown) - len(call.shown)
        reason = f"the call before had {missing} messages more"
        return replace(prefix, message=len(call.shown), broken_by=reason)
    now, was = call.see(at), before.see(at)
    character = _first_difference(now.message, was.message)
    injector = _injector_at(call, at, now.message, character) or _injector_at(
        before, at, was.message, character
    )
    reason = _reason(now, was, character, injector)
    return replace(prefix, message=at, character=character, injector=injector, broken_by=reason)


def _first_other(now: Call, was: Call) -> int | None:
    """Return the first position at which two calls are sent something else.

    None where one ends first.
    """
    key = now.session.key
    # Entries that did not change are one object: thousands of calls are compared in no time.
    pairs = enumerate(zip(now.shown, was.shown, strict=False))
    others = ((at, mine, its) for at, (mine, its) in pairs if mine is not its)
    return next((at for at, mine, its in others if key(mine) != key(its)), None)


def _reason(now: SeenMessage, was: SeenMessage, character: int, injector: str | None) -> str:
    text = now.message.text[character : character + _SHOWN]
    shown = f" ({' '.join(text.split())!r})" if text.strip() else ""
    if now.message_id != was.message_id and not now.message.is_system:
        return f"another message stands there: {now.reason}"
    if now.edit and now.edit != was.edit:
        return f"it was edited: {now.edit}"
    if was.has_block and not now.because:
        return "the block at its end was taken away"
    if injector is not None:
        return f"the block of {injector} has changed{shown}"
    return f"{now.reason} has changed{shown}"


def _first_difference(now: Message, was: Message) -> int:
    """Return the first character at which the texts differ; 0 where something else does."""
    mine, theirs = now.text, was.text
    if now.role != was.role or mine == theirs:
        return 0
    pairs = enumerate(zip(mine, theirs, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(mine), len(theirs)))


def _injector_at(call: Call, at: int, message: Message, character: int) -> str | None:
    """Return the injector whose block holds a character of a message."""
    injectors = call.details.injectors
    here = [block for block in injectors.blocks if block.message == at] if injectors else []
    start = 0
    for number, part in enumerate(message.parts):
        if not isinstance(part, Text):
            continue
        end = start + len(part.text)
        if start <= character <= end:
            names = [block.injector for block in here if block.part == number]
            if names:
                return " or ".join(names)
        start = end + 1
    return None
