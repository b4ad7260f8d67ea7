"""The registry: from Python functions to named tools.

A function becomes a tool in three ways: marked with `@tool` in a module that is
added, by its dotted path (`pkg.module:function`), or by an entry point of the group
`windlass.tools`. Nothing here runs a tool, and nothing heavy is imported before the
first tool is made.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from types import ModuleType
from typing import Any, Final, TypeVar, overload

from windlass.errors import UsageError, did_you_mean
from windlass.settings.modules import Modules
from windlass.settings.plugins import EXTRAS, TOOLS, announced, load_announced, missing_plugin
from windlass.tools.base import TIMEOUT_S, Effects, Tool

BUILTIN_MODULES: Final = ("files", "searching", "set_state", "web")

_MARK: Final = "__windlass_tool__"
# What OpenAI, Anthropic and Gemini all accept as a function name.
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_LONGEST: Final = 64
_FOREIGN: Final = re.compile(r"[^A-Za-z0-9_-]")

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class _Mark:
    name: str | None = None
    timeout_s: float | None = None
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    effects: Effects = "external"


@overload
def tool(function: F, /) -> F: ...
@overload
def tool(
    *,
    name: str | None = None,
    timeout_s: float | None = None,
    reads: Sequence[str] = (),
    writes: Sequence[str] = (),
    effects: Effects = "external",
) -> Callable[[F], F]: ...
def tool(
    function: F | None = None,
    /,
    *,
    name: str | None = None,
    timeout_s: float | None = None,
    reads: Sequence[str] = (),
    writes: Sequence[str] = (),
    effects: Effects = "external",
) -> F | Callable[[F], F]:
    """Mark a function as a tool; the function itself stays what it is.

    Args:
        function: The function, where the decorator is used without brackets.
        name: What the model calls it (default: the function's name).
        timeout_s: Seconds it may take (default: 60).
        reads: The parameters that name what it reads, such as the path of a file.
        writes: The parameters that name what it writes.
        effects: What running it again does: `none` and `idempotent` come to the same; after
            `external` a resumed run asks before it runs the tool a second time.
    """

    def mark(target: F) -> F:
        setattr(target, _MARK, _Mark(name, timeout_s, tuple(reads), tuple(writes), effects))
        return target

    return mark if function is None else mark(function)


def make_tool(
    function: Callable[..., Any], name: str | None = None, timeout_s: float | None = None
) -> Tool:
    """Return the tool that `function` is: schema from its signature, words from its docstring.

    The first paragraph of the docstring is the description, the lines under `Args:`
    describe the parameters. A parameter annotated `ToolContext` is not shown to the
    model. Raises UsageError where the signature says too little for a schema.

    Args:
        function: Plain or async.
        name: What the model calls it (default: as marked, else the function's name).
        timeout_s: Seconds it may take (default: as marked, else 60).
    """
    # pydantic takes longer to import than everything else here together.
    from windlass.tools.argument_schema import describe

    if not callable(function):
        raise UsageError(f"{function!r} cannot be a tool: it is not a function")
    mark = getattr(function, _MARK, _Mark())
    called = str(name or mark.name or getattr(function, "__name__", type(function).__name__))
    if timeout_s is None:
        timeout_s = TIMEOUT_S if mark.timeout_s is None else mark.timeout_s
    origin = origin_of(function)
    if not _NAME.fullmatch(called):
        raise UsageError(
            f"{origin}: {called!r} is not a name for a tool; give one of letters, digits, '_' and"
            " '-' (64 at most) with name=..."
        )
    if not timeout_s > 0:
        raise UsageError(f"{origin}: timeout_s must be more than 0 seconds, not {timeout_s!r}")
    described = describe(function, called, origin)
    parameters = described.spec.parameters["properties"]
    for parameter in (*mark.reads, *mark.writes):
        if parameter not in parameters:
            raise UsageError(
                f"{origin}: reads and writes name parameters of the tool, and {parameter!r} is"
                f" none; {did_you_mean(parameter, parameters)}"
            )
    return replace(
        described,
        timeout_s=float(timeout_s),
        reads=mark.reads,
        writes=mark.writes,
        effects=mark.effects,
    )


def sent_name(name: str) -> str:
    """Return the name under which a tool is sent: providers take letters, digits, `_` and `-` only.

    A function of the name alone, so that a request's prefix stays the same; most names
    are sent as they are.

    >>> sent_name("files.read"), sent_name("read_file")
    ('files__read', 'read_file')
    """
    legal = _FOREIGN.sub("_", name.replace(".", "__"))
    if len(legal) <= _LONGEST:
        return legal
    ending = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{legal[: _LONGEST - 9]}_{ending}"


def origin_of(function: Callable[..., Any]) -> str:
    """Where a function was defined: `pkg.module:name (file:line)`."""
    inner: Any = inspect.unwrap(function)
    while isinstance(inner, partial):
        inner = inner.func
    if not hasattr(inner, "__qualname__"):
        inner = type(inner)
    code = getattr(inner, "__code__", None)
    place = f" ({code.co_filename}:{code.co_firstlineno})" if code else ""
    return f"{inner.__module__}:{inner.__qualname__}{place}"


class Registry:
    """Tools by name. A name stands for one function only."""

    def __init__(self, modules: Modules | None = None) -> None:
        self.modules = modules or Modules()
        """Where modules with tools, validators and injectors come from."""

        self.partial = False
        """Whether the tools of some settings are missing because nobody trusts their folder."""

        self._tools: dict[str, Tool] = {}
        self._sent: dict[str, str] = {}

    @property
    def is_partial(self) -> bool:
        """Whether tools are missing because nobody trusts the folder that names their modules."""
        return self.partial or bool(self.modules.unchecked)

    def register(self, item: Tool) -> None:
        """Add a tool; the same function may be added again, another under its name may not."""
        name = item.spec.name
        namesake = self._tools.get(name)
        if namesake is not None and namesake.function is not item.function:
            raise UsageError(
                f"two tools are named {name!r}: {namesake.origin or 'one without origin'} and "
                f"{item.origin or 'one without origin'}; give one another name with "
                "@tool(name=...)"
            )
        other = self._sent.setdefault(sent_name(name), name)
        if other != name:
            raise UsageError(
                f"the tools {other!r} and {name!r} would both be sent as {sent_name(name)!r}; "
                "give one of them, or its server, another name"
            )
        self._tools[name] = item

    def copy(self) -> Registry:
        """Return the same tools; what is registered in one of both is not in the other."""
        own = Registry(self.modules)
        own.partial, own._tools, own._sent = self.partial, dict(self._tools), dict(self._sent)
        return own

    def get(self, name: str) -> Tool:
        """Return the tool of that name; a name with a colon is resolved as a dotted path."""
        if name in self._tools:
            return self._tools[name]
        if ":" in name:
            return self.resolve(name)
        if name in EXTRAS[TOOLS]:
            raise missing_plugin(TOOLS, name)
        raise UsageError(f"unknown tool {name!r}: {did_you_mean(name, self._tools)}")

    def of_tackle(self, tackle: Sequence[str]) -> tuple[Tool, ...]:
        """Return the tools that a phase's tackle names; `server.*` is all that server has."""
        tools: dict[str, Tool] = {}
        for name in tackle:
            prefix = name.removesuffix("*")
            every = [each for each in self.names() if each.startswith(prefix)]
            names = every if name.endswith(".*") else [name]
            tools.update((item.spec.name, item) for item in map(self.get, names))
        return tuple(tools.values())

    def names(self) -> tuple[str, ...]:
        """Return the known names, sorted."""
        return tuple(sorted(self._tools))

    def add_module(self, dotted: str) -> None:
        """Register every function of the module that is marked with `@tool`."""
        self.add_marked(self.modules.load(dotted))

    def resolve(self, dotted: str) -> Tool:
        """Register and return the function at `pkg.module:function`, marked or not."""
        module_name, _, attribute = dotted.partition(":")
        if not module_name or not attribute:
            raise UsageError(f"{dotted!r} is not a tool: expected 'package.module:function'")
        target = self.modules.member(dotted)
        item = target if isinstance(target, Tool) else make_tool(target)
        self.register(item)
        return item

    def load_entry_points(self) -> None:
        """Register the tools of installed packages (entry points of `windlass.tools`).

        An entry point names a function, a `Tool`, or a module with marked functions.
        """
        for entry in announced(TOOLS):
            target = load_announced(entry, "tool")
            if isinstance(target, ModuleType):
                self.add_marked(target)
            else:
                is_tool = isinstance(target, Tool)
                self.register(target if is_tool else make_tool(target, name=entry.name))

    def add_marked(self, module: ModuleType) -> None:
        """Register every function of a loaded module that is marked with `@tool`."""
        for each in _marked_tools(module):
            self.register(each)


def _marked_tools(module: ModuleType) -> tuple[Tool, ...]:
    # Looked up without getattr: an object with __getattr__ would answer to every name.
    marked = [
        value
        for value in vars(module).values()
        if isinstance(inspect.getattr_static(value, _MARK, None), _Mark)
    ]
    if not marked:
        raise UsageError(f"module {module.__name__!r} has no function marked with @tool")
    return tuple(make_tool(function) for function in marked)


def builtin(modules: Modules | None = None) -> Registry:
    """Return a registry of all builtin tools.

    Their optional packages are imported when they run.
    """
    registry = Registry(modules)
    for each in _builtin_tools():
        registry.register(each)
    return registry


@cache
def _builtin_tools() -> tuple[Tool, ...]:
    modules = (importlib.import_module(f"windlass.tools.{name}") for name in BUILTIN_MODULES)
    return tuple(each for module in modules for each in _marked_tools(module))
