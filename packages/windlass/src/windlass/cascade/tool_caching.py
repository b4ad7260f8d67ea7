"""`tool_caching`: results of tools that only read, used again within a run."""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field, Strict

from windlass.declared import Count, Model, Names, Short, Text, YesNo
from windlass.tools.base import Tool

Duration: TypeAlias = Annotated[float, Strict(), Field(gt=0, allow_inf_nan=False)]
"""Seconds."""

KEYS: Final = {"args_hash": None, "query": "query", "sql_hash": "sql"}
"""What the words for a key stand for: the argument that tells calls apart (None: all of them)."""


class CachedTool(Model):
    """How the results of one tool are used again."""

    enabled: YesNo = True
    """Whether they are."""

    ttl: Duration | None = None
    """Seconds after which a result is not used any more (default: `global_ttl`)."""

    key: Text = "args_hash"
    """What tells calls apart: args_hash (all arguments), query or sql_hash (that argument alone),
    or an argument's own name; a call without it is told apart by all."""

    hit_message: str = ""
    """What stands before a result that is used again, as a line of its own."""

    invalidate_on: Names = ()
    """Tools after whose calls the results are not used any more."""


class ToolCaching(Model):
    """Which results of tools are used again within a run. Tools that write always run."""

    enabled: YesNo = False
    """Whether any are."""

    global_ttl: Duration = 3_600
    """Seconds after which a result is not used any more, where its tool says nothing."""

    max_cache_size: Count = 1_000
    """How many results are kept; the one that was used longest ago goes first."""

    storage: Literal["memory", "sqlite", "redis", "file", "disk"] = "memory"
    """Not taken: results are those of the run's record; a warning says so of any other word."""

    tools: dict[str, Annotated[CachedTool, Short("ttl", Duration), Short("enabled", YesNo)]] = (
        Field(default_factory=dict)
    )
    """The tools whose results are used again, by name; others always run. True, seconds (`ttl`),
    or an object."""


_ACT_ON_THE_RUN: Final = frozenset(
    {
        "ask_human",
        "callout",
        "describe_picture",
        "look_again",
        "plan",
        "recall",
        "search_context",
        "search_memory",
        "set_state",
        "todo",
        "use_skill",
    }
)
"""Tools that touch nothing outside, and whose calls are never the same."""


def may_be_kept(tool: Tool) -> bool:
    """Return whether two calls of a tool with the same arguments have the same result."""
    name = tool.spec.name
    return tool.effects == "none" and not tool.writes and name not in _ACT_ON_THE_RUN


def cached_tool(caching: ToolCaching, name: str) -> CachedTool | None:
    """Return how the results of a tool are used again; None: they are not."""
    held = caching.tools.get(name)
    return held if caching.enabled and held is not None and held.enabled else None
