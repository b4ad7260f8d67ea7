"""What a session's model has in view, read from the end of a growing transcript.

Claude Code appends a JSON record a line: words, answers block by block, results. Each names the
record that it follows; the last one and those above it are what the model sees. Where the user goes
back, or the conversation is compacted, what was said since is not above it any more.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

Record: TypeAlias = Mapping[str, Any]

_MOST_BYTES: Final = 16_000_000
"""Bytes of a transcript that are read at once; of a longer one the end."""
_MOST_BESIDE: Final = 64
"""Records of one answer and its results that may follow each other in another order."""
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


@dataclass(slots=True)
class Tail:
    """A transcript, read as it grows."""

    path: Path
    model: str | None = None
    """`provider/model` of the last answer."""
    _offset: int = 0
    _rest: bytes = b""
    _above: dict[str, str | None] = field(default_factory=dict[str, "str | None"])
    _records: dict[str, Record] = field(default_factory=dict[str, Record])
    """Those with words, calls or results; the last of them."""
    _last: str | None = None
    _results: dict[str, str] = field(default_factory=dict[str, str])
    """The record of each result."""
    _went_back: bool = False
    """Whether a record did not follow the one before it."""

    def read(self) -> bool:
        """Take in what was appended. Whether all of it only appends to what was in view.

        A file that cannot be read appends nothing.
        """
        self._went_back = False
        with suppress(OSError), self.path.open("rb") as file:
            size = file.seek(0, 2)
            if size < self._offset:  # another file by now
                self.__init__(self.path)  # type: ignore[misc]
                self._went_back = True
            begin = max(self._offset, size - _MOST_BYTES)
            file.seek(begin)
            data = (self._rest if begin == self._offset else b"") + file.read(size - begin)
            self._offset = size
            *lines, self._rest = data.split(b"\n")
            for line in lines:
                with suppress(ValueError, RecursionError):
                    record = json.loads(line)
                    if isinstance(record, Mapping):
                        self._take(record)
        return not self._went_back

    def _take(self, record: Record) -> None:
        ident, above = record.get("uuid"), record.get("parentUuid")
        if not isinstance(ident, str) or record.get("type") not in ("user", "assistant", "system"):
            if isinstance(ident, str) and isinstance(above, str):  # an attachment and the like
                self._above[ident] = above
                self._last = ident if above == self._last else self._last
            return
        if self._last is not None and above != self._last and not self._is_beside(above):
            self._went_back = True
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
                self._results[str(block.get("tool_use_id"))] = ident
        while len(self._records) > _MOST_KEPT:
            del self._records[next(iter(self._records))]

    def _is_beside(self, above: object) -> bool:
        """Whether a record stands beside the last one: several calls and results of one answer."""
        if not isinstance(above, str) or self._last is None:
            return False
        at: str | None = self._last
        for _ in range(_MOST_BESIDE):
            if at is None:
                return False
            message = self._records.get(at, {"role": "attachment"})
            is_result = any(block.get("type") == "tool_result" for block in _blocks(message))
            if not is_result and message.get("role") not in ("assistant", "attachment"):
                return False
            if at == above:
                return True
            at = self._above.get(at)
        return False

    def knows(self, call_id: str) -> bool:
        """Whether the result of a call is recorded."""
        return call_id in self._results

    def in_view(self) -> Iterator[Said]:
        """What the model sees, in order, as far as it is still at hand."""
        chain: list[str] = []
        at = self._last
        while at is not None and len(chain) <= 2 * _MOST_KEPT:
            chain.append(at)
            at = self._above.get(at)
        on_chain = set(chain)
        answers = {self._records[one].get("id") for one in chain if one in self._records} - {None}
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
                        yield Said(words=str(block.get("text", "")))
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
                            text = _text_of(block.get("content"))
                            yield Said("", call_id, tool, arguments, before, text)
                    case _:
                        pass

    def before(self, call_id: str) -> str:
        """What the model said before it made a call (empty: nothing, or not recorded yet)."""
        for message in reversed(self._records.values()):
            words = ""
            for block in _blocks(message):
                if block.get("type") == "text":
                    words = str(block.get("text", ""))
                if block.get("type") == "tool_use" and block.get("id") == call_id:
                    return words
        return ""


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
