"""Sending a request: the border at which a provider's own exceptions become ours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from windlass.engine.state import PhaseRun
from windlass.errors import ProviderError, WindlassError
from windlass.messages import Message
from windlass.providers.base import Provider
from windlass.tools.registry import sent_name
from windlass.wire.base import Reply, Request


async def send(phase_run: PhaseRun, request: Request, on_text: Callable[[str], None]) -> Reply:
    """The provider's reply. Raises ProviderError, also for what a provider did not foresee.

    Nothing is sent a second time: whether to try again is the user's decision.
    """
    return await send_to(phase_run.provider, phase_run.info.name, request, on_text)


async def send_to(
    provider: Provider, name: str, request: Request, on_text: Callable[[str], None]
) -> Reply:
    """The same for any model: `name` is `provider/model`, for messages to the user."""
    try:
        reply = await provider.send(with_sent_names(request), on_text)
    except WindlassError:
        raise
    except Exception as bug:  # a provider may come from anywhere and raise anything
        problem = f"{type(bug).__name__}: {bug}".removesuffix(": ")
        raise ProviderError(f"the provider of {name!r} failed: {problem}") from bug
    return with_own_names(reply, request)


def with_sent_names(request: Request) -> Request:
    """The request under names that every provider takes; itself where all are so."""
    names = _names(request)
    if all(sent_name(name) == name for name in names):
        return request
    choice = request.tool_choice
    return replace(
        request,
        messages=tuple(_renamed(message, sent_name) for message in request.messages),
        tools=tuple(replace(spec, name=sent_name(spec.name)) for spec in request.tools),
        tool_choice=sent_name(choice) if choice in names else choice,
    )


def with_own_names(reply: Reply, request: Request) -> Reply:
    """The reply to `request` under the names that the cascade and the record use."""
    own = {sent_name(name): name for name in _names(request)}
    return replace(reply, message=_renamed(reply.message, lambda name: own.get(name, name)))


def _names(request: Request) -> set[str]:
    called = {call.name for message in request.messages for call in message.tool_calls}
    answered = {m.name for m in request.messages if m.role == "tool" and m.name}
    return called | answered | {spec.name for spec in request.tools}


def _renamed(message: Message, new: Callable[[str], str]) -> Message:
    name = new(message.name) if message.role == "tool" and message.name else message.name
    calls = tuple(replace(call, name=new(call.name)) for call in message.tool_calls)
    if name == message.name and calls == message.tool_calls:
        return message
    return replace(message, tool_calls=calls, name=name)
