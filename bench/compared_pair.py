"""A workflow whose answers are worse where its windows hide what it read: a known difference.

Each run reads a log, takes two notes, and answers. Of the inputs whose `needs` is
true the log alone holds the answer. Under `everything` all of the log is in sight to the end; under
`MASKED` nothing of it is left by then.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from windlass.messages import Message, ToolCall, assistant
from windlass.wire.base import Request

MASKED: Final = {
    "commit": "at_once",
    "intra_phase": {
        "mask_observations_after": 1,
        "min_masked_chars": 100,
        "see_results": None,
        "compress": None,
        "lossless": None,
    },
}
"""A policy that hides each result from the next turn but one on."""
CASCADE: Final[Mapping[str, Any]] = {
    "cascade_id": "pair",
    "phases": [
        {
            "name": "answer",
            "instructions": "Row {{ input.row }}, needs {{ input.needs }}: what does it say?",
            "tackle": ["log", "note"],
            "rules": {"max_turns": 5},
        }
    ],
}


def log(row: int) -> str:
    """A long log; what is asked stands in its middle.

    Args:
        row: The row that it is of.
    """
    lines = [
        f"{at:03} step {at * 7} was done in {at % 9} s by worker w{at % 5}" for at in range(80)
    ]
    lines[40] = f"040 the answer is VALUE{row}"
    return "\n".join(lines)


def note(number: int) -> str:
    """Take a note.

    Args:
        number: Which note it is.
    """
    return f"note {number} is taken"


def script(request: Request) -> Message | str:
    """Read, take two notes, and answer with what is in sight."""
    text = "\n".join(each.text for each in request.messages)
    asks = re.search(r"Row (\d+), needs (\w+)", text)
    assert asks
    row, called = int(asks[1]), {call.id for each in request.messages for call in each.tool_calls}
    for number, (name, arguments) in enumerate(
        (("log", {"row": row}), ("note", {"number": 1}), ("note", {"number": 2}))
    ):
        if f"c{number}" not in called:
            return assistant("", calls=[ToolCall(f"c{number}", name, json.dumps(arguments))])
    if asks[2] == "False":
        return f"VALUE{row}"
    seen = re.search(r"VALUE\d+", text)
    return seen[0] if seen else "I do not know"


def right(given: Mapping[str, Any], outputs: Mapping[str, str]) -> bool:
    """Whether an answer is right."""
    return outputs["answer"] == f"VALUE{given['row']}"


def rows(count: int, needing: int) -> Sequence[Mapping[str, Any]]:
    """So many inputs, of which the first need the log."""
    return [{"row": row, "needs": row <= needing} for row in range(1, count + 1)]
