"""The library door: `run` and `evaluate` for cascades and tasks, `query_unified` for their record.

The one place that opens stores, providers and tools, and hands them to the engine.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from windlass.api._recorded import RecordedWork, check_same_task, tell_root, unedited
from windlass.api.loading import Tools, load_cascade, load_program
from windlass.api.opening import (
    check_input,
    in_a_loop,
    limited,
    listening,
    noted,
    open_store,
    opened,
    shared_store,
)
from windlass.api.sessions import Session
from windlass.errors import UsageError, WindlassError, did_you_mean
from windlass.settings.settings import Settings

if TYPE_CHECKING:
    from windlass.api._cluster import Order, SharedObjects, WorkerReply
    from windlass.api.batches.inputs import BatchInput
    from windlass.api.batches.workers import BatchEvent, BatchResult
    from windlass.api.comparing.comparison import Comparison
    from windlass.api.comparing.judging import JudgeFunction
    from windlass.cascade.model import Cascade
    from windlass.engine.events import Event
    from windlass.engine.people.questions import Approvals, Asked
    from windlass.engine.result import Result
    from windlass.engine.tasks.job import Done
    from windlass.providers.base import Provider
    from windlass.providers.spending import Allowance


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
    approve: Approvals = (),
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
        allowances: Limits that it shares with other runs (`windlass.providers.spending.Allowance`).
        answers: Answers to what `ask_human` asks: by question, or in order.
        approve: The tools that need approval and may run: `all`, names of tools, or of single calls
            as a waiting run tells them. A mapping says of each whether it may: True or `yes`, else
            `no` or why not.
        on_question: Asked where these have no answer, with a `Question` of
            `windlass.engine.people.questions`; may be async. Without an answer (None) the run ends
            as `waiting`.
        trust: Whether `windlass.toml` of the current folder may name modules, commands and where
            keys go, though the folder is not marked as trusted (`windlass trust`).

    Raises UsageError (CascadeError) for what the user wrote and StoreError where the
    store fails. Failures of phases, providers and limits are in the result's `error`.
    """
    check_input(input)
    on_event = listening(on_event)
    flags: dict[str, Any] = {
        "model": model,
        "store": store,
        "root": root,
        "search_folder": search_folder,
    }
    async with opened(flags, providers, on_event, trust=trust) as (settings, at_hand, closing):
        from windlass.cascade.children import ReadyCascade
        from windlass.engine.cards.card_models import check_cards
        from windlass.engine.cascade import run_cascade
        from windlass.engine.people.questions import AnswerSource
        from windlass.engine.resume.resuming import lock_session
        from windlass.engine.setup import check_models, prepare
        from windlass.engine.turn.approving import approvable

        # The user's mistakes are reported before anything is written.
        limits = {"max_tokens": max_tokens, "max_seconds": max_seconds, "max_turns": max_turns}
        resolve, within = limited(at_hand, allowances, budget=budget, **limits)
        person = AnswerSource(answers, on_question, approve)
        loaded, registry, children = ready = load_cascade(
            cascade, settings, tools, auto=auto, input=input or {}, warn=noted(on_event)
        )
        person.check(*(approvable(each.cascade, each.registry) for each in ready.walk()))
        for each in ready.walk():
            check_models(each.cascade, settings, resolve)
            check_cards(each.cascade, settings, resolve)
        prepared = prepare(
            ReadyCascade(loaded, registry, children),
            input or {},
            settings=settings,
            store=closing.enter_context(shared_store(settings)),
            resolve=resolve,
            on_event=on_event,
            session_id=session_id,
        )
        prepared = replace(prepared, allowances=within, answers=person)
        closing.enter_context(lock_session(prepared.record.store, prepared.record.session_id))
        result = await run_cascade(prepared)
    own: dict[str, Any] = {
        "auto": auto,
        "trust": trust,
        "on_event": on_event,
        "approve": approve,
        "on_question": on_question,
    }
    session = Session(cascade, **flags, tools=tools, providers=providers, **own)
    return session.behind(result, prepared, within)


def run_sync(
    cascade: Cascade | Mapping[str, Any] | str | Path,
    input: Mapping[str, Any] | None = None,  # noqa: A002
    **options: Any,
) -> Result:
    """`run` for code that is not async; takes the same arguments.

    Raises UsageError inside a running event loop, where `await windlass.run(...)` is
    what is meant.
    """
    return in_a_loop(lambda: run(cascade, input, **options), "run")


async def evaluate(
    task: str | Path | None = None,
    input: Mapping[str, Any] | None = None,  # noqa: A002  (the DSL's word)
    *,
    context: str = "",
    resume: str | None = None,
    again: Collection[str] = (),
    accept: bool = False,
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
    approve: Approvals = (),
    on_question: Asked | None = None,
    trust: bool = False,
) -> Result:
    """Run a task file and answer how it ended. What the file names as code is trusted.

    Args:
        task: The path of an XML file; with `resume` none, or that which the session ran.
        input: What templates and expressions see as `input`. Where the file names it nowhere,
            it is part of the context that the root inherits.
        context: The context of the root's parent, which it inherits as its file says.
        resume: A session to take up again (its id, the beginning of it, or `latest`): what it
            had finished is not repeated, and what was answered is not sent again. The task, its
            input and its context are those of the session, and so is the model where none is
            given. Modules, servers and the like need trust then, unless `task` names the file.
        again: With `resume`: tools that may run again though they may have run.
        accept: With `resume`: whether a task that would ask something else now is run anew.
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
        allowances: Limits that it shares with other runs (`windlass.providers.spending.Allowance`).
        answers: Answers to what `ask_human` asks: by question, or in order.
        approve: The tools that need approval and may run: `all`, names of tools, or of single calls
            as a waiting run tells them. A mapping says of each whether it may: True or `yes`, else
            `no` or why not.
        on_question: Asked where these have no answer, with a `Question` of
            `windlass.engine.people.questions`; may be async. Without an answer (None) the run ends
            as `waiting`.
        trust: Whether `windlass.toml` of the current folder may name modules, commands and where
            keys go, though the folder is not marked as trusted (`windlass trust`).

    Raises UsageError (TaskFileError) for what the user wrote and StoreError where the store
    fails. Failures of tasks, providers and limits are in the result's `error`, and what was
    finished by then in its `notes`.
    """
    if task is None and resume is None:
        raise UsageError("give a task file to run, or a session to resume")
    if resume is not None and (input or context or session_id):
        raise UsageError("a resumed session has its own input, context and name; leave them out")
    if resume is None and (again or accept):
        raise UsageError("`again` and `accept` are for a session that is resumed; name it, too")
    check_input(input)
    if engine not in ENGINES:
        raise UsageError(f"there is no engine {engine!r}; {did_you_mean(engine, ENGINES)}")
    limits = {"max_tokens": max_tokens, "max_seconds": max_seconds, "max_turns": max_turns}
    if engine != "local" and (allowances or any((budget, *limits.values()))):
        raise UsageError("limits cannot be shared with a cluster; leave out the engine, or them")
    on_event = listening(on_event)
    flags = {"model": model, "store": store, "root": root, "search_folder": search_folder}
    async with opened(flags, providers, on_event, trust=trust) as (chosen, at_hand, closing):
        from windlass.cascade.children import ReadyCascade
        from windlass.engine.people.questions import AnswerSource
        from windlass.engine.people.talking import recorded_answers
        from windlass.engine.resume.resuming import lock_session, restore_journal
        from windlass.engine.setup import check_models, prepare
        from windlass.engine.tasks.job import Job
        from windlass.engine.tasks.task_file import rules_of, run_program, what_was_begun
        from windlass.engine.turn.approving import approvable
        from windlass.tasks.parse import read_task

        settings = chosen
        resolve, within = limited(at_hand, allowances, budget=budget, **limits)
        person = AnswerSource(answers, on_question, approve)
        finished: dict[str, Done] = {}
        if resume is not None:
            history = closing.enter_context(open_store(settings, existing=True, writing=True))
            resume = unedited(history, resume)
            start, finished = what_was_begun(history, resume)
            person.skip_answered(recorded_answers(history, resume))
            begun = start.cascade
            file, raw = str(begun["file"]), str(begun["xml"]).encode("utf-8", "surrogateescape")
            input, context = start.input, str(begun["context"])  # noqa: A001
            flags["model"] = model or begun["model"]
            settings = Settings.read(flags, trust=trust)
            tell_root(resume, begun["root"], settings, noted(on_event))
            source = read_task(raw, file, name=Path(file).stem)
            if task is None:
                record = RecordedWork(resume, history.folder, settings, tools, trust)
                program, registry = record.load_program(source, auto=auto)
            else:
                check_same_task(task, resume, raw)
                program, registry = load_program(source, settings, tools, auto=auto)
        else:
            assert task is not None
            program, registry = load_program(task, settings, tools, auto=auto, input=input or {})
        person.check(approvable(program.cascade, registry))
        check_models(program.cascade, settings, resolve)
        spread = None
        if engine == "ray":
            from windlass.api._cluster import Cluster, SharedObjects

            shared = SharedObjects(tuple(tools), dict(providers or {}), auto)
            spread = closing.enter_context(Cluster(flags, shared, work))
        if resume is None:
            history = closing.enter_context(shared_store(settings))
        run = prepare(
            ReadyCascade(program.cascade, registry, {}),
            input or {},
            settings=settings,
            store=history,
            resolve=resolve,
            on_event=on_event,
            session_id=resume or session_id,
            resumed=resume is not None,
        )
        run = replace(run, allowances=within, answers=person)
        closing.enter_context(lock_session(history, run.record.session_id))
        job = Job.of(program, run, finished=finished, accept=accept, spread=spread)
        if resume is not None:
            run = restore_journal(
                run, begun, begun["xml"], rules_of(job), again=again, finished=finished
            )
            job = replace(job, run=run)
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
    approve: Approvals = (),
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
        on_event: Called with `BatchStarted`, `RowEnded` (`windlass.api.batches.workers`), notes and
            waits. What it raises ends the batch.
        approve: As in `run`: the tools that need approval and may run. Without it, a row that
            asks for one ends as `waiting`; nobody is asked.
        auto: Whether a cascade that says nothing of `auto_context` gets it with its defaults.
        budget: US dollars that each run may cost.
        trust: Whether `windlass.toml` of the current folder may name modules, commands and where
            keys go, though the folder is not marked as trusted (`windlass trust`).

    Raises UsageError (FileError with every mistake in the inputs) for what the user wrote, before
    anything is sent, and StoreError where the store or the results cannot be written.
    """
    from windlass.api._batch import BatchOrder, begun
    from windlass.api.batches.workers import line_of

    order = BatchOrder(
        cascade=cascade,
        inputs=inputs,
        out=Path(out),
        workers=workers,
        resume=resume,
        limits=(max_cost, max_tokens, max_seconds, max_runs),
        flags={"model": model, "store": store, "root": root, "search_folder": search_folder},
        tools=tools,
        providers=providers,
        on_event=on_event,
        approve=approve,
        auto=auto,
        budget=budget,
        trust=trust,
    )
    async with begun(order) as work:

        async def run_row(given: BatchInput, emit: Callable[[Event], None]) -> dict[str, Any]:
            return line_of(await work.run(work.cascade, given, emit))

        work.open_results(work.inputs, [work.cascade])
        return await work.finish(run_row)


def batch_sync(
    cascade: Cascade | Mapping[str, Any] | str | Path,
    inputs: str | Path | Iterable[Mapping[str, Any]],
    **options: Any,
) -> BatchResult:
    """`batch` for code that is not async; takes the same arguments.

    Raises UsageError inside a running event loop, where `await windlass.batch(...)` is
    what is meant.
    """
    return in_a_loop(lambda: batch(cascade, inputs, **options), "batch")


async def compare(
    cascade: Cascade | Mapping[str, Any] | str | Path,
    inputs: str | Path | Iterable[Mapping[str, Any]],
    policies: Sequence[str | Path] | Mapping[str, Any],
    *,
    out: str | Path,
    judge: str | JudgeFunction = "validator",
    repeat: int = 1,
    margin: float = 0.05,
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
    approve: Approvals = (),
    budget: float | None = None,
    trust: bool = False,
) -> Comparison:
    """Run a cascade under several policies on the same inputs, and say whether answers get worse.

    It is a batch of every input under every policy: what is not named here is as in `batch`, whose
    limits hold for all runs and what a model costs that judges.

    Args:
        cascade: A `Cascade`, the same as a dict, or the path of a JSON or YAML file.
        inputs: The inputs, one a row: mappings, or the path of a file (.jsonl, .csv).
        policies: Two or more, the first of which the others are compared with: the name of a
            profile, `everything` (nothing is shortened), `mask:TURNS`, a profile with options
            (`lean,window=3`), a JSON or YAML file with `auto_context`; or a mapping from names
            of your own to what `auto_context` is. Each stands in place of the cascade's
            `auto_context`.
        out: The file of results, with a line for each run.
        judge: What says whether an answer will do: `validator` (the run completed, so its
            validators accept it), `module:function` or a function that is given the input and the
            outputs of the phases by name and answers true, false or a number where more is better,
            or `provider/model`, which is asked for a score from 0 to 1.
        repeat: How often each input runs under each policy.
        margin: The smallest difference of rates or scores that matters.
        workers: How many runs go on side by side.
        resume: Whether to go on with a file of results that is there. With another judge, what was
            answered is judged anew and not run again.
        max_cost: US dollars that all of it may cost.
        max_tokens: Tokens, in and out, that all runs may use.
        max_seconds: Seconds from now on.
        max_runs: How many runs are begun from now on.
        model: `provider/model` for every phase, whatever the cascade says.
        store: The folder of the history, or its address.
        root: The only folder that file tools may touch; default the current folder.
        search_folder: The folder of texts that `web_search` looks in.
        tools: Functions, modules or dotted paths to register beside the builtins.
        providers: Providers by name, beside the builtin ones.
        on_event: Called with events, as in `batch`.
        approve: As in `batch`.
        budget: US dollars that each run may cost.
        trust: As in `batch`.

    Raises UsageError for what the user wrote, before anything is sent, and StoreError where the
    store or the results cannot be written.
    """
    from windlass.api._batch import BatchOrder, begun
    from windlass.api.comparing.judged_runs import ComparedBatch
    from windlass.cascade.policies import policy_of

    listed = [policies] if isinstance(policies, str) else policies
    named = listed.items() if isinstance(listed, Mapping) else [(name, None) for name in listed]
    compared = [policy_of(name, auto) for name, auto in named]
    if not 2 <= len(compared) == len({each.name for each in compared}):  # noqa: PLR2004 - a pair
        raise UsageError("a comparison needs a list of two policies or more, each of them once")
    if repeat < 1 or not 0 < margin < float("inf"):
        raise UsageError(f"repeat {repeat!r} and margin {margin!r} must be numbers above 0")
    order = BatchOrder(
        cascade=cascade,
        inputs=inputs,
        out=Path(out),
        workers=workers,
        resume=resume,
        limits=(max_cost, max_tokens, max_seconds, max_runs),
        flags={"model": model, "store": store, "root": root, "search_folder": search_folder},
        tools=tools,
        providers=providers,
        on_event=on_event,
        approve=approve,
        auto=False,
        budget=budget,
        trust=trust,
    )
    async with begun(order) as work:
        return await ComparedBatch(work, compared, judge, repeat, margin).finish()


def compare_sync(
    cascade: Cascade | Mapping[str, Any] | str | Path,
    inputs: str | Path | Iterable[Mapping[str, Any]],
    policies: Sequence[str | Path] | Mapping[str, Any],
    **options: Any,
) -> Comparison:
    """`compare` for code that is not async; takes the same arguments.

    Raises UsageError inside a running event loop, where `await windlass.compare(...)` is
    what is meant.
    """
    return in_a_loop(lambda: compare(cascade, inputs, policies, **options), "compare")


def evaluate_sync(
    task: str | Path | None = None,
    input: Mapping[str, Any] | None = None,  # noqa: A002
    **options: Any,
) -> Result:
    """`evaluate` for code that is not async; takes the same arguments.

    Raises UsageError inside a running event loop, where `await windlass.evaluate(...)` is
    what is meant.
    """
    return in_a_loop(lambda: evaluate(task, input, **options), "evaluate")


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
        from windlass.api._cluster import WorkerReply
        from windlass.cascade.children import ReadyCascade
        from windlass.engine.cascade import add_server_tools, needed_servers
        from windlass.engine.setup import prepare
        from windlass.engine.tasks.job import Job
        from windlass.engine.tasks.task_runner import Inner, run_one
        from windlass.tasks.parse import read_task

        settings, at_hand, closing = resources
        source = read_task(order.raw, order.file, name=Path(order.file).stem)
        program, registry = load_program(source, settings, shared.tools, auto=shared.auto)
        run = prepare(
            ReadyCascade(program.cascade, registry, {}),
            order.input,
            settings=settings,
            store=closing.enter_context(open_store(settings, existing=True)),
            resolve=at_hand.resolve,
            session_id=order.session,
            resumed=True,
        )
        run.session.state.update(order.state)
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
        totals = run.totals
        return WorkerReply(done, failure, totals.usage, totals.cost, totals.saved_tokens)


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
