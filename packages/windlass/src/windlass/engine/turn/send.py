"""Sending a request: the border at which a provider's own exceptions become ours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from windlass.engine._phase_run import PhaseRun
from windlass.engine.cascade_run import CascadeRun
from windlass.engine.resume.journal import TakenStep, digest_of, failure_of, reply_only
from windlass.errors import ProviderError, WindlassError
from windlass.history.row_details import CallAnswered, CallSent
from windlass.history.step import Step
from windlass.messages import Message
from windlass.providers.base import Provider
from windlass.tools.registry import sent_name
from windlass.wire.base import Reply, Request, Usage
from windlass.wire.calls import with_own_ids


async def send(
    run: CascadeRun,
    phase_run: PhaseRun,
    request: Request,
    on_text: Callable[[str], None] = lambda _: None,
    asks: str = "",
) -> TakenStep:
    """Return the reply of the phase's model. Raises ProviderError, also for what nobody foresaw.

    Nothing is sent a second time: whether to try again is the user's decision. `asks` tells apart
    what a turn asks beside its call; such a reply has no row of its own.
    """
    if request.output_schema is not None and phase_run.info.name in run.notices.no_schemas:
        request = replace(request, output_schema=None)  # it is asked for in words
    place = replace(run.step_of(phase_run), asks=asks)
    model = phase_run.provider, phase_run.info.name
    return await take_step(run, place, *model, request, on_text, has_row=not asks)


async def take_step(  # noqa: PLR0917
    run: CascadeRun,
    place: Step,
    provider: Provider,
    name: str,
    request: Request,
    on_text: Callable[[str], None] = lambda _: None,
    *,
    has_row: bool = False,
) -> TakenStep:
    """Return the reply of any model at a place in the program: from the record, or sent for.

    A row says that it is sent before it is, and one that it failed. `has_row`: the caller records
    the reply with its step; else a row of its own does.
    """
    journal, record = run.journal, run.record
    step, digest = journal.next_step(place), digest_of(request)
    reply = journal.recorded(step, digest)
    if reply is not None:
        record.set_time(journal.calls[step].answered)
        if journal.origin and not has_row:  # its session paid for it
            reply = replace(reply, usage=Usage(0, 0))
        return TakenStep(step, reply, inherited=bool(journal.origin))
    record.set_time(None)
    record.decide(step.phase, f"{step}: sent to {name}", CallSent(step, digest, name))
    started = record.clock()
    try:
        reply = await send_to(provider, name, request, on_text)
    except WindlassError as error:
        failed = failure_of(step, error)
        record.decide(step.phase, failed.text, failed)
        raise
    reply = replace(reply, seconds=record.clock() - started)
    if not has_row:
        record.decide(step.phase, f"{step}: answered", CallAnswered(step, reply_only(reply)))
    return TakenStep(step, reply)


async def send_to(
    provider: Provider, name: str, request: Request, on_text: Callable[[str], None]
) -> Reply:
    """Return the reply of a model; `name` is `provider/model`, for messages to the user."""
    try:
        reply = await provider.send(with_sent_names(request), on_text)
    except WindlassError:
        raise
    except Exception as bug:  # a provider may come from anywhere and raise anything
        problem = f"{type(bug).__name__}: {bug}".removesuffix(": ")
        raise ProviderError(f"the provider of {name!r} failed: {problem}") from bug
    reply = with_own_names(reply, request)
    # Before anything knows the reply: results, approvals and edits go by the ids of calls.
    return replace(reply, message=with_own_ids([reply.message])[0])


def with_sent_names(request: Request) -> Request:
    """Return the request under names that every provider takes; itself where all are so."""
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
    """Return the reply to `request` under the names that the cascade and the record use."""
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
