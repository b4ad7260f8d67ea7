"""Whether a model got what a hook answered: the agent's transcript has what it was shown."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from windlass.hooks.hook_journal import HookLine
from windlass.hooks.shapes import CLAUDE_CODE, shape_of
from windlass.window.originals import reference_to

SIDE: Final = "subagents"
"""The folder beside a session's transcript, in a folder of its name, with those of subagents."""


def text_hash(text: str) -> str:
    """Return what a line of the journal knows a short form by."""
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def main_transcript(lines: Iterable[HookLine]) -> Path | None:
    """Return the transcript of a session, by the lines of its journal (None: it has none)."""
    for line in lines:
        if line.transcript:
            path = Path(line.transcript)
            return path.parents[1].with_suffix(".jsonl") if line.thread else path
    return None


def deliveries(lines: Iterable[HookLine], transcript: Path | None) -> dict[str, bool | None]:
    """By the id of each call whose result was shortened: whether its model got the short form.

    None: the transcript does not tell, or not yet.
    """
    short = {line.call_id: line for line in lines if line.outcome == "shortened"}
    got: dict[str, bool | None] = dict.fromkeys(short)
    if transcript is None or not short:
        return got
    beside = transcript.with_suffix("") / SIDE
    for path in (transcript, *(sorted(beside.glob("*.jsonl")) if beside.is_dir() else ())):
        for call_id, result, block in _results(path):
            line = short.get(call_id)
            if line is None:
                continue
            if result is None:  # as of subagents: the short form names its original
                got[call_id] = reference_to(line.original) in json.dumps(block)
                continue
            known = shape_of(CLAUDE_CODE, line.tool, result)
            got[call_id] = known is not None and text_hash(known[1]) == line.shown
    return got


def _results(path: Path) -> Iterator[tuple[str, Any, Mapping[str, Any]]]:
    """Each result of a transcript: its call, what the agent keeps (None: nothing), its block."""
    with suppress(OSError), path.open("rb") as file:
        for data in file:
            if b'"tool_result"' not in data:
                continue
            with suppress(ValueError, RecursionError, TypeError, AttributeError):
                record = json.loads(data)
                for block in record["message"]["content"]:
                    if isinstance(block, Mapping) and block.get("type") == "tool_result":
                        yield str(block.get("tool_use_id")), record.get("toolUseResult"), block
