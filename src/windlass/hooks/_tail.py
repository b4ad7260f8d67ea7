"""What a session's model has in view, read from the end of a growing transcript.

Claude Code appends a JSON record a line: words, answers block by block, results. Each names the
record that it follows; the last one and those above it are what the model sees. Where the user goes
back, or the conversation is compacted, what was said since is not above it any more. A record may
also name results that the model no longer sees though they stand above.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

from windlass.hooks.shapes import CLAUDE_CODE
from windlass.hooks.taken import text_hash

Record: TypeAlias = Mapping[str, Any]

_MOST_BYTES: Final = 16_000_000
"""Bytes of a transcript that are read at once; of a longer one the end."""
_MOST_KEPT: Final = 4_000
"""Records that are read again where the conversation is built anew."""


@dataclass(frozen=True, slots=True)
class Said:
    """Words of the user, or a tool call with its result, as the model saw it."""

    words: str = ""
    call_id: str = ""
    tool: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    before: str = ""
    """What the model said before it called the tool."""
    result: str = ""
    replaced: str = ""
    """What the journal knows the result by, where a hook replaced it."""
    stored: str = ""
    """The file in which the agent stored the whole result, where it shows the beginning alone."""


@dataclass(slots=True)
class Tail:
    """A transcript, read as it grows."""

    path: Path
    model: str | None = None
    """`provider/model` of the last answer."""
    _file: tuple[int, int] = (0, 0)
    """What the system knows the file by."""
    _offset: int = 0
    _rest: bytes = b""
    _above: dict[str, str | None] = field(default_factory=dict[str, "str | None"])
    _records: dict[str, Record] = field(default_factory=dict[str, Record])
    """Those with words, calls or results; the last of them."""
    _last: str | None = None
    _facts: dict[str, _Facts] = field(default_factory=dict[str, "_Facts"])
    """By their calls: results as the agent keeps them."""
    _answer: set[str] = field(default_factory=set[str])
    """The records of the last answer, its results, and what came with them."""
    _cleared: set[str] = field(default_factory=set[str])
    """Calls whose results the model no longer sees."""
    _went_back: bool = False
    """Whether a record did not follow the one before it."""

    def read(self) -> bool:
        """Take in what was appended. Whether all of it only appends to what was in view.

        A file that cannot be read appends nothing.
        """
        self._went_back = False
        with suppress(OSError), self.path.open("rb") as file:
            found = os.fstat(file.fileno())
            size, name = found.st_size, (found.st_dev, found.st_ino)
            if size < self._offset or (self._offset and name != self._file):  # another file by now
                self.__init__(self.path, self.model)  # type: ignore[misc]
                self._went_back = True
            self._file = name
            begin = max(self._offset, size - _MOST_BYTES)
            file.seek(begin)
            data = file.read(size - begin)
            if begin == self._offset:
                data = self._rest + data
            self._offset = file.tell()
            *lines, self._rest = data.split(b"\n")
            for line in lines:
                with suppress(ValueError, RecursionError):
                    record = json.loads(line)
                    if isinstance(record, Mapping):
                        self._take(record)
        return not self._went_back

    def _take(self, record: Record) -> None:
        ident, above = record.get("uuid"), record.get("parentUuid")
        if not isinstance(ident, str):
            return
        if record.get("type") not in ("user", "assistant", "system"):
            if isinstance(above, str):  # an attachment and the like
                self._above[ident] = above
                self._last = ident if above == self._last else self._last
                self._answer |= {ident} if above in self._answer else set()
            return
        self._clear(record)
        is_part = self._is_part(record)
        follows = above == self._last or (is_part and above in self._answer)
        self._went_back = self._went_back or (self._last is not None and not follows)
        self._answer = self._answer | {ident} if is_part and follows else {ident}
        self._above[ident] = above if isinstance(above, str) else None
        self._last = ident
        message = record.get("message")
        if not isinstance(message, Mapping):
            return
        name = message.get("model")
        if record["type"] == "assistant" and isinstance(name, str) and not name.startswith("<"):
            self.model = name if "/" in name else f"anthropic/{name}"
        self._records[ident] = message
        for block in _blocks(message):
            if block.get("type") == "tool_result":
                facts = _facts_of(record.get("toolUseResult"))
                if facts is not None:
                    self._facts[str(block.get("tool_use_id"))] = facts
        for kept in (self._records, self._facts):
            while len(kept) > _MOST_KEPT:
                del kept[next(iter(kept))]

    def _is_part(self, record: Record) -> bool:
        """Whether a record belongs to the last answer: more of it, or a result of its calls.

        Those of several calls follow each other in any order.
        """
        message = record.get("message")
        if not isinstance(message, Mapping):
            return False
        if record["type"] == "assistant":
            ids = {self._records[one].get("id") for one in self._answer if one in self._records}
            return message.get("id") is not None and message.get("id") in ids
        return any(block.get("type") == "tool_result" for block in _blocks(message))

    def _clear(self, record: Record) -> None:
        """Take in which results the agent cleared by itself."""
        told = record.get("microcompactMetadata")
        calls = told.get("compactedToolIds") if isinstance(told, Mapping) else None
        if isinstance(calls, list):
            self._cleared |= {call for call in calls if isinstance(call, str)}
            self._went_back = True

    def in_view(self) -> Iterator[Said]:
        """What the model sees, in order, as far as it is still at hand."""
        on_chain: dict[str, None] = {}
        at = self._last
        while at is not None and at not in on_chain:
            on_chain[at] = None
            at = self._above.get(at)
        answers = {self._records[one].get("id") for one in on_chain if one in self._records}
        answers -= {None}
        calls: dict[str, tuple[str, Mapping[str, Any], str]] = {}
        words = ""
        for ident in self._records:
            message = self._records[ident]
            if (
                ident not in on_chain
                and message.get("id") not in answers
                and not any(str(block.get("tool_use_id")) in calls for block in _blocks(message))
            ):
                continue
            for block in _blocks(message):
                match block.get("type"):
                    case "text" if message.get("role") == "user":
                        words = ""
                        if said := str(block.get("text", "")):
                            yield Said(words=said)
                    case "text":
                        words = str(block.get("text", ""))
                    case "tool_use":
                        given = block.get("input")
                        arguments = given if isinstance(given, Mapping) else {}
                        calls[str(block.get("id"))] = str(block.get("name")), arguments, words
                        words = ""
                    case "tool_result":
                        call_id = str(block.get("tool_use_id"))
                        if call_id in calls:
                            tool, arguments, before = calls.pop(call_id)
                            is_gone = call_id in self._cleared
                            facts = self._facts.get(call_id, _Facts())
                            shown = facts.bare or _text_of(block.get("content"))
                            if is_gone:
                                yield Said("", call_id, tool, arguments, before)
                                continue
                            yield Said(
                                "",
                                call_id,
                                tool,
                                arguments,
                                before,
                                shown,
                                facts.hash,
                                facts.stored,
                            )
                    case _:
                        pass

    def before(self, call_id: str) -> str:
        """What the model said before it made a call (empty: nothing, or not recorded yet)."""
        answer: Record = next(
            filter(partial(_has_call, call_id), reversed(self._records.values())), {}
        )
        words, ident = "", answer.get("id")
        for message in self._records.values():
            if message is not answer and (ident is None or message.get("id") != ident):
                continue
            for block in _blocks(message):
                if block.get("type") == "text":
                    words = str(block.get("text", ""))
                if block.get("type") == "tool_use":
                    if block.get("id") == call_id:
                        return words
                    words = ""
        return ""


def _has_call(call_id: str, message: Record) -> bool:
    calls = (block for block in _blocks(message) if block.get("type") == "tool_use")
    return any(block.get("id") == call_id for block in calls)


@dataclass(frozen=True, slots=True)
class _Facts:
    """What is known of a result as the agent keeps it."""

    bare: str = ""
    """The result as the tool gave it, where the agent puts numbers before its lines."""
    hash: str = ""
    stored: str = ""


def _facts_of(result: object) -> _Facts | None:
    """What is known of a result (None: it has no shape that is known)."""
    for shape in CLAUDE_CODE:
        text = shape.text_of(result)
        if text is not None:
            bare = text if shape.numbered else ""
            return _Facts(bare, text_hash(text), shape.stored(result))
    return None


def _blocks(message: Record) -> Sequence[Record]:
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if not isinstance(content, list):
        return []
    return [block for block in content if isinstance(block, Mapping)]


def _text_of(content: object) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = [part.get("text") for part in parts if isinstance(part, Mapping)]
    return "\n".join(text for text in texts if isinstance(text, str))
