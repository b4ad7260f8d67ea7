"""Requests with their cache marks, for tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from windlass.caching.breakpoints import Outlook
from windlass.caching.meter import Bill, SharedStream
from windlass.caching.model_cache import CacheState, SentRequest
from windlass.caching.prices import Prices
from windlass.messages import Message, ToolSpec

CACHED = Prices(read=0.1, write=1.25, minimum=1_024, step=1, ttl_s=300, write_long=2.0)


def mark(
    before: SentRequest | None,
    model: str,
    messages: Sequence[Message],
    tools: Sequence[ToolSpec] = (),
    **more: Any,
) -> SentRequest:
    """A request to a model that caches, after the one before it."""
    return CacheState(model, CACHED, sent=before).mark(messages, tools, Outlook(**more))


def bill_stream(
    prices: Prices,
    requests: Sequence[Sequence[tuple[str, int]]],
    times: Sequence[float] | None = None,
) -> list[Bill]:
    """What the requests of a session to one model cost; `times` are when each was sent."""
    stream = SharedStream(prices)
    return [
        stream.bill(0, list(request), [name for name, _ in request], times[at] if times else None)
        for at, request in enumerate(requests)
    ]
