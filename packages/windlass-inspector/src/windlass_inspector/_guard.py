"""Who may ask, and what browsers may do with the answers.

The pages show transcripts, which hold secrets. So they answer on this machine alone, under names
of this machine alone (another name is a page of somebody else's that was pointed here), to those
who have the token, and a browser may load and run nothing but what is ours.

A browser sends a cookie to every port of its host. Ours is not the token, and it is bound to the
secret that the paths of all pages begin with: a server at another port, which does not know that
path, is never sent it.
"""

from __future__ import annotations

import hmac
import secrets
from typing import Final
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from windlass_inspector._rendering import ROOT, page

STATIC: Final = "/static/"
"""What needs no token: it is the same on every machine."""
TOKEN: Final = "token"  # noqa: S105 - its name
"""The parameter of the address that holds the token."""
CODE: Final = "code"
"""The parameter of the address that holds a code, which lets in once."""

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
    """Return the names under which a server on this port of this machine may be asked."""
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
        self._cookie = f"windlass-{port}"
        # By the token, so that pages still open once a server starts again with a token of theirs.
        self._root = f"/{_secret(token, 'path')}"
        self._key = _secret(token, "cookie")
        self._codes: set[str] = set()

    def make_code(self) -> str:
        """Return a code that lets in once."""
        code = secrets.token_urlsafe(24)
        self._codes.add(code)
        return code

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

        refusal = self._refusal(scope)
        if refusal is not None:
            await refusal(scope, receive, send_guarded)
            return
        root = self._root if self._is_within(scope["path"]) else ""
        before = ROOT.set(root)
        try:
            await self._app({**scope, "root_path": root}, receive, send_guarded)
        finally:
            ROOT.reset(before)

    def _is_within(self, path: str) -> bool:
        """Return whether a path begins with the secret."""
        return _are_same("/" + path.split("/", 2)[1] if path.startswith("/") else "", self._root)

    def _refusal(self, scope: Scope) -> Response | None:
        """Return the answer to those who are not let through; None: they are."""
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
        rest = [pair for pair in query if pair[0] not in (TOKEN, CODE)]
        if any(name == TOKEN and _are_same(value, self._token) for name, value in query):
            # A cookie is not sent where another site's page led here, not even behind a redirect.
            is_led = headers.get("sec-fetch-site") == "cross-site"
            return self._signed_in(scope, rest, by_page=is_led)
        if any(name == CODE and self._is_spent(value) for name, value in query):
            return self._signed_in(scope, rest, by_page=True)  # led here by a file
        has_cookie = any(_are_same(value, self._key) for value in self._cookies(headers))
        if scope["path"].startswith(STATIC) or (has_cookie and self._is_within(scope["path"])):
            return None
        said = (
            "Open the address that windlass serve printed in the terminal, with its token. It is"
            " new each time the server starts."
        )
        return _refused("The token is missing or old", said, status=403)

    def _is_spent(self, code: str) -> bool:
        """Return whether a code lets in, which it does no more."""
        fitting = [each for each in self._codes if _are_same(code, each)]
        self._codes.difference_update(fitting)
        return bool(fitting)

    def _cookies(self, headers: Headers) -> list[str]:
        """Return the values of our cookie.

        Those of other programs of this machine may be anything.
        """
        given = "; ".join(headers.getlist("cookie")).split(";")
        pairs = [pair.partition("=") for pair in given]
        return [value.strip() for name, _, value in pairs if name.strip() == self._cookie]

    def _signed_in(self, scope: Scope, query: list[tuple[str, str]], *, by_page: bool) -> Response:
        """Leads to the page that was asked for, with the cookie instead of the token or code."""
        asked = scope.get("raw_path", b"/").partition(b"?")[0].decode("latin-1")
        if asked.startswith(f"{self._root}/"):
            asked = asked.removeprefix(self._root)
        rest = f"?{urlencode(query)}" if query else ""
        to = f"{self._root}/{asked.lstrip('/')}{rest}"
        answer: Response
        if by_page:
            answer = HTMLResponse(page("entered.html", {"to": to}))
        else:
            answer = RedirectResponse(to, status_code=303)
        answer.set_cookie(
            self._cookie, self._key, httponly=True, samesite="strict", path=self._root
        )
        return answer


def _secret(token: str, what: str) -> str:
    """Return a secret that tells nothing of the token."""
    return hmac.new(token.encode(), what.encode(), "sha256").hexdigest()[:40]


def _are_same(given: str, known: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), known.encode())


def _refused(title: str, said: str, *, status: int) -> Response:
    text = page("trouble.html", {"title": title, "said": said, "has_list": False, "traced": ""})
    return HTMLResponse(text, status_code=status)
