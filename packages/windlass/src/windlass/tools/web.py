"""`http_get`: a page from a host that is allowed, and from no other.

The cascade and the settings may both list hosts; what both lists hold is then asked. A list
names hosts: `example.org`, `example.org:8080`, `*.example.org` (what lies
under it), or `*`. A host that is written out may be a private one; what a pattern
admits must be public. The address that was checked is the one connected to, at
redirects too, and no proxy stands between.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, IPv6Network
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from windlass.errors import ToolError
from windlass.safety.foreign import decode_text
from windlass.tools.base import ToolContext, ToolOutput
from windlass.tools.registry import tool

if TYPE_CHECKING:
    import httpx

MAX_BYTES: Final = 5_000_000
FETCH_S: Final = 30.0
"""Seconds for all of it, redirects too."""

_MAX_CHARS: Final = 100_000
_REDIRECTS: Final = 5
_PORTS: Final = {"http": 80, "https": 443}
_LAST_PORT: Final = 65_535
_LIMIT: Final = "the http_allow of the settings, beyond which no cascade goes"
_OK: Final = 300


_Lists: TypeAlias = Mapping[str, Sequence[str]]
"""Lists of hosts by what they are called; a host must stand in each of them."""


@tool(effects="none")
async def http_get(context: ToolContext, url: str, max_chars: int = 20_000) -> ToolOutput:
    """Get a page or a file as text over http or https, from the hosts that are allowed.

    Args:
        context: What the run provides.
        url: The full address, like https://example.org/page.
        max_chars: How many characters of the text to show, at most 100000.
    """
    import httpx  # takes longer to import than the tool is described

    if not context.http_allow:
        raise ToolError(
            "http_get is not allowed any host here: list the hosts in the cascade as"
            ' "http_allow": ["example.org"], or in windlass.toml as http_allow = ["example.org"]'
        )
    lists = {"http_allow": context.http_allow}
    if context.http_limit:
        lists[_LIMIT] = context.http_limit
    try:
        async with asyncio.timeout(FETCH_S), _client() as client:
            return await _fetch(client, url, lists, min(max(max_chars, 1), _MAX_CHARS))
    except TimeoutError as problem:
        raise ToolError(f"{url!r} did not answer within {FETCH_S:g} s") from problem
    except httpx.HTTPError as problem:
        reason = str(problem) or type(problem).__name__
        raise ToolError(f"{url!r} cannot be fetched: {reason}") from problem


def _client() -> httpx.AsyncClient:
    import httpx

    return httpx.AsyncClient(
        timeout=FETCH_S,
        headers={"Accept-Encoding": "identity"},
        # A proxy would look the name up itself, and a .netrc would add a password; only the
        # certificates that the environment names are taken.
        trust_env=False,
        verify=httpx.create_ssl_context(trust_env=True),
    )


async def _fetch(client: httpx.AsyncClient, url: str, lists: _Lists, most: int) -> ToolOutput:
    for _ in range(_REDIRECTS + 1):
        target = _checked(url, lists)
        listed = all(_is_listed(target, hosts) for hosts in lists.values())
        response = await _send(client, target, await _addresses(target, listed=listed))
        try:
            place = response.headers.get("location")
            if not response.is_redirect or place is None:
                return await _read(response, str(target), most)
        finally:
            await response.aclose()
        url = str(target.join(place))
    raise ToolError(f"{url!r}: more than {_REDIRECTS} redirects")


async def _read(response: httpx.Response, url: str, most: int) -> ToolOutput:
    data = bytearray()
    async for piece in response.aiter_bytes():
        data += piece
        if len(data) > MAX_BYTES:
            break
    is_cut = len(data) > MAX_BYTES
    del data[MAX_BYTES:]
    kind = response.headers.get("content-type", "").partition(";")[0].strip() or "no type"
    text = _decoded(bytes(data), response.charset_encoding)
    if text is None:
        raise ToolError(f"{url} is not text ({kind}, {len(data)} bytes)")
    end = ""
    if len(text) > most or is_cut:
        more = f"more than {MAX_BYTES} bytes" if is_cut else f"{len(text)} characters"
        end = f"\n({more}, the first {min(most, len(text))} characters shown)"
    head = f"{url}: status {response.status_code}, {kind}"
    return ToolOutput(f"{head}\n\n{text[:most]}{end}", error=response.status_code >= _OK)


def _decoded(data: bytes, charset: str | None) -> str | None:
    with suppress(LookupError):  # a name that Python does not know; most pages are UTF-8 anyway
        if charset is not None:
            return data.decode(charset, "replace")
    return None if b"\0" in data else decode_text(data)


# ---- which hosts --------------------------------------------------------------------


def _checked(url: str, lists: _Lists) -> httpx.URL:
    """Return the address, when it may be asked."""
    import httpx

    try:
        target = httpx.URL(url)
    except (httpx.InvalidURL, TypeError) as problem:
        raise ToolError(f"{url[:200]!r} is not an address: {problem}") from problem
    if target.scheme not in _PORTS or not target.host or (target.port or 1) > _LAST_PORT:
        raise ToolError(
            f"{url[:200]!r} is not an address to fetch: write it in full, like https://example.org/page"
        )
    if target.userinfo:
        raise ToolError("an address must not hold a name and a password: leave them out")
    for name, hosts in lists.items():
        if not (_is_listed(target, hosts) or _is_under(target.host, hosts)):
            raise ToolError(
                f"the host {target.host!r} is not allowed; allowed are: {', '.join(hosts)} ({name})"
            )
    return target


def _is_listed(target: httpx.URL, allowed: Sequence[str]) -> bool:
    """Return whether the host itself is written in the list, alone or with its port."""
    port = target.port or _PORTS[target.scheme]
    host = target.host.lower()
    bracketed = f"[{host}]" if ":" in host else host
    return any(each.lower() in (host, bracketed, f"{bracketed}:{port}") for each in allowed)


def _is_under(host: str, allowed: Sequence[str]) -> bool:
    """Return whether a pattern of the list admits the host."""
    patterns = [each.lower() for each in allowed if each.startswith("*")]
    return any(each == "*" or host.lower().endswith(each[1:]) for each in patterns)


async def _send(
    client: httpx.AsyncClient, target: httpx.URL, addresses: Sequence[str]
) -> httpx.Response:
    """Return the answer of the first address that takes the connection.

    No name is looked up again.
    """
    import httpx

    for place, address in enumerate(addresses, 1):
        request = client.build_request("GET", target)
        extensions: dict[str, Any] = request.extensions
        request.extensions = {**extensions, "sni_hostname": target.host}
        request.url = target.copy_with(host=address)
        try:
            return await client.send(request, stream=True)
        except (httpx.ConnectError, httpx.ConnectTimeout):
            if place == len(addresses):
                raise
    raise ToolError(f"the host {target.host!r} has no address")


async def _addresses(target: httpx.URL, *, listed: bool) -> list[str]:
    """Return the addresses of the host, each of which may be asked. Raises ToolError."""
    host = target.host
    written = _written(host)
    addresses = [written] if written else await _looked_up(target)
    for address in addresses:
        if not (_is_public(address) or (listed and (address == written or _is_internal(address)))):
            raise ToolError(
                f"the host {host!r} has the private address {address}; list it by its own name in"
                " http_allow if it is meant"
            )
    return addresses


def _written(host: str) -> str | None:
    """The address that a host is in itself: also `2130706433`, `0x7f.1`, as resolvers read it."""
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        pass
    try:
        return socket.inet_ntoa(socket.inet_aton(host))
    except OSError:
        return None


async def _looked_up(target: httpx.URL) -> list[str]:
    loop = asyncio.get_running_loop()
    port = target.port or _PORTS[target.scheme]
    try:
        records = await loop.getaddrinfo(target.host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as problem:
        reason = getattr(problem, "strerror", None) or str(problem)
        raise ToolError(f"the host {target.host!r} is not known: {reason}") from problem
    return list(dict.fromkeys(str(each[4][0]) for each in records))


_HOSTS: Final = IPv6Network("2000::/3")
"""Where IPv6 has addresses of hosts; what lies outside is local, or translated."""
_INTERNAL: Final = tuple(map(IPv6Network, ("::1/128", "fc00::/7", "fec0::/10")))
"""Where a host, a private network and a site have theirs."""
_TRANSLATED: Final = tuple(map(IPv6Network, ("::ffff:0:0/96", "64:ff9b::/96")))
"""Addresses that end with the IPv4 address which is asked in their place."""
_6TO4: Final = IPv6Network("2002::/16")
_ISATAP: Final = (0x0000_5EFE, 0x0200_5EFE)


def _is_public(address: str) -> bool:
    """Return whether an address is of the public network.

    A translated one is if its IPv4 address is; a tunnel to an IPv4 address, which no site needs,
    is not.
    """
    parsed = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(parsed, IPv6Address):
        if any(parsed in network for network in _TRANSLATED):
            parsed = IPv4Address(int(parsed) & 0xFFFF_FFFF)
        elif parsed not in _HOSTS or _is_tunnel(parsed):
            return False
    return parsed.is_global and not parsed.is_multicast


def _is_internal(address: str) -> bool:
    """Whether it is an address such as a machine on a private network has, and nothing besides.

    Link-local ones are not: there clouds hand out keys.
    """
    parsed = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(parsed, IPv6Address):
        return any(parsed in network for network in _INTERNAL) and not _is_tunnel(parsed)
    never = parsed.is_link_local or parsed.is_multicast or parsed.is_reserved
    return not (never or parsed.is_unspecified)


def _is_tunnel(address: IPv6Address) -> bool:
    """Whether an address leads to an IPv4 address inside it; Teredo's are not global anyway."""
    return address in _6TO4 or int(address) >> 32 & 0xFFFF_FFFF in _ISATAP
