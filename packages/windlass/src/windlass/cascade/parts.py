"""Parts of a cascade by their path: what a change at one place makes of the whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windlass.cascade.source import Path
from windlass.declared import Model


def with_value(part: Any, path: Path, value: Any) -> Any:
    """Return a part of a cascade with another value at `path` in it."""
    if not path:
        return value
    step, below = path[0], path[1:]
    if isinstance(step, int):
        return (*part[:step], with_value(part[step], below, value), *part[step + 1 :])
    if isinstance(part, Mapping):
        return {**part, step: with_value(part[step], below, value)}
    return part.model_copy(update={step: with_value(getattr(part, step), below, value)})


def without(part: Any, path: Path) -> Any:
    """Return a part of a cascade without what stands at `path` in it."""
    *above, step = path
    holder: Any = part
    for each in above:
        is_part = isinstance(holder, Model)
        holder = getattr(holder, str(each)) if is_part else holder[each]
    if isinstance(step, int):
        return with_value(part, tuple(above), (*holder[:step], *holder[step + 1 :]))
    return with_value(part, path, type(holder).model_fields[step].default)
