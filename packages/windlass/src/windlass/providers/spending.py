"""What one run, phase or batch may use, shared by all of its model calls.

Before a request goes, the most that it can use is reserved, so that requests under way at the same
time cannot exceed a limit together.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from typing import Any, Final

from windlass.caching.rates import cost
from windlass.errors import LimitName, RunLimitReached, UsageError
from windlass.providers.base import ModelInfo, Provider, Resolve, Searching
from windlass.text.tokens import MARGIN, request_tokens
from windlass.wire.base import Reply, Request, Usage
from windlass.wire.web_search import MOST_SEARCHES, SearchReply

LIMITS: Final[Mapping[str, LimitName]] = {
    "budget": "money",
    "max_tokens": "tokens",
    "max_seconds": "time",
    "max_turns": "turns",
}
"""The limits as users write them, and the reason of a run that one of them ended."""


def most_tokens_in(info: ModelInfo, request: Request) -> int:
    """Return the most input tokens that a request can have, by Windlass's count."""
    tokens = request_tokens(info.counter, request.messages, request.tools)
    if request.output_schema is not None:
        tokens += info.counter.text(str(request.output_schema))
    return tokens if info.counter.exact else int(tokens * (1 + MARGIN)) + 1


def most_dollars(info: ModelInfo, request: Request, tokens: int) -> float:
    """The most that a request of `tokens` can cost: nothing cached, the longest possible reply."""
    written = tokens if request.long_breakpoints else 0
    prices = (
        cost(info.name, tokens, request.max_output_tokens),
        cost(
            info.name,
            tokens,
            request.max_output_tokens,
            tokens_written=tokens,
            tokens_written_long=written,
        ),
    )
    return max(price or 0.0 for price in prices)


def paid_dollars(name: str, usage: Usage) -> float:
    """Return what a request takes of a budget, in US dollars.

    Where its tier or its searches have no price it is the list price of its tokens, not nothing.
    """
    dollars = cost(name, **asdict(usage))
    if dollars is None:
        dollars = cost(name, **asdict(replace(usage, searches=0, tier="")))
    return dollars or 0.0


class Allowance:
    """What is left of the limits `of` a run, a phase or a batch, as users write them (`LIMITS`).

    The seconds count from when it is made. If several runs share one, it limits them together.
    Raises UsageError for a limit that is not an amount.
    """

    def __init__(self, of: str, **limits: float | None) -> None:
        self.of = of
        self.limits: dict[LimitName, float] = {}
        for name, most in limits.items():
            if most is None:
                continue
            if isinstance(most, bool) or not 0 < most < float("inf"):
                unit = "a number of US dollars" if name == "budget" else "a number"
                raise UsageError(f"{name} {most!r} must be {unit} above 0")
            self.limits[LIMITS[name]] = most
        self.spent: dict[LimitName, float] = dict.fromkeys(LIMITS.values(), 0.0)
        self._begun = time.monotonic()
        self._held: dict[LimitName, float] = dict.fromkeys(LIMITS.values(), 0.0)
        self._settled = asyncio.Event()

    def resolving(self, resolve: Resolve) -> Resolve:
        """Return the same models, whose requests count against these limits.

        It raises UsageError for a model without a known price if money is limited.
        """

        def resolved(name: str) -> tuple[Provider, ModelInfo]:
            provider, info = resolve(name)
            if not self.limits.keys() - ({"money"} if info.free else ()):
                return provider, info
            if "money" in self.limits and not info.free and cost(info.name, 1, 1) is None:
                raise UsageError(
                    f"budget: {info.name!r} has no known price, so what its calls cost cannot be"
                    f' bounded; set [prices."{info.name}"] with input and output (US dollars a'
                    " million tokens) in windlass.toml, or leave the budget out"
                )
            return _Metered(provider, info, self), info

        return resolved if self.limits else resolve

    def check_time(self) -> None:
        """Raise RunLimitReached if no further step may begin."""
        self.spent["time"] = time.monotonic() - self._begun
        if self.spent["time"] >= self.limits.get("time", float("inf")):
            raise self._reached("time", 0.0)

    @asynccontextmanager
    async def using(
        self, most: Mapping[LimitName, float]
    ) -> AsyncIterator[Callable[[LimitName, float], None]]:
        """Reserve the most that a request can use; the caller then reports what it did use.

        Waits while reservations of other requests may still be released. Raises RunLimitReached.
        """
        while True:
            self.check_time()
            full = [name for name in self.limits if self._lacks(name, most.get(name, 0.0))]
            if not full:
                break
            if empty := next((name for name in full if not self._held[name]), None):
                raise self._reached(empty, most[empty])
            await self._settled.wait()
        for name, amount in most.items():
            self._held[name] += amount
        try:
            yield self._spend
        finally:
            for name, amount in most.items():
                left = self._held[name] - amount
                self._held[name] = left if left > _DUST else 0.0
            self._settled.set()  # whoever waits looks again
            self._settled = asyncio.Event()

    def _lacks(self, name: LimitName, more: float) -> bool:
        return more > 0 and self.spent[name] + self._held[name] + more > self.limits[name]

    def _spend(self, name: LimitName, amount: float) -> None:
        self.spent[name] += amount

    def _reached(self, name: LimitName, more: float) -> RunLimitReached:
        return RunLimitReached(
            reason=name,
            of=self.of,
            budget=self.limits[name],
            spent=self.spent[name],
            next_call=more,
        )


_DUST = 1e-12
"""US dollars within rounding error, which count as nothing left."""


class _Metered:
    """A provider whose requests to one model count against limits."""

    def __init__(self, provider: Provider, info: ModelInfo, allowance: Allowance) -> None:
        self._provider = provider
        self._info = info
        self._allowance = allowance

    def __getattr__(self, name: str) -> Any:
        if name == "search" and isinstance(self._provider, Searching):
            return self._search
        return getattr(self._provider, name)

    async def send(self, request: Request, on_text: Callable[[str], None]) -> Reply:
        info = self._info
        tokens = most_tokens_in(info, request)
        money = 0.0 if info.free else most_dollars(info, request, tokens)
        most: dict[LimitName, float] = {"money": money, "turns": 1.0}
        most["tokens"] = tokens + request.max_output_tokens
        async with self._allowance.using(most) as spend:
            try:
                reply = await self._provider.send(request, on_text)
            finally:
                spend("turns", 1.0)
            usage = reply.usage
            spend("tokens", usage.tokens_in + usage.tokens_out)
            spend("money", 0.0 if info.free else paid_dollars(info.name, usage))
        return reply

    async def _search(self, model: str, query: str, most: int) -> SearchReply:
        assert isinstance(self._provider, Searching)
        info = self._info
        # Nobody bounds the pages that a search reads but the model's window.
        largest = Usage(info.window, info.max_output_tokens, searches=MOST_SEARCHES)
        bound = paid_dollars(info.name, largest)
        async with self._allowance.using({"money": bound, "tokens": info.window}) as spend:
            reply = await self._provider.search(model, query, most)
            paid = paid_dollars(info.name, reply.usage)
            spend("tokens", reply.usage.tokens_in + reply.usage.tokens_out)
            spend("money", paid if reply.dollars is None else reply.dollars)
        return reply

    def model(self, name: str) -> ModelInfo:
        return self._provider.model(name)

    async def close(self) -> None:
        await self._provider.close()
