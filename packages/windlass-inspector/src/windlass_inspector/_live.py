"""What tells a page that its session, or the list, grew: events of the server.

The number of an event is that of the session's last row, so that a page which comes back is told
what it missed.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Final

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from windlass.public import SessionFilter, SessionInfo, WindlassError, many
from windlass_inspector._inspector import Inspector, Size, number_in
from windlass_inspector._rendering import name_in

_EVERY_S: Final = 1.0
_ALIVE_S: Final = 15.0
"""Seconds after which a line is sent that says nothing, so that nobody takes the line for dead."""
_NEWEST: Final = 20
"""Sessions of the list that are watched."""
_ALIVE: Final = ": still here\n\n"


def events_of_session(inspector: Inspector) -> Callable[[Request], Awaitable[Response]]:
    """Return the answer to `/session/NAME/events`."""

    async def answer(request: Request) -> Response:
        name = name_in(request.path_params["session"])
        await run_in_threadpool(inspector.store.start, name)  # an unknown one is told here
        return _response(request, _of_session(inspector, request, name))

    return answer


def events_of_list(inspector: Inspector) -> Callable[[Request], Awaitable[Response]]:
    """Return the answer to `/events`."""

    async def answer(request: Request) -> Response:
        return _response(request, _of_list(inspector, request))

    return answer


def _response(request: Request, events: AsyncIterator[str]) -> Response:
    if request.method == "HEAD":
        return Response(media_type="text/event-stream")
    return StreamingResponse(events, media_type="text/event-stream")


def _last_seen(request: Request) -> int | None:
    """Return the last row that the page knows of."""
    text = request.headers.get("last-event-id") or request.query_params.get("after", "")
    return number_in(text)


async def _of_session(inspector: Inspector, request: Request, name: str) -> AsyncIterator[str]:
    """Yield an event each time that the session has more rows than the page knows of."""
    known, outcomes, quiet = _last_seen(request), -1, 0.0
    while not await request.is_disconnected():
        try:
            size = await run_in_threadpool(inspector.shelf.size, name)
        except WindlassError as error:
            yield _event("trouble", known or 0, {"said": f"{error}."})
            return
        known = size.rows if known is None else known
        outcomes = size.outcomes if outcomes < 0 else outcomes
        if size.rows > known or size.outcomes != outcomes:
            yield _event("grew", size.rows, _told(size, known))
            known, outcomes, quiet = size.rows, size.outcomes, 0.0
        elif quiet >= _ALIVE_S:
            yield _ALIVE
            quiet = 0.0
        await asyncio.sleep(_EVERY_S)
        quiet += _EVERY_S


async def _of_list(inspector: Inspector, request: Request) -> AsyncIterator[str]:
    """Yield an event each time that a session began, made a call or ended."""
    which, number, quiet = SessionFilter(banks=False, under=()), 0, 0.0
    known: list[tuple[object, ...]] | None = None
    while not await request.is_disconnected():
        try:
            newest = await run_in_threadpool(inspector.store.sessions, which, limit=_NEWEST)
        except WindlassError as error:
            yield _event("trouble", number, {"said": f"{error}."})
            return
        now = [_state(info) for info in newest]
        if known is not None and now != known:
            number, quiet = number + 1, 0.0
            said = "Sessions began, went on or ended since this page was made."
            yield _event("grew", number, {"said": said})
        elif quiet >= _ALIVE_S:
            yield _ALIVE
            quiet = 0.0
        known = now
        await asyncio.sleep(_EVERY_S)
        quiet += _EVERY_S


def _state(info: SessionInfo) -> tuple[object, ...]:
    return info.session_id, info.status, info.calls, info.tokens_in


def _told(size: Size, known: int) -> Mapping[str, object]:
    new = size.rows - known
    said = "It went on or ended since this page was made."
    if new:
        said = f"It is being written: {many(new, 'new row')} since this page was made."
    return {"rows": size.rows, "new": new, "said": said}


def _event(kind: str, number: int, data: Mapping[str, object]) -> str:
    return f"id: {number}\nevent: {kind}\ndata: {json.dumps(data)}\n\n"
