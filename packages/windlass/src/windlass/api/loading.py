"""What is to be run: a cascade or a task, read and checked, with the tools that it may use."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from windlass.api.options import CascadeSource, Tools
from windlass.errors import CascadeError, Mistake, TaskFileError
from windlass.safety.files import Folders
from windlass.settings.modules import Modules
from windlass.settings.settings import Settings
from windlass.settings.trust import is_trusted, trusted_folders

if TYPE_CHECKING:
    from windlass.cascade.children import CascadeFamily
    from windlass.cascade.load import LoadedCascade
    from windlass.cascade.ready import ReadyCascade
    from windlass.tasks.compile import Program
    from windlass.tasks.model import TaskFile
    from windlass.tools.base import Tool
    from windlass.tools.registry import Registry


@dataclass(frozen=True, slots=True)
class ReadingOptions:
    """How a cascade is read: how far its code is trusted, and what is left out of it."""

    trust: bool | None = None
    """As `modules_of` takes it; what holds for a cascade holds for those that it names."""
    record: Path | None = None
    """The folder of the store whose record alone names it (None: its user does)."""
    lenient: bool = False
    """Whether keys that are not known and tools that are not there are left out with a warning."""


PLAIN: Final = ReadingOptions()
"""How a cascade is read that its user named."""


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
    from windlass.tools.registry import builtin

    registry = builtin(modules)
    registry.partial = "tools" in settings.untrusted
    for each in _tools_of_history():
        registry.register(each)
    registry.load_entry_points()
    return add_tools(registry, (*(() if registry.partial else settings.tools), *tools))


@cache
def _tools_of_history() -> tuple[Tool, ...]:
    from windlass.engine.session_tools import (
        ASKING,
        callout,
        recall,
        remember,
        search_context,
        search_memory,
    )
    from windlass.injectors.reminders import describe_picture, look_again, plan, todo
    from windlass.injectors.skills import use_skill
    from windlass.tools.registry import make_tool

    kept = (*ASKING, callout, recall, search_context, search_memory)
    reading = (*kept, describe_picture, look_again, plan, todo, use_skill)
    return (
        *(replace(make_tool(own), effects="none") for own in reading),
        replace(make_tool(remember), effects="idempotent"),
    )


def add_tools(registry: Registry, tools: Tools) -> Registry:
    """Return the registry with a user's tools."""
    from windlass.cascade.tool_cascades import is_path
    from windlass.tools.registry import make_tool

    for item in tools:
        if isinstance(item, str) and is_path(item):
            continue  # cascades are tools of cascades
        if not isinstance(item, str):
            registry.register(make_tool(item))
        elif ":" in item:
            registry.register(registry.resolve(item))
        else:
            registry.add_module(item)
    return registry


def load_cascade(
    cascade: CascadeSource,
    settings: Settings,
    tools: Tools = (),
    *,
    auto: bool = False,
    how: ReadingOptions = PLAIN,
    input: Collection[str] | None = None,  # noqa: A002  (the DSL's word)
    warn: Callable[[str], None] | None = None,
) -> ReadyCascade:
    """The cascade, checked, the registry of the tools it may use, and its sub-cascades likewise.

    `auto`: where it says nothing of `auto_context`, it gets it with its defaults. Code that was
    not loaded, as nobody trusts it, is in `registry.modules.unchecked`. `input` are the names of
    what its templates are given (None: it is not to be run, so they are not asked for what they
    need). `warn` is told of what was left out, of each key that may be meant in another sense, and
    of each name of the input that nothing looks at.
    Raises CascadeError with every mistake at once.
    """
    from windlass.cascade.children import (
        family_needs,
        make_ready,
        sources_without_parent,
        unused_inputs,
    )
    from windlass.cascade.needs import not_given

    family, warnings = load_family(cascade, settings, tools, how)
    checked = make_ready(family, settings, auto=auto)
    if input is not None:
        missing = not_given(family_needs(family), input)
        if mistakes := (*sources_without_parent(family.loaded), *missing):
            raise CascadeError(mistakes)
    if warn is not None:
        for warning in (*warnings, *unused_inputs(family, input or ())):
            warn(f"warning: {warning}")
    return checked


def load_family(
    cascade: CascadeSource,
    settings: Settings,
    tools: Tools,
    how: ReadingOptions = PLAIN,
) -> tuple[CascadeFamily, list[Mistake]]:
    """Return the cascade with its sub-cascades, and what else was seen. Raises CascadeError."""
    from windlass.cascade.children import check_family, outside_root
    from windlass.cascade.notes import notes

    family = read_cascade(cascade, settings, tools, how)
    warnings = [warning for each in family.walk() for warning in notes(each.loaded)]
    mistakes = check_family(family, settings.mcp_servers)
    if mistakes := (*mistakes, *outside_root(family, settings.root)):
        raise CascadeError(mistakes, warnings)
    return family, list(dict.fromkeys(warnings))


def read_cascade(
    cascade: CascadeSource,
    settings: Settings,
    tools: Tools = (),
    how: ReadingOptions = PLAIN,
) -> CascadeFamily:
    """Return the cascade and its sub-cascades, read and not checked, each with a registry of tools.

    Raises UsageError for a file that cannot be read.
    """
    from windlass.cascade.children import read_family
    from windlass.cascade.load import from_python, load
    from windlass.cascade.model import Cascade
    from windlass.cascade.tool_cascades import add_cascades, is_path
    from windlass.cascade.tools_at_hand import without_unknown_tools

    def registry_of(file: object) -> Registry:
        registry = make_registry(settings, tools, modules_of(file, trust=how.trust))
        own = () if registry.partial else settings.tools
        for item in (*own, *tools):
            if isinstance(item, str) and is_path(item):
                add_cascades(registry, settings.folder / item)
        return registry if how.record is None else _asking(registry, how.record)

    def read(file: Path, folders: Folders) -> LoadedCascade:
        return load(file, lenient=how.lenient, folders=folders)

    named = cascade.file if isinstance(cascade, Cascade) else cascade
    file = Path(named) if isinstance(named, str | Path) and named else None
    folders = folders_of(Path() if file is None else file.parent, settings)
    if isinstance(cascade, str | Path):
        loaded = read(Path(cascade), folders)
    else:
        loaded = from_python(cascade, lenient=how.lenient, folders=folders)
    family = read_family(loaded, registry_of(cascade), file, registry_of, read)
    if how.lenient:
        return family.changed(partial(without_unknown_tools, servers=settings.mcp_servers))
    return family


def folders_of(own: Path, settings: Settings) -> Folders:
    """Return where the files must lie that a cascade in the folder `own` names.

    That is in it, in the root, and in the trusted folder around it.
    """
    root, real = settings.root, own.resolve()
    trusted = (folder for folder in trusted_folders() if real.is_relative_to(folder))
    outside = (
        f"lies outside the folder of the cascade and the root {str(root.resolve())!r} (--root)"
    )
    return Folders((own, root, *trusted), f"{outside}; move the file there")


def _asking(registry: Registry, record: Path) -> Registry:
    """Give the registry, which from now on loads only code that is trusted, by a record that is."""
    by_record = is_trusted(record)
    registry.modules.ask(lambda folder: by_record and is_trusted(folder))
    return registry


def load_program(
    task: str | Path | TaskFile,
    settings: Settings,
    tools: Tools = (),
    *,
    auto: bool = False,
    strict: bool = False,
    trust: bool | None = None,
    record: Path | None = None,
    input: Collection[str] | None = None,  # noqa: A002  (the DSL's word)
) -> tuple[Program, Registry]:
    """Return the task, checked, and the registry of the tools it may use.

    `auto`: where it says nothing of its windows, calls are shortened as they grow. `trust`: as
    `modules_of` takes it, `record` as in `ReadingOptions`; what was not loaded is in
    `registry.modules.unchecked`. `input` are the names of what its templates are given (None: they
    are not asked).
    Raises UsageError (TaskFileError with every mistake at once).
    """
    from windlass.cascade.layers import load_own_injectors
    from windlass.cascade.model_names import with_model_names
    from windlass.cascade.needs import not_given
    from windlass.tasks.compile import compile_task, outside_root
    from windlass.tasks.parse import load_task

    source = load_task(task) if isinstance(task, str | Path) else task
    registry = make_registry(settings, tools, modules_of(source.file, trust=trust))
    if record is not None:
        _asking(registry, record)
    servers = settings.mcp_servers
    beside = Path(source.file).parent
    if record is not None and not beside.resolve().is_relative_to(settings.root.resolve()):
        beside = Path()
    folders = folders_of(beside, settings)
    program = compile_task(source, tools=registry, servers=servers, strict=strict, folders=folders)
    program = replace(program, cascade=with_model_names(program.cascade, settings))
    load_own_injectors(program.cascade, registry.modules)
    outside = outside_root(program, settings.root, with_inputs=input is None)
    if mistakes := (*outside, *(() if input is None else not_given(program.needs, input))):
        raise TaskFileError(mistakes)
    if auto and program.cascade.auto_context is None:
        program = program.with_windows()
    return program, registry
