"""`recall`: getting an original back by its reference.

The tool a model calls lives here, because it needs the history; it is registered
beside the leaf tools when a run begins.
"""

from __future__ import annotations

import re

from windlass.engine.record import Recorder
from windlass.errors import ToolError
from windlass.tools.base import ToolContext

_NUMBERED_LINES = re.compile(r"(\d+)\s*(?:-\s*(\d+))?")


def recall(ref: str, context: ToolContext, grep: str = "", lines: str = "") -> str:
    """Get back the original of a message that is shown shortened or not at all.

    Args:
        ref: The reference named in the placeholder, for example result_1a2b3c4d5e6f7a8b.
        grep: Only lines that match this regular expression.
        lines: Only these lines, counted from 1, for example 10-40.
        context: What the run provides; not shown to the model.
    """
    if context.recall is None:
        raise ToolError("recall works only inside a run")
    try:
        text = context.recall(ref)
    except KeyError as error:
        raise ToolError(str(error.args[0])) from error
    return part_of(text, grep=grep, lines=lines)


def part_of(text: str, *, grep: str = "", lines: str = "") -> str:
    """The part of `text` asked for, each line with its number. Raises ToolError."""
    if not grep and not lines:
        return text
    numbered = list(enumerate(text.splitlines(), start=1))
    if lines:
        span = _NUMBERED_LINES.fullmatch(lines.strip())
        if span is None:
            raise ToolError(f"lines {lines!r} must be a number or a range such as 10-40")
        first, last = int(span[1]), int(span[2] or span[1])
        numbered = [(number, line) for number, line in numbered if first <= number <= last]
    if grep:
        try:
            pattern = re.compile(grep)
        except re.error as error:
            raise ToolError(f"grep {grep!r} is no regular expression: {error}") from error
        numbered = [(number, line) for number, line in numbered if pattern.search(line)]
    if not numbered:
        return "[no line matches]"
    return "\n".join(f"{number}: {line}" for number, line in numbered)


def recall_original(record: Recorder, ref: str) -> str:
    """The original text behind `ref` (`result_` and a content hash, or the bare hash).

    Raises KeyError with a sentence that names the known references.
    """
    wanted = ref.removeprefix("result_")
    known = {item.message.content_hash: item.message for item in record.items()}
    message = known.get(wanted)
    if message is not None:
        return message.text
    results = [f"result_{key}" for key, m in known.items() if m.role == "tool"]
    told = ", ".join(results[-10:]) or "none yet"
    raise KeyError(f"no message of this session has the reference {ref!r}; known: {told}")
