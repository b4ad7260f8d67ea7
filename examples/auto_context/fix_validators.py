"""The validator of `iterative_fix.json`: tests that a regular expression must pass."""

from __future__ import annotations

import re
from typing import Any

CASES = {"2026-01-31": True, "2026-1-31": False, "31.01.2026": False, "2026-13-01": False}
"""From a text to whether the expression must match the whole of it."""


def tests_pass_validator(output: str) -> dict[str, Any]:
    """Whether a regular expression tells dates from other texts.

    Args:
        output: The output of the phase: the expression.
    """
    try:
        pattern = re.compile(output.strip())
    except re.error as error:
        return {"valid": False, "reason": f"This is no regular expression: {error}."}
    for text, wanted in CASES.items():
        if (pattern.fullmatch(text) is not None) is not wanted:
            verb = "must" if wanted else "must not"
            return {"valid": False, "reason": f"The expression {verb} match {text!r}."}
    return {"valid": True, "reason": ""}
