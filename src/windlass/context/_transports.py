"""What carries the requests of official clients, replaced in a copy of a client.

Knows the clients of `anthropic`, `openai` and `google-genai`, and nothing of windows: what is sent
in place of a body, and who hears of its answer, says a `Wrapper`.
"""

from __future__ import annotations

import copy
import inspect
import json
from collections.abc import AsyncIterator, Iterator
from types import new_class
from typing import Any, Protocol, get_origin


class Asking(Protocol):
    """A request that was sent, and hears of its answer."""

    def hear(self, answer: Any) -> None:
        """Take an answer, or an event of a streamed one."""
        ...

    def again(self, error: Exception) -> dict[str, Any]:
        """The body to be sent in place of one that was refused; raises the error otherwise."""
        ...


class Wrapper(Protocol):
    """What the requests of a client, and of its copies, go through."""

    @property
    def report(self) -> object:
        """What the client sent so far; its attribute `windlass`."""
        ...

    def asked(self, path: str, body: Any) -> tuple[Any, Asking | None]:
        """The body to be sent for a request, and who hears of its answer (None: nobody)."""
        ...


# ---- anthropic and openai ---------------------------------------------------------------------


def with_post(client: Any, wrapper: Wrapper) -> Any:
    """A copy of a client whose requests are posted through `wrapper`."""
    made = copy.copy(client)
    own = vars(made)
    for name in [name for name, one in own.items() if getattr(one, "_client", None) is client]:
        del own[name]  # resources that were made for the client; they are made anew
    inner = client.post

    def prepared(path: str, options: dict[str, Any]) -> Asking | None:
        options["body"], asking = wrapper.asked(path, options.get("body"))
        if asking is not None and options.get("stream") and options.get("stream_cls"):
            options["stream_cls"] = _heard_stream(options["stream_cls"], asking)
        return asking

    def post(path: str, **options: Any) -> Any:
        if (asking := prepared(path, options)) is None:
            return inner(path, **options)
        try:
            answer = inner(path, **options)
        except Exception as error:  # noqa: BLE001 - the classes of errors are the client's
            answer = inner(path, **{**options, "body": asking.again(error)})
        asking.hear(answer)
        return answer

    async def post_async(path: str, **options: Any) -> Any:
        if (asking := prepared(path, options)) is None:
            return await inner(path, **options)
        try:
            answer = await inner(path, **options)
        except Exception as error:  # noqa: BLE001 - the classes of errors are the client's
            answer = await inner(path, **{**options, "body": asking.again(error)})
        asking.hear(answer)
        return answer

    def copied(**options: Any) -> Any:
        return with_post(client.copy(**options), wrapper)

    own["post"] = post_async if inspect.iscoroutinefunction(inner) else post
    own["copy"] = own["with_options"] = copied
    own["windlass"] = wrapper.report
    return made


def _heard_stream(stream: Any, asking: Asking) -> Any:
    """The class of a stream whose events are heard."""
    base = get_origin(stream) or stream

    def events(self: Any) -> Iterator[Any]:
        inner = base.__stream__(self)
        try:
            for event in inner:
                asking.hear(event)
                yield event
        finally:
            inner.close()

    async def events_async(self: Any) -> AsyncIterator[Any]:
        inner = base.__stream__(self)
        try:
            async for event in inner:
                asking.hear(event)
                yield event
        finally:
            await inner.aclose()

    heard = events_async if hasattr(base, "__anext__") else events
    return new_class(base.__name__, (stream,), {}, lambda body: body.update(__stream__=heard))


# ---- google-genai -----------------------------------------------------------------------------


def with_models(client: Any, wrapper: Wrapper) -> Any:
    """A copy of a client whose models are asked through `wrapper`."""
    carrier = _Carrier(client._api_client, wrapper)  # noqa: SLF001 - there is no other way in
    made, made_async = _kept_open(client), _kept_open(client.aio)
    vars(made)["_models"] = type(client.models)(carrier)
    vars(made_async)["_models"] = type(client.aio.models)(carrier)
    vars(made)["_aio"] = made_async
    vars(made)["windlass"] = vars(made_async)["windlass"] = wrapper.report
    return made


def _kept_open(client: Any) -> Any:
    """A copy of a client that holds it, and closes nothing when it is thrown away."""
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
        body, asking = self._wrapper.asked(path, body)
        return _heard(asking, self._inner.request(method, path, body, *rest))

    def request_streamed(self, method: str, path: str, body: Any, *rest: Any) -> Iterator[Any]:
        """Ask, and answer piece by piece."""
        body, asking = self._wrapper.asked(path, body)
        for answer in self._inner.request_streamed(method, path, body, *rest):
            yield _heard(asking, answer)

    async def async_request(self, method: str, path: str, body: Any, *rest: Any) -> Any:
        """Ask, and answer all at once."""
        body, asking = self._wrapper.asked(path, body)
        return _heard(asking, await self._inner.async_request(method, path, body, *rest))

    async def async_request_streamed(
        self, method: str, path: str, body: Any, *rest: Any
    ) -> AsyncIterator[Any]:
        """Ask, and answer piece by piece."""
        body, asking = self._wrapper.asked(path, body)
        answers = await self._inner.async_request_streamed(method, path, body, *rest)

        async def heard() -> AsyncIterator[Any]:
            async for answer in answers:
                yield _heard(asking, answer)

        return heard()


def _heard(asking: Asking | None, answer: Any) -> Any:
    """The answer of a Gemini client, heard."""
    if asking is not None and isinstance(answer.body, str):
        try:
            asking.hear(json.loads(answer.body))
        except ValueError:
            return answer  # no JSON: the client will say so
    return answer
