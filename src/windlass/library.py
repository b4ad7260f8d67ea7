"""The library door: makes the concrete store, providers and tools, and hands them in.

More than 400 lines because runs and tasks are prepared in one place.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager, AsyncExitStack
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from os import environ
from pathlib import Path
from typing import TYPE_CHECKING, Any

from windlass.caching.rates import override, split_model
from windlass.errors import CascadeError, TaskFileError, UsageError
from windlass.fair import fair, preload
from windlass.modules import Modules
from windlass.settings import Settings
from windlass.trust import is_trusted

if TYPE_CHECKING:
    from windlass.cascade.model import Cascade
    from windlass.engine.events import Event
    from windlass.engine.result import Result
    from windlass.engine.state import Run
    from windlass.history.base import Keeper
    from windlass.operators.compile import Program
    from windlass.operators.model import TaskFile
    from windlass.providers.base import ModelInfo, Provider, RequestWait
    from windlass.tools.base import WebSearch
    from windlass.tools.registry import Registry

Tools = Sequence["Callable[..., Any] | str"]
"""A user's tools: functions, modules (`my_tools`) or dotted paths (`my_tools:search`)."""


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
        on_event: Called with each event of the run (`windlass.engine.events`).
        session_id: A name for the session; default a new one made of time and chance.
        auto: Whether a cascade that says nothing of `auto_context` gets it with its defaults.
        trust: Whether `windlass.toml` of the current folder may name modules, commands and where
            keys go, though the folder is not marked as trusted (`windlass trust`).

    Raises UsageError (CascadeError) for what the user wrote and StoreError where the
    store fails. Failures of phases, providers and limits are in the result's `error`.
    """
    await preload(load_engine)
    await fair()
    from windlass.engine.carding.beside import check_cards
    from windlass.providers.at_hand import Providers

    flags = {"model": model, "store": store, "root": root, "search_folder": search_folder}
    settings = Settings.read(flags, environ, Path.cwd(), trust=trust)
    settings.check_trust()
    told = (None, None) if on_event is None else (noted(on_event), waiting(on_event))
    made = Providers(providers or {}, settings, warn=told[0], on_wait=told[1])
    async with AsyncExitStack() as closing:
        closing.enter_context(override(settings.prices))
        closing.push_async_callback(made.close)
        # The user's mistakes are told before anything is made.
        loaded, registry = load_cascade(
            cascade, settings, tools, auto=auto, input=input or {}, warn=told[0]
        )
        check_models(loaded, settings, made.resolve)
        check_cards(loaded, settings, made.resolve)
        keeper = closing.enter_context(shared_store(settings))
        prepared = prepare(
            loaded,
            input or {},
            registry=registry,
            settings=settings,
            keeper=keeper,
            resolve=made.resolve,
            on_event=on_event or _ignore,
            session_id=session_id,
        )
        from windlass.engine.cascade import run_cascade

        return await run_cascade(prepared)


def load_engine() -> None:
    """Import what every run needs, and load the vocabulary by which most models are counted."""
    for name in _MODULES:
        import_module(name)
    from windlass.tokens import FamilyCounter

    FamilyCounter("").text("any")


_MODULES = (
    "windlass.cascade.check",
    "windlass.cascade.load",
    "windlass.engine.carding.beside",
    "windlass.engine.cascade",
    "windlass.engine.operators.session",
    "windlass.history.sqlite",
    "windlass.operators.reading",
    "windlass.providers.at_hand",
)


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


def in_a_loop(work: Callable[[], Coroutine[Any, Any, Result]], name: str) -> Result:
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


def query_unified(
    where: str, params: Sequence[Any] = (), *, store: str | Path | None = None
) -> Rows:
    """The rows of `unified_logs` for which `where` holds, as dicts by column name.

    `where` is the condition of a SELECT; values are bound with `?` and `params`. The
    connection is read-only. Raises UsageError for anything but one condition.

    >>> query_unified("node_type = 'follow_up' AND tokens_in > ?", [50_000])  # doctest: +SKIP
    """
    settings = Settings.read({"store": store}, environ, Path.cwd())
    keeper = open_store(settings, existing=True)
    try:
        sql = f"SELECT * FROM unified_logs WHERE ({where}\n)"  # noqa: S608  (read-only, one statement)
        return Rows(keeper.query(sql, params))
    finally:
        keeper.close()


class Rows(list[dict[str, Any]]):
    """Rows of a query: a list of dicts that can become a data frame."""

    def to_frame(self) -> Any:
        """The rows as a pandas DataFrame. Raises UsageError where pandas is not installed."""
        try:
            import pandas as pd
        except ImportError as error:
            raise UsageError("to_frame needs pandas: pip install pandas") from error
        return pd.DataFrame(list(self))


def open_store(settings: Settings, *, existing: bool = False, writing: bool = False) -> Keeper:
    """The store that the settings name; `existing`: raise UsageError where there is none.

    One that cannot be written is opened for reading, unless `writing` is meant (StoreError).
    """
    from windlass.history.places import open_place

    settings.check_trust("store")
    return open_place(settings.store, environ, existing=existing, writing=writing)


def shared_store(settings: Settings) -> AbstractContextManager[Keeper]:
    """The store that the settings name, made where it is missing; one for all runs at a time."""
    from windlass.history.places import shared_place

    settings.check_trust("store")
    return shared_place(settings.store, environ)


def _ignore(event: Event) -> None:
    del event  # nobody watches


def noted(on_event: Callable[[Event], None]) -> Callable[[str], None]:
    """Tells a warning as an event."""
    from windlass.engine.events import Noted

    return lambda text: on_event(Noted("", text))


def waiting(on_event: Callable[[Event], None]) -> Callable[[RequestWait], None]:
    """Tells a wait as an event."""
    from windlass.engine.events import Waiting

    return lambda wait: on_event(
        Waiting(wait.model, wait.seconds, wait.because, wait.attempt, wait.tries)
    )


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
    from windlass.engine.recall import recall
    from windlass.injectors.scratchpad import describe_picture, look_again
    from windlass.injectors.tools import plan, todo, use_skill
    from windlass.memory.tools import remember, search_memory
    from windlass.tools.registry import builtin, make_tool

    registry = builtin(modules)
    registry.partial = "tools" in settings.untrusted
    kept = (callout, recall, remember, search_context, search_memory)
    for own in (*kept, describe_picture, look_again, plan, todo, use_skill):
        registry.register(make_tool(own))
    registry.load_entry_points()
    for item in (*(() if registry.partial else settings.tools), *tools):
        if not isinstance(item, str):
            registry.register(make_tool(item))
        elif ":" in item:
            registry.register(registry.resolve(item))
        else:
            registry.add_module(item)
    return registry


def prepare(
    cascade: Cascade,
    input: Mapping[str, Any],  # noqa: A002
    *,
    registry: Registry,
    settings: Settings,
    keeper: Keeper,
    resolve: Callable[[str], tuple[Provider, ModelInfo]],
    on_event: Callable[[Event], None],
    session_id: str | None = None,
    resumed: bool = False,
) -> Run:
    """A run of a checked cascade with everything in its hands, and nothing done yet.

    `resumed`: the session is there already and is taken up again.
    """
    from windlass.cascade.source import TOO_DEEP, is_too_deep
    from windlass.engine.record import Recorder
    from windlass.engine.state import Run, RunProgress
    from windlass.history.base import BANK
    from windlass.history.packing import path_part

    if session_id is not None and session_id.startswith(BANK):
        raise UsageError(f"session {session_id!r}: names that begin with {BANK!r} are memory banks")
    if session_id is not None and not resumed and _is_known(keeper, session_id):
        raise UsageError(
            f"session {session_id!r} is in the store already; give the new one another name,"
            f" or look at it: windlass show {session_id}"
        )
    try:
        json.dumps(input)
    except (TypeError, ValueError) as error:
        raise UsageError(f"the input must be an object of JSON values ({error})") from error
    except RecursionError as error:
        raise UsageError(f"the input: {TOO_DEEP}") from error
    if is_too_deep(input):
        raise UsageError(f"the input: {TOO_DEEP}")
    session = session_id or new_session_id()
    record = Recorder(keeper, session, time.time, lambda: secrets.token_hex(8))
    root = settings.root.resolve()
    if not root.is_dir():
        raise UsageError(f"root {str(root)!r} is no folder; it is where file tools may work")
    return Run(
        cascade=cascade,
        search=web_search_of(cascade, settings, resolve),
        record=record,
        input=dict(input),
        resolve=resolve,
        registry=registry,
        emit=on_event,
        settings=settings,
        closed=keeper.folder,
        results=_near(keeper.folder / "storage" / "tool_results", root),
        progress=RunProgress(readable=(keeper.folder / "images" / path_part(session),)),
    )


def _near(folder: Path, root: Path) -> Path:
    """The folder as tools name it: from their root where it lies inside."""
    folder = folder.resolve()
    return folder.relative_to(root) if folder.is_relative_to(root) else folder


def _is_known(keeper: Keeper, session_id: str) -> bool:
    try:
        keeper.start(session_id)
    except UsageError:
        return False
    return True


def load_cascade(
    cascade: Cascade | Mapping[str, Any] | str | Path,
    settings: Settings,
    tools: Tools = (),
    *,
    auto: bool = False,
    trust: bool | None = None,
    input: Collection[str] | None = None,  # noqa: A002  (the DSL's word)
    warn: Callable[[str], None] | None = None,
) -> tuple[Cascade, Registry]:
    """The cascade, checked, and the registry of the tools it may use.

    `auto`: where it says nothing of `auto_context`, it gets it with its defaults. `trust`: as
    `modules_of` takes it; what was not loaded is in `registry.modules.unchecked`. `input` are
    the names of what its templates are given (None: they are not asked for what they need).
    `warn` is told of each key that other runners read in another sense.
    Raises CascadeError with every mistake at once.
    """
    from windlass.cascade.check import checked
    from windlass.cascade.dialect import warnings_of
    from windlass.cascade.injectors import load_own
    from windlass.cascade.load import load, of
    from windlass.cascade.needed import needed, not_given

    registry = make_registry(settings, tools, modules_of(cascade, trust=trust))
    given = load(cascade) if isinstance(cascade, str | Path) else of(cascade)
    found = checked(given, tools=registry, servers=settings.mcp_servers)
    load_own(found, registry.modules)
    if input is not None and (missing := not_given(needed(given), input)):
        raise CascadeError(missing)
    if warn is not None:
        for warning in warnings_of(given):
            warn(f"warning: {warning}")
    if auto and found.auto_context is None:
        found = found.model_copy(update={"auto_context": True})
    return found, registry


def load_program(
    task: str | Path | TaskFile,
    settings: Settings,
    tools: Tools = (),
    *,
    strict: bool = False,
    trust: bool | None = None,
    input: Collection[str] | None = None,  # noqa: A002  (the DSL's word)
) -> tuple[Program, Registry]:
    """The task, checked, and the registry of the tools it may use.

    `trust`: as `modules_of` takes it; what was not loaded is in `registry.modules.unchecked`.
    `input` are the names of what its templates are given (None: they are not asked).
    Raises UsageError (TaskFileError with every mistake at once).
    """
    from windlass.cascade.injectors import load_own
    from windlass.cascade.needed import not_given
    from windlass.operators.compile import compile_task
    from windlass.operators.reading import load_task

    source = load_task(task) if isinstance(task, str | Path) else task
    registry = make_registry(settings, tools, modules_of(source.file, trust=trust))
    servers = settings.mcp_servers
    program = compile_task(source, tools=registry, servers=servers, strict=strict)
    load_own(program.cascade, registry.modules)
    if input is not None and (missing := not_given(program.needs, input)):
        raise TaskFileError(missing)
    return program, registry


def check_models(
    cascade: Cascade,
    settings: Settings,
    resolve: Callable[[str], tuple[Provider, ModelInfo]],
) -> None:
    """Raise UsageError for a model that is not there, before the first phase is paid for."""
    from windlass.cascade.choosing import helpers

    for phase in cascade.phases:
        resolve(settings.model_for(cascade.settings_for(phase).model))
    for helper in helpers(cascade, settings):
        resolve(helper)
    web_search_of(cascade, settings, resolve)


def web_search_of(
    cascade: Cascade,
    settings: Settings,
    resolve: Callable[[str], tuple[Provider, ModelInfo]],
) -> WebSearch | None:
    """The search of the web that the settings name, where a phase may use it; else None.

    Raises UsageError for a model that is not there or cannot search.
    """
    from windlass.cascade.model import has_tool
    from windlass.providers.base import Searching
    from windlass.providers.catalog import LITELLM
    from windlass.tools.base import WebSearch

    name = settings.search_model
    if name is None or not has_tool(cascade, "web_search"):
        return None
    provider, _ = resolve(name)
    if not isinstance(provider, Searching) or split_model(name)[0] == LITELLM:
        raise UsageError(
            f"search_model {name!r} cannot search the web; name a model of anthropic, gemini,"
            " openai or openrouter, such as 'anthropic/claude-sonnet-4-5'"
        )
    return WebSearch(name, partial(provider.search, split_model(name)[1]))


def new_session_id() -> str:
    """A name for a session: the time in UTC, and chance."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
