"""Runs of task files as an engine makes them: new ones, and those that go on with a session."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from windlass.api._recorded import RecordedWork, check_same_task, warn_of_other_root
from windlass.api._run_setup import RunSetup
from windlass.api.loading import load_program
from windlass.api.opening import EngineCall
from windlass.cascade.model import tool_names
from windlass.cascade.ready import ReadyCascade
from windlass.cascade.tools_named import chooses_tools, tools_of
from windlass.engine.people.talking import recorded_answers
from windlass.engine.result import Result
from windlass.engine.resume.resuming import restore_journal
from windlass.engine.tasks.frame import Material
from windlass.engine.tasks.job import Done, Job
from windlass.engine.tasks.task_file import rules_of, run_program, what_was_begun
from windlass.engine.tasks.task_inputs import check_inputs
from windlass.tasks.compile import Program
from windlass.tasks.model import Task
from windlass.tasks.parse import read_task
from windlass.tools.registry import Registry


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
    return await run_program(Job(program, run, Material(run), spread=spread), context)


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
    job = Job(program, run, Material(run), finished, accept, spread)
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
