"""`set_state`: the model writes into the cascade's state."""

from __future__ import annotations

from typing import Any, TypeAlias

from windlass.errors import ToolError
from windlass.tools.base import ToolContext
from windlass.tools.registry import tool

# Spelled out, because a schema without a type is refused by some providers.
Value: TypeAlias = str | int | float | bool | list[Any] | dict[str, Any] | None


@tool(effects="none")
def set_state(context: ToolContext, key: str, value: Value) -> str:
    """Remember a value under a key, for later phases.

    Args:
        context: What the run provides.
        key: The key, as in {{ state.key }}.
        value: Any JSON value.
    """
    if not key.strip():
        raise ToolError("the key is empty: give a name like 'findings'")
    verb = "replaced" if key in context.state else "set"
    context.state[key] = value
    return f"{verb} state {key!r}"
