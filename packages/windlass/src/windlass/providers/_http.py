"""The one HTTP client: sends JSON, reads JSON or event streams, and translates every failure.

Proxies and certificates are those that httpx finds (`HTTPS_PROXY`, `SSL_CERT_FILE`). Redirects are
not followed, so a key goes only where it was meant to go. Failures that may pass are raised as
TransientError; the caller decides whether to retry, because it knows what was already handed on.

What a provider's refusals mean: turns a status and a body into an error. Pure.

The texts are the provider's own, shortened, and never contain the key.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from http.cookiejar import CookieJar, DefaultCookiePolicy
from types import MappingProxyType
from typing import Any, Final, cast
from weakref import WeakKeyDictionary, ref

import httpx

from windlass.errors import (
    BadRequest,
    ContextTooLong,
    LimitReached,
    ProviderError,
    RateLimited,
    ThinkingRefused,
)
from windlass.providers._pace import REFUSED_TRIES, TransientError
from windlass.safety.foreign import parse_json
from windlass.safety.redaction import HIDDEN, redacted, redacted_url
from windlass.wire.thinking import refuses_thinking

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
    """Return half of the files that this process may open; None if there is no limit."""
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


OVERLOADED: Final = 529
"""Anthropic's own status: too many requests from all customers together."""

_LONGEST: Final = 600

_SHORTER: Final = "send less context or use a model with a larger window"

_REDIRECTS: Final = range(300, 400)
_FAILURES: Final = range(400, 600)
_THEIR_FAULT: Final = range(500, 600)

_TOO_LONG: Final = (
    "context_length_exceeded",  # OpenAI's code
    "maximum context length",  # OpenAI, vLLM, OpenRouter
    "prompt is too long",  # Anthropic
    "exceed context limit",  # Anthropic, input and max_tokens together
    "exceeds the maximum number of tokens",  # Gemini
    "exceed_context_size_error",  # llama.cpp
    "available context size",  # llama.cpp
    "request_too_large",  # Anthropic, 413
)

_MAXIMUM: Final = r"maximum context length (?:is|of) (?P<limit>\d+) tokens.*?"
_IN_PARTS: Final = r"\((?P<counted>\d+) (?:in the messages|of text input)\D+(?P<reply>\d+)"
_ALLOWED: Final = r"exceeds the maximum number of tokens allowed \(?(?P<limit>\d+)"

_NUMBERS: Final = (
    _MAXIMUM + _IN_PARTS,  # OpenAI, OpenRouter; `reply` is what the limit has to hold besides
    _MAXIMUM + r"(?P<counted>\d+) (?:input )?tokens",  # OpenAI, vLLM
    r"prompt is too long: (?P<counted>\d+) tokens > (?P<limit>\d+)",  # Anthropic
    r"exceed context limit: (?P<counted>\d+) \+ (?P<reply>\d+) > (?P<limit>\d+)",  # Anthropic
    r"input token count \(?(?P<counted>\d+)\)? " + _ALLOWED,  # Gemini
    r"\((?P<counted>\d+) tokens\) exceeds the available context size \((?P<limit>\d+)",  # llama.cpp
)
"""Patterns for the counted tokens and the maximum in the texts."""
_NUMBERED_CHARS: Final = 4_000
"""Characters of a text that are searched for these."""

_HOPELESS: Final = ("insufficient_quota", "billing_hard_limit_reached")
"""Codes of 429 that waiting does not fix."""

_STATUS_OF: Final[Mapping[str, int]] = {
    "invalid_request_error": 400,
    "INVALID_ARGUMENT": 400,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "RESOURCE_EXHAUSTED": 429,
    "overloaded_error": OVERLOADED,
    "api_error": 500,
    "server_error": 500,
    "timeout_error": 504,
}
"""The name of an error inside a stream, and the status it would have had before one."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where answers come from, as error texts name it. `key` is removed from every text."""

    provider: str
    url: str
    key_variable: str = ""
    key: str = ""

    def clean(self, text: str) -> str:
        """Return the text on one line, shortened, without the key."""
        if self.key:
            text = text.replace(self.key, HIDDEN)
        text = redacted(text.replace(self.url, self.place) if self.url else text)
        text = " ".join(text.split())
        return text if len(text) <= _LONGEST else text[:_LONGEST] + "..."

    def failure(self, status: int, body: str) -> tuple[ProviderError | LimitReached, bool]:
        """Return the error for an answer with `status`, and whether a retry may help."""
        reason, codes = _reason(body)
        reason = self.clean(reason) or _phrase(status)
        text = f"{self.provider} answered {status}: {reason}"
        match status:
            case 413:
                return _too_long(text, reason), False
            case 400 | 422 if _is_too_long(reason, codes):
                return _too_long(text, reason), False
            case 400 if refuses_thinking(reason):
                return ThinkingRefused(text), False
            case 400 | 405 | 422:
                return BadRequest(text), False
            case 401:
                # The reason may quote the key in part.
                text = f"{self.provider} answered 401: it does not accept the key {self._key}"
                return ProviderError(text), False
            case 403:
                return ProviderError(f"{text}; see what the key {self._key} may do"), False
            case 404:
                return BadRequest(f"{text} (at {self.place})"), False
            case 408 | 409:
                return ProviderError(text), True
            case 429:
                return RateLimited(text), not any(code in _HOPELESS for code in codes)
            case _ if status in _REDIRECTS:
                return ProviderError(f"{text} (at {self.place}); redirects are not followed"), False
            case _:
                return ProviderError(text), status in _THEIR_FAULT

    def in_stream(self, event: Mapping[str, Any]) -> tuple[ProviderError | LimitReached, bool]:
        """Return the same for an error that came as an event, after the status was sent."""
        error = event.get("error")
        inner = cast("Mapping[str, Any]", error) if isinstance(error, Mapping) else {}
        names = [inner.get(key) for key in ("status", "type", "code")]
        status = next((name for name in names if name in _FAILURES), 0)
        for name in names:
            status = status or (_STATUS_OF.get(name, 0) if isinstance(name, str) else 0)
        return self.failure(status or 500, json.dumps(event))

    @property
    def place(self) -> str:
        """Return the address in a form that may be shown."""
        return redacted_url(self.url)

    @property
    def _key(self) -> str:
        return f"in {self.key_variable}" if self.key_variable else "(none was sent)"


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "overloaded" if status == OVERLOADED else "no reason given"


def _reason(body: str) -> tuple[str, tuple[str, ...]]:
    """Return the message of the body, and its codes and types."""
    try:
        value: Any = parse_json(body)
    except ValueError:
        return body, ()
    if isinstance(value, list) and value:  # Gemini wraps errors of streams
        value = value[0]
    error = value.get("error", value) if isinstance(value, dict) else value
    if not isinstance(error, dict):
        return str(error), ()
    codes = tuple(
        str(code) for name in ("code", "type", "status") if (code := error.get(name)) is not None
    )
    message = error.get("message") or error.get("detail") or json.dumps(error)
    return str(message), codes


def _too_long(text: str, reason: str) -> ContextTooLong:
    """Return the error with the numbers that the provider's reason holds."""
    text = f"{text}; {_SHORTER}"
    plain = reason[:_NUMBERED_CHARS].replace(",", "")
    for pattern in _NUMBERS:
        if match := re.search(pattern, plain, re.IGNORECASE):
            numbers = {name: int(digits) for name, digits in match.groupdict().items() if digits}
            limit = numbers["limit"] - numbers.get("reply", 0)
            return ContextTooLong(text, counted=numbers["counted"], limit=limit)
    return ContextTooLong(text)


def _is_too_long(reason: str, codes: tuple[str, ...]) -> bool:
    text = " ".join([reason, *codes]).lower()
    return any(phrase in text for phrase in _TOO_LONG)
