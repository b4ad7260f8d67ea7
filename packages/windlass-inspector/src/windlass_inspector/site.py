"""The pages of the inspector: which address is answered by what, and what errors look like."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from traceback import format_exception
from typing import Final, TypeAlias

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from windlass.public import Override, Store, StoreError, UsageError, override
from windlass_inspector._call_page import call_page
from windlass_inspector._costs_page import costs_page, policies_page
from windlass_inspector._forks_page import forks_page
from windlass_inspector._guard import AccessGuard
from windlass_inspector._inspector import Inspector, SessionShelf
from windlass_inspector._live import events_of_list, events_of_session
from windlass_inspector._matrix_page import matrix_cell, matrix_page, matrix_picture
from windlass_inspector._message_page import message_page, picture, text_of_message
from windlass_inspector._rendering import page
from windlass_inspector._session_page import session_page
from windlass_inspector._sessions_page import sessions_page
from windlass_inspector._soundings_page import soundings_page

_Page: TypeAlias = Callable[[Inspector, Request], Response]

_STATIC: Final = Path(__file__).parent / "static"
_SESSION: Final = "/session/{session}"
_PAGES: Final[Mapping[str, _Page]] = {
    "/": sessions_page,
    _SESSION: session_page,
    f"{_SESSION}/matrix": matrix_page,
    f"{_SESSION}/matrix.png": matrix_picture,
    f"{_SESSION}/cell": matrix_cell,
    f"{_SESSION}/costs": costs_page,
    f"{_SESSION}/call/{{call}}": call_page,
    f"{_SESSION}/message/{{message}}": message_page,
    f"{_SESSION}/message/{{message}}/text": text_of_message,
    f"{_SESSION}/picture/{{sha256}}": picture,
    f"{_SESSION}/soundings": soundings_page,
    f"{_SESSION}/forks": forks_page,
    f"{_SESSION}/replay": policies_page,
}


def make_app(
    store: Store, *, token: str, port: int, price_as: str, prices: Mapping[str, Override]
) -> AccessGuard:
    """Yield the pages of a store, for those who have the token.

    Args:
        store: What is shown. Nothing is written to it.
        token: What whoever asks must know.
        port: The port that the server listens on: it stands in the names that it answers to.
        price_as: The model at whose prices those are told that cost nothing.
        prices: The user's own prices.
    """
    inspector = Inspector(store, SessionShelf(store, price_as), price_as)
    store.mark_lost(inspector.losses.append)

    def endpoint(answer: _Page) -> Callable[[Request], Response]:
        def respond(request: Request) -> Response:
            with override(prices):
                return answer(inspector, request)

        return respond

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        inspector.shelf.close()

    app = Starlette(
        routes=[
            *(Route(path, endpoint(answer), methods=["GET"]) for path, answer in _PAGES.items()),
            Route(f"{_SESSION}/events", events_of_session(inspector), methods=["GET"]),
            Route("/events", events_of_list(inspector), methods=["GET"]),
            Mount("/static", StaticFiles(directory=_STATIC)),
        ],
        lifespan=lifespan,
        exception_handlers={
            UsageError: _unknown,
            StoreError: _failed,
            HTTPException: _no_page,
            Exception: _broken,
        },
    )
    return AccessGuard(app, token, port)


def _trouble(title: str, said: str, status: int, traced: str = "") -> Response:
    text = page("trouble.html", {"title": title, "said": said, "has_list": True, "traced": traced})
    return HTMLResponse(text, status_code=status)


def _unknown(_: Request, error: Exception) -> Response:
    return _trouble("Not there", f"{error}.", 404)


def _failed(_: Request, error: Exception) -> Response:
    return _trouble("The store cannot be read", f"{error}.", 503)


def _no_page(_: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 404
    return _trouble("No such page", "The inspector has no page of this address.", status)


def _broken(_: Request, error: Exception) -> Response:
    said = "The page could not be made: a mistake of Windlass. This is where it happened:"
    return _trouble("A mistake of ours", said, 500, "".join(format_exception(error)))
