"""`http_get` against a server on loopback: which hosts, how much, how long."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest

from windlass.messages import ToolCall
from windlass.tools import web
from windlass.tools.base import ToolContext, ToolOutput
from windlass.tools.registry import make_tool
from windlass.tools.runner import run_tool

PAGES: dict[str, tuple[int, dict[str, str], bytes]] = {
    "/": (200, {"Content-Type": "text/plain; charset=utf-8"}, "Länge".encode()),
    "/latin": (200, {"Content-Type": "text/html; charset=latin-1"}, "Länge".encode("latin-1")),
    "/odd": (200, {"Content-Type": "text/html; charset=no-such"}, b"odd"),
    "/binary": (200, {"Content-Type": "application/zip"}, b"PK\x00\x01\xff"),
    "/missing": (404, {"Content-Type": "text/plain"}, b"not here"),
    "/inside": (302, {"Location": "/"}, b""),
    "/outside": (302, {"Location": "http://elsewhere.invalid/x"}, b""),
    "/file": (302, {"Location": "file:///etc/passwd"}, b""),
    "/round": (302, {"Location": "/round"}, b""),
    "/long": (200, {"Content-Type": "text/plain"}, b"x" * 50_000),
}


class Handler(BaseHTTPRequestHandler):
    asked: ClassVar[list[tuple[str, str]]] = []

    def do_GET(self) -> None:
        self.asked.append((self.path, self.headers["Host"]))
        if self.path == "/slow":
            time.sleep(3)
        status, headers, body = PAGES.get(self.path, (200, {}, b"ok"))
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_port
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "*")
    Handler.asked.clear()


@pytest.fixture
def get(context: ToolContext, port: int) -> Callable[..., Any]:
    async def ask(path: str, *allow: str, **more: Any) -> ToolOutput:
        url = path if "://" in path else f"http://127.0.0.1:{port}{path}"
        given = json.dumps({"url": url, **more})
        allowed = replace(context, http_allow=allow or ("127.0.0.1",))
        return await run_tool(make_tool(web.http_get), ToolCall("c", "http_get", given), allowed)

    return ask


class TestWhatIsShown:
    async def test_status_type_and_text(self, get: Any, port: int) -> None:
        found = await get("/")
        assert found.text == f"http://127.0.0.1:{port}/: status 200, text/plain\n\nLänge"
        assert not found.error

    @pytest.mark.parametrize(("path", "text"), [("/latin", "Länge"), ("/odd", "odd"), ("/x", "ok")])
    async def test_the_encoding_is_the_pages(self, get: Any, path: str, text: str) -> None:
        assert (await get(path)).text.endswith(f"\n\n{text}")

    async def test_what_is_no_text_is_named(self, get: Any) -> None:
        found = await get("/binary")
        assert found.error
        assert "is no text (application/zip, 5 bytes)" in found.text

    async def test_a_failure_is_one_and_shows_the_page(self, get: Any) -> None:
        found = await get("/missing")
        assert found.error
        assert "status 404" in found.text
        assert "not here" in found.text

    async def test_a_long_one_is_cut(self, get: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        found = await get("/long")
        assert found.text.endswith("(50000 characters, the first 20000 characters shown)")
        assert (await get("/long", max_chars=7)).text.count("x") == 7 + len("text/plain") // 10
        monkeypatch.setattr(web, "MAX_BYTES", 1_000)
        found = await get("/long")
        assert found.text.endswith("(more than 1000 bytes, the first 1000 characters shown)")

    async def test_a_slow_one_is_given_up(self, get: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(web, "FETCH_S", 0.2)
        found = await get("/slow")
        assert found.error
        assert "0.2 s" in found.text or "cannot be fetched" in found.text


class TestWhichHosts:
    async def test_none_says_how_to_allow_one(self, context: ToolContext) -> None:
        given = ToolCall("c", "http_get", '{"url": "https://example.org"}')
        found = await run_tool(make_tool(web.http_get), given, context)
        assert found.error
        assert '"http_allow": ["example.org"]' in found.text

    @pytest.mark.parametrize(
        ("url", "told"),
        [
            (
                "http://example.org/",
                "the host 'example.org' is not allowed; allowed are: 127.0.0.1",
            ),
            ("http://127.0.0.1.example.org/", "is not allowed"),
            ("file:///etc/passwd", "is no address to fetch"),
            ("ftp://127.0.0.1/", "is no address to fetch"),
            ("127.0.0.1/x", "is no address to fetch"),
            ("http://me:pw@127.0.0.1/", "a name and a password"),
            ("http://127.0.0.1:99999/", "is no address"),
        ],
    )
    async def test_others_are_refused(self, get: Any, url: str, told: str) -> None:
        found = await get(url if "://" in url else "x://" + url)
        assert found.error
        assert told in found.text
        assert Handler.asked == []

    async def test_redirects_stay_inside(self, get: Any, port: int) -> None:
        assert (await get("/inside")).text.startswith(f"http://127.0.0.1:{port}/: status 200")
        assert "'elsewhere.invalid' is not allowed" in (await get("/outside")).text
        assert "is no address to fetch" in (await get("/file")).text
        assert "more than 5 redirects" in (await get("/round")).text

    async def test_a_port_may_be_part_of_it(self, get: Any, port: int) -> None:
        assert not (await get("/", f"127.0.0.1:{port}")).error
        assert "is not allowed" in (await get("/", "127.0.0.1:1")).text

    @pytest.mark.parametrize("pattern", ["*", "*.0.0.1"])
    async def test_a_pattern_admits_no_private_address(self, get: Any, pattern: str) -> None:
        found = await get("/", pattern)
        assert found.error
        assert "has the private address 127.0.0.1" in found.text
        assert Handler.asked == []

    async def test_one_that_is_written_out_may_be_private(self, get: Any, port: int) -> None:
        assert not (await get(f"http://localhost:{port}/", "LOCALHOST")).error

    async def test_what_a_pattern_admits_is_asked_at_the_address_that_was_looked_at(
        self, get: Any, port: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(web, "_is_public", lambda address: True)
        found = await get(f"http://localhost:{port}/", "*")
        assert not found.error
        assert Handler.asked == [("/", f"localhost:{port}")]

    @pytest.mark.parametrize(
        ("address", "public"),
        [
            ("93.184.216.34", True),
            ("10.0.0.1", False),
            ("169.254.169.254", False),
            ("::1", False),
            ("::ffff:10.0.0.1", False),
            ("fe80::1%eth0", False),
            ("100.64.0.1", False),
            ("0.0.0.0", False),
            ("224.0.0.1", False),
            ("2606:2800:220:1:248:1893:25c8:1946", True),
        ],
    )
    def test_private_addresses_are_known(self, address: str, *, public: bool) -> None:
        assert web._is_public(address) is public

    @pytest.mark.parametrize(
        ("allow", "limit", "told"),
        [
            (["127.0.0.1"], ["127.0.0.1"], ""),
            (["127.0.0.1"], ["127.0.0.1", "example.org"], ""),
            (["*"], ["127.0.0.1"], "has the private address"),
            (["127.0.0.1"], ["*"], "has the private address"),
            (["127.0.0.1"], ["example.org"], "allowed are: example.org (the http_allow of the set"),
            (["example.org"], ["127.0.0.1"], "allowed are: example.org (http_allow)"),
        ],
    )
    async def test_both_lists_must_hold_it(
        self, context: ToolContext, port: int, allow: list[str], limit: list[str], told: str
    ) -> None:
        given = json.dumps({"url": f"http://127.0.0.1:{port}/"})
        both = replace(context, http_allow=tuple(allow), http_limit=tuple(limit))
        found = await run_tool(make_tool(web.http_get), ToolCall("c", "http_get", given), both)
        assert found.error is bool(told)
        assert told in found.text
        assert bool(Handler.asked) is not bool(told)

    async def test_a_subdomain_needs_a_pattern(self) -> None:
        assert web._is_under("a.example.org", ["*.example.org"])
        assert not web._is_under("example.org", ["*.example.org"])
        assert not web._is_under("badexample.org", ["*.example.org"])
        assert not web._is_under("a.example.org", ["example.org"])
