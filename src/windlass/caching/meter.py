"""What the requests of a session cost with a prompt cache, and what each shares with the last."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, NamedTuple, TypedDict

from windlass.caching.bill import cached_tokens, fresh_price, input_units
from windlass.caching.prices import Prices
from windlass.messages import Message, ToolSpec, canonical_json
from windlass.text.tokens import Counter, Reading

_REMEMBERED: Final = 8
"""Requests back in which a `Meter` looks for a prefix: what went before them is seldom
longer than what they share."""

_TOOLS: Final = "tools:"
"""The beginning of the identity of a request's tools."""

Segments = list[tuple[str, int]]
"""A request as (identity, tokens): its tools, and each message, in the order of a cache."""


def weigh(
    counter: Counter,
    messages: Sequence[Message],
    tools: Sequence[ToolSpec],
    *,
    tools_first: bool = True,
) -> Segments:
    """The request as identities and tokens, in the order its provider caches it.

    Hosted providers put the tools first; a model that is handed its own prompt may put them behind
    the system prompt (`tools_first=False`). The tokens that open every answer count with the tools,
    because they never change.
    """
    named = _TOOLS + canonical_json([spec.to_openai() for spec in tools])
    weighed = [(message.key, counter.message(message)) for message in messages]
    behind = 0 if tools_first or not messages or not messages[0].is_system else 1
    weighed.insert(behind, (named, counter.tools(tools) + counter.opening))
    return weighed


def pieces(
    counter: Counter, messages: Sequence[Message], tools: Sequence[ToolSpec], weighed: Segments
) -> Segments:
    """The request in the pieces that a cache compares: to the token, where the counter can.

    `weighed` is the same request message by message.
    """
    if not isinstance(counter, Reading):
        return weighed
    return [(str(token), 1) for token in counter.prompt(messages, tools)]


_LEFT: Final = 10
"""About how many tokens replace a cleared result."""


@dataclass(frozen=True, slots=True)
class Cleared:
    """What a provider cleared from a request: the results of its oldest `uses` tool calls.

    Those of `excluded` tools do not count.
    """

    uses: int = 0
    excluded: frozenset[str] = frozenset()

    def places(self, messages: Sequence[Message]) -> list[int]:
        """The positions of the cleared results in a request with these messages."""
        names = {call.id: call.name for message in messages for call in message.tool_calls}
        return [
            at
            for at, message in enumerate(messages)
            if message.role == "tool"
            and not message.is_uncalled
            and (message.name or names.get(message.tool_call_id or "")) not in self.excluded
        ][: self.uses]

    def left(self, request: Segments, messages: Sequence[Message]) -> Segments:
        """The request with these messages as the provider's cache has it."""
        pieces = [at for at, (name, _) in enumerate(request) if not name.startswith(_TOOLS)]
        left = list(request)
        for place in self.places(messages[: len(pieces)]):
            name, tokens = request[pieces[place]]
            left[pieces[place]] = f"cleared:{name}", min(tokens, _LEFT)
        return left


def shared_tokens(one: Sequence[tuple[str, int]], other: Sequence[tuple[str, int]]) -> int:
    """Tokens of the common beginning of two requests."""
    return sum(tokens for _, tokens in one[: _shared_pieces(one, other)])


def _shared_pieces(one: Sequence[tuple[str, int]], other: Sequence[tuple[str, int]]) -> int:
    count = 0
    for (mine, _), (theirs, _) in zip(one, other, strict=False):
        if mine != theirs:
            break
        count += 1
    return count


class PrefixDetails(TypedDict):
    """What a request shares with the one before, and what broke the rest (None: nothing)."""

    shared_tokens: int
    new_prefix: bool
    broken_by: str | None


def prefix_report(
    before: Sequence[tuple[str, int]], now: Sequence[tuple[str, int]]
) -> PrefixDetails:
    """How many tokens of the request are unchanged, and what broke the prefix.

    `broken_by` is None for a first request and for one that only appends; else `tools`, or the
    place of the first message that differs, counted from 0.
    """
    same = _shared_pieces(now, before)
    if not before or same == len(before):
        broken = None
    else:
        at_tools = same < len(now) and now[same][0].startswith(_TOOLS)
        messages = sum(not name.startswith(_TOOLS) for name, _ in now[:same])
        broken = "tools" if at_tools else f"message {messages}"
    return {
        "shared_tokens": shared_tokens(now, before),
        "new_prefix": broken is not None,
        "broken_by": broken,
    }


@dataclass(frozen=True, slots=True)
class Bill:
    """One request of a stream as a caching provider would bill it.

    `tokens` and those of them read from the cache; `units` is the input's price in fresh
    input tokens of the first tier. `goes_on`: it begins with all of the request before it.
    """

    tokens: int
    cached: int
    units: float
    goes_on: bool = False


class _Kept(NamedTuple):
    """A request sent `at`: its pieces, its tokens, and how many a cache holds (None: all).

    The pieces of its reply follow, where a cache keeps replies.
    """

    pieces: Sequence[tuple[str, int]]
    tokens: int
    held: int | None
    at: float | None


class Meter:
    """Bills the requests of a session to one model with its cache, input side only.

    A request is its messages in order as (identity, tokens); tools and system come first. It costs
    what `bill.input_units` says. What is read is the longest prefix that it shares with one of the
    requests before it within `ttl_s`, as `bill.cached_tokens` has it. This is how providers bill a
    prefix whose marks, if they need any, are in the best places (platform.claude.com,
    developers.openai.com: prompt caching). Tokens after the last mark are not written: they cost 1
    each, and no later request finds them.
    """

    def __init__(self, prices: Prices) -> None:
        self.prices = prices
        self._before = deque[_Kept]([], _REMEMBERED)

    def expect(
        self,
        request: Sequence[tuple[str, int]],
        at: float | None = None,
        written: int | None = None,
    ) -> Bill:
        """What the request would cost if sent at `at` seconds (None: nothing expires).

        Its first `written` pieces are written to the cache (None: all).
        """
        total = sum(tokens for _, tokens in request)
        shared, last = 0, -1
        for before in self._before:
            last = shared_tokens(request, before.pieces)
            if _lives(self.prices, before.at, at):
                shared = max(shared, last if before.held is None else min(last, before.held))
        goes_on = bool(self._before) and last >= self._before[-1].tokens
        unwritten = 0 if written is None else sum(tokens for _, tokens in request[written:])
        return _billed(self.prices, total, shared, unwritten, goes_on=goes_on)

    def bill(
        self,
        request: Sequence[tuple[str, int]],
        at: float | None = None,
        reply: Sequence[tuple[str, int]] = (),
        written: int | None = None,
    ) -> Bill:
        """Bill the request as sent; `reply` is kept after it if the cache keeps replies."""
        billed = self.expect(request, at, written)
        held = None if written is None else sum(tokens for _, tokens in request[:written])
        kept = [*request, *reply] if reply else request
        self._before.append(_Kept(kept, billed.tokens, held, at))
        return billed


def _lives(prices: Prices, sent: float | None, at: float | None) -> bool:
    """Whether a cache still holds what was sent at `sent` seconds."""
    return at is None or sent is None or not prices.lapsed(at - sent)


def _billed(
    prices: Prices, total: int, shared: int, unwritten: int = 0, *, goes_on: bool = False
) -> Bill:
    """A request of so many tokens, of which the cache holds `shared` at most.

    The last `unwritten` are not written to it.
    """
    cached = int(cached_tokens(prices, shared))
    fresh = fresh_price(prices, total - unwritten)
    unwritten = min(unwritten, total - cached)
    units = input_units(prices, total, cached, unwritten=unwritten, fresh=fresh)
    return Bill(total, cached, units, goes_on)


@dataclass(slots=True)
class _Earlier:
    """A request before the last: its first `same` pieces equal those of the one after it.

    `tail` are its other pieces, `at` when it was sent.
    """

    same: int
    tail: Segments
    at: float | None


class MeteredStream:
    """Bills requests to one model as a `Meter` does, each given as what is new in it.

    A session of ten thousand calls with thousands of messages each takes time for its messages, not
    for the sum of its requests.
    """

    def __init__(self, prices: Prices) -> None:
        self.prices = prices
        self._last: Segments = []
        self._sums = [0]  # tokens before each piece of the last request, and of all
        self._at: float | None = None
        self._before = deque[_Earlier]([], _REMEMBERED)
        self._begun = False

    def bill(self, kept: int, more: Segments, at: float | None = None) -> Bill:
        """The next request: the first `kept` pieces of the last one, then `more`."""
        same = kept + _shared_pieces(more, self._last[kept:])
        tail, self._last[same:] = self._last[same:], more[same - kept :]
        goes_on = self._begun and not tail
        del self._sums[same + 1 :]
        self._sums.extend(list(accumulate(self._tokens(same), initial=self._sums[-1]))[1:])
        if self._begun:
            self._before.appendleft(_Earlier(same, tail, self._at))
        shared = self._shared(at)
        self._at, self._begun = at, True
        return _billed(self.prices, self._sums[-1], shared, goes_on=goes_on)

    def _tokens(self, start: int) -> list[int]:
        return [tokens for _, tokens in self._last[start:]]

    def _shared(self, at: float | None) -> int:
        """The tokens that a cache may hold of the last request, from those before it."""
        most, same = 0, len(self._last)
        for earlier in self._before:
            if same == earlier.same:  # both part there from the request between them
                same += _shared_pieces(self._last[same : same + len(earlier.tail)], earlier.tail)
            else:
                same = min(same, earlier.same)
            if _lives(self.prices, earlier.at, at):
                most = max(most, same)
        return self._sums[most]
