"""The US dollars that one run may cost, shared by all that it asks of models.

Before a request goes, the most that it can cost is set aside. So requests that are under way at
the same time cannot pass the budget together.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from windlass.caching.rates import cost, search_fee
from windlass.errors import OutOfMoney, UsageError
from windlass.providers.base import ModelInfo, Provider, Resolve, Searching
from windlass.tokens import MARGIN, request_tokens
from windlass.wire.base import Reply, Request, Usage
from windlass.wire.search import MOST_SEARCHES, SearchReply


def usage_cost(name: str, usage: Usage) -> float | None:
    """US dollars of what a call used (None: no price is known)."""
    tokens = (usage.tokens_in, usage.tokens_out, usage.tokens_cached, usage.tokens_written)
    return cost(name, *tokens, tokens_written_long=usage.tokens_written_long)


def most_dollars(info: ModelInfo, request: Request) -> float:
    """The most that a request can cost: nothing of it cached, and its reply as long as may be."""
    tokens = request_tokens(info.counter, request.messages, request.tools)
    if request.output_schema is not None:
        tokens += info.counter.text(str(request.output_schema))
    if not info.counter.exact:
        tokens = int(tokens * (1 + MARGIN)) + 1
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


class MoneyBudget:
    """What is left of `dollars`, of which some may be `spent`.

    Raises UsageError for what is no amount of money.
    """

    def __init__(self, dollars: float, spent: float = 0.0) -> None:
        if not 0 < dollars < float("inf"):
            raise UsageError(f"budget {dollars!r} must be a number of US dollars above 0")
        self.dollars = dollars
        self.spent = spent
        self._held = 0.0
        self._settled = asyncio.Event()

    def resolving(self, resolve: Resolve) -> Resolve:
        """The same models, each request of which is paid out of this budget.

        It raises UsageError for a model whose price nobody knows.
        """

        def resolved(name: str) -> tuple[Provider, ModelInfo]:
            provider, info = resolve(name)
            if info.free:
                return provider, info
            if cost(info.name, 1, 1) is None:
                raise UsageError(
                    f"budget: {info.name!r} has no known price, so what its calls cost cannot be"
                    f' bounded; set [prices."{info.name}"] with input and output (US dollars a'
                    " million tokens) in windlass.toml, or leave the budget out"
                )
            return _Paying(provider, info, self), info

        return resolved

    @asynccontextmanager
    async def paying(self, most: float) -> AsyncIterator[Callable[[float], None]]:
        """Set aside the most that a request can cost; it is told what the request did cost.

        What is set aside for others may come back: that is waited for. Raises OutOfMoney.
        """
        while self.spent + self._held + most > self.dollars:
            if not self._held:
                raise OutOfMoney(budget=self.dollars, spent=self.spent, next_call=most)
            await self._settled.wait()
        self._held += most
        try:
            yield self._pay
        finally:
            self._held = self._held - most if self._held - most > _DUST else 0.0
            self._settled.set()  # whoever waits looks again
            self._settled = asyncio.Event()

    def _pay(self, dollars: float) -> None:
        self.spent += dollars


_DUST = 1e-12
"""US dollars that are left by rounding, and are none."""


class _Paying:
    """A provider whose requests to one model are paid out of a budget."""

    def __init__(self, provider: Provider, info: ModelInfo, budget: MoneyBudget) -> None:
        self._provider = provider
        self._info = info
        self._budget = budget

    def __getattr__(self, name: str) -> Any:
        if name == "search" and isinstance(self._provider, Searching):
            return self._search
        return getattr(self._provider, name)

    async def send(self, request: Request, on_text: Callable[[str], None]) -> Reply:
        async with self._budget.paying(most_dollars(self._info, request)) as pay:
            reply = await self._provider.send(request, on_text)
            pay(usage_cost(self._info.name, reply.usage) or 0.0)
        return reply

    async def _search(self, model: str, query: str, most: int) -> SearchReply:
        assert isinstance(self._provider, Searching)
        info = self._info
        # Nobody bounds the pages that a search reads but the model's window.
        bound = cost(info.name, info.window, info.max_output_tokens) or 0.0
        fee = search_fee(info.name, MOST_SEARCHES) or 0.0
        async with self._budget.paying(bound + fee) as pay:
            reply = await self._provider.search(model, query, most)
            fees = search_fee(info.name, reply.searches) or 0.0
            paid = (usage_cost(info.name, reply.usage) or 0.0) + fees
            pay(paid if reply.dollars is None else reply.dollars)
        return reply

    def model(self, name: str) -> ModelInfo:
        return self._provider.model(name)

    async def close(self) -> None:
        await self._provider.close()
