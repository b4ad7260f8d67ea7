"""The one HTTP client: sends JSON, reads JSON or event streams, and translates every failure.

Proxies and certificates are those that httpx finds (`HTTPS_PROXY`, `SSL_CERT_FILE`). Redirects are
not followed, so a key goes only where it was meant to go. Failures that may pass are raised as
TransientError; the caller decides whether to retry, because it knows what was already handed on.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from http.cookiejar import CookieJar, DefaultCookiePolicy
from types import MappingProxyType
from typing import Any, Final
from weakref import WeakKeyDictionary, ref

import httpx

from windlass.errors import ProviderError
from windlass.providers._pace import REFUSED_TRIES, TransientError
from windlass.providers._refusals import Endpoint
from windlass.safety.foreign import parse_json

CONNECT_S: Final = 10.0
READ_S: Final = 120.0
NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})
_LINE_END: Final = re.compile(rb"\r\n|\n|\r(?!\Z)")
"""An LF that belongs to a CR may follow in the next piece."""


@dataclass(frozen=True, slots=True)
class AnswerPiece:
    """One event of a streamed answer; `whole`: a complete answer that came at once."""

    value: Mapping[str, Any]
    whole: bool = False


class HttpClient:
    """Posts to one provider. Connections are made when needed, and kept.

    All clients of an event loop share one pool, which uses at most half of the files that the
    process may open; further requests wait.

    Args:
        endpoint: The provider's name for error texts; paths are appended to its `url`.
        headers: Sent with each request; the key among them.
        timeout: How long to wait for a connection, and between two pieces of an answer.
        seconds_after: Reads a `Retry-After` header as seconds.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        headers: Mapping[str, str],
        timeout: httpx.Timeout,
        seconds_after: Callable[[str | None], float | None],
    ) -> None:
        self._endpoint = endpoint
        self._headers = dict(headers)
        self._timeout = timeout
        self._seconds_after = seconds_after
        self._pool: _Pool | None = None

    async def answers(
        self, path: str, body: Mapping[str, Any], headers: Mapping[str, str] = NO_HEADERS
    ) -> AsyncGenerator[AnswerPiece, None]:
        """Yield the events of the answer, or its one object if the server does not stream.

        The end of a stream does not show whether it was complete: `[DONE]` is left out, and a
        broken connection raises TransientError. Errors inside the stream are raised like those
        before it. `headers` apply to this request only.
        """
        async with self._respond(path, body, headers) as response:
            kind = response.headers.get("content-type", "")
            if not kind.startswith("text/event-stream"):
                whole = (await response.aread()).decode("utf-8", "replace")
                yield AnswerPiece(self._read(whole), whole=True)
                return
            async with aclosing(read_events(response.aiter_bytes())) as events:
                async for data in events:
                    if data != "[DONE]":
                        yield AnswerPiece(self._read(data))

    async def close(self) -> None:
        """Close the connections; the next request makes new ones."""
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.leave(asyncio.get_running_loop())

    @asynccontextmanager
    async def _respond(
        self, path: str, body: Mapping[str, Any], headers: Mapping[str, str]
    ) -> AsyncIterator[httpx.Response]:
        """The response, if its status is good; errors of httpx are translated."""
        try:
            async with self._loop_client().stream(
                "POST",
                self._endpoint.url + path,
                json=body,
                headers={**self._headers, **headers},
                timeout=self._timeout,
            ) as response:
                if not response.is_success:
                    text = (await response.aread()).decode("utf-8", "replace")
                    error, again = self._endpoint.failure(response.status_code, text)
                    raise self._raised(error, again, response.headers.get("retry-after"))
                yield response
        except httpx.TimeoutException as error:
            reason = f"nothing came for {self._timeout.read:g} s"
            if isinstance(error, httpx.ConnectTimeout):
                reason = f"no connection within {self._timeout.connect:g} s"
            raise self._unreached(reason) from error
        except (httpx.TransportError, httpx.StreamError) as error:
            if is_refused(error):
                raise self._unreached("nothing listens there", REFUSED_TRIES) from error
            reason = self._endpoint.clean(f"{type(error).__name__}: {error}".removesuffix(": "))
            raise self._unreached(reason) from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            reason = self._endpoint.clean(str(error))
            raise ProviderError(f"{self._endpoint.provider}: {reason}") from error

    def _unreached(self, reason: str, tries: int | None = None) -> TransientError:
        place = f"{self._endpoint.provider} at {self._endpoint.place}"
        return TransientError(ProviderError(f"{place}: {reason}"), tries=tries)

    def _read(self, text: str) -> dict[str, Any]:
        """Read one object of an answer. Raises if it is not JSON, or if it is an error."""
        try:
            value: Any = parse_json(text)
        except ValueError as error:
            raise self._unreadable("not JSON", text) from error
        if not isinstance(value, dict):
            raise self._unreadable("not an object", text)
        if value.get("error"):
            raise self._raised(*self._endpoint.in_stream(value), None)
        return value

    def _unreadable(self, kind: str, text: str) -> ProviderError:
        start = self._endpoint.clean(text)[:200]
        return ProviderError(f"{self._endpoint.provider} sent a chunk that is {kind}: {start!r}")

    def _raised(self, error: Exception, again: bool, after: str | None) -> Exception:
        if again and isinstance(error, ProviderError):
            return TransientError(error, self._seconds_after(after))
        return error

    def _loop_client(self) -> httpx.AsyncClient:
        """Return the client of this event loop, since connections cannot move to another."""
        loop = asyncio.get_running_loop()
        if self._pool is None or self._pool.loop() is not loop:
            self._pool = _POOLS.get(loop)
            if self._pool is None:
                self._pool = _POOLS[loop] = _Pool(loop)
            self._pool.users += 1
        return self._pool.client


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield the error and its causes; some libraries keep one as `original_exception`."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        wrapped = getattr(error, "original_exception", None)
        before = error.__cause__ or error.__context__
        error = wrapped if isinstance(wrapped, BaseException) else before


def is_refused(error: BaseException) -> bool:
    """Return whether the error came from a port on which nothing listens."""
    return any(isinstance(each, ConnectionRefusedError) for each in causes(error))


class _Pool:
    """The connections of one event loop, and how many use them."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = ref(loop)
        self.users = 0
        # No cookies: what one key was given must not be sent with another.
        jar = CookieJar(DefaultCookiePolicy(allowed_domains=()))
        limits = httpx.Limits(max_connections=_most_connections())
        self.client = httpx.AsyncClient(cookies=jar, limits=limits)

    async def leave(self, loop: asyncio.AbstractEventLoop) -> None:
        """Stop using the connections; the last user closes them."""
        self.users -= 1
        if not self.users and self.loop() is loop:
            _POOLS.pop(loop, None)
            await self.client.aclose()


_POOLS: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, _Pool]] = WeakKeyDictionary()


def _most_connections() -> int | None:
    """Half of the files that this process may open; None if there is no limit."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if most == resource.RLIM_INFINITY else max(1, most // 2)


async def read_events(pieces: AsyncIterator[bytes]) -> AsyncGenerator[str, None]:
    """Read the data of server-sent events out of the bytes of a response, however they are cut.

    The format is that of the HTML standard, "Server-sent events": lines end with CR, LF or both,
    `data:` lines of one event are joined, an empty line ends the event. Comments, names and ids are
    ignored. The last event may lack its empty line, which some servers leave out.
    """
    rest, data = b"", list[str]()
    async for piece in pieces:
        *lines, rest = _LINE_END.split(rest + piece)
        for line in lines:
            if line:
                data += _data_in(line)
            elif data:
                yield "\n".join(data)
                data = []
    if rest.endswith(b"\r"):  # without it, a line that was cut is no line
        data += _data_in(rest.removesuffix(b"\r"))
    if data:
        yield "\n".join(data)


def _data_in(line: bytes) -> list[str]:
    """Return the data of a line: one text, or none."""
    field, _, value = line.removeprefix(b"\xef\xbb\xbf").partition(b":")
    return [value.removeprefix(b" ").decode("utf-8", "replace")] if field == b"data" else []
