"""A cascade from its first phase to its last, and what it leaves in the record."""

from __future__ import annotations

from collections.abc import Awaitable
from contextlib import AsyncExitStack, suppress
from typing import Any

from windlass.cascade.compile import compile_rule, in_words
from windlass.cascade.layers import selectors
from windlass.cascade.model import servers_named
from windlass.engine.breaker import check_breaker, told_of_windows
from windlass.engine.card_indexer.indexer import CardIndexer, models_beside, start_cards
from windlass.engine.cascade_run import CascadeRun
from windlass.engine.events import PhaseStarted, SessionStarted
from windlass.engine.phase import run_phase
from windlass.engine.record import Recorder
from windlass.engine.result import Result
from windlass.engine.soundings import run_sounded
from windlass.engine.sources import last_said
from windlass.errors import OutOfMoney, StoreError, TaskError, WindlassError, out_of_money
from windlass.history.base import Ending, Outcome, SessionStart, ending_of
from windlass.messages import Message
from windlass.templates import PhaseOutput
from windlass.tools.mcp import Servers
from windlass.window.originals import meant, reference


async def run_cascade(run: CascadeRun) -> Result:
    """Run every phase in order and record how the session ended.

    MCP servers live from the first phase to the last, and are stopped however the run ends.
    """
    record, cascade, servers = run.record, run.cascade, needed_servers(run)
    async with AsyncExitStack() as closing:
        closing.push_async_callback(servers.stop)
        models = start_session(run)
        run.emit(SessionStarted(record.session_id, cascade.cascade_id, models))
        run = check_breaker(run)
        cards = start_cards(run)
        if cards is not None:
            closing.push_async_callback(cards.stop)

        async def phases() -> Ending:
            endings: list[Ending] = []
            await add_server_tools(run, servers)
            for index, phase in enumerate(cascade.phases, start=1):
                context = in_words(compile_rule(cascade, phase, run.settings))
                run.emit(PhaseStarted(phase.name, index, len(cascade.phases), context))
                try:
                    attempt = run_phase if phase.soundings is None else run_sounded
                    endings.append(await attempt(run, phase))
                except OutOfMoney:  # what the phase said by then is the run's output
                    run.progress.outputs[phase.name] = phase_output(record, phase.name)
                    raise
                run.progress.outputs[phase.name] = phase_output(record, phase.name)
            return ending_of(endings)

        return await run_session(run, phases(), cards)


async def run_session(
    run: CascadeRun, work: Awaitable[Ending], cards: CardIndexer | None = None
) -> Result:
    """Do the work of a session that began, and record how it ended.

    A failure of a phase, a task, a provider or a limit ends the session and is answered in
    the result's `error`; what was recorded before stays. A store that cannot be
    written raises StoreError. A cancelled run is recorded as interrupted and the
    cancellation goes on. The last of its `cards` are waited for.
    """
    record, progress = run.record, run.progress
    error: WindlassError | None = None
    notes: dict[str, Any] = {}
    try:
        try:
            ending = await work
        except StoreError:
            raise
        except WindlassError as failure:
            if isinstance(failure, TaskError):
                notes = dict(failure.notes)
            if (limit := out_of_money(failure)) is not None:
                ending, notes = Ending("incomplete", "money"), {**notes, "budget": limit.amounts}
            else:
                ending, error = Ending("failed"), failure
                error.session_id = record.session_id
        if cards is not None:
            await cards.drain()
    except StoreError as failure:
        failure.session_id = record.session_id
        with suppress(StoreError):  # perhaps it takes this much; if not, the first failure is told
            _stop(run, failure)
        raise
    except Exception as bug:
        _stop(run, bug)  # nobody foresaw it; what was said before stays readable
        raise
    except BaseException:  # cancelled, or whoever runs this process ends it
        record.append(outcomes=[_outcome(run, Ending("interrupted"), "the run was interrupted")])
        raise
    record.append(outcomes=[_outcome(run, ending, str(error) if error else None)])
    outputs = {name: str(output) for name, output in progress.outputs.items()}
    return Result(
        status=ending.status,
        output=None if error else next(reversed(outputs.values()), ""),
        outputs=outputs,
        state=dict(progress.state),
        session_id=record.session_id,
        usage=progress.usage,
        cost=progress.cost,
        saved=progress.saved_tokens,
        error=error,
        notes=notes,
        reason=ending.reason,
    )


def _stop(run: CascadeRun, failure: Exception) -> None:
    text = f"{type(failure).__name__}: {failure}".removesuffix(": ")
    failed = _outcome(run, Ending("failed"), text)
    run.record.append([run.record.failure(None, failure)], outcomes=[failed])


def _outcome(run: CascadeRun, ending: Ending, error: str | None) -> Outcome:
    details, now = told_of_windows(run), run.record.clock()
    return Outcome(ending.status, now, error=error, details=details, reason=ending.reason)


def needed_servers(run: CascadeRun) -> Servers:
    """The MCP servers whose tools the cascade names, not started. Raises UsageError.

    One that the cascade declares goes before one of the same name in the settings.
    """
    elsewhere, own = run.settings.mcp_servers, run.cascade.mcp_servers
    declared = {**elsewhere, **own}
    named = servers_named(run.cascade, elsewhere)
    if ({*named} - {*own}) & {*run.settings.untrusted_servers()}:
        run.settings.check_trust("mcp_servers")
    return Servers({name: declared[name] for name in named})


async def add_server_tools(run: CascadeRun, servers: Servers) -> None:
    """Start the servers and make their tools known to the run. Raises ServerError."""
    for tool in await servers.start():
        run.registry.register(tool)


def models_seeing(run: CascadeRun, *others: str) -> tuple[str, ...]:
    """The models that will see content: those of the phases, the one that searches, others."""
    models = [run.generation_of(phase).model for phase in run.cascade.phases]
    models += [
        name for phase in run.cascade.phases if phase.soundings for name in phase.soundings.helpers
    ]
    models += [run.search.model] if run.search else []  # it sees what is searched for
    return tuple(dict.fromkeys([*models, *others]))


def start_session(run: CascadeRun) -> tuple[str, ...]:
    """Record how the session begins; returns the names of all models that will see content."""
    cascade, settings = run.cascade, run.settings
    # Selectors see what is chosen from.
    choosing = selectors(cascade, settings)
    models = models_seeing(run, *models_beside(cascade, settings), *choosing)
    data = cascade.model_dump(mode="json", by_alias=True, exclude_unset=True)
    if cascade.mcp_servers:
        servers = cascade.mcp_servers.items()
        data["mcp_servers"] = {name: server.shown() for name, server in servers}
    start = SessionStart(
        cascade_id=cascade.cascade_id,
        model=", ".join(models),
        input=run.input,
        cascade=data,
        timestamp=run.record.clock(),
    )
    run.record.append(start=start)
    return models


def phase_output(record: Recorder, phase: str) -> PhaseOutput:
    """The output of a phase that ran: its text, state, pictures and stored tool results.

    A tool result is found by its reference (`result_` and a content hash) or by the
    name of its tool, which means that tool's latest result.
    """

    def text() -> str:
        output = last_said(record.items(phase))
        return output.message.text if output else ""

    def state() -> dict[str, object]:
        changes = record.store.state(record.session_id)
        return {change.key: change.value for change in changes if change.phase == phase}

    def images() -> list[str]:
        items = record.items(phase)
        return [picture.describe() for item in items for picture in item.message.pictures]

    def results() -> dict[str, Message]:
        named: dict[str, Message] = {}
        for item in record.items(phase):
            if item.message.role == "tool":
                named[reference(item.message)] = item.message
                if item.message.name:
                    named[item.message.name] = item.message
        return named

    def soundings() -> list[str]:
        return [
            last.message.text if last else "" for last in map(last_said, record.soundings(phase))
        ]

    def result(name: str) -> str:
        named = results()
        if name in named:
            return named[name].text
        by_hash = {message.content_hash: message for message in named.values()}
        return by_hash[meant(name, by_hash)].text

    return PhaseOutput(
        text=text,
        state=state,
        images=images,
        result=result,
        soundings=soundings,
        known_results=lambda: list(results()),
    )
