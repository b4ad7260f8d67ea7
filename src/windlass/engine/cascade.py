"""A cascade from its first phase to its last, and what it leaves in the record."""

from __future__ import annotations

from contextlib import AsyncExitStack, suppress

from windlass.cascade.compile import compile_rule, in_words
from windlass.cascade.layers import selectors
from windlass.cascade.model import servers_named
from windlass.engine.breaker import check_breaker, told_of_windows
from windlass.engine.card_indexer.indexer import models_beside, start_cards
from windlass.engine.cascade_run import CascadeRun
from windlass.engine.events import PhaseStarted, SessionStarted
from windlass.engine.phase import run_phase
from windlass.engine.record import Recorder
from windlass.engine.result import Result
from windlass.engine.sources import last_said
from windlass.errors import StoreError, WindlassError
from windlass.history.base import Outcome, SessionStart, Status
from windlass.messages import Message
from windlass.templates import PhaseOutput
from windlass.tools.mcp import Servers
from windlass.window.originals import meant, reference


async def run_cascade(run: CascadeRun) -> Result:
    """Run every phase in order and record how the session ended.

    A failure of a phase, a provider or a limit ends the session and is answered in
    the result's `error`; what was recorded before stays. A store that cannot be
    written raises StoreError. A cancelled run is recorded as interrupted and the
    cancellation goes on. MCP servers live from the first phase to the last, and are
    stopped however the run ends.
    """
    servers = needed_servers(run)
    async with AsyncExitStack() as closing:
        closing.push_async_callback(servers.stop)
        return await _run_phases(run, servers, closing)


async def _run_phases(run: CascadeRun, servers: Servers, closing: AsyncExitStack) -> Result:
    record, cascade = run.record, run.cascade
    models = start_session(run)
    run.emit(SessionStarted(record.session_id, cascade.cascade_id, models))
    run = check_breaker(run)
    cards = start_cards(run)
    if cards is not None:
        closing.push_async_callback(cards.stop)

    error: WindlassError | None = None
    status: Status = "completed"
    try:
        try:
            await add_server_tools(run, servers)
            for index, phase in enumerate(cascade.phases, start=1):
                told = in_words(compile_rule(cascade, phase, run.settings))
                run.emit(PhaseStarted(phase.name, index, len(cascade.phases), told))
                if await run_phase(run, phase) == "incomplete":
                    status = "incomplete"
                run.progress.outputs[phase.name] = phase_output(record, phase.name)
        except StoreError:
            raise
        except WindlassError as failure:
            status, error = "failed", failure
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
        record.append(outcomes=[interrupted(run)])
        raise
    told_error = str(error) if error else None
    details = told_of_windows(run)
    record.append(outcomes=[Outcome(status, record.clock(), error=told_error, details=details)])
    outputs = {name: str(output) for name, output in run.progress.outputs.items()}
    return Result(
        status=status,
        output=next(reversed(outputs.values()), ""),
        outputs=outputs,
        state=dict(run.progress.state),
        session_id=record.session_id,
        usage=run.progress.usage,
        cost=run.progress.cost,
        saved=run.progress.saved_tokens,
        error=error,
    )


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


def interrupted(run: CascadeRun) -> Outcome:
    """How a session ends that somebody has stopped."""
    told = "the run was interrupted"
    return Outcome("interrupted", run.record.clock(), error=told, details=told_of_windows(run))


def _stop(run: CascadeRun, failure: Exception) -> None:
    told = f"{type(failure).__name__}: {failure}".removesuffix(": ")
    failed = Outcome("failed", run.record.clock(), error=told, details=told_of_windows(run))
    run.record.append([run.record.failure(None, failure)], outcomes=[failed])


def start_session(run: CascadeRun) -> tuple[str, ...]:
    """Record how the session begins; returns the names of all models that will see content."""
    cascade = run.cascade
    seeing = [run.generation_of(phase).model for phase in cascade.phases]
    seeing += [run.search.model] if run.search else []  # it sees what is searched for
    seeing += models_beside(cascade, run.settings)
    seeing += selectors(cascade, run.settings)  # they see what is chosen from
    models = tuple(dict.fromkeys(seeing))
    told = cascade.model_dump(mode="json", by_alias=True, exclude_unset=True)
    if cascade.mcp_servers:
        servers = cascade.mcp_servers.items()
        told["mcp_servers"] = {name: server.shown() for name, server in servers}
    start = SessionStart(
        cascade_id=cascade.cascade_id,
        model=", ".join(models),
        input=run.input,
        cascade=told,
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
        said = last_said(record.items(phase))
        return said.message.text if said else ""

    def state() -> dict[str, object]:
        changes = record.store.state(record.session_id)
        return {change.key: change.value for change in changes if change.phase == phase}

    def images() -> list[str]:
        items = record.items(phase)
        return [picture.describe() for item in items for picture in item.message.pictures]

    def results() -> dict[str, Message]:
        found: dict[str, Message] = {}
        for item in record.items(phase):
            if item.message.role == "tool":
                found[reference(item.message)] = item.message
                if item.message.name:
                    found[item.message.name] = item.message
        return found

    def result(name: str) -> str:
        known = results()
        if name in known:
            return known[name].text
        by_hash = {message.content_hash: message for message in known.values()}
        return by_hash[meant(name, by_hash)].text

    return PhaseOutput(
        text=text,
        state=state,
        images=images,
        result=result,
        known_results=lambda: list(results()),
    )
