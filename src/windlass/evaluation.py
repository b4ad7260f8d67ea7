"""The library door for tasks: reads and checks a task file, hands the engine what it needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from os import environ
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from windlass.caching.rates import override
from windlass.errors import UsageError, did_you_mean
from windlass.fair import fair, preload
from windlass.library import (
    Tools,
    check_models,
    in_a_loop,
    load_engine,
    load_program,
    noted,
    open_store,
    prepare,
    shared_store,
    waiting,
)
from windlass.settings import Settings

if TYPE_CHECKING:
    from windlass.engine.events import Event
    from windlass.engine.operators.job import Done
    from windlass.engine.result import Result
    from windlass.operators.model import TaskFile
    from windlass.providers.base import Provider

ENGINES: Final = ("local", "ray")
"""Where inner tasks of a reduce run: in this process, or on a Ray cluster."""


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
    trust: bool = False,
) -> Result:
    """Run a task file and answer how it ended. What the file names as code is trusted.

    Args:
        task: The path of an XML file; with `resume` none.
        input: What templates and expressions see as `input`. Where the file names it nowhere,
            it is part of the context that the root inherits.
        context: The context of the root's parent, which it inherits as its file says.
        resume: A session to take up again: what it had finished is not repeated. The task, its
            input and its context are those of the session, and so are root and model where
            none is given.
        engine: `local`, or `ray`: inner tasks of a reduce run on a Ray cluster.
        auto: Whether calls are shortened as they grow where the file says nothing of it.
        model: `provider/model` for every task, whatever the file says.
        store: The folder of the history, or its address.
        root: The only folder that inputs and file tools may touch; default the current folder.
        search_folder: The folder of texts that `web_search` looks in.
        tools: Functions, modules or dotted paths to register beside the builtins.
        providers: Providers by name, beside the builtin ones.
        on_event: Called with each event of the run (`windlass.engine.events`).
        session_id: A name for the session; default a new one made of time and chance.
        trust: Whether `windlass.toml` of the current folder may name modules, commands and where
            keys go, though the folder is not marked as trusted (`windlass trust`).

    Raises UsageError (TaskFileError) for what the user wrote and StoreError where the store
    fails. Failures of tasks, providers and limits are in the result's `error`, and what was
    finished by then in its `notes`.
    """
    await preload(load_engine)
    await fair()
    from windlass.engine.operators.job import Job
    from windlass.engine.operators.session import run_program, what_was_begun
    from windlass.operators.reading import read_task
    from windlass.providers.at_hand import Providers

    if (task is None) == (resume is None):
        raise UsageError("give a task file to run, or a session to resume, and not both")
    if resume is not None and (input or context or session_id):
        raise UsageError("a resumed session has its own input, context and name; leave them out")
    if engine not in ENGINES:
        raise UsageError(f"there is no engine {engine!r}; {did_you_mean(engine, ENGINES)}")
    flags = {"model": model, "store": store, "root": root, "search_folder": search_folder}
    settings = Settings.read(flags, environ, Path.cwd(), trust=trust)
    settings.check_trust()
    told = (None, None) if on_event is None else (noted(on_event), waiting(on_event))
    made = Providers(providers or {}, settings, warn=told[0], on_wait=told[1])
    async with AsyncExitStack() as closing:
        closing.enter_context(override(settings.prices))
        closing.push_async_callback(made.close)
        finished: dict[str, Done] = {}
        source: str | Path | TaskFile
        if resume is not None:
            keeper = closing.enter_context(open_store(settings, existing=True, writing=True))
            start, finished = what_was_begun(keeper, resume)
            begun = start.cascade
            file, raw = str(begun["file"]), str(begun["xml"]).encode("utf-8", "surrogateescape")
            source = read_task(raw, file, name=Path(file).stem)
            input, context = start.input, str(begun["context"])  # noqa: A001
            flags["root"], flags["model"] = root or begun["root"], model or begun["model"]
            settings = Settings.read(flags, environ, Path.cwd(), trust=trust)
        else:
            assert task is not None
            source = task
        given = None if resume is not None else input or {}
        program, registry = load_program(source, settings, tools, input=given)
        if auto and program.cascade.auto_context is None:
            program = program.with_windows()
        check_models(program.cascade, settings, made.resolve)
        spread = None
        if engine == "ray":
            from windlass.cluster import Cluster

            spread = closing.enter_context(
                Cluster(flags, tools=tools, providers=providers or {}, auto=auto)
            )
        if resume is None:
            keeper = closing.enter_context(shared_store(settings))
        run = prepare(
            program.cascade,
            input or {},
            registry=registry,
            settings=settings,
            keeper=keeper,
            resolve=made.resolve,
            on_event=on_event or _ignore,
            session_id=resume or session_id,
            resumed=resume is not None,
        )
        job = Job.of(program, run, finished=finished, spread=spread)
        return await run_program(job, context, resumed=resume is not None)


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


def _ignore(event: Event) -> None:
    del event  # nobody watches
