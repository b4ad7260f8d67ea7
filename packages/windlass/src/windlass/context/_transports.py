"""What carries the requests of official clients, replaced in a copy of a client.

Knows the clients of `anthropic`, `openai` and `google-genai`, and nothing of windows: what is sent
in place of a body, and who hears of its answer, says a `Wrapper`. An answer reaches its caller as
it came, and is heard while it is read.
"""

from __future__ import annotations

import copy
import inspect
import json
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Mapping
from contextlib import aclosing, closing, contextmanager, suppress
from functools import partial
from types import MethodType, new_class
from typing import Any, Final, Protocol, get_origin

from windlass.errors import ProviderError

_LAST: Final = ("message_stop", "response.completed", "response.incomplete")
"""Types of the events that end an answer."""
_READS: Final = ("iter_bytes", "iter_raw", "aiter_bytes", "aiter_raw")
_CLOSES: Final = ("close", "aclose")
"""The methods by which the body of an HTTP response is read, and closed."""


class Asking(Protocol):
    """A request that was sent, and hears of its answer; last, of one of `ended` and `failed`."""

    def hear(self, answer: Any) -> None:
        """Take an answer, or an event of a streamed one: an object of the client, or JSON."""
        ...

    def again(self, error: Exception) -> Mapping[str, Any]:
        """Give the body to be sent in place of one that was refused; raises the error otherwise."""
        ...

    def ended(self) -> None:
        """Take that the answer was read to its end. It may have said no usage."""
        ...

    def failed(self, error: BaseException) -> None:
        """Take that there was no answer, or that it broke off or was left before its end.

        Its usage may have been heard before.
        """
        ...


class Wrapper(Protocol):
    """What the requests of a client, and of its copies, go through."""

    @property
    def report(self) -> object:
        """Return what the client sent so far; its attribute `windlass`."""
        ...

    def asked(self, path: str, body: Any) -> tuple[Any, Asking | None]:
        """Return the body to be sent for a request, and who hears of its answer (None: nobody)."""
        ...


class _Hearing:
    """The answer of one request, heard while its caller reads it."""

    def __init__(self, asking: Asking) -> None:
        self.asking = asking
        self._response: Any = None
        self._error: ProviderError | None = None
        self._whole = self._over = False
        self._reading = False  # otherwise the caller has what was read

    def hear(self, answer: Any) -> None:
        """Take an answer, or an event of one."""
        if error := _error_of(answer):
            self._error = ProviderError(error)
        self._whole = self._whole or _is_last(answer)
        self.asking.hear(answer)

    def stop(self, error: BaseException | None = None) -> None:
        """Take that nothing more will be heard; `error` is why, if there was more to come."""
        if self._over:
            return
        self._over = True
        if error := error or self._error:
            self.asking.failed(error)
        else:
            self.asking.ended()

    def leave(self) -> None:
        """Take that what was read is closed, which it also is at its end."""
        if not self._reading:
            left = GeneratorExit("its caller left the answer before its end")
            self.stop(None if self._whole or self._error else left)

    def attend(self, response: Any) -> None:
        """Have the body of an HTTP response heard when it is read, and when it is closed."""
        self._response = response
        body = _Body(self, response.headers.get("content-type", ""))

        def reader(name: str) -> Callable[..., Any]:
            read = getattr(response, name)
            through = self.through_async if name.startswith("a") else self.through
            return lambda *given, **named: through(read(*given, **named), body.take, body.end)

        def close() -> None:
            self._let_go(*_CLOSES)
            self.leave()
            response.close()

        async def aclose() -> None:
            self._let_go(*_CLOSES)
            self.leave()
            await response.aclose()

        vars(response).update({name: reader(name) for name in _READS}, close=close, aclose=aclose)

    def _let_go(self, *names: str) -> None:
        """Give the HTTP response the methods of its class back."""
        if self._response is not None:
            for name in names:
                vars(self._response).pop(name, None)

    def through(
        self,
        pieces: Generator[Any],
        take: Callable[[Any], None],
        end: Callable[[], None] = lambda: None,
    ) -> Generator[Any]:
        """Pass pieces on, each as it comes, and have them taken."""
        with closing(pieces), self._listening(end):
            for piece in pieces:
                take(piece)
                self._reading = False
                yield piece
                self._reading = True

    async def through_async(
        self,
        pieces: AsyncGenerator[Any],
        take: Callable[[Any], None],
        end: Callable[[], None] = lambda: None,
    ) -> AsyncGenerator[Any]:
        """Pass pieces on, each as it comes, and have them taken."""
        async with aclosing(pieces):
            with self._listening(end):
                async for piece in pieces:
                    take(piece)
                    self._reading = False
                    yield piece
                    self._reading = True

    @contextmanager
    def _listening(self, end: Callable[[], None]) -> Iterator[None]:
        self._let_go(*_READS)  # what reads the body by another of them is heard already
        self._reading = True
        try:
            yield
            end()
        except GeneratorExit:
            self.leave()
            raise
        except BaseException as error:
            self.stop(error)
            raise
        self.stop()


def _asked(wrapper: Wrapper, path: str, body: Any) -> tuple[Any, _Hearing | None]:
    """Return the body to be sent for a request, and its answer, which is to be heard.

    None: it is not.
    """
    body, asking = wrapper.asked(path, body)
    return body, None if asking is None else _Hearing(asking)


@contextmanager
def _sending(hearing: _Hearing | None) -> Iterator[None]:
    """Have it heard if a request fails."""
    try:
        yield
    except BaseException as error:
        if hearing is not None:
            hearing.stop(error)
        raise


def _held(holder: Any, name: str) -> Any:
    return holder.get(name) if isinstance(holder, Mapping) else getattr(holder, name, None)


def _error_of(answer: Any) -> str:
    """Return what an answer, or an event of one, says of a failure (empty: nothing)."""
    error = _held(answer, "error") or _held(_held(answer, "response"), "error")
    if not error and _held(answer, "type") == "error":
        error = answer
    return str(_held(error, "message") or error) if error else ""


def _is_last(event: Any) -> bool:
    """Return whether an answer is whole with this event, though its usage may follow."""
    choices = _held(event, "choices") or _held(event, "candidates")
    reasons = [
        _held(one, name)
        for one in (choices if isinstance(choices, list) else ())
        for name in ("finish_reason", "finishReason")
    ]
    return any(reasons) or _held(event, "type") in _LAST


# ---- anthropic and openai ---------------------------------------------------------------------


def with_post(client: Any, wrapper: Wrapper) -> Any:
    """Return a copy of a client whose requests are posted through `wrapper`.

    It posts them itself, so that what is set on it later (`api_key`, `max_retries`) holds.
    """
    made = copy.copy(client)
    own = vars(made)
    inner = client.post if "post" in own else MethodType(type(client).post, made)

    def prepared(path: str, options: dict[str, Any]) -> _Hearing | None:
        options["body"], hearing = _asked(wrapper, path, options.get("body"))
        if hearing and options.get("stream") and options.get("stream_cls"):
            options["stream_cls"] = _heard_stream(options["stream_cls"], hearing)
        return hearing

    def post(path: str, **options: Any) -> Any:
        if (hearing := prepared(path, options)) is None:
            return inner(path, **options)
        with _sending(hearing):
            try:
                answer = inner(path, **options)
            except Exception as error:  # noqa: BLE001 - the classes of errors are the client's
                answer = inner(path, **{**options, "body": hearing.asking.again(error)})
        _listen(answer, hearing)
        return answer

    async def post_async(path: str, **options: Any) -> Any:
        if (hearing := prepared(path, options)) is None:
            return await inner(path, **options)
        with _sending(hearing):
            try:
                answer = await inner(path, **options)
            except Exception as error:  # noqa: BLE001 - the classes of errors are the client's
                answer = await inner(path, **{**options, "body": hearing.asking.again(error)})
        _listen(answer, hearing)
        return answer

    def copied(**options: Any) -> Any:
        return with_post(type(client).copy(made, **options), wrapper)

    own["post"] = post_async if inspect.iscoroutinefunction(inner) else post
    own["copy"] = own["with_options"] = copied
    own["windlass"] = wrapper.report
    _make_resources_anew(made, client)
    return made


def _make_resources_anew(made: Any, client: Any) -> None:
    """Take from a copy the resources that were made for the client that it was made of."""
    own = vars(made)
    for name, one in list(own.items()):
        if getattr(one, "_client", None) is not client:
            continue
        if hasattr(type(made), name):
            del own[name]  # the class makes it when it is asked for
        else:
            own[name] = type(one)(made)


def _listen(answer: Any, hearing: _Hearing) -> None:
    """Have what a client answers heard: at once, or when its caller reads the body of it."""
    response = getattr(answer, "http_response", None) or getattr(answer, "response", answer)
    if not hasattr(response, "iter_bytes"):
        hearing.hear(answer)
        hearing.stop()
        return
    if not response.is_closed:
        hearing.attend(response)
        return
    with suppress(ValueError):  # no JSON: the client has said so
        hearing.hear(json.loads(response.content))
    hearing.stop()


class _Body:
    """The body of an answer, read as it passes by: events line by line, JSON at its end."""

    def __init__(self, hearing: _Hearing, kind: str) -> None:
        self._hearing = hearing
        self._events = "event-stream" in kind
        self._rest = bytearray()

    def take(self, piece: bytes) -> None:
        """Take what comes next."""
        self._rest += piece
        if self._events:
            *lines, self._rest = self._rest.split(b"\n")
            for line in lines:
                self._hear(line)

    def end(self) -> None:
        """Take that this was all."""
        self._hear(self._rest)

    def _hear(self, text: bytearray) -> None:
        with suppress(ValueError):  # no JSON: a comment, a mark of the end, another encoding
            self._hearing.hear(json.loads(text.removeprefix(b"data:")))


def _heard_stream(stream: Any, hearing: _Hearing) -> Any:
    """Return the class of a stream whose events are heard."""
    base = get_origin(stream) or stream
    through = hearing.through_async if hasattr(base, "__anext__") else hearing.through

    def events(self: Any) -> Any:
        return through(base.__stream__(self), hearing.hear)

    return new_class(base.__name__, (stream,), {}, lambda body: body.update(__stream__=events))


# ---- google-genai -----------------------------------------------------------------------------


def with_models(client: Any, wrapper: Wrapper) -> Any:
    """Return a copy of a client whose models are asked through `wrapper`."""
    carrier = _Carrier(client._api_client, wrapper)  # noqa: SLF001 - there is no other way in
    made, made_async = _kept_open(client), _kept_open(client.aio)
    vars(made)["_models"] = type(client.models)(carrier)
    vars(made_async)["_models"] = type(client.aio.models)(carrier)
    vars(made)["_aio"] = made_async
    vars(made)["windlass"] = vars(made_async)["windlass"] = wrapper.report
    return made


def _kept_open(client: Any) -> Any:
    """Return a copy of a client that holds it, and closes nothing when it is thrown away."""
    made = copy.copy(client)
    made.__class__ = type(
        type(client).__name__,
        (type(client),),
        {"__del__": lambda self: None},  # noqa: ARG005
    )
    vars(made)["_wrapped"] = client  # which closes the connections when it is thrown away
    return made


class _Carrier:
    """Carries the requests of a Gemini client; all else is the client's own carrier's."""

    def __init__(self, inner: Any, wrapper: Wrapper) -> None:
        self._inner = inner
        self._wrapper = wrapper

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def request(self, method: str, path: str, body: Any, *rest: Any) -> Any:
        """Ask, and answer all at once."""
        body, hearing = _asked(self._wrapper, path, body)
        with _sending(hearing):
            answer = self._inner.request(method, path, body, *rest)
        _hear_whole(answer, hearing)
        return answer

    async def async_request(self, method: str, path: str, body: Any, *rest: Any) -> Any:
        """Ask, and answer all at once."""
        body, hearing = _asked(self._wrapper, path, body)
        with _sending(hearing):
            answer = await self._inner.async_request(method, path, body, *rest)
        _hear_whole(answer, hearing)
        return answer

    def request_streamed(self, method: str, path: str, body: Any, *rest: Any) -> Any:
        """Ask, and answer piece by piece."""
        body, hearing = _asked(self._wrapper, path, body)
        answers = self._inner.request_streamed(method, path, body, *rest)
        return hearing.through(answers, partial(_hear_piece, hearing)) if hearing else answers

    async def async_request_streamed(self, method: str, path: str, body: Any, *rest: Any) -> Any:
        """Ask, and answer piece by piece."""
        body, hearing = _asked(self._wrapper, path, body)
        with _sending(hearing):
            answers = await self._inner.async_request_streamed(method, path, body, *rest)
        return hearing.through_async(answers, partial(_hear_piece, hearing)) if hearing else answers


def _hear_whole(answer: Any, hearing: _Hearing | None) -> None:
    if hearing is not None:
        _hear_piece(hearing, answer)
        hearing.stop()


def _hear_piece(hearing: _Hearing, answer: Any) -> None:
    """Hear an answer of a Gemini client, or a piece of one."""
    if isinstance(answer.body, str):
        with suppress(ValueError):  # no JSON: the client will say so
            hearing.hear(json.loads(answer.body))
