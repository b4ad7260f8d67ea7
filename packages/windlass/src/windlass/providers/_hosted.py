"""Models at an address: in OpenAI's format with any base URL, in Anthropic's and in Gemini's.

What differs between them is their wire format (`windlass.wire`), where the key goes and the facts
of their models; sending, retrying and rate limiting are the same.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing, contextmanager
from dataclasses import replace
from importlib import import_module
from typing import Any, Final, Protocol, TypeVar, cast

import httpx

from windlass.caching.rates import rate
from windlass.errors import BadRequest, ProviderError
from windlass.messages import user
from windlass.providers._http import (
    CONNECT_S,
    NO_HEADERS,
    READ_S,
    AnswerPiece,
    Endpoint,
    HttpClient,
)
from windlass.providers._pace import PATIENCE, Limiter, Patience, Slot, TransientError
from windlass.providers.base import ModelInfo, RequestWait
from windlass.providers.catalog import (
    NO_KEY,
    Key,
    ProviderEntry,
    reply_room,
    sees_pictures,
    window_of,
)
from windlass.text.prompts import search_text
from windlass.text.tokens import FamilyCounter, request_tokens
from windlass.wire import web_search as wire_search
from windlass.wire.anthropic_controls import VERSION, WIDEST_VERSION
from windlass.wire.base import Format, Refused, Reply, Request, Usage
from windlass.wire.calls import pictures_in_words
from windlass.wire.usage import possible
from windlass.wire.web_search import SearchReply

_Answer = TypeVar("_Answer", Reply, SearchReply)

_MODULES: Final = {
    "openai": "windlass.wire.openai_chat",
    "anthropic": "windlass.wire.anthropic",
    "gemini": "windlass.wire.gemini",
}

_LONG_WAIT_S: Final = 1.0
"""Seconds from which on a wait is reported; a shorter one is over before anyone reads it."""


def _headers(entry: ProviderEntry, key: str) -> dict[str, str]:
    """Give the headers that a format needs besides the body; without a key, none that contains one.

    Anthropic's newest version goes to its own address; what stands at another may not know it.
    """
    match entry.wire:
        case "anthropic":
            elsewhere = entry.defined or entry.settings.base_url is not None
            version = WIDEST_VERSION if elsewhere else VERSION
            headers, name, value = {"anthropic-version": version}, "x-api-key", key
        case "gemini":
            headers, name, value = {}, "x-goog-api-key", key
        case _:
            headers, name, value = {}, "authorization", f"Bearer {key}"
    return {**headers, name: value} if key else headers


class HostedClient(Protocol):
    """Carries a body to a provider and its answer back: `HttpClient`, or litellm."""

    def answers(
        self, path: str, body: Mapping[str, Any], headers: Mapping[str, str] = NO_HEADERS
    ) -> AsyncGenerator[AnswerPiece, None]:
        """Return the events of the answer. Raises TransientError, ProviderError, LimitReached."""
        ...

    async def close(self) -> None:
        """Close the connections; may be called twice."""
        ...


class HostedProvider:
    """Answers with the models of one entry of the catalog.

    Args:
        entry: The provider: its format, its address, its settings.
        key: The user's key at the provider.
        warn: Called with each assumption or correction, once.
        on_wait: Called with each wait of a second or more, before it begins.
        patience: How often a request is tried, with clock and randomness.
        limiter: Limits requests; default the limits of the settings.
        client: Sends requests; default a client for the entry's address.
    """

    def __init__(
        self,
        entry: ProviderEntry,
        key: Key = NO_KEY,
        *,
        warn: Callable[[str], None],
        on_wait: Callable[[RequestWait], None] | None = None,
        patience: Patience = PATIENCE,
        limiter: Limiter | None = None,
        client: HostedClient | None = None,
    ) -> None:
        self._entry = entry
        self._warn = warn
        self._on_wait = on_wait
        self._patience = patience
        self._limiter = limiter or limiter_of(entry)
        self._format = cast("Format", import_module(_MODULES[entry.wire]))
        self._client = client or http_client(entry, key, patience)
        # Servers that speak OpenAI's format differ in what they know of it.
        self._lenient = (entry.defined or client is not None) and entry.wire == "openai"
        self._models: dict[str, ModelInfo] = {}
        self._warned: set[str] = set()

    def model(self, name: str) -> ModelInfo:
        """Return what is known of the model `name`: the price table's facts, under the settings.

        A model that is not listed may still exist: its window is assumed, with a warning.
        """
        if name not in self._models:
            window, warning = self._window(name)
            if warning is not None:
                self._warn_once(warning)
            sees = self._entry.settings.sees_pictures
            self._models[name] = ModelInfo(
                name=f"{self._entry.name}/{name}",
                window=window,
                counter=FamilyCounter(name),
                sees_pictures=self._sees_pictures(name) if sees is None else sees,
                system_anywhere=self._entry.name == "openai",
                max_output_tokens=reply_room(window),
            )
        return self._models[name]

    def _window(self, name: str) -> tuple[int, str | None]:
        """Return the window of a model in tokens, and a warning if it is assumed."""
        full = f"{self._entry.name}/{name}"
        return window_of(self._entry, full, rate(full))

    def _sees_pictures(self, name: str) -> bool:
        """Return whether a model is known to take pictures; the settings override this."""
        return sees_pictures(name)

    async def send(self, request: Request, on_text: Callable[[str], None]) -> Reply:
        """Send one request; `on_text` is handed each piece of text as it arrives.

        Temporary failures are retried as long as no text was handed on. Cancelling the task closes
        the connection, which stops the generation.

        Raises ContextTooLong, BadRequest, RateLimited, ProviderError.
        """
        info = self.model(request.model)
        if not info.sees_pictures:
            request = replace(request, messages=tuple(map(pictures_in_words, request.messages)))
        stream = self._entry.settings.stream is not False
        body = self._body(request, info, stream=stream)
        path = self._format.path(request.model, stream=stream)
        waits = _Waits(info.name, self._patience.tries, self._on_wait)
        reply = await self._in_turn(
            request, info, waits, lambda: self._send_once(path, body, request, on_text)
        )
        return replace(
            reply,
            usage=self._corrected(reply.usage, info.name),
            model=info.name,
            tries=waits.attempt,
            waited_s=waits.seconds,
        )

    async def search(self, model: str, query: str, most: int) -> SearchReply:
        """Have `model` search the web for `query`; it may find `most` pages.

        Temporary failures are retried. Raises BadRequest, RateLimited, ProviderError.
        """
        info = self.model(model)
        request = Request(model, (user(search_text(query)),), info.max_output_tokens)
        body = self._body(request, info, stream=False)
        body = wire_search.with_search(self._entry.wire, self._entry.name, body, most)
        path = self._format.path(model, stream=False)
        waits = _Waits(info.name, self._patience.tries, self._on_wait)

        async def ask(body: Mapping[str, Any]) -> SearchReply:
            return await self._in_turn(
                request, info, waits, lambda: self._search_once(path, body, request)
            )

        reply = await ask(body)
        for _ in range(wire_search.MOST_SEARCHES):
            if reply.paused:
                reply = reply.plus(await ask(wire_search.going_on(body, reply.paused)))
        return replace(reply, usage=self._corrected(reply.usage, info.name))

    def _body(self, request: Request, info: ModelInfo, *, stream: bool) -> dict[str, Any]:
        try:
            body = self._format.body(request, stream=stream, system_anywhere=info.system_anywhere)
        except ValueError as error:
            raise BadRequest(f"the request cannot be written for {info.name}: {error}") from error
        if self._lenient and "max_completion_tokens" in body:
            body["max_tokens"] = body.pop("max_completion_tokens")  # what all of them know
        return body

    async def _in_turn(
        self,
        request: Request,
        info: ModelInfo,
        waits: _Waits,
        work: Callable[[], Awaitable[_Answer]],
    ) -> _Answer:
        """Return the result of `work`, retried where that may help; each try waits for its turn."""
        expected = request_tokens(info.counter, request.messages, request.tools)
        expected += request.max_output_tokens

        # The wait for one's turn is not the provider's fault, nor a part of its time.
        turn: Slot | None = await self._limiter.take(expected, waits.for_turn)

        async def attempt() -> _Answer:
            nonlocal turn
            slot, turn = turn or await self._limiter.take(expected, waits.for_turn), None
            used = 0  # a request that failed has cost none
            try:
                answer = await work()
                used = answer.usage.tokens_in + answer.usage.tokens_out
            finally:
                self._limiter.settle(slot, used)
            return answer

        return await self._patience.retry(attempt, waits.to_try_again)

    async def _search_once(
        self, path: str, body: Mapping[str, Any], request: Request
    ) -> SearchReply:
        """Return one try of a search."""
        with self._reading():
            async with aclosing(self._client.answers(path, body)) as pieces:
                async for piece in pieces:
                    if piece.whole:
                        reply = self._format.read(piece.value, request)
                        if reply.finish in ("refusal", "filter"):
                            raise Refused(reply.finish, "there is no answer")
                        return wire_search.read(self._entry.wire, piece.value, reply)
        raise ProviderError(f"{self._entry.name} answered a search in pieces, which cannot be read")

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Treat an answer that refuses or cannot be read as a failure of the provider."""
        try:
            yield
        except Refused as refused:
            raise ProviderError(f"{self._entry.name} refused to answer: {refused}") from refused
        except ValueError as error:
            raise ProviderError(
                f"{self._entry.name} sent an answer that cannot be read: {error}"
            ) from error

    async def _send_once(
        self,
        path: str,
        body: Mapping[str, Any],
        request: Request,
        on_text: Callable[[str], None],
    ) -> Reply:
        """Return one try. Raises TransientError only before text was handed on."""
        answer = _PartialAnswer(self._format, request, on_text)
        headers = self._format.headers(request)
        try:
            with self._reading():
                async with aclosing(self._client.answers(path, body, headers)) as pieces:
                    async for piece in pieces:
                        answer.take(piece)
                if self._lenient and not answer.counted:
                    return self._estimated(answer, request)
                return answer.reply()
        except _CutError as cut:
            failed = TransientError(
                ProviderError(f"{self._entry.name} ended its answer in the middle: {cut}")
            )
        except TransientError as transient:
            failed = transient
        if not answer.shown:
            raise failed
        raise type(failed.error)(
            f"{failed.error} (after a part of the answer was shown; nothing is sent twice then)"
        ) from failed

    def _estimated(self, answer: _PartialAnswer, request: Request) -> Reply:
        """Return the reply of a server that reports no usage, with Windlass's own count."""
        counter = self.model(request.model).counter
        tokens = request_tokens(counter, request.messages, request.tools)
        answer.count(tokens)
        reply = answer.reply()
        self._warn_once(f"{self._entry.name} reports no usage; its tokens are counted here")
        usage = Usage(tokens, counter.message(reply.message))
        return replace(reply, usage=usage, estimated=True)

    async def close(self) -> None:
        """Close the connections; may be called twice."""
        await self._client.close()

    def _corrected(self, usage: Usage, model: str) -> Usage:
        """The usage without what is impossible: more cached or written tokens than were sent."""
        honest = possible(usage)
        cached, written = honest.tokens_cached, honest.tokens_written
        if (cached, written) != (usage.tokens_cached, usage.tokens_written):
            self._warn_once(
                f"{model} reported {usage.tokens_cached:,} cached and {usage.tokens_written:,}"
                f" written tokens of {usage.tokens_in:,}; taken as {cached:,} and {written:,}"
            )
        return honest

    def _warn_once(self, warning: str) -> None:
        if warning not in self._warned:
            self._warned.add(warning)
            self._warn(warning)


class _Waits:
    """The waits of one request: added up, and reported if they are long.

    `attempt` is the number of its latest try, from 1; `seconds` the total waited.
    """

    def __init__(
        self, model: str, tries: int, on_wait: Callable[[RequestWait], None] | None
    ) -> None:
        self.attempt = 1
        self.seconds = 0.0
        self._model = model
        self._tries = tries
        self._on_wait = on_wait

    def for_turn(self, seconds: float) -> None:
        """Note a wait for the per-minute limits."""
        reason = f"the limits a minute of {self._model.partition('/')[0]} are reached"
        self.to_try_again(seconds, reason, self.attempt)

    def to_try_again(self, seconds: float, because: str, attempt: int) -> None:
        """Note a wait before a retry."""
        self.attempt = attempt
        self.seconds += seconds
        if self._on_wait is not None and seconds >= _LONG_WAIT_S:
            self._on_wait(RequestWait(self._model, seconds, because, self.attempt, self._tries))


class _CutError(Exception):
    """The answer ended before it was whole."""


class _PartialAnswer:
    """An unfinished answer. `shown`: text was handed on; `counted`: it came with a usage."""

    def __init__(self, format_: Format, request: Request, on_text: Callable[[str], None]) -> None:
        self.shown = False
        self.counted = False
        self._format = format_
        self._request = request
        self._on_text = on_text
        self._reader = format_.reader(request)
        self._whole: dict[str, Any] | None = None

    def take(self, piece: AnswerPiece) -> None:
        """Take one piece and hand its text on. Raises Refused, ValueError."""
        self.counted = self.counted or any(piece.value.get(key) for key in _USAGES)
        if piece.whole:
            self._whole = dict(piece.value)
        else:
            self._show(self._reader.feed(piece.value))

    def count(self, tokens: int) -> None:
        """Put a usage where OpenAI's format has it."""
        usage = {"usage": {"prompt_tokens": tokens, "completion_tokens": 0}}
        if self._whole is not None:
            self._whole.update(usage)
        else:
            self._reader.feed(usage)

    def reply(self) -> Reply:
        """Return the whole answer. Raises _CutError, Refused, ValueError."""
        if self._whole is not None:
            reply = self._format.read(self._whole, self._request)
            self._show(reply.message.text)
            return reply
        try:
            return self._reader.reply()
        except Refused:
            raise
        except ValueError as error:
            raise _CutError(str(error)) from error

    def _show(self, text: str) -> None:
        if text:
            self.shown = True
            self._on_text(text)


_USAGES: Final = ("usage", "usageMetadata", "message")
"""The keys of the usage in an answer or an event; Anthropic's is inside `message`."""


def http_client(entry: ProviderEntry, key: Key, patience: Patience) -> HttpClient:
    """Return a client for the address of a provider; nothing is sent yet."""
    variable = key.variable or (entry.keys[0] if entry.keys else "")
    return HttpClient(
        Endpoint(entry.name, entry.base_url, variable, key.value),
        _headers(entry, key.value),
        timeout_of(entry),
        patience.seconds_after,
    )


def timeout_of(entry: ProviderEntry) -> httpx.Timeout:
    """Give the timeouts from the settings for connecting and for each piece, else the defaults."""
    connect_s = entry.settings.connect_timeout_s or CONNECT_S
    return httpx.Timeout(entry.settings.read_timeout_s or READ_S, connect=connect_s, pool=None)


def limiter_of(entry: ProviderEntry) -> Limiter:
    """Return the per-minute limits from the settings."""
    return Limiter(entry.settings.requests_per_minute, entry.settings.tokens_per_minute)
