"""`output_extraction`: a pattern in a phase's output becomes a state key."""

from __future__ import annotations

import json
import re
from typing import Any

from windlass.cascade.model import OutputExtraction
from windlass.searching import search

_FENCE = re.compile(r"\A\s*```[\w+-]*\n(.*?)\n?```\s*\Z", re.DOTALL)


def extract(wanted: OutputExtraction, text: str) -> tuple[Any, str | None]:
    """The value found, and None; or None, and why there is none.

    `format: json` parses what the pattern's group holds, `code` takes away a fence. Raises
    TimeoutError with a sentence where the search was stopped.
    """
    found = search(wanted.pattern, text, re.DOTALL)
    if found is None:
        return None, f"the output has no match for the pattern {wanted.pattern!r}"
    value = found[1]
    if value is None:
        return None, f"the group of the pattern {wanted.pattern!r} matches nothing in the output"
    match wanted.format:
        case "text":
            return value.strip(), None
        case "code":
            fenced = _FENCE.match(value)
            return (fenced[1] if fenced else value.strip("\n")), None
        case "json":
            try:
                return json.loads(value), None
            except (ValueError, RecursionError) as error:
                return None, f"what {wanted.pattern!r} found is not JSON: {error}"
