"""What packages beside Windlass add: found by their entry points, loaded when it is asked for.

A package announces what it adds in a group of entry points, under a name:

    windlass.stores      a module with `open_store`, by the scheme of its addresses
    windlass.providers   what makes a provider, by the first part of its models' names
    windlass.commands    a command of the command line
    windlass.quick       the same command for whoever waits: words in, an exit code out
    windlass.prune       what else is deleted with sessions
    windlass.importers   a format of recordings
    windlass.exporters   a form in which a session is written out
    windlass.telemetry   what tells a collector of runs
    windlass.engines     where inner tasks of a reduce run
    windlass.tools       a tool, or a module of tools
    windlass.queries     a module with `query_rows` and `QueryValues`, for phases `sql:FILE`
    windlass.injectors   an injector
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from windlass.errors import UsageError, did_you_mean
from windlass.safety.imports import logging_unchanged

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

STORES: Final = "windlass.stores"
PROVIDERS: Final = "windlass.providers"
COMMANDS: Final = "windlass.commands"
QUICK: Final = "windlass.quick"
PRUNE: Final = "windlass.prune"
IMPORTERS: Final = "windlass.importers"
EXPORTERS: Final = "windlass.exporters"
TELEMETRY: Final = "windlass.telemetry"
ENGINES: Final = "windlass.engines"
TOOLS: Final = "windlass.tools"
INJECTORS: Final = "windlass.injectors"
QUERIES: Final = "windlass.queries"

GROUPS: Final = {
    STORES: "store",
    PROVIDERS: "provider",
    COMMANDS: "command",
    QUICK: "command",
    PRUNE: "pruning",
    IMPORTERS: "format",
    EXPORTERS: "form",
    TELEMETRY: "telemetry",
    ENGINES: "engine",
    TOOLS: "tool",
    INJECTORS: "injector",
    QUERIES: "query language",
}

EXTRAS: Final[Mapping[str, Mapping[str, str]]] = {
    STORES: {"clickhouse": "clickhouse", "chdb": "chdb"},
    PROVIDERS: {"local": "local"},
    COMMANDS: {
        "serve": "serve",
        "agent": "agents",
        "hook": "agents",
        "recall": "agents",
        "mcp": "agents",
    },
    IMPORTERS: {
        "otel": "otel",
        **dict.fromkeys(
            ("cline", "codex-exec", "gemini-cli", "mini-swe-agent", "opencode", "request-log"),
            "importers",
        ),
        "swe-agent": "importers",
    },
    EXPORTERS: {"otel": "otel", "otel-content": "otel"},
    TELEMETRY: {"otel": "otel"},
    ENGINES: {"ray": "ray"},
    TOOLS: dict.fromkeys(
        ("run_sql", "create_chart", "forecast", "smart_sql_run", "sql_query"), "tools"
    ),
    QUERIES: {"sql": "tools"},
}
"""What packages of Windlass's own add: the extra that installs each, by group and name."""


def announced(group: str) -> tuple[EntryPoint, ...]:
    """List the entry points of a group that installed packages have, by name."""
    from importlib.metadata import entry_points  # takes longer than this whole module

    return tuple(sorted(entry_points(group=group), key=lambda each: each.name))


def plugin_names(group: str) -> tuple[str, ...]:
    """List the names in a group, whether or not what they stand for is installed."""
    return tuple(dict.fromkeys([*EXTRAS.get(group, {}), *(each.name for each in announced(group))]))


def load_plugin(group: str, name: str) -> Any:
    """Load what a package announces under a name of a group.

    Raises UsageError where no installed package does, with the command that installs it, and
    where it cannot be loaded.
    """
    for entry in announced(group):
        if entry.name == name:
            return load_announced(entry, GROUPS[group])
    raise missing_plugin(group, name)


def missing_plugin(group: str, name: str) -> UsageError:
    """Return the sentence that says what installs a plugin, or that there is none of that name."""
    extra = EXTRAS.get(group, {}).get(name)
    if extra is None:
        near = did_you_mean(name, plugin_names(group))
        return UsageError(f"there is no {GROUPS[group]} {name!r}; {near}")
    return UsageError(
        f"the {GROUPS[group]} {name!r} is in a package of its own that is not installed:"
        f" pip install 'windlass[{extra}]'"
    )


def load_announced(entry: EntryPoint, what: str) -> Any:
    """Load what an entry point names. Raises UsageError, which calls it `what` it is to be."""
    try:
        with logging_unchanged(entry.module):
            return entry.load()
    except Exception as problem:  # a package's own code runs here and may raise anything
        package = entry.dist.name if entry.dist else "an unknown package"
        raise UsageError(
            f"the {what} {entry.name!r} of {package} cannot be loaded from {entry.value!r}:"
            f" {type(problem).__name__}: {problem}"
        ) from problem
