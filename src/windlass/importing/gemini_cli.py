"""Sessions of Gemini CLI: `chats/session-*.json`, and since 2026 `.jsonl`, one record a line.

A record of the newer files is a message, a change of the session (`$set`), or how far the user went
back (`$rewindTo`). A message is written again as it grows. Where the client cut the conversation,
or the user went back, the list as it stood is a recording of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, TypeAlias

from windlass.importing.base import (
    MALFORMED,
    Answers,
    RecordedList,
    model_of,
    object_of,
    read_list,
    text_of,
    time_of,
    usage_of,
)
from windlass.importing.json_files import MemoryLimit, RecordedFile
from windlass.importing.recording import RecordedCall, Recording
from windlass.messages import Message
from windlass.safety.files import UnreadableError, read_text

_Entry: TypeAlias = tuple[list[Message], RecordedCall | None]

_LONGEST: Final = 4096
_COUNTS: Final = {
    "promptTokenCount": "input",
    "candidatesTokenCount": "output",
    "thoughtsTokenCount": "thoughts",
    "cachedContentTokenCount": "cached",
    "toolUsePromptTokenCount": "tool",
}


def beside(file: RecordedFile) -> list[Path]:
    """The files of the session's subagents: they are in a folder with its name."""
    session = Path(text_of(file.head[0], "sessionId")).name
    return sorted((file.path.parent / session).glob("*.jsonl")) if session else []


def read(file: RecordedFile, answers: Answers) -> Iterator[Recording]:
    """The session, and the lists that it was before it was cut."""
    session: dict[str, Any] = {}
    messages: dict[str, Mapping[str, Any]] = {}
    lists: list[list[Mapping[str, Any]]] = []
    limit = MemoryLimit(file.path)
    for record in file.records():
        given = object_of(record.get("$set")) or record
        gone: dict[str, Mapping[str, Any]] = {}
        before = messages
        if isinstance(end := record.get("$rewindTo"), str):
            while messages and end not in gone:
                gone.update([messages.popitem()])
            before = {**messages, **dict(reversed(gone.items()))} if gone else messages
        elif isinstance(listed := given.get("messages"), list):
            items = map(object_of, listed)
            messages = {text_of(one, "id") or str(at): one for at, one in enumerate(items)}
            gone = {key: before[key] for key in before.keys() - messages.keys()}
        elif given is record and "type" in record:
            messages[text_of(record, "id") or str(len(messages))] = record
        if any(map(_is_answer, gone.values())):
            limit.take_again(len(before))
            lists.append([*before.values()])
        if "type" not in given:
            session.update(given)
    own = text_of(session, "sessionId") or file.path.stem
    is_apart = session.get("kind") == "subagent"
    reader = _Reader(file, limit)
    for number, one in enumerate([*lists, list(messages.values())], 1):
        transcript = RecordedList(file, answers, "gemini", "gemini-cli")
        for last, message in pairwise([{}, *one]):
            goes_on = last.get("type") == "gemini" and not last.get("toolCalls")
            is_rest = goes_on and not message.get("tokens")  # of the same answer
            for entry, call in reader.read(message):
                transcript.extend(entry, None if is_rest else call)
        parent = file.path.parent.name if is_apart else None
        project = _project_of(file.path)
        yield from transcript.recordings(own, number, parent=parent, project=project)


def _project_of(path: Path) -> str:
    """The folder that a file above the sessions names; empty where there is none."""
    for folder in path.parents[1:3]:
        with suppress(OSError, UnreadableError):
            return read_text(folder / ".project_root", _LONGEST).strip()
    return ""


def _is_answer(message: Mapping[str, Any]) -> bool:
    """Whether a call made it; texts of the client's own name neither a model nor tokens."""
    return message.get("type") == "gemini" and bool(message.get("tokens") or message.get("model"))


class _Reader:
    """Reads messages, each once: lists that branch have them in common."""

    def __init__(self, file: RecordedFile, limit: MemoryLimit) -> None:
        self._file = file
        self._limit = limit
        self._read: dict[int, list[_Entry]] = {}
        self._results: set[str] = set()
        """The ids of the calls whose results were read."""
        self._answers: set[str] = set()

    def read(self, message: Mapping[str, Any]) -> list[_Entry]:
        """What a message holds, and the call of its answer, the first time alone."""
        key = id(message)
        if key in self._read:
            return [(messages, None) for messages, _ in self._read[key]]
        entries: list[_Entry] = []
        try:
            parts = _parts(message.get("content"))
            kind = text_of(message, "type")
            if kind == "user":
                results = self._results
                parts = [one for one in parts if _id_of(one, "functionResponse") not in results]
                entries = [(self._list("user", parts), None)] if parts else []
            elif kind == "gemini":
                entries = self._answer(message, parts)
            else:
                self._file.skipped["notes of the client"] += 1
        except MALFORMED:
            self._file.skipped["messages that are malformed"] += 1
        self._read[key] = entries
        return entries

    def _list(self, role: str, parts: list[Any]) -> list[Message]:
        content = {"role": role, "parts": parts}
        return read_list("gemini", [content], self._file.skipped, self._limit)

    def _answer(self, message: Mapping[str, Any], parts: list[Mapping[str, Any]]) -> list[_Entry]:
        """An answer, and the results of its calls, which stand in it."""
        calls = [
            {"id": f"call-{len(self._read)}-{at}", **object_of(one)}
            for at, one in enumerate(message.get("toolCalls") or ())
        ]
        ids = {text_of(one, "id") for one in calls}
        self._results |= ids
        said = [one for one in parts if _id_of(one, "functionCall") not in ids]
        asked = [{key: one[key] for key in ("id", "name", "args") if key in one} for one in calls]
        tokens = object_of(message.get("tokens"))
        call = RecordedCall(
            0,
            model_of(message.get("model"), "gemini"),
            usage_of({key: tokens.get(name) for key, name in _COUNTS.items()}),
            time=time_of(message.get("timestamp")),
            id=text_of(message, "id"),
        )
        said = [*said, *({"functionCall": one} for one in asked)]
        is_new = _is_answer(message) and (not call.id or call.id not in self._answers)
        self._answers.add(call.id)
        entries: list[_Entry] = [(self._list("model", said), call if is_new else None)]
        for one in calls:
            response = {"error": f"{text_of(one, 'status') or 'failed'}: no result was recorded"}
            missing = {"functionResponse": {"name": one.get("name"), "response": response}}
            for part in _parts(one.get("result")) or [missing]:
                result = part.get("functionResponse")
                named = {"functionResponse": {**result, "id": one.get("id")}} if result else part
                entries.append((self._list("user", [named]), None))
        return entries


def _parts(content: Any) -> list[Mapping[str, Any]]:
    """The parts of a content: a text, a part, or a list of these."""
    listed = content if isinstance(content, list) else [content] if content else []
    return [{"text": one} if isinstance(one, str) else object_of(one) for one in listed]


def _id_of(part: Mapping[str, Any], kind: str) -> str:
    return text_of(object_of(part.get(kind)), "id")
