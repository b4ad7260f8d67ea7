"""`recall`: getting an original back by its reference.

The tool a model calls lives here, because it needs the history; it is registered
beside the leaf tools when a run begins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.errors import ToolError
from windlass.tools.base import ToolContext
from windlass.window.originals import as_text, meant, part_of, reference

if TYPE_CHECKING:
    from windlass.engine.turn.record import Recorder


def recall(ref: str, context: ToolContext, part: str = "") -> str:
    """Original of result_..., or part: lines 10-40, /regex/, JSON path a[0].b.

    One paragraph tells a model all of it, and no parameter has words of its own: they are sent
    with every call. Lines count from 1; without a part, all of the original is given back; a
    part of a part is asked for as `a[0].b 10-40 /regex/`. Raises ToolError where nothing has the
    reference or the part.
    """
    if context.recall is None:
        raise ToolError("recall works only inside a run")
    try:
        return context.recall(ref, part)
    except KeyError as error:
        raise ToolError(str(error.args[0])) from error
    except ValueError as error:
        raise ToolError(str(error)) from error


def recall_original(record: Recorder, ref: str, part: str | None = None) -> str:
    """Return the original text behind `ref`: a reference, a content hash, or the beginning of one.

    `part` is what `part_of` takes ("": as much of the whole as is given back at once; None: all
    of it). Raises KeyError with a sentence that names the known references, and ValueError where
    the part cannot be found.
    """
    # Sources that a phase was given may be shortened too, so every row counts.
    rows = record.rows()
    messages = [stored.row.message for stored in rows if stored.row.message is not None]
    by_hash = {message.content_hash: message for message in messages}
    try:
        message = by_hash[meant(ref, by_hash)]
    except KeyError as error:
        results = [reference(m) for m in by_hash.values() if m.role == "tool"]
        listed = ", ".join(results[-10:]) or "none yet"
        what = f"the reference {ref!r} names no message of this session"
        raise KeyError(f"{what}: {error.args[0]}; known: {listed}") from None
    return as_text(message) if part is None else part_of(message, part)
