"""What tells a page that its session grew: events of the server, numbered by the last row."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Final

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from windlass.errors import WindlassError
from windlass.web._inspector import Inspector
from windlass.web._rendering import name_in
from windlass.web._shelf import Size

_EVERY_S: Final = 1.0
_ALIVE_S: Final = 15.0
"""Seconds after which a line is sent that says nothing, so that nobody takes the line for dead."""


def events_of(inspector: Inspector) -> Callable[[Request], Awaitable[Response]]:
    """The answer to `/session/NAME/events`."""

    async def answer(request: Request) -> Response:
        name = name_in(request.path_params["session"])
        await run_in_threadpool(inspector.store.start, name)  # an unknown one is told here
        if request.method == "HEAD":
            return Response(media_type="text/event-stream")
        return StreamingResponse(_events(inspector, request, name), media_type="text/event-stream")

    return answer


def _last_seen(request: Request) -> int | None:
    """The last row that the page knows of."""
    text = request.headers.get("last-event-id") or request.query_params.get("after", "")
    return int(text) if text.isdecimal() and len(text) < 12 else None  # noqa: PLR2004


async def _events(inspector: Inspector, request: Request, name: str) -> AsyncIterator[str]:
    """An event each time that the session has more rows than the page knows of."""
    known, quiet = _last_seen(request), 0.0
    outcomes: int | None = None
    while not await request.is_disconnected():
        try:
            size = await run_in_threadpool(inspector.shelf.size, name)
        except WindlassError as error:
            yield _event("trouble", known or 0, {"said": str(error)})
            return
        known = size.rows if known is None else known
        outcomes = size.outcomes if outcomes is None else outcomes
        if size.rows > known or size.outcomes != outcomes:
            yield _event("grew", size.rows, _told(size, known))
            known, outcomes, quiet = size.rows, size.outcomes, 0.0
        elif quiet >= _ALIVE_S:
            yield ": still here\n\n"
            quiet = 0.0
        await asyncio.sleep(_EVERY_S)
        quiet += _EVERY_S


def _told(size: Size, known: int) -> dict[str, int]:
    return {"rows": size.rows, "new": size.rows - known}


def _event(kind: str, number: int, data: Mapping[str, object]) -> str:
    return f"id: {number}\nevent: {kind}\ndata: {json.dumps(data)}\n\n"
