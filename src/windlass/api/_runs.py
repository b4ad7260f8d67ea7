"""Runs of cascades as an engine makes them: new ones, and those that go on with a session.

Runs of task files as an engine makes them: new ones, and those that go on with a session.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from windlass.api._recorded import (
    RecordedWork,
    check_same_cascade,
    check_same_task,
    warn_of_other_root,
)
from windlass.api._run_setup import RunSetup
from windlass.api.loading import ReadingOptions, load_cascade, load_program
from windlass.api.opening import EngineCall
from windlass.api.options import CascadeSource
from windlass.api.sessions import Session
from windlass.cascade.children import ReadyCascade
from windlass.cascade.model import tool_names
from windlass.cascade.tools_named import chooses_tools, tools_of
from windlass.engine.cascade import run_cascade
from windlass.engine.opening import check_unedited, has_begun
from windlass.engine.people.talking import recorded_answers
from windlass.engine.result import Result
from windlass.engine.resume.resuming import (
    change_definition,
    check_sent_time,
    definition_of,
    fork_run,
    restore_journal,
    resume_run,
    start_to_resume,
    time_of_call,
)
from windlass.engine.tasks.job import Done, Job
from windlass.engine.tasks.task_file import rules_of, run_program, what_was_begun
from windlass.engine.tasks.task_inputs import check_inputs
from windlass.errors import StepDiffers
from windlass.history.base import RAN, Batch, NodeType, Row
from windlass.history.decisions import Forked
from windlass.tasks.compile import Program
from windlass.tasks.model import Task
from windlass.tasks.parse import read_task
from windlass.tools.registry import Registry


async def run_new(
    call: EngineCall,
    cascade: CascadeSource,
    input: Mapping[str, Any],  # noqa: A002  (the DSL's word)
    *,
    name: str | None,
    answers: Mapping[str, Any] | Sequence[Any],
) -> Result:
    """Run a cascade as a new session of this name, as `Engine.run` says."""
    # The user's mistakes are reported before anything is written.
    setup, options = RunSetup.of(call, answers), call.options
    ready = load_cascade(
        cascade,
        call.settings,
        options["tools"],
        auto=options["auto"],
        how=ReadingOptions(lenient=options["lenient"]),
        input=input,
        warn=call.warn,
    )
    setup.check(ready.walk())
    run = setup.prepare(ready, input, call.open_session(name))
    return Session(call.engine, cascade).attach(await run_cascade(run), run)


async def run_resumed(
    call: EngineCall,
    session: str,
    cascade: CascadeSource | None,
    *,
    again: Collection[str],
    accept: bool,
    answers: Mapping[str, Any] | Sequence[Any],
) -> Result:
    """Go on with a session of a cascade, as `Engine.resume` says."""
    options, opened = call.options, call.open_session(session, begun=True)
    store, session = opened.store, opened.session_id
    start = start_to_resume(store, session)
    ran = start.cascade[RAN]
    model = options["model"] or ran["model"]
    settings = call.settings_with(model, ran.get("through"))
    warn_of_other_root(session, ran["root"], settings, call.warn)
    loading: dict[str, Any] = {
        "auto": options["auto"],
        "how": ReadingOptions(lenient=options["lenient"] or ran.get("lenient", False)),
        "input": start.input,
        "warn": call.warn,
    }
    by_record = cascade is None
    if cascade is None:
        definition = {key: value for key, value in start.cascade.items() if key != RAN}
        cascade = ran["file"] if Path(ran["file"] or ".").is_file() else definition
        record = RecordedWork.of(call, session, settings).named_by(ran["file"])
        ready = record.load_cascade(cascade, **loading)
    else:
        ready = load_cascade(cascade, settings, options["tools"], **loading)
    setup = RunSetup.of(call, answers, settings=settings)
    if ready.cascade.cascade_id == start.cascade_id:  # nothing is taken from another one
        setup.person.skip_answered(recorded_answers(store, session))
    setup.check(ready.walk())
    run = setup.prepare(ready, start.input, opened)
    try:
        way = ", or run it on that input in a new session with --accept"
        check_same_cascade(ready.cascade, session, start, way)
        run = resume_run(run, definition_of(ready.cascade), again)
        result = await run_cascade(run)
    except StepDiffers as differs:
        if not accept:
            raise
        moment = check_sent_time(differs.sent, differs.session_id or session)
        run = fork_run(setup.prepare(ready, start.input, call.open_session()), session, moment)
        result = await run_cascade(run)
    follower = Session(call.engine, cascade, model=model, by_record=by_record)
    return follower.attach(result, run)


async def run_forked(
    call: EngineCall,
    session: str,
    at: int,
    changes: Mapping[str, Any],
    *,
    message: str,
    name: str | None,
    answers: Mapping[str, Any] | Sequence[Any],
) -> Result:
    """Run a session again from its call `at` on, as a new one of this name: `Engine.fork`."""
    options, store = call.options, call.resources.store(existing=True)
    session = store.find_session(session)
    check_unedited(store, session)
    start = start_to_resume(store, session, ended=True)
    moment = time_of_call(store, session, at)
    ran = start.cascade[RAN]
    # A model among the changes is the cascade's own, and the run's would go before it.
    model = options["model"] or (None if "model" in changes else ran["model"])
    settings = call.settings_with(model)
    warn_of_other_root(session, ran["root"], settings, call.warn)
    setup = RunSetup.of(call, answers, settings=settings)
    cascade = change_definition(start.cascade, changes)
    ready = RecordedWork.of(call, session, settings).load_cascade(
        cascade,
        auto=options["auto"],
        how=ReadingOptions(lenient=options["lenient"] or ran.get("lenient", False)),
        input=start.input,
        warn=call.warn,
    )
    setup.check(ready.walk())
    run = setup.prepare(ready, start.input, call.open_session(name))
    run = fork_run(run, session, moment, message)
    result = await run_cascade(run)
    if has_begun(store, session):  # nobody pruned it meanwhile
        text = f"forked at call {at} as session {result.session_id}"
        row = Row(NodeType.DECISION, phase="", text=text, details=Forked(result.session_id, at))
        store.append(Batch(session, rows=[run.record.stamp(row)]))
    return Session(call.engine, cascade, model=model, by_record=True).attach(result, run)


async def run_new_task(
    call: EngineCall,
    task: str | Path,
    input: Mapping[str, Any],  # noqa: A002  (the DSL's word)
    context: str,
    engine: str,
    *,
    name: str | None,
    answers: Mapping[str, Any] | Sequence[Any],
) -> Result:
    """Run a task file as a new session of this name, as `Engine.evaluate` says."""
    options, settings = call.options, call.settings
    setup = RunSetup.of(call, answers)
    program, registry = load_program(
        task,
        settings,
        options["tools"],
        auto=options["auto"],
        input=input,
    )
    ready = ReadyCascade(program.cascade, registry, {})
    setup.check([ready])
    check_inputs(program.source, settings.root, input, partial(_writes, program, registry))
    spread = _cluster(call, engine, options["model"])
    run = setup.prepare(ready, input, call.open_session(name))
    return await run_program(Job.of(program, run, spread=spread), context)


async def run_resumed_task(
    call: EngineCall,
    session: str,
    task: str | Path | None,
    engine: str,
    *,
    again: Collection[str],
    accept: bool,
    answers: Mapping[str, Any] | Sequence[Any],
) -> Result:
    """Go on with a session of a task file, as `Engine.resume_task` says."""
    options, opened = call.options, call.open_session(session, begun=True)
    store, session = opened.store, opened.session_id
    start, finished = what_was_begun(store, session)
    ran = start.cascade
    model = options["model"] or ran["model"]
    settings = call.settings_with(model)
    setup = RunSetup.of(call, answers, settings=settings)
    setup.person.skip_answered(recorded_answers(store, session))
    warn_of_other_root(session, ran["root"], settings, call.warn)
    file, raw = str(ran["file"]), str(ran["xml"]).encode("utf-8", "surrogateescape")
    source, auto = read_task(raw, file, name=Path(file).stem), options["auto"]
    if task is None:
        record = RecordedWork.of(call, session, settings)
        program, registry = record.load_program(source, auto=auto)
    else:
        check_same_task(task, session, raw)
        program, registry = load_program(source, settings, options["tools"], auto=auto)
    ready = ReadyCascade(program.cascade, registry, {})
    setup.check([ready])
    spread = _cluster(call, engine, model)
    run = setup.prepare(ready, start.input, opened)
    job = Job.of(program, run, finished=finished, accept=accept, spread=spread)
    run = restore_journal(run, ran, ran["xml"], rules_of(job), again=again, finished=finished)
    return await run_program(replace(job, run=run), str(ran["context"]), resumed=True)


def _writes(program: Program, registry: Registry, task: Task) -> bool:
    """Return whether the tools of an atomic task may change files."""
    assert task.leaf is not None
    phase = program.cascade.phases[task.leaf]
    if chooses_tools(phase):
        return True
    known = registry.names()
    return any(
        name not in known or registry.get(name).effects == "external"
        for name in tool_names(tools_of(phase))
    )


def _cluster(
    call: EngineCall, engine: str, model: str | None
) -> Callable[..., Awaitable[Done]] | None:
    """Return what runs inner tasks with this model elsewhere; None: they run in this process."""
    if engine == "local":
        return None
    from windlass.api._cluster import Cluster, SharedObjects

    options, flags = call.options, {**call.engine.flags, "model": model}
    tools, providers = tuple(options["tools"]), dict(options["providers"] or {})
    shared = SharedObjects(tools, providers, options["auto"])
    return call.closing.enter_context(Cluster(flags, shared))
