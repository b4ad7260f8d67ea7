"""Who may ask, and what browsers may do with the answers.

The pages show transcripts, which hold secrets. So they answer on this machine alone, under names
of this machine alone (another name is a page of somebody else's that was pointed here), to those
who have the token, and a browser may load and run nothing but what is ours.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from typing import Final
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from windlass.web._rendering import page

STATIC: Final = "/static/"
"""What needs no token: it is the same on every machine."""
TOKEN: Final = "token"  # noqa: S105 - its name
"""The parameter of the address that holds the token, once."""

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_METHODS: Final = ("GET", "HEAD")


def hosts_of(port: int) -> frozenset[str]:
    """The names under which a server on this port of this machine may be asked."""
    names = ("127.0.0.1", "localhost", "[::1]")
    return frozenset([f"{name}:{port}" for name in names])


class AccessGuard:
    """Lets requests through to the pages that have the right host, method and token.

    Args:
        app: The pages.
        token: What whoever asks must know.
        port: The port that the server listens on.
    """

    def __init__(self, app: ASGIApp, token: str, port: int) -> None:
        self._app = app
        self._token = token
        self._hosts = hosts_of(port)
        self._cookie = f"windlass-{port}"  # cookies are shared by all ports of a host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, with what browsers may do with the answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(_HEADERS)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        answer = self._refusal(scope) or self._app
        await answer(scope, receive, send_guarded)

    def _refusal(self, scope: Scope) -> Response | None:
        """The answer to those who are not let through; None: they are."""
        headers = Headers(scope=scope)
        if headers.getlist("host")[:1] != headers.getlist("host") or (
            headers.get("host", "").lower() not in self._hosts
        ):
            said = "This server answers under the names of this machine only."
            return _refused("Not the address of this server", said, status=403)
        if scope["method"] not in _METHODS:
            said = "The inspector reads; it changes nothing, and takes no other request."
            refused = _refused("Only reading", said, status=405)
            refused.headers["Allow"] = ", ".join(_METHODS)
            return refused
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = [value for name, value in query if name == TOKEN]
        if given and self._fits(given):
            return self._signed_in(scope, [pair for pair in query if pair[0] != TOKEN])
        if scope["path"].startswith(STATIC) or self._fits(self._cookies(headers)):
            return None
        said = (
            "Open the address that windlass serve printed in the terminal, with its token. It is"
            " new each time the server starts."
        )
        return _refused("The token is missing or old", said, status=403)

    def _fits(self, given: Iterable[str]) -> bool:
        known = self._token.encode()
        return any(hmac.compare_digest(value.encode("utf-8", "replace"), known) for value in given)

    def _cookies(self, headers: Headers) -> list[str]:
        """The values of our cookie; those of other programs of this machine may be anything."""
        given = "; ".join(headers.getlist("cookie")).split(";")
        pairs = [pair.partition("=") for pair in given]
        return [value.strip() for name, _, value in pairs if name.strip() == self._cookie]

    def _signed_in(self, scope: Scope, query: list[tuple[str, str]]) -> Response:
        """The same address without the token, which the browser keeps for itself from now on."""
        asked = scope.get("raw_path", b"/").partition(b"?")[0].decode("latin-1")
        path = "/" + asked.lstrip("/\\")  # `//host` would be another server's address
        rest = f"?{urlencode(query)}" if query else ""
        answer = RedirectResponse(path + rest, status_code=303)
        answer.set_cookie(self._cookie, self._token, httponly=True, samesite="strict", path="/")
        return answer


def _refused(title: str, said: str, *, status: int) -> Response:
    text = page("trouble.html", title=title, said=said, has_list=False, traced="")
    return HTMLResponse(text, status_code=status)
