"""What a session's model has in view, read from the end of a growing transcript.

The reader of Claude Code's transcripts puts what is new into its tree; the path to the last node is
what the model sees. Where the user goes back, or the conversation is compacted, what was said since
is not on it any more. A record may also name results that the model no longer sees though they
stand there.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from windlass.hooks.agent_events import SeenCall
from windlass.hooks.delivery import text_hash
from windlass.hooks.shapes import CLAUDE_CODE
from windlass.importing.claude_code import SIDE_CHAIN, ClaudeTranscript
from windlass.importing.json_files import NamedFile
from windlass.importing.tree import Node
from windlass.messages import Text, ToolCall
from windlass.window.kinds import arguments_of

_MOST_BYTES: Final = 16_000_000
"""Bytes of a transcript that are read at once; of a longer one the end."""
_MOST_KEPT: Final = 4 * _MOST_BYTES
"""Bytes of it that are kept in memory; then its end is read again."""
_STEPS: Final = ("user", "assistant", "system", "attachment")
"""The records of a conversation."""


@dataclass(frozen=True, slots=True)
class _Result:
    """What is known of a result as the agent keeps it."""

    bare: str = ""
    """The result as the tool gave it, where the agent puts numbers before its lines."""
    hash: str = ""
    stored: str = ""


@dataclass(slots=True)
class Tail:
    """A transcript, read as it grows."""

    path: Path
    model: str | None = None
    """`provider/model` of the last answer."""
    _file: tuple[int, int] = (0, 0)
    """What the system knows the file by."""
    _first: int = 0
    """Where reading began."""
    _offset: int = 0
    _rest: bytes = b""
    _transcript: ClaudeTranscript = field(init=False)
    _end: Node | None = None
    """The last step that the model saw."""
    _results: dict[str, _Result] = field(default_factory=dict[str, _Result])
    """By their calls."""
    _went_back: bool = False
    """Whether a step did not follow the one before it."""

    def __post_init__(self) -> None:
        self._transcript = ClaudeTranscript(NamedFile(self.path))

    def read(self) -> bool:
        """Take in what was appended. Whether all of it only appends to what was in view.

        A file that cannot be read appends nothing.
        """
        self._went_back = False
        with suppress(OSError), self.path.open("rb") as file:
            status = os.fstat(file.fileno())
            size, name = status.st_size, (status.st_dev, status.st_ino)
            is_other = size < self._offset or name != self._file
            if is_other or size - self._offset > _MOST_BYTES or size - self._first > _MOST_KEPT:
                self._begin_anew(max(0, size - _MOST_BYTES))
            self._file = name
            file.seek(self._offset)
            data = self._rest + file.read(size - self._offset)
            self._offset = file.tell()
            *lines, self._rest = data.split(b"\n")
            for line in lines:
                with suppress(ValueError, RecursionError):
                    record = json.loads(line)
                    if isinstance(record, dict):
                        self._take(record)
        return not self._went_back

    def _begin_anew(self, first: int) -> None:
        was_read = self._offset > 0
        self.__init__(self.path, self.model)  # type: ignore[misc]
        self._went_back, self._first, self._offset = was_read, first, first

    def _take(self, record: Mapping[str, Any]) -> None:
        nodes, cleared = self._transcript.tree.nodes, len(self._transcript.cleared)
        before = len(nodes)
        node = self._transcript.add(record)
        is_side_chain = node is not None and node.lane and not self.path.stem.startswith(SIDE_CHAIN)
        if record.get("type") not in _STEPS or is_side_chain:
            return
        if node is not None and node.call is not None:
            self.model = node.call.model
        message = record.get("message")
        for block in message.get("content") or () if isinstance(message, Mapping) else ():
            if isinstance(block, Mapping) and block.get("type") == "tool_result":
                self._note(str(block.get("tool_use_id")), record.get("toolUseResult"))
        at, new = node, set(nodes[before:])
        while at in new and at is not self._end and at is not None:
            at = at.parent
        follows = at is self._end or self._end is None
        # More of the last answer, of which results are there.
        is_piece = self._end is not None and node is not None and node is self._end.parent
        is_piece = is_piece and record["type"] == "assistant"
        is_cleared = len(self._transcript.cleared) > cleared
        self._went_back = self._went_back or is_cleared or not (follows or is_piece)
        if not is_piece:
            self._end = node

    def _note(self, call_id: str, result: object) -> None:
        """Note what is known of a result, where it has a shape that is known."""
        for shape in CLAUDE_CODE:
            text = shape.text_of(result)
            if text is not None:
                bare = text if shape.numbered else ""
                self._results[call_id] = _Result(bare, text_hash(text), shape.stored(result))
                return

    def in_view(self) -> Iterator[str | SeenCall]:
        """Yield what the model sees, in order: words of the user, and calls with their results."""
        calls: dict[str, tuple[ToolCall, str]] = {}
        for node in self._end.path() if self._end is not None else ():
            words = ""
            for message in node.messages:
                match message.role:
                    case "assistant":
                        for call in message.tool_calls:
                            calls[call.id] = call, words
                        words = "" if message.tool_calls else message.text or words
                    case "tool" if message.tool_call_id in calls:
                        call, before = calls.pop(message.tool_call_id or "")
                        yield self._seen(call, before, message.text)
                    case "user":
                        for part in message.parts:
                            if isinstance(part, Text) and part.text:
                                yield part.text
                    case _:
                        pass

    def _seen(self, call: ToolCall, before: str, text: str) -> SeenCall:
        seen = SeenCall(call.id, call.name, arguments_of(call), "", before)
        if call.id in self._transcript.cleared:
            return seen
        known = self._results.get(call.id, _Result())
        return replace(seen, result=known.bare or text, replaced=known.hash, stored=known.stored)

    def before(self, call_id: str) -> str:
        """What the model said before it made a call (empty: nothing, or not recorded yet)."""
        words = ""
        node = self._transcript.callers.get(call_id)
        for message in node.messages if node is not None else ():
            if any(call.id == call_id for call in message.tool_calls):
                return words
            words = "" if message.tool_calls else message.text or words
        return ""
