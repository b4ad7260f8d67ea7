"""What tests of cascade check build their cases of; others use it, too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.cascade.making import (
    Toolbox,
    cascade,
    loaded,
)
from windlass.cascade.check import check
from windlass.cascade.load import LoadedCascade, from_python
from windlass.cascade.model import Cascade
from windlass.errors import CascadeError
from windlass.tools.registry import Registry


def mistakes(*phases: dict[str, Any], tools: Toolbox | None = None, **top: Any) -> list[str]:
    """The mistakes of a cascade of these phases, without file and line."""
    return [mistake.text for mistake in check(loaded(cascade(*phases, **top)), tools=tools)]


def checked_cascade(
    cascade: LoadedCascade | Cascade | Mapping[str, Any], tools: Registry | None = None
) -> Cascade:
    """The cascade, when nothing is wrong with it; raises CascadeError with all mistakes."""
    held = cascade if isinstance(cascade, LoadedCascade) else from_python(cascade)
    if found := check(held, tools=tools):
        raise CascadeError(found)
    return held.cascade
