"""The library door: `run` and `evaluate` for cascades and tasks, `query_unified` for their record.

The one place that opens stores, providers and tools, and hands them to the engine.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Coroutine,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, TypeVar

from windlass.caching.rates import override
from windlass.errors import (
    CascadeError,
    Mistake,
    StepDiffers,
    TaskFileError,
    UsageError,
    WindlassError,
    did_you_mean,
)
from windlass.fair import fair, preload
from windlass.modules import Modules
from windlass.settings import Settings
from windlass.trust import is_trusted

if TYPE_CHECKING:
    from windlass.batches.working import BatchEvent, BatchResult
    from windlass.cascade.children import CascadeFamily, ReadyCascade
    from windlass.cascade.model import Cascade
    from windlass.cluster import Order, SharedObjects, WorkerReply
    from windlass.engine.cascade_run import CascadeRun
    from windlass.engine.events import Event
    from windlass.engine.operators.job import Done
    from windlass.engine.questions import Asked
    from windlass.engine.result import Result
    from windlass.history.base import Store
    from windlass.importing.imported import Imported
    from windlass.operators.compile import Program
    from windlass.operators.model import TaskFile
    from windlass.providers.at_hand import Providers
    from windlass.providers.base import Provider, Resolve
    from windlass.providers.budget import Allowance
    from windlass.tools.registry import Registry

_Answer = TypeVar("_Answer")

Tools = Sequence["Callable[..., Any] | str"]
"""A user's tools: functions, modules (`my_tools`) or dotted paths (`my_tools:search`)."""

ENGINES: Final = ("local", "ray")
"""Where inner tasks of a reduce run: in this process, or on a Ray cluster."""


async def run(
    cascade: Cascade | Mapping[str, Any] | str | Path,
    input: Mapping[str, Any] | None = None,  # noqa: A002  (the DSL's word)
    *,
    model: str | None = None,
    store: str | Path | None = None,
    root: str | Path | None = None,
    search_folder: str | Path | None = None,
    tools: Tools = (),
    providers: Mapping[str, Provider] | None = None,
    on_event: Callable[[Event], None] | None = None,
    session_id: str | None = None,
    auto: bool = False,
    budget: float | None = None,
    max_tokens: int | None = None,
    max_seconds: float | None = None,
    max_turns: int | None = None,
    allowances: Sequence[Allowance] = (),
    answers: Mapping[str, Any] | Sequence[Any] = (),
    on_question: Asked | None = None,
    trust: bool = False,
) -> Result:
    """Run a cascade and answer how it ended. What the cascade names as code is trusted.

    Args:
        cascade: A `Cascade`, the same as a dict, or the path of a JSON or YAML file.
        input: What templates see as `input`.
        model: `provider/model` for every phase, whatever the cascade says.
        store: The folder of the history, or its address (`clickhouse://…`); default
            `WINDLASS_STORE`, else `./.windlass`.
        root: The only folder that file tools may touch; default the current folder.
        search_folder: The folder of texts that `web_search` looks in.
        tools: Functions, modules or dotted paths to register beside the builtins.
        providers: Providers by name, beside the builtin ones: how a test hands in
            `{"scripted": Scripted(function)}` for the model `scripted/anything`.
        on_event: Called with each event of the run (`windlass.engine.events`). What it raises ends
            the run, is recorded as its failure, and raised here.
        session_id: A name for the session; default a new one made of time and chance.
        auto: Whether a cascade that says nothing of `auto_context` gets it with its defaults.
        budget: US dollars that the run may cost. Before a call that could pass them it ends as
            `incomplete`, with the reason `money`.
        max_tokens: Tokens in and out that it may use, likewise (`tokens`).
        max_seconds: Seconds after which no call and no tool begins (`time`).
        max_turns: Calls of models that it may make, those of helpers included (`turns`).
        allowances: Limits that it shares with other runs (`windlass.providers.budget.Allowance`).
        answers: Answers to what `ask_human` asks and to approvals: by question, or in order.
        on_question: Asked where `answers` has none, with a `Question` of
            `windlass.engine.questions`; may be async. Without an answer (None) the run ends as
            `waiting`.
        trust: Whether `windlass.toml` of the current folder may name modules, commands and where
            keys go, though the folder is not marked as trusted (`windlass trust`).

    Raises UsageError (CascadeError) for what the user wrote and StoreError where the
    store fails. Failures of phases, providers and limits are in the result's `error`.
    """
    _check_input(input)
    on_event = _listening(on_event)
    flags: dict[str, Any] = {
        "model": model,
        "store": store,
        "root": root,
        "search_folder": search_folder,
    }
    async with opened(flags, providers, on_event, trust=trust) as (settings, at_hand, closing):
        from windlass.engine.card_indexer.indexer import check_cards
        from windlass.engine.cascade import run_cascade
        from windlass.engine.questions import AnswerSource
        from windlass.engine.resuming import alone
        from windlass.engine.setup import check_models, prepare

        # The user's mistakes are reported before anything is written.
        limits = {"max_tokens": max_tokens, "max_seconds": max_seconds, "max_turns": max_turns}
        resolve, within = _limited(at_hand, allowances, budget=budget, **limits)
        person = AnswerSource(answers, on_question)
        loaded, registry, children = ready = load_cascade(
            cascade, settings, tools, auto=auto, input=input or {}, warn=noted(on_event)
        )
        for each in ready.walk():
            check_models(each.cascade, settings, resolve)
            check_cards(each.cascade, settings, resolve)
        prepared = prepare(
            loaded,
            input or {},
            registry=registry,
            children=children,
            settings=settings,
            store=closing.enter_context(shared_store(settings)),
            resolve=resolve,
            on_event=on_event,
            session_id=session_id,
        )
        prepared = replace(prepared, allowances=within, answers=person)
        closing.enter_context(alone(prepared.record.store, prepared.record.session_id))
        result = await run_cascade(prepared)
    own: dict[str, Any] = {
        "auto": auto,
        "trust": trust,
        "on_event": on_event,
        "on_question": on_question,
    }
    session = Session(cascade, **flags, tools=tools, providers=providers, **own)
    return session.behind(result, prepared, within)


async def resume(
    session: str,
    cascade: Cascade | Mapping[str, Any] | str | Path | None = None,
    *,
    again: Collection[str] = (),
    accept: bool = False,
    model: str | None = None,
    store: str | Path | None = None,
    root: str | Path | None = None,
    search_folder: str | Path | None = None,
    tools: Tools = (),
    providers: Mapping[str, Provider] | None = None,
    on_event: Callable[[Event], None] | None = None,
    auto: bool = False,
    budget: float | None = None,
    max_tokens: int | None = None,
    max_seconds: float | None = None,
    max_turns: int | None = None,
    allowances: Sequence[Allowance] = (),
    answers: Mapping[str, Any] | Sequence[Any] = (),
    on_question: Asked | None = None,
    trust: bool = False,
) -> Result:
    """Go on with a session of a cascade that was broken off, failed, or ended by a limit.

    The program is walked again. What was answered comes from the record at no cost, and the first
    step that was not is sent. A call that was sent and never answered may have been billed; it is
    sent again, and both stand in the record.

    Args:
        session: Its id, the beginning of it, or `latest`.
        cascade: Its cascade, where that is not where it was: as `run` takes it.
        again: The tools that may run again, though they may have run when it was broken off and
            their effects cannot be taken back. Without their names it ends as `waiting` there.
        accept: Whether to go on in a new session from the first step that is another one now.
        model: As in `run`; default what the run was given.
        store: As in `run`.
        root: As in `run`; default that of the run.
        search_folder: As in `run`.
        tools: As in `run`.
        providers: As in `run`.
        on_event: As in `run`.
        auto: As in `run`.
        budget: As in `run`; what was answered before does not count.
        max_tokens: Likewise.
        max_seconds: As in `run`.
        max_turns: As `budget`.
        allowances: As in `run`.
        answers: As in `run`; what was answered before is not asked again.
        on_question: As in `run`.
        trust: As in `run`.

    Raises UsageError for a session that completed or runs. Raises StepDiffers, before anything is
    sent, where cascade, tools, policy or model are others now and a step differs by it; not where
    that is accepted.
    """
    on_event = _listening(on_event)
    flags: dict[str, Any] = {
        "model": model,
        "store": store,
        "root": root,
        "search_folder": search_folder,
    }
    async with opened(flags, providers, on_event, trust=trust) as (chosen, at_hand, closing):
        from windlass.engine.card_indexer.indexer import check_cards
        from windlass.engine.cascade import run_cascade
        from windlass.engine.questions import AnswerSource
        from windlass.engine.resuming import (
            RAN,
            alone,
            definition_of,
            forked,
            sent_at,
            taken_up,
            what_ran,
        )
        from windlass.engine.setup import check_models, prepare

        history = closing.enter_context(open_store(chosen, existing=True, writing=True))
        session = history.find_session(session)
        start = what_ran(history, session)
        closing.enter_context(alone(history, session))
        begun = start.cascade[RAN]
        flags |= {"root": root or begun["root"], "model": model or begun["model"]}
        settings = Settings.read(flags, trust=trust)
        if cascade is None:
            definition = {key: value for key, value in start.cascade.items() if key != RAN}
            cascade = begun["file"] if Path(begun["file"] or ".").is_file() else definition
        limits = {"max_tokens": max_tokens, "max_seconds": max_seconds, "max_turns": max_turns}
        resolve, within = _limited(at_hand, allowances, budget=budget, **limits)
        person = AnswerSource(answers, on_question)
        loaded, registry, children = ready = load_cascade(
            cascade, settings, tools, auto=auto, input=start.input, warn=noted(on_event)
        )
        for each in ready.walk():
            check_models(each.cascade, settings, resolve)
            check_cards(each.cascade, settings, resolve)

        def prepared(session_id: str | None) -> CascadeRun:
            run = prepare(
                loaded,
                start.input,
                registry=registry,
                children=children,
                settings=settings,
                store=history,
                resolve=resolve,
                on_event=on_event,
                session_id=session_id,
                resumed=session_id is not None,
            )
            return replace(run, allowances=within, answers=person)

        run = taken_up(prepared(session), definition_of(loaded), again)
        try:
            result = await run_cascade(run)
        except StepDiffers as differs:
            if not accept:
                raise
            moment = sent_at(history, differs.session_id or session, differs.place)
            run = forked(prepared(None), session, moment)
            closing.enter_context(alone(history, run.record.session_id))
            result = await run_cascade(run)
    own: dict[str, Any] = {
        "auto": auto,
        "trust": trust,
        "on_event": on_event,
        "on_question": on_question,
    }
    behind = Session(cascade, **flags, tools=tools, providers=providers, **own)
    return behind.behind(result, run, within)


def resume_sync(session: str, *arguments: Any, **options: Any) -> Result:
    """`resume` for code that is not async; takes the same arguments.

    Raises UsageError inside a running event loop, where `await windlass.resume(...)` is
    what is meant.
    """
    return _in_a_loop(lambda: resume(session, *arguments, **options), "resume")


async def fork(
    session: str,
    at: int,
    *,
    changes: Mapping[str, Any] | None = None,
    message: str = "",
    model: str | None = None,
    store: str | Path | None = None,
    root: str | Path | None = None,
    search_folder: str | Path | None = None,
    tools: Tools = (),
    providers: Mapping[str, Provider] | None = None,
    on_event: Callable[[Event], None] | None = None,
    session_id: str | None = None,
    auto: bool = False,
    budget: float | None = None,
    max_tokens: int | None = None,
    max_seconds: float | None = None,
    max_turns: int | None = None,
    allowances: Sequence[Allowance] = (),
    answers: Mapping[str, Any] | Sequence[Any] = (),
    on_question: Asked | None = None,
    trust: bool = False,
) -> Result:
    """Run a session of a cascade anew from one of its calls on, in a session of its own.

    What was answered before that call comes from the record at no cost, whatever has changed; its
    contents are shared. The bill of the new session shows what it inherits apart.

    Args:
        session: Its id, the beginning of it, or `latest`; it may have completed.
        at: The number of the first call that is sent anew, as `windlass show` lists them.
        changes: What is another one in the new session, by its key: `PHASE.KEY` of a phase, or a
            key of the cascade such as `model`; `profile` is that of `auto_context`.
        message: What the user says before that call.
        model: As in `run`; default what the run was given.
        store: As in `run`.
        root: As in `run`; default that of the run.
        search_folder: As in `run`.
        tools: As in `run`.
        providers: As in `run`.
        on_event: As in `run`.
        session_id: A name for the new session.
        auto: As in `run`.
        budget: As in `run`; what is inherited does not count.
        max_tokens: Likewise.
        max_seconds: As in `run`.
        max_turns: As `budget`.
        allowances: As in `run`.
        answers: As in `run`; what was answered before is not asked again.
        on_question: As in `run`.
        trust: As in `run`.

    Raises UsageError for a call or a key that is not there.
    """
    on_event = _listening(on_event)
    flags: dict[str, Any] = {
        "model": model,
        "store": store,
        "root": root,
        "search_folder": search_folder,
    }
    async with opened(flags, providers, on_event, trust=trust) as (chosen, at_hand, closing):
        from windlass.engine.cascade import run_cascade
        from windlass.engine.questions import AnswerSource
        from windlass.engine.record import Recorder
        from windlass.engine.resuming import RAN, alone, changed_by, forked, moment_of, what_ran
        from windlass.engine.setup import check_models, prepare

        history = closing.enter_context(open_store(chosen, existing=True, writing=True))
        session = history.find_session(session)
        start = what_ran(history, session, ended=True)
        moment = moment_of(history, session, at)
        begun = start.cascade[RAN]
        flags |= {"root": root or begun["root"], "model": model or begun["model"]}
        if "model" in (changes or {}) and model is None:
            flags["model"] = None  # the cascade's own is meant
        settings = Settings.read(flags, trust=trust)
        limits = {"max_tokens": max_tokens, "max_seconds": max_seconds, "max_turns": max_turns}
        resolve, within = _limited(at_hand, allowances, budget=budget, **limits)
        person = AnswerSource(answers, on_question)
        cascade = changed_by(start.cascade, changes or {})
        loaded, registry, children = ready = load_cascade(
            cascade, settings, tools, auto=auto, input=start.input, warn=noted(on_event)
        )
        for each in ready.walk():
            check_models(each.cascade, settings, resolve)
        run = prepare(
            loaded,
            start.input,
            registry=registry,
            children=children,
            settings=settings,
            store=history,
            resolve=resolve,
            on_event=on_event,
            session_id=session_id,
        )
        closing.enter_context(alone(history, run.record.session_id))
        run = replace(run, allowances=within, answers=person)
        run = forked(run, session, moment, message)
        result = await run_cascade(run)
        origin = Recorder(history, session, run.record.clock, run.record.new_id)
        told = f"forked at call {at} as session {result.session_id}"
        origin.decide("", told, kind="fork", session_id=result.session_id, call=at)
    own: dict[str, Any] = {
        "auto": auto,
        "trust": trust,
        "on_event": on_event,
        "on_question": on_question,
    }
    behind = Session(cascade, **flags, tools=tools, providers=providers, **own)
    return behind.behind(result, run, within)


def fork_sync(session: str, at: int, **options: Any) -> Result:
    """`fork` for code that is not async; takes the same arguments.

    Raises UsageError inside a running event loop, where `await windlass.fork(...)` is
    what is meant.
    """
    return _in_a_loop(lambda: fork(session, at, **options), "fork")


def run_sync(
    cascade: Cascade | Mapping[str, Any] | str | Path,
    input: Mapping[str, Any] | None = None,  # noqa: A002
    **options: Any,
) -> Result:
    """`run` for code that is not async; takes the same arguments.

    Raises UsageError inside a running event loop, where `await windlass.run(...)` is
    what is meant.
    """
    return _in_a_loop(lambda: run(cascade, input, **options), "run")


async def evaluate(
    task: str | Path | None = None,
    input: Mapping[str, Any] | None = None,  # noqa: A002  (the DSL's word)
    *,
    context: str = "",
    resume: str | None = None,
    engine: str = "local",
    auto: bool = False,
    model: str | None = None,
    store: str | Path | None = None,
    root: str | Path | None = None,
    search_folder: str | Path | None = None,
    tools: Tools = (),
    providers: Mapping[str, Provider] | None = None,
    on_event: Callable[[Event], None] | None = None,
    session_id: str | None = None,
    budget: float | None = None,
    max_tokens: int | None = None,
    max_seconds: float | None = None,
    max_turns: int | None = None,
    allowances: Sequence[Allowance] = (),
    answers: Mapping[str, Any] | Sequence[Any] = (),
    on_question: Asked | None = None,
    trust: bool = False,
) -> Result:
    """Run a task file and answer how it ended. What the file names as code is trusted.

    Args:
        task: The path of an XML file; with `resume` none.
        input: What templates and expressions see as `input`. Where the file names it nowhere,
            it is part of the context that the root inherits.
        context: The context of the root's parent, which it inherits as its file says.
        resume: A session to take up again (its id, the beginning of it, or `latest`): what it
            had finished is not repeated. The task, its input and its context are those of the
            session, and so are root and model where none is given.
        engine: `local`, or `ray`: inner tasks of a reduce run on a Ray cluster.
        auto: Whether calls are shortened as they grow where the file says nothing of it.
        model: `provider/model` for every task, whatever the file says.
        store: The folder of the history, or its address.
        root: The only folder that inputs and file tools may touch; default the current folder.
        search_folder: The folder of texts that `web_search` looks in.
        tools: Functions, modules or dotted paths to register beside the builtins.
        providers: Providers by name, beside the builtin ones.
        on_event: Called with each event of the run (`windlass.engine.events`). What it raises ends
            the run, is recorded as its failure, and raised here.
        session_id: A name for the session; default a new one made of time and chance.
        budget: US dollars that the run may cost. Before a call that could pass them it ends as
            `incomplete`, with the reason `money`.
        max_tokens: Tokens in and out that it may use, likewise (`tokens`).
        max_seconds: Seconds after which no call and no tool begins (`time`).
        max_turns: Calls of models that it may make, those of helpers included (`turns`).
        allowances: Limits that it shares with other runs (`windlass.providers.budget.Allowance`).
        answers: Answers to what `ask_human` asks and to approvals: by question, or in order.
        on_question: Asked where `answers` has none, with a `Question` of
            `windlass.engine.questions`; may be async. Without an answer (None) the run ends as
            `waiting`.
        trust: Whether `windlass.toml` of the current folder may name modules, commands and where
            keys go, though the folder is not marked as trusted (`windlass trust`).

    Raises UsageError (TaskFileError) for what the user wrote and StoreError where the store
    fails. Failures of tasks, providers and limits are in the result's `error`, and what was
    finished by then in its `notes`.
    """
    if (task is None) == (resume is None):
        raise UsageError("give a task file to run, or a session to resume, and not both")
    if resume is not None and (input or context or session_id):
        raise UsageError("a resumed session has its own input, context and name; leave them out")
    _check_input(input)
    if engine not in ENGINES:
        raise UsageError(f"there is no engine {engine!r}; {did_you_mean(engine, ENGINES)}")
    limits = {"max_tokens": max_tokens, "max_seconds": max_seconds, "max_turns": max_turns}
    if engine != "local" and (allowances or any((budget, *limits.values()))):
        raise UsageError("limits cannot be shared with a cluster; leave out the engine, or them")
    on_event = _listening(on_event)
    flags = {"model": model, "store": store, "root": root, "search_folder": search_folder}
    async with opened(flags, providers, on_event, trust=trust) as (chosen, at_hand, closing):
        from windlass.engine.operators.job import Job
        from windlass.engine.operators.tasks import run_program, what_was_begun
        from windlass.engine.questions import AnswerSource
        from windlass.engine.setup import check_models, prepare
        from windlass.operators.reading import read_task

        settings = chosen
        resolve, within = _limited(at_hand, allowances, budget=budget, **limits)
        person = AnswerSource(answers, on_question)
        finished: dict[str, Done] = {}
        source: str | Path | TaskFile
        if resume is not None:
            history = closing.enter_context(open_store(settings, existing=True, writing=True))
            resume = history.find_session(resume)
            start, finished = what_was_begun(history, resume)
            begun = start.cascade
            file, raw = str(begun["file"]), str(begun["xml"]).encode("utf-8", "surrogateescape")
            source = read_task(raw, file, name=Path(file).stem)
            input, context = start.input, str(begun["context"])  # noqa: A001
            flags["root"], flags["model"] = root or begun["root"], model or begun["model"]
            settings = Settings.read(flags, trust=trust)
        else:
            assert task is not None
            source = task
        given = None if resume is not None else input or {}
        program, registry = load_program(source, settings, tools, auto=auto, input=given)
        check_models(program.cascade, settings, resolve)
        spread = None
        if engine == "ray":
            from windlass.cluster import Cluster, SharedObjects

            shared = SharedObjects(tuple(tools), dict(providers or {}), auto)
            spread = closing.enter_context(Cluster(flags, shared, work))
        if resume is None:
            history = closing.enter_context(shared_store(settings))
        run = prepare(
            program.cascade,
            input or {},
            registry=registry,
            settings=settings,
            store=history,
            resolve=resolve,
            on_event=on_event,
            session_id=resume or session_id,
            resumed=resume is not None,
        )
        run = replace(run, allowances=within, answers=person)
        job = Job.of(program, run, finished=finished, spread=spread)
        return await run_program(job, context, resumed=resume is not None)


async def batch(
    cascade: Cascade | Mapping[str, Any] | str | Path,
    inputs: str | Path | Iterable[Mapping[str, Any]],
    *,
    out: str | Path,
    workers: int = 8,
    resume: bool = False,
    max_cost: float | None = None,
    max_tokens: int | None = None,
    max_seconds: float | None = None,
    max_runs: int | None = None,
    model: str | None = None,
    store: str | Path | None = None,
    root: str | Path | None = None,
    search_folder: str | Path | None = None,
    tools: Tools = (),
    providers: Mapping[str, Provider] | None = None,
    on_event: Callable[[BatchEvent], None] | None = None,
    auto: bool = False,
    budget: float | None = None,
    trust: bool = False,
) -> BatchResult:
    """Run a cascade on many inputs side by side and answer what they came to.

    Each run is a session of its own. They share the store, the providers and the limits of these.
    A run that fails stops none of the others.

    Args:
        cascade: A `Cascade`, the same as a dict, or the path of a JSON or YAML file.
        inputs: The inputs, one a row: mappings, or the path of a file of JSON lines (.jsonl) or
            CSV (.csv).
        out: The file of results. One line of JSON is added when a run ends, so that a process
            that is killed loses nothing that was answered.
        workers: How many runs go on side by side.
        resume: Whether to go on with a file of results that is there: what it answers is not run
            again. A row that failed is, and one that a limit of the batch ended.
        max_cost: US dollars that the whole batch may cost, with what it cost before it is
            resumed. No run is begun, and no call is sent, that could pass them.
        max_tokens: Tokens, in and out, that the whole batch may use, with what it used before it is
            resumed: no run is begun that could pass them, if it used as many as the largest one.
        max_seconds: Seconds from now on: no run is begun that could pass them, if it took as long
            as the longest one.
        max_runs: How many runs are begun from now on.
        model: `provider/model` for every phase, whatever the cascade says.
        store: The folder of the history, or its address.
        root: The only folder that file tools may touch; default the current folder.
        search_folder: The folder of texts that `web_search` looks in.
        tools: Functions, modules or dotted paths to register beside the builtins.
        providers: Providers by name, beside the builtin ones.
        on_event: Called with `BatchStarted`, `RowEnded` (`windlass.batches.working`), notes and
            waits. What it raises ends the batch.
        auto: Whether a cascade that says nothing of `auto_context` gets it with its defaults.
        budget: US dollars that each run may cost.
        trust: Whether `windlass.toml` of the current folder may name modules, commands and where
            keys go, though the folder is not marked as trusted (`windlass trust`).

    Raises UsageError (FileError with every mistake in the inputs) for what the user wrote, before
    anything is sent, and StoreError where the store or the results cannot be written.
    """
    if workers < 1:
        raise UsageError(f"workers {workers!r} must be a number above 0")
    flags = {"model": model, "store": store, "root": root, "search_folder": search_folder}
    raised: list[Exception] = []

    def tell(event: BatchEvent) -> None:
        try:
            if on_event is not None:
                on_event(event)
        except Exception as failure:
            raised.append(failure)
            raise

    async with opened(flags, providers, on_event and tell, trust=trust) as (
        settings,
        at_hand,
        closing,
    ):
        from windlass.batches.inputs import BatchInput, hash_of, read_inputs
        from windlass.batches.results import open_results
        from windlass.batches.working import BatchLimits, BatchWork
        from windlass.cascade.children import family_needs, ready, without_parent
        from windlass.engine.card_indexer.indexer import check_cards
        from windlass.engine.cascade import run_cascade
        from windlass.engine.events import Noted
        from windlass.engine.setup import check_models, new_session_id, prepare
        from windlass.providers.budget import Allowance

        limits = BatchLimits(max_cost, max_tokens, max_seconds, max_runs)
        family, warnings = _checked_family(cascade, settings, tools)
        if mistakes := without_parent(family.loaded):
            raise CascadeError(mistakes)
        checked = ready(family, auto=auto)
        needs = family_needs(family)
        rows = await asyncio.to_thread(read_inputs, inputs, needs)
        for each in checked.walk():
            each.registry.modules.protect(Path(out))
            for dollars in (max_cost, budget):
                check_models(each.cascade, settings, _limited(at_hand, (), budget=dollars)[0])
            check_cards(each.cascade, settings, at_hand.resolve)
        of = hash_of([_written(each.loaded.cascade) for each in family.walk()])
        results = closing.enter_context(open_results(Path(out), of, rows, resume=resume))
        whole = Allowance("the batch", budget=max_cost)
        whole.spent["money"] = results.answered.cost or 0.0
        history = closing.enter_context(shared_store(settings))

        def prepared(given: BatchInput, emit: Callable[[Event], None] | None = None) -> CascadeRun:
            own = checked.apart()
            resolve, within = _limited(at_hand, (whole,), budget=budget)
            run = prepare(
                own.cascade,
                given.values,
                registry=own.registry,
                children=own.children,
                settings=settings,
                store=history,
                resolve=resolve,
                on_event=emit,
                session_id=f"{new_session_id()}-{given.row}",
            )
            return replace(run, allowances=within)

        async def run_row(given: BatchInput, emit: Callable[[Event], None]) -> Result:
            return await run_cascade(prepared(given, emit))

        prepared(rows[0])  # a mistake that all rows would make is told before the first
        for warning in warnings:
            tell(Noted("", f"warning: {warning}"))
        work = BatchWork(rows, results, run_row, limits, tell, raised)
        await work.finish(workers)
        return work.result(Path(out))


def batch_sync(
    cascade: Cascade | Mapping[str, Any] | str | Path,
    inputs: str | Path | Iterable[Mapping[str, Any]],
    **options: Any,
) -> BatchResult:
    """`batch` for code that is not async; takes the same arguments.

    Raises UsageError inside a running event loop, where `await windlass.batch(...)` is
    what is meant.
    """
    return _in_a_loop(lambda: batch(cascade, inputs, **options), "batch")


def _written(cascade: Cascade) -> dict[str, Any]:
    """A cascade as it was written, with nothing of what goes without saying."""
    return cascade.model_dump(mode="json", by_alias=True, exclude_unset=True)


def _check_input(given: object) -> None:
    """Raise UsageError for an input that is none."""
    kind = type(given).__name__
    if given is not None and not isinstance(given, Mapping):
        raise UsageError(
            f"the input must be a mapping of names to values, such as {{'question': 'text'}}, "
            f"not {kind} {str(given)[:60]!r}"
        )
    if names := [name for name in given or () if not isinstance(name, str)]:
        raise UsageError(f"the input's names must be text, not {names[0]!r}")


def evaluate_sync(
    task: str | Path | None = None,
    input: Mapping[str, Any] | None = None,  # noqa: A002
    **options: Any,
) -> Result:
    """`evaluate` for code that is not async; takes the same arguments.

    Raises UsageError inside a running event loop, where `await windlass.evaluate(...)` is
    what is meant.
    """
    return _in_a_loop(lambda: evaluate(task, input, **options), "evaluate")


def _limited(
    providers: Providers, shared: Sequence[Allowance], **limits: float | None
) -> tuple[Resolve, tuple[Allowance, ...]]:
    """How the models of a run are found, and the limits that their calls count against."""
    from windlass.providers.budget import Allowance

    within = (*shared, Allowance("the run", **limits))
    resolve: Resolve = providers.resolve
    for allowance in within:
        resolve = allowance.resolving(resolve)
    return resolve, within


def work(order: Order, shared: SharedObjects) -> WorkerReply:
    """Run one inner task of a reduce; called in a process of a cluster."""
    os.environ.update(order.environment)
    with suppress(OSError):  # another machine may not have the folder, and needs it for names only
        os.chdir(order.folder)
    return asyncio.run(_work(order, shared))


async def _work(order: Order, shared: SharedObjects) -> WorkerReply:
    # Whoever gave the order trusts the folder, or it would not have begun.
    folder = Path(order.folder)
    async with opened(order.flags, shared.providers, folder=folder, trust=True) as resources:
        from windlass.cluster import WorkerReply
        from windlass.engine.cascade import add_server_tools, needed_servers
        from windlass.engine.operators.job import Job
        from windlass.engine.operators.tasks import Inner, run_one
        from windlass.engine.setup import prepare
        from windlass.operators.reading import read_task

        settings, at_hand, closing = resources
        source = read_task(order.raw, order.file, name=Path(order.file).stem)
        program, registry = load_program(source, settings, shared.tools, auto=shared.auto)
        run = prepare(
            program.cascade,
            order.input,
            registry=registry,
            settings=settings,
            store=closing.enter_context(open_store(settings, existing=True)),
            resolve=at_hand.resolve,
            session_id=order.session,
            resumed=True,
        )
        progress = run.progress
        progress.state.update(order.state)
        servers = needed_servers(run)
        closing.push_async_callback(servers.stop)
        await add_server_tools(run, servers)
        job = Job.of(program, run)
        closing.callback(job.material.close)
        task = next(task for task in program.task.walk() if task.path == order.task)
        done: Done | None = None
        failure: WindlassError | None = None
        try:
            done = await run_one(Inner(job, task, order.frame, order.path), order.index, order.item)
        except WindlassError as error:
            failure = error
        return WorkerReply(done, failure, progress.usage, progress.cost, progress.saved_tokens)


def _in_a_loop(work: Callable[[], Coroutine[Any, Any, _Answer]], name: str) -> _Answer:
    """What the public coroutine `windlass.name` comes to, for code that is not async.

    Raises UsageError inside a running event loop.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work())
    raise UsageError(
        f"{name}_sync cannot be called inside a running event loop; write:"
        f" await windlass.{name}(...)"
    )


class Session:
    """A session with which a person goes on, message by message: a finished one, or a fresh one.

    `run` answers one as `result.session`. Each message is answered by a phase `chat` in the
    session's record, which sees all that was said and has the tools, the memory and the model of
    the cascade's last phase. With `async with`, providers and tools stay open between messages.

    Args:
        cascade: The cascade, as `run` takes it; None: that of the recorded session `resume`, else
            a conversation with the model alone.
        resume: A session in the store to go on with (its id, the beginning of it, or `latest`).
        auto: As `run` takes it, and likewise the others.
    """

    held: CascadeRun | None = None
    """What is known of the session so far (None: nothing was said here)."""

    def __init__(
        self,
        cascade: Cascade | Mapping[str, Any] | str | Path | None = None,
        *,
        resume: str | None = None,
        model: str | None = None,
        store: str | Path | None = None,
        root: str | Path | None = None,
        search_folder: str | Path | None = None,
        tools: Tools = (),
        providers: Mapping[str, Provider] | None = None,
        on_event: Callable[[Event], None] | None = None,
        on_question: Asked | None = None,
        allowances: Sequence[Allowance] = (),
        auto: bool = False,
        trust: bool = False,
    ) -> None:
        self._cascade = cascade
        self._resume = resume
        self._model = model
        self._flags = {"model": model, "store": store, "root": root, "search_folder": search_folder}
        self._tools = tools
        self._providers = providers
        self.on_event = on_event
        """Called with each event, from the next message on that is sent after it was closed."""
        self._on_question = on_question
        self._allowances = tuple(allowances)
        self._declared: Allowance | None = None
        self._auto = auto
        self._trust = trust
        self._closing: AsyncExitStack | None = None
        self._busy = False
        self._fresh = False

    @property
    def session_id(self) -> str | None:
        """The session in the store (None: nothing was said yet)."""
        return None if self.held is None or self._fresh else self.held.record.session_id

    def behind(self, result: Result, run: CascadeRun, within: tuple[Allowance, ...]) -> Result:
        """The result of a run with this session, which goes on behind it within its limits."""
        within[-1].limits.pop("time", None)  # the run is over; all else goes on to hold
        self.held, self._allowances = run, within
        return replace(result, session=self)

    async def send(self, text: str) -> Result:
        """What the session answers a message, in its record. Its totals are the session's.

        Raises UsageError for what the user wrote and StoreError where the store fails. A failure
        is in the result's `error`; the next message goes on behind it.
        """
        if not text.strip():
            raise UsageError("the message is empty; say something")
        if self._busy:
            raise UsageError("the session answers another message; wait for that one first")
        self._busy = True
        try:
            if self._closing is not None:
                return await self._answer(text)
            async with self:
                return await self._answer(text)
        finally:
            self._busy = False

    def send_sync(self, text: str) -> Result:
        """`send` for code that is not async. Raises UsageError inside a running event loop."""
        return _in_a_loop(lambda: self.send(text), "Session.send")

    async def __aenter__(self) -> Self:
        """Open the store, the providers and the tools. Raises UsageError."""
        from windlass.engine.cascade import add_server_tools, needed_servers
        from windlass.engine.questions import AnswerSource
        from windlass.engine.resuming import alone
        from windlass.engine.setup import check_models, prepare
        from windlass.engine.talking import cascade_of, goes_on, only_chat, take_up, with_chat
        from windlass.providers.budget import Allowance

        async with AsyncExitStack() as closing:
            on_event = _listening(self.on_event)
            resources = opened(self._flags, self._providers, on_event, trust=self._trust)
            settings, at_hand, _ = await closing.enter_async_context(resources)
            source, given, known = self._cascade, {}, self.session_id
            store: Store | None = None
            if self._resume is not None and known is None:
                store = closing.enter_context(open_store(settings, existing=True, writing=True))
                known = store.find_session(self._resume)
                start = store.start(known)
                given = dict(start.input)
                source = cascade_of(start.cascade, known) if source is None else source
            elif source is None:
                source = only_chat(self._model)
            ready = load_cascade(source, settings, self._tools, auto=self._auto)
            cascade = with_chat(ready.cascade)
            if self._declared is None:
                limits = dict(cascade.limits or {}) | {"max_seconds": None}
                self._declared = Allowance("the session", **limits)
                self._allowances += (self._declared,)
            resolve: Resolve = at_hand.resolve
            for allowance in self._allowances:
                resolve = allowance.resolving(resolve)
            check_models(cascade, settings, resolve)
            store = store or closing.enter_context(shared_store(settings))
            run = prepare(
                cascade,
                given if self.held is None else self.held.input,
                registry=ready.registry,
                settings=settings,
                store=store,
                resolve=resolve,
                on_event=on_event,
                session_id=known,
                resumed=known is not None,
            )
            closing.enter_context(alone(store, run.record.session_id))
            answers = AnswerSource((), self._on_question)
            run = replace(run, answers=answers, allowances=self._allowances)
            if self.held is not None and not self._fresh:
                run = goes_on(self.held, run)
            elif known is not None:
                take_up(run)
            else:
                self._fresh = True
            servers = needed_servers(run)
            closing.push_async_callback(servers.stop)
            await add_server_tools(run, servers)
            self.held = run
            self._closing = closing.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close what was opened; the session may be gone on with again."""
        closing, self._closing = self._closing, None
        if closing is not None:
            await closing.aclose()

    async def _answer(self, text: str) -> Result:
        from windlass.engine.cascade import start_session
        from windlass.engine.events import SessionStarted
        from windlass.engine.talking import answer_message

        assert self.held is not None
        run = self.held
        if self._fresh:
            models = start_session(run)
            self._fresh = False
            run.emit(SessionStarted(run.record.session_id, run.cascade.cascade_id, models))
        return replace(await answer_message(run, text), session=self)


def query_unified(
    where: str, params: Sequence[Any] = (), *, store: str | Path | None = None
) -> Rows:
    """The rows of `unified_logs` for which `where` holds, as dicts by column name.

    `where` is the condition of a SELECT; values are bound with `?` and `params`. The
    connection is read-only. Raises UsageError for anything but one condition.

    >>> query_unified("node_type = 'follow_up' AND tokens_in > ?", [50_000])  # doctest: +SKIP
    """
    settings = Settings.read({"store": store})
    history = open_store(settings, existing=True)
    try:
        sql = f"SELECT * FROM unified_logs WHERE ({where}\n)"  # noqa: S608  (read-only, one statement)
        return Rows(history.query(sql, params))
    finally:
        history.close()


class Rows(list[dict[str, Any]]):
    """Rows of a query: a list of dicts that can become a data frame."""

    def to_frame(self) -> Any:
        """The rows as a pandas DataFrame. Raises UsageError where pandas is not installed."""
        try:
            import pandas as pd
        except ImportError as error:
            raise UsageError("to_frame needs pandas: pip install pandas") from error
        return pd.DataFrame(list(self))


class Resources(NamedTuple):
    """What a run is made with. `closing` closes what is entered into it when the run ends."""

    settings: Settings
    providers: Providers
    closing: AsyncExitStack


@asynccontextmanager
async def opened(
    flags: Mapping[str, Any],
    providers: Mapping[str, Provider] | None,
    on_event: Callable[[Event], None] | None = None,
    *,
    folder: Path | None = None,
    trust: bool = False,
) -> AsyncIterator[Resources]:
    """The settings and providers of one run in `folder` (default: the current one).

    Meanwhile the user's own prices hold. Raises UsageError for what the user wrote.
    """
    await preload(load_engine)
    await fair()
    from windlass.providers.at_hand import Providers

    settings = Settings.read(flags, folder=folder, trust=trust)
    settings.check_trust()
    at_hand = Providers(providers or {}, settings, warn=noted(on_event), on_wait=on_event)
    async with AsyncExitStack() as closing:
        closing.enter_context(override(settings.prices))
        closing.push_async_callback(at_hand.close)
        yield Resources(settings, at_hand, closing)


def load_engine() -> None:
    """Import what every run needs, and load the vocabulary by which most models are counted."""
    for name in _MODULES:
        import_module(name)
    from windlass.tokens import FamilyCounter

    FamilyCounter("").text("any")


_MODULES = (
    "windlass.cascade.check",
    "windlass.cascade.load",
    "windlass.engine.card_indexer.indexer",
    "windlass.engine.cascade",
    "windlass.engine.operators.tasks",
    "windlass.engine.setup",
    "windlass.history.sqlite",
    "windlass.operators.reading",
)


def import_sessions(
    path: str | Path,
    *,
    form: str | None = None,
    store: str | Path | None = None,
    on_skip: Callable[[str], None] | None = None,
) -> Imported:
    """Store the sessions that other programs recorded, so that they can be shown and priced.

    What is in the store already is not added again; a session that grew is gone on with.

    Args:
        path: A file, or a folder with files (docs/import.md lists the formats).
        form: The format; default: it is recognised by what a file holds.
        store: The folder of the history, or its address, as in `run`.
        on_skip: Called with one sentence for each file of a folder that is not read.

    Raises UsageError for what cannot be read, StoreError where the store fails.
    """
    from windlass.importing.imported import import_into

    settings = Settings.read({"store": store})
    with shared_store(settings) as history, override(settings.prices):
        return import_into(history, path, form, on_skip)


def open_store(settings: Settings, *, existing: bool = False, writing: bool = False) -> Store:
    """The store that the settings name; `existing`: raise UsageError where there is none.

    One that cannot be written is opened for reading, unless `writing` is meant (StoreError).
    """
    from windlass.history.places import open_place

    settings.check_trust("store")
    return open_place(settings.store, os.environ, existing=existing, writing=writing)


def shared_store(settings: Settings) -> AbstractContextManager[Store]:
    """The store that the settings name, made where it is missing; one for all runs at a time."""
    from windlass.history.places import shared_place

    settings.check_trust("store")
    return shared_place(settings.store, os.environ)


def _listening(on_event: Callable[[Event], None] | None) -> Callable[[Event], None] | None:
    """What hands events on, and keeps what that raises until the run can end by it."""
    from windlass.engine.events import Listener

    return on_event and Listener(on_event)


def noted(on_event: Callable[[Event], None] | None) -> Callable[[str], None] | None:
    """What passes a warning on as an event; None where nobody watches."""
    from windlass.engine.events import Noted

    return on_event and (lambda text: on_event(Noted("", text)))


def modules_of(file: object, *, trust: bool | None = None) -> Modules:
    """The modules that a cascade or a task may name: beside its file, then in the current folder.

    `trust` says how far code is trusted that is named there: None, because it was named to be
    run; True, by the user's word; False, only in folders that carry a mark.
    """
    files = [Path(file)] if isinstance(file, str | Path) else []
    folders = [*(each.resolve().parent for each in files), Path.cwd()]
    return Modules(folders, files, is_trusted if trust is False else None)


def make_registry(settings: Settings, tools: Tools, modules: Modules) -> Registry:
    """Builtins, tools of the history, plugins, the user's own tools; a cascade adds its own."""
    from windlass.engine.callouts import callout
    from windlass.engine.choosing.searching import search_context
    from windlass.engine.memory import remember, search_memory
    from windlass.engine.questions import ask_human
    from windlass.engine.recall import recall
    from windlass.injectors.plan import plan, todo
    from windlass.injectors.scratchpad import describe_picture, look_again
    from windlass.injectors.skills import use_skill
    from windlass.tools.registry import builtin, make_tool

    registry = builtin(modules)
    registry.partial = "tools" in settings.untrusted
    kept = (ask_human, callout, recall, search_context, search_memory)
    for own in (*kept, describe_picture, look_again, plan, todo, use_skill):
        registry.register(replace(make_tool(own), effects="none"))
    registry.register(replace(make_tool(remember), effects="idempotent"))
    registry.load_entry_points()
    for item in (*(() if registry.partial else settings.tools), *tools):
        if not isinstance(item, str):
            registry.register(make_tool(item))
        elif ":" in item:
            registry.register(registry.resolve(item))
        else:
            registry.add_module(item)
    return registry


def load_cascade(
    cascade: Cascade | Mapping[str, Any] | str | Path,
    settings: Settings,
    tools: Tools = (),
    *,
    auto: bool = False,
    trust: bool | None = None,
    input: Collection[str] | None = None,  # noqa: A002  (the DSL's word)
    warn: Callable[[str], None] | None = None,
) -> ReadyCascade:
    """The cascade, checked, the registry of the tools it may use, and its sub-cascades likewise.

    `auto`: where it says nothing of `auto_context`, it gets it with its defaults. `trust`: as
    `modules_of` takes it; what was not loaded is in `registry.modules.unchecked`. `input` are
    the names of what its templates are given (None: it is not to be run, so they are not asked for
    what they need). `warn` is told of each key that other runners read in another sense.
    Raises CascadeError with every mistake at once.
    """
    from windlass.cascade.check import not_given
    from windlass.cascade.children import family_needs, ready, without_parent

    family, warnings = _checked_family(cascade, settings, tools, trust)
    checked = ready(family, auto=auto)
    if input is not None:
        missing = not_given(family_needs(family), input)
        if mistakes := (*without_parent(family.loaded), *missing):
            raise CascadeError(mistakes)
    if warn is not None:
        for warning in warnings:
            warn(f"warning: {warning}")
    return checked


def _checked_family(
    cascade: Cascade | Mapping[str, Any] | str | Path,
    settings: Settings,
    tools: Tools,
    trust: bool | None = None,
) -> tuple[CascadeFamily, list[Mistake]]:
    """The cascade with its sub-cascades, and what else was seen. Raises CascadeError."""
    from windlass.cascade.check import warnings_of
    from windlass.cascade.children import family_mistakes

    family = read_cascade(cascade, settings, tools, trust=trust)
    warnings = [warning for each in family.walk() for warning in warnings_of(each.loaded)]
    if mistakes := family_mistakes(family, settings.mcp_servers):
        raise CascadeError(mistakes, warnings)
    return family, list(dict.fromkeys(warnings))


def read_cascade(
    cascade: Cascade | Mapping[str, Any] | str | Path,
    settings: Settings,
    tools: Tools = (),
    *,
    trust: bool | None = None,
) -> CascadeFamily:
    """The cascade and its sub-cascades, read and not checked, each with a registry of tools.

    `trust` as `modules_of` takes it: what holds for a cascade holds for those that it names.
    Raises UsageError for a file that cannot be read.
    """
    from windlass.cascade.children import read_family
    from windlass.cascade.load import load, of
    from windlass.cascade.model import Cascade

    def registry_of(file: object) -> Registry:
        return make_registry(settings, tools, modules_of(file, trust=trust))

    registry = registry_of(cascade)
    if isinstance(cascade, str | Path):
        return read_family(load(cascade), registry, Path(cascade), registry_of)
    file = cascade.file if isinstance(cascade, Cascade) else ""
    return read_family(of(cascade), registry, Path(file) if file else None, registry_of)


def load_program(
    task: str | Path | TaskFile,
    settings: Settings,
    tools: Tools = (),
    *,
    auto: bool = False,
    strict: bool = False,
    trust: bool | None = None,
    input: Collection[str] | None = None,  # noqa: A002  (the DSL's word)
) -> tuple[Program, Registry]:
    """The task, checked, and the registry of the tools it may use.

    `auto`: where it says nothing of its windows, calls are shortened as they grow. `trust`: as
    `modules_of` takes it; what was not loaded is in `registry.modules.unchecked`.
    `input` are the names of what its templates are given (None: they are not asked).
    Raises UsageError (TaskFileError with every mistake at once).
    """
    from windlass.cascade.check import not_given
    from windlass.cascade.layers import load_own
    from windlass.operators.compile import compile_task
    from windlass.operators.reading import load_task

    source = load_task(task) if isinstance(task, str | Path) else task
    registry = make_registry(settings, tools, modules_of(source.file, trust=trust))
    servers = settings.mcp_servers
    program = compile_task(source, tools=registry, servers=servers, strict=strict)
    load_own(program.cascade, registry.modules)
    if input is not None and (missing := not_given(program.needs, input)):
        raise TaskFileError(missing)
    if auto and program.cascade.auto_context is None:
        program = program.with_windows()
    return program, registry
