"""A validator for phases that choose what comes next."""

from __future__ import annotations


def is_good(output: str) -> dict[str, object]:
    """Whether an output is good.

    Args:
        output: The output.
    """
    return {"valid": output == "good", "reason": "say good"}
