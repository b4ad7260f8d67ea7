"""`http_get` against a server on loopback: which hosts, how much, how long."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest
from hypothesis import given as for_all
from hypothesis import strategies as st

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
        assert "is not text (application/zip, 5 bytes)" in found.text

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
            ("file:///etc/passwd", "is not an address to fetch"),
            ("ftp://127.0.0.1/", "is not an address to fetch"),
            ("127.0.0.1/x", "is not an address to fetch"),
            ("http://me:pw@127.0.0.1/", "a name and a password"),
            ("http://127.0.0.1:99999/", "is not an address"),
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
        assert "is not an address to fetch" in (await get("/file")).text
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
            ("fec0::1", False),
            ("fd00:ec2::254", False),
            ("ff02::1", False),
            ("::", False),
            ("64:ff9b::93.184.216.34", True),
            ("::ffff:93.184.216.34", True),
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


PRIVATE = [
    ipaddress.IPv4Network(network)
    for network in (
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16",
        "172.16.0.0/12", "192.168.0.0/16", "198.18.0.0/15", "224.0.0.0/4", "240.0.0.0/4",
    )
]  # fmt: skip
PUBLIC_V4 = int(ipaddress.IPv4Address("93.184.216.34"))


def _embedded(number: int) -> dict[str, int]:
    """An IPv4 address in each of the ways in which an IPv6 address holds one."""
    return {
        "compatible": number,
        "mapped": 0xFFFF << 32 | number,
        "translated": 0xFFFF << 48 | number,
        "NAT64": 0x64_FF9B << 96 | number,
        "NAT64 at home": 0x64_FF9B_0001 << 80 | number,
        "6to4": 0x2002 << 112 | number << 80 | 1,
        "Teredo server": 0x2001_0000 << 96 | number << 64 | (PUBLIC_V4 ^ 0xFFFF_FFFF),
        "Teredo client": 0x2001_0000 << 96 | PUBLIC_V4 << 64 | (number ^ 0xFFFF_FFFF),
        "ISATAP": 0x2606_4700 << 96 | 0x5EFE << 32 | number,
        "ISATAP, global": 0x2606_4700 << 96 | 0x0200_5EFE << 32 | number,
    }


@pytest.fixture
def resolved(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Makes a name resolve to these addresses, look-up by look-up; answers what is looked up."""

    def answer(name: str, *addresses: str) -> list[str]:
        looked_up: list[str] = []
        real = socket.getaddrinfo

        def getaddrinfo(host: Any, port: Any, *args: Any, **more: Any) -> Any:
            if host != name:
                return real(host, port, *args, **more)
            looked_up.append(host)
            address = addresses[min(len(looked_up), len(addresses)) - 1]
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            return [(family, socket.SOCK_STREAM, 6, "", (address, port))]

        monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
        return looked_up

    return answer


class TestWhatHoldsAPrivateAddress:
    @for_all(st.sampled_from(PRIVATE).flatmap(lambda network: st.ip_addresses(network=network)))
    def test_no_form_of_it_is_public(self, private: ipaddress.IPv4Address) -> None:
        assert not web._is_public(str(private))
        for way, number in _embedded(int(private)).items():
            address = str(ipaddress.IPv6Address(number))
            assert not web._is_public(address), way
            assert not web._is_internal(address) or (way == "compatible" and number == 1), way

    @pytest.mark.parametrize("pattern", ["*", "internal.example"])
    @pytest.mark.parametrize("way", sorted(_embedded(0)))
    async def test_a_name_that_resolves_to_it_is_refused_also_where_it_is_written_out(
        self, get: Any, resolved: Any, way: str, pattern: str
    ) -> None:
        number = _embedded(int(ipaddress.IPv4Address("10.1.2.3")))[way]
        resolved("internal.example", str(ipaddress.IPv6Address(number)))
        found = await get("http://internal.example/", pattern)
        assert found.error
        assert "has the private address" in found.text

    async def test_a_name_that_is_written_out_may_not_be_where_clouds_hand_out_keys(
        self, get: Any, resolved: Any
    ) -> None:
        resolved("internal.example", "169.254.169.254")
        found = await get("http://internal.example/", "internal.example")
        assert "has the private address 169.254.169.254" in found.text

    async def test_one_that_is_written_out_may_be_on_a_private_network(
        self, get: Any, port: int, resolved: Any
    ) -> None:
        resolved("internal.example", "127.0.0.1")
        assert not (await get(f"http://internal.example:{port}/", "internal.example")).error
        assert Handler.asked == [("/", f"internal.example:{port}")]

    @pytest.mark.parametrize(
        "host", ["2130706433", "0x7f000001", "0177.0.0.1", "127.1", "[::1]", "[::ffff:7f00:1]"]
    )
    async def test_other_ways_to_write_it_are_refused(self, get: Any, port: int, host: str) -> None:
        found = await get(f"http://{host}:{port}/", "*")
        assert found.error
        assert "has the private address" in found.text or "is not an address" in found.text
        assert Handler.asked == []

    async def test_a_redirect_to_it_is_refused(
        self, get: Any, port: int, resolved: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(PAGES, "/away", (302, {"Location": "http://[64:ff9b::a00:1]/"}, b""))
        found = await get("/away", "127.0.0.1", "*")
        assert "has the private address 64:ff9b::a00:1" in found.text

    @pytest.mark.parametrize("pattern", ["*", "internal.example"])
    async def test_a_name_is_looked_up_once(
        self,
        get: Any,
        port: int,
        resolved: Any,
        pattern: str,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        looked_up = resolved("internal.example", "127.0.0.1", "169.254.169.254")
        monkeypatch.setattr(web, "_is_public", lambda address: address == "127.0.0.1")
        assert not (await get(f"http://internal.example:{port}/", pattern)).error
        assert looked_up == ["internal.example"]

    @pytest.mark.parametrize("pattern", ["*", "internal.example"])
    async def test_no_proxy_of_the_environment_is_asked(
        self,
        get: Any,
        port: int,
        resolved: Any,
        pattern: str,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.delenv("NO_PROXY")
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{port}")
        resolved("internal.example", "169.254.169.254")
        assert (await get("http://internal.example/", pattern)).error
        assert Handler.asked == []
        assert not (await get("/", "127.0.0.1")).error
        assert Handler.asked == [("/", f"127.0.0.1:{port}")]

    async def test_the_next_address_is_tried_where_one_takes_no_connection(
        self, get: Any, port: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def both(*_: Any, **__: Any) -> Any:
            await asyncio.sleep(0)
            return [(0, 0, 0, "", (address, port)) for address in ("::1", "127.0.0.1")]

        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", both)
        assert not (await get(f"http://localhost:{port}/", "localhost")).error
