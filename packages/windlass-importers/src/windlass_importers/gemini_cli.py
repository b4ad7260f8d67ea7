"""Sessions of Gemini CLI: `chats/session-*.json`, and since 2026 `.jsonl`, one record a line.

A record of the newer files is a message, a change of the session (`$set`), or how far the user went
back (`$rewindTo`). A message is written again as it grows. Where the client cut the conversation,
or the user went back, the list as it stood is a recording of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from windlass.public import (
    MALFORMED,
    Answers,
    ConversationTree,
    Node,
    RecordedCall,
    RecordedFile,
    Recording,
    Records,
    UnreadableError,
    model_of,
    object_of,
    read_list,
    read_text,
    text_of,
    time_of,
    usage_of,
)

_LONGEST: Final = 4096
_COUNTS: Final = {
    "promptTokenCount": "input",
    "candidatesTokenCount": "output",
    "thoughtsTokenCount": "thoughts",
    "cachedContentTokenCount": "cached",
    "toolUsePromptTokenCount": "tool",
}


def recognises(records: Records) -> bool:
    """Return whether these are the first records of a session."""
    return any(one.keys() >= {"sessionId", "projectHash"} for one in records)


def beside(file: RecordedFile) -> list[Path]:
    """Return the files of the session's subagents: they are in a folder with its name."""
    session = Path(text_of(file.head[0], "sessionId")).name
    return sorted((file.path.parent / session).glob("*.jsonl")) if session else []


def read(file: RecordedFile, answers: Answers) -> Iterator[Recording]:
    """Yield the session, and the lists that it was before it was cut."""
    session: dict[str, Any] = {}
    tree = ConversationTree(file, "gemini-cli", "gemini")
    records: dict[Node, Mapping[str, Any]] = {}
    listed: dict[str, Node] = {}
    """The messages of the list as it stands, by their ids."""

    def take(message: Mapping[str, Any]) -> None:
        """The next message of the list, which may be one of it that grew."""
        ident = text_of(message, "id") or str(len(listed))
        above = next(reversed(listed.values()), None)
        node = listed.get(ident) or following.get((above, ident))
        if node is None:
            node = following[above, ident] = tree.add((), above)
        listed[ident] = node
        records[node] = message

    following: dict[tuple[Node | None, str], Node] = {}
    for record in file.records():
        given = object_of(record.get("$set")) or record
        if isinstance(end := record.get("$rewindTo"), str):
            while listed and listed.popitem()[0] != end:
                pass
        elif isinstance(several := given.get("messages"), list):
            listed.clear()
            for one in several:
                take(object_of(one))
        elif given is record and "type" in record:
            take(record)
        if "type" not in given:
            session.update(given)
    reader = _Reader(file, tree)
    for node, message in records.items():
        above = records[node.parent] if node.parent else {}
        goes_on = above.get("type") == "gemini" and not above.get("toolCalls")
        reader.read(node, message, is_rest=goes_on and not message.get("tokens"))
    is_apart = session.get("kind") == "subagent"
    yield from tree.recordings(
        answers,
        text_of(session, "sessionId") or file.path.stem,
        file.path.parent.name if is_apart else None,
        _project_of(file.path),
    )


def _project_of(path: Path) -> str:
    """Return the folder that a file above the sessions names; empty where there is none."""
    for folder in path.parents[1:3]:
        with suppress(OSError, UnreadableError):
            return read_text(folder / ".project_root", _LONGEST).strip()
    return ""


class _Reader:
    """Reads messages into their nodes."""

    def __init__(self, file: RecordedFile, tree: ConversationTree) -> None:
        self._file = file
        self._tree = tree
        self._results: set[str] = set()
        """The ids of the calls whose results were read."""
        self._answers: set[str] = set()

    def read(self, node: Node, message: Mapping[str, Any], *, is_rest: bool) -> None:
        """Read what a message holds, and the call of its answer; `is_rest`: it had one before."""
        try:
            parts = _parts(message.get("content"))
            kind = text_of(message, "type")
            if kind == "user":
                results = self._results
                parts = [one for one in parts if _id_of(one, "functionResponse") not in results]
                self._say(node, "user", parts)
            elif kind == "gemini":
                self._answer(node, message, parts, is_rest=is_rest)
            else:
                self._file.skipped["notes of the client"] += 1
        except MALFORMED:
            self._file.skipped["messages that are malformed"] += 1

    def _say(self, node: Node, role: str, parts: list[Any]) -> None:
        content = [{"role": role, "parts": parts}] if parts else []
        for one in read_list("gemini", content, self._file.skipped):
            self._tree.extend(node, one)

    def _answer(
        self, node: Node, message: Mapping[str, Any], parts: list[Any], *, is_rest: bool
    ) -> None:
        """An answer, and the results of its calls, which stand in it."""
        number = len(self._answers)
        calls = [
            {"id": f"call-{number}-{at}", **object_of(one)}
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
        is_new = call.id not in self._answers
        self._answers.add(call.id or f"answer {number}")
        # Texts of the client's own name neither a model nor tokens.
        if is_new and not is_rest and (message.get("tokens") or message.get("model")):
            node.call = call
        self._say(node, "model", [*said, *({"functionCall": one} for one in asked)])
        for one in calls:
            response = {"error": f"{text_of(one, 'status') or 'failed'}: no result was recorded"}
            missing = {"functionResponse": {"name": one.get("name"), "response": response}}
            for part in _parts(one.get("result")) or [missing]:
                result = part.get("functionResponse")
                named = {"functionResponse": {**result, "id": one.get("id")}} if result else part
                self._say(node, "user", [named])


def _parts(content: Any) -> list[Mapping[str, Any]]:
    """Return the parts of a content: a text, a part, or a list of these."""
    listed = content if isinstance(content, list) else [content] if content else []
    return [{"text": one} if isinstance(one, str) else object_of(one) for one in listed]


def _id_of(part: Mapping[str, Any], kind: str) -> str:
    return text_of(object_of(part.get(kind)), "id")
