"""What tests of cascade check build their cases of; others use it, too."""

from __future__ import annotations

from typing import Any

from tests.cascade.making import (
    Toolbox,
    cascade,
    loaded,
)
from windlass.cascade.check import check


def mistakes(*phases: dict[str, Any], tools: Toolbox | None = None, **top: Any) -> list[str]:
    """The mistakes of a cascade of these phases, without file and line."""
    return [mistake.text for mistake in check(loaded(cascade(*phases, **top)), tools=tools)]
