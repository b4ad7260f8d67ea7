"""What the requests of a session cost with a prompt cache, and what each shares with the last.

What each piece of the requests to a model costs: its share of the input's bill.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, Final, NamedTuple, TypeAlias

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
    """Return the request as identities and tokens, in the order its provider caches it.

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
    """Return the request in the pieces that a cache compares: to the token, where the counter can.

    `weighed` is the same request message by message.
    """
    if not isinstance(counter, Reading):
        return weighed
    return [(str(token), 1) for token in counter.prompt(messages, tools)]


_LEFT: Final = 10
"""About how many tokens replace a cleared result."""


@dataclass(frozen=True, slots=True)
class Clearing:
    """What a provider cleared from a request: the results of its oldest `uses` tool calls.

    Those of `excluded` tools do not count.
    """

    uses: int = 0
    excluded: frozenset[str] = frozenset()

    def places(self, messages: Sequence[Message]) -> list[int]:
        """Return the positions of the cleared results in a request with these messages."""
        names = {call.id: call.name for message in messages for call in message.tool_calls}
        return [
            at
            for at, message in enumerate(messages)
            if message.role == "tool"
            and not message.is_uncalled
            and (message.name or names.get(message.tool_call_id or "")) not in self.excluded
        ][: self.uses]

    def left(self, request: Segments, messages: Sequence[Message]) -> Segments:
        """Return the request with these messages as the provider's cache has it."""
        pieces = [at for at, (name, _) in enumerate(request) if not name.startswith(_TOOLS)]
        left = list(request)
        for place in self.places(messages[: len(pieces)]):
            name, tokens = request[pieces[place]]
            left[pieces[place]] = f"cleared:{name}", min(tokens, _LEFT)
        return left


def shared_tokens(one: Sequence[tuple[str, int]], other: Sequence[tuple[str, int]]) -> int:
    """Return tokens of the common beginning of two requests."""
    return sum(tokens for _, tokens in one[: _shared_pieces(one, other)])


def _shared_pieces(one: Sequence[_Segment], other: Sequence[_Segment]) -> int:
    count = 0
    for (mine, _), (theirs, _) in zip(one, other, strict=False):
        if mine != theirs:
            break
        count += 1
    return count


@dataclass(frozen=True, slots=True)
class PrefixDetails:
    """What a request shares with the one before, and what broke the rest (None: nothing)."""

    shared_tokens: int = 0
    new_prefix: bool = False
    broken_by: str | None = None


def prefix_report(
    before: Sequence[tuple[str, int]], now: Sequence[tuple[str, int]]
) -> PrefixDetails:
    """Return how many tokens of the request are unchanged, and what broke the prefix.

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
    return PrefixDetails(shared_tokens(now, before), broken is not None, broken)


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
        """Return what the request would cost if sent at `at` seconds (None: nothing expires).

        Its first `written` pieces are written to the cache (None: all).
        """
        total = sum(tokens for _, tokens in request)
        shared, last = 0, -1
        for before in self._before:
            last = shared_tokens(request, before.pieces)
            if lives(self.prices.ttl_s, before.at, at):
                shared = max(shared, last if before.held is None else min(last, before.held))
        goes_on = bool(self._before) and last >= self._before[-1].tokens
        unwritten = 0 if written is None else sum(tokens for _, tokens in request[written:])
        return bill_of(self.prices, total, shared, unwritten, goes_on=goes_on)

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


def lives(ttl_s: float | None, sent: float | None, at: float | None) -> bool:
    """Return whether a cache still holds what was sent at `sent` seconds."""
    return ttl_s is None or at is None or sent is None or at - sent <= ttl_s


def bill_of(
    prices: Prices, total: int, shared: int, unwritten: int = 0, *, goes_on: bool = False
) -> Bill:
    """Bill a request of so many tokens, of which the cache holds `shared` at most.

    The last `unwritten` are not written to it.
    """
    cached = int(cached_tokens(prices, shared))
    fresh = fresh_price(prices, total - unwritten)
    unwritten = min(unwritten, total - cached)
    units = input_units(prices, total, cached, unwritten=unwritten, fresh=fresh)
    return Bill(total, cached, units, goes_on)


class SharedPrefix(NamedTuple):
    """The tokens of a request, and how many of them it shares with an earlier one's beginning."""

    tokens: float
    shared: float

    def scaled(self, scale: float) -> SharedPrefix:
        """Return the same by a counter that counts `scale` tokens for each."""
        return SharedPrefix(self.tokens * scale, self.shared * scale)

    def cached(self, prices: Prices) -> float:
        """Return how many of its tokens are read from the cache."""
        return cached_tokens(prices, self.shared)

    def units(self, prices: Prices) -> float:
        """What its input costs, in fresh input tokens of the first tier: what is new is written."""
        return input_units(prices, self.tokens, self.cached(prices))


_Segment: TypeAlias = tuple[Hashable, float]


def _common_nothing(_: Hashable, __: Hashable) -> float:
    return 0.0


@dataclass(slots=True)
class _Earlier:
    """A request before the last: its first `same` segments equal those of the one after it.

    `tail` are its other segments, `at` when it was sent.
    """

    same: int
    tail: Sequence[_Segment]
    at: float | None


class PrefixStream:
    """Says what each request shares with those before it, each given as what is new in it.

    A session of ten thousand calls with thousands of messages each takes time for its messages, not
    for the sum of its requests. `common` counts the tokens that two different segments begin with.
    """

    def __init__(
        self, ttl_s: float | None, common: Callable[[Any, Any], float] = _common_nothing
    ) -> None:
        self._ttl_s = ttl_s
        self._common = common
        self._last: list[_Segment] = []
        self._sums: list[float] = [0]  # tokens before each segment of the last request, and of all
        self._at: float | None = None
        self._before = deque[_Earlier]([], _REMEMBERED)
        self._begun = False
        self.goes_on = False
        """Whether the last request begins with all of the one before it."""

    def add(self, kept: int, more: Sequence[_Segment], at: float | None = None) -> SharedPrefix:
        """Return the next request: the first `kept` segments of the last one, then `more`."""
        same = kept + _shared_pieces(more, self._last[kept:])
        tail, self._last[same:] = self._last[same:], more[same - kept :]
        self.goes_on = self._begun and not tail
        del self._sums[same + 1 :]
        new = [tokens for _, tokens in self._last[same:]]
        self._sums.extend(list(accumulate(new, initial=self._sums[-1]))[1:])
        if self._begun:
            self._before.appendleft(_Earlier(same, tail, self._at))
        shared = self._shared(at)
        self._at, self._begun = at, True
        return SharedPrefix(self._sums[-1], shared)

    def _shared(self, at: float | None) -> float:
        """Return the tokens that a cache may hold of the last request, from those before it."""
        most, same = 0.0, len(self._last)
        other: _Segment | None = None
        """What an earlier request has behind the first `same` segments."""
        for earlier in self._before:
            if same >= earlier.same:
                if same == earlier.same:  # both part there from the request between them
                    same += _shared_pieces(
                        self._last[same : same + len(earlier.tail)], earlier.tail
                    )
                else:
                    same = earlier.same
                rest = earlier.tail[same - earlier.same :]
                other = rest[0] if rest else None
            if lives(self._ttl_s, earlier.at, at):
                part = 0.0
                if other is not None and same < len(self._last):
                    part = self._common(self._last[same][0], other[0])
                most = max(most, self._sums[same] + part)
        return most


@dataclass(frozen=True, slots=True)
class Share:
    """The share of a piece: in how many calls it was sent, its tokens in all of them, its price.

    `paid` is in fresh input tokens of the first tier, or what these were counted in.
    """

    calls: int = 0
    tokens: int = 0
    paid: float = 0.0

    def __add__(self, other: Share) -> Share:
        return Share(self.calls + other.calls, self.tokens + other.tokens, self.paid + other.paid)

    def times(self, factor: float) -> Share:
        """Return the same at so many times the price."""
        return replace(self, paid=self.paid * factor)


class SharedStream:
    """Bills requests to one model as a `Meter` does, and says what each of their pieces cost.

    Each request is given as what is new in it.

    A piece pays for its place: the part of it that the cache holds is read, the rest is written. So
    the shares of all pieces add up to the bill. Time and memory grow with what is new or written
    again in each request.
    """

    def __init__(self, prices: Prices) -> None:
        self.prices = prices
        self._stream = PrefixStream(prices.ttl_s)
        # The name of each piece of the last request, its tokens, and the calls and the price of a
        # token that is read so far when it came.
        self._standing: list[tuple[str, int, int, float]] = []
        self._calls, self._read = 0, 0.0
        self._paid: dict[str, list[float]] = defaultdict(lambda: [0, 0, 0.0])

    def bill(
        self, kept: int, more: Segments, names: Sequence[str], at: float | None = None
    ) -> Bill:
        """Return the next request: the first `kept` pieces of the last one, then `more`.

        `names` are what those are called in `shares`.
        """
        self._settle(self._standing[kept:])
        del self._standing[kept:]
        new = zip(names, more, strict=True)
        self._standing += [(name, tokens, self._calls, self._read) for name, (_, tokens) in new]
        tokens, shared = self._stream.add(kept, more, at)
        billed = bill_of(self.prices, int(tokens), int(shared), goes_on=self._stream.goes_on)
        factor = self.prices.factor(billed.tokens)
        self._calls += 1
        self._read += factor * self.prices.read
        fresh = fresh_price(self.prices, billed.tokens)
        left = billed.tokens - billed.cached if fresh != self.prices.read else 0
        for name, tokens, _, _ in reversed(self._standing):
            if left <= 0:
                break
            self._paid[name][2] += min(tokens, left) * factor * (fresh - self.prices.read)
            left -= tokens
        return billed

    def shares(self) -> Mapping[str, Share]:
        """Return what each piece has cost so far, by its name."""
        self._settle(self._standing)
        self._standing = [
            (name, tokens, self._calls, self._read) for name, tokens, _, _ in self._standing
        ]
        return {
            name: Share(int(calls), int(tokens), units)
            for name, (calls, tokens, units) in self._paid.items()
        }

    def _settle(self, pieces: Sequence[tuple[str, int, int, float]]) -> None:
        for name, tokens, calls, read in pieces:
            paid = self._paid[name]
            paid[0] += self._calls - calls
            paid[1] += tokens * (self._calls - calls)
            paid[2] += tokens * (self._read - read)
