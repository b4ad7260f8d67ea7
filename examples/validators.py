"""Validators of the example cascades, named there as `validators:function`.

A validator is a tool that answers `{valid, reason}`; the reason is what the model is
told before it tries again.
"""

from __future__ import annotations

import json
import re
from typing import Any

from windlass.tools.base import ToolContext


def mentions_a_number(output: str) -> dict[str, Any]:
    """Whether the output names a number.

    Args:
        output: The output of the phase.
    """
    valid = re.search(r"\d", output) is not None
    return {"valid": valid, "reason": "" if valid else "The answer must name a number."}


def report_is_written(output: str, state: dict[str, Any], context: ToolContext) -> dict[str, Any]:
    """Whether the output names a file of the allowed folder that tells the forecast.

    Args:
        output: The output of the phase: a JSON object with the key `file`.
        state: The state; `next_month` is the line of the forecast that the file must hold.
        context: What the run provides.
    """
    name = json.loads(output)["file"]
    root = context.root.resolve()
    file = (root / name).resolve()
    if not (file.is_relative_to(root) and file.is_file()):
        return {"valid": False, "reason": f"There is no file {name!r}: write it with write_file."}
    wanted = state.get("next_month", "")
    valid = re.search(re.escape(wanted) + r"\b", file.read_text(encoding="utf-8")) is not None
    return {"valid": valid, "reason": "" if valid else f"{name!r} must hold {wanted!r}."}
