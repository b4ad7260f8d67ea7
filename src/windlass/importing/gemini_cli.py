"""Sessions of Gemini CLI: `chats/session-*.json`, and since 2026 `.jsonl`, one record a line.

A record of the newer files is a message, a change of the session (`$set`), or how far the user went
back (`$rewindTo`). A message is written again as it grows. Where the client cut the conversation,
or the user went back, the list as it stood is a recording of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from windlass.importing.base import (
    MALFORMED,
    Answers,
    Transcript,
    model_of,
    object_of,
    text_of,
    time_of,
    usage_of,
)
from windlass.importing.json_files import RecordedFile
from windlass.importing.recording import RecordedCall, Recording

_COUNTS = {
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
    for record in file.records():
        given = object_of(record.get("$set")) or record
        kept: dict[str, Mapping[str, Any]] | None = None
        if isinstance(end := record.get("$rewindTo"), str):
            places = [*messages]
            stays = places[: places.index(end)] if end in messages else []
            kept = {key: messages[key] for key in stays}
        elif isinstance(listed := given.get("messages"), list):
            kept = {
                text_of(one, "id") or str(at): one for at, one in enumerate(map(object_of, listed))
            }
        elif given is record and "type" in record:
            messages[text_of(record, "id") or str(len(messages))] = record
        if kept is not None:
            if any(_is_answer(messages[key]) for key in messages.keys() - kept.keys()):
                lists.append([*messages.values()])
            messages = kept
        if "type" not in given:
            session.update(given)
    own = text_of(session, "sessionId") or file.path.stem
    is_apart = session.get("kind") == "subagent"
    for number, one in enumerate([*lists, list(messages.values())], 1):
        yield from _transcript(file, answers, one).recordings(
            own if number == 1 else f"{own}/{number}",
            kind="side chain" if is_apart else "session" if number == 1 else "branch",
            parent=file.path.parent.name if is_apart else None if number == 1 else own,
        )


def _is_answer(message: Mapping[str, Any]) -> bool:
    """Whether a call made it; texts of the client's own name neither a model nor tokens."""
    return message.get("type") == "gemini" and bool(message.get("tokens") or message.get("model"))


def _transcript(
    file: RecordedFile, answers: Answers, messages: list[Mapping[str, Any]]
) -> Transcript:
    transcript = Transcript(file, answers, "gemini", "gemini-cli")
    results: set[str] = set()
    """The ids of the calls whose results were read."""
    for message in messages:
        try:
            parts = _parts(message.get("content"))
            kind = text_of(message, "type")
            if kind == "user":
                parts = [one for one in parts if _id_of(one, "functionResponse") not in results]
                if parts:
                    transcript.add({"role": "user", "parts": parts})
            elif kind == "gemini":
                _take_answer(transcript, message, parts, results)
            else:
                file.skipped["notes of the client"] += 1
        except MALFORMED:
            file.skipped["messages that are malformed"] += 1
    return transcript


def _take_answer(
    transcript: Transcript,
    message: Mapping[str, Any],
    parts: list[Mapping[str, Any]],
    results: set[str],
) -> None:
    """An answer, and the results of its calls, which stand in it."""
    calls = [object_of(one) for one in message.get("toolCalls") or ()]
    ids = {text_of(one, "id") for one in calls}
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
    transcript.add({"role": "model", "parts": said}, call if _is_answer(message) else None)
    for one in calls:
        response = {"error": f"{text_of(one, 'status') or 'failed'}: no result was recorded"}
        missing = {"functionResponse": {"name": one.get("name"), "response": response}}
        for part in _parts(one.get("result")) or [missing]:
            result = part.get("functionResponse")
            named = {"functionResponse": {**result, "id": one.get("id")}} if result else part
            transcript.add({"role": "user", "parts": [named]})
    results |= ids


def _parts(content: Any) -> list[Mapping[str, Any]]:
    """The parts of a content: a text, a part, or a list of these."""
    listed = content if isinstance(content, list) else [content] if content else []
    return [{"text": one} if isinstance(one, str) else object_of(one) for one in listed]


def _id_of(part: Mapping[str, Any], kind: str) -> str:
    return text_of(object_of(part.get(kind)), "id")
