"""Sessions of opencode, as `opencode export` writes them: one JSON text with all messages.

An answer of older versions holds several steps; each is a call. Where a session was compacted, what
follows the summary is a recording of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from windlass.public import (
    MALFORMED,
    Answers,
    ConversationTree,
    RecordedCall,
    RecordedFile,
    Recording,
    Records,
    Usage,
    chat_call,
    chat_result,
    dollars_of,
    model_of,
    object_of,
    text_of,
    time_of,
    usage_of_counts,
)

_ASKED: Final = "What did we do so far?"
"""What opencode sends in front of a summary."""


def recognises(records: Records) -> bool:
    """Return whether this is an exported session."""
    listed = records[0].get("messages") or [{}]
    return "info" in records[0] and all(one.keys() >= {"info", "parts"} for one in listed)


def read(file: RecordedFile, answers: Answers) -> Iterator[Recording]:
    """Yield the session, and another recording after each compaction."""
    for session in file.records():
        info = object_of(session.get("info"))
        tree = ConversationTree(file, "opencode", "openai")
        for message in map(object_of, session["messages"]):
            told = object_of(message.get("info"))
            try:
                parts = [object_of(one) for one in message.get("parts") or ()]
                if told.get("role") == "assistant":
                    _take_answer(tree, told, parts)
                elif content := _content(parts):
                    tree.say({"role": "user", "content": content})
            except MALFORMED:
                file.skipped["messages that are malformed"] += 1
                continue
            if told.get("role") == "assistant" and told.get("summary") is True:
                tree.tails.clear()
                if (summary := tree.say({"role": "user", "content": _ASKED})) is not None:
                    summary.is_compacted = True
                tree.say({"role": "assistant", "content": _content(parts)})
        yield from tree.recordings(
            answers,
            text_of(info, "id") or file.path.stem,
            text_of(info, "parentID") or None,
            text_of(info, "directory"),
        )


def _take_answer(
    tree: ConversationTree, info: Mapping[str, Any], parts: list[Mapping[str, Any]]
) -> None:
    """Each step of an answer, and the results of its calls."""
    model = model_of(info.get("modelID"), text_of(info, "providerID") or "opencode")
    ident, when = text_of(info, "id"), time_of(object_of(info.get("time")).get("created"))
    step: list[Mapping[str, Any]] = []
    steps = 0
    for part in [*parts, {}]:
        is_end = part.get("type") == "step-finish"
        if not is_end and part:
            step.append(part)
            continue
        told = part if is_end else info
        usage = _usage_of(told.get("tokens"))
        if is_end or (usage and not steps) or any("tool" in one or "text" in one for one in step):
            cost = dollars_of(told.get("cost"))
            known = is_end or not steps  # what the sum of the answer says, its steps have said
            call = RecordedCall(
                0,
                model,
                usage if known else None,
                cost if known else None,
                when,
                f"{ident}/{steps}" if ident and steps else ident,
            )
            steps += 1
            _take_step(tree, step, call)
        step = []


def _take_step(tree: ConversationTree, step: list[Mapping[str, Any]], call: RecordedCall) -> None:
    tools = [(one, object_of(one.get("state"))) for one in step if one.get("type") == "tool"]
    calls = [
        chat_call(text_of(one, "callID"), text_of(one, "tool"), object_of(state.get("input")))
        for one, state in tools
    ]
    answer = {"role": "assistant", "content": _content(step)}
    tree.say({**answer, "tool_calls": calls} if calls else answer, call)
    for one, state in tools:
        failed = state.get("status") != "completed"
        content = text_of(state, "error" if failed else "output")
        content = content or ("[Tool execution was interrupted]" if failed else "")
        tree.say(chat_result(text_of(one, "callID"), content, failed=failed))


def _content(parts: list[Mapping[str, Any]]) -> Any:
    """Return the texts and pictures of a message; what only people see is left out."""
    content: list[dict[str, Any]] = []
    for part in parts:
        if part.get("type") == "text" and part.get("text") and not part.get("ignored"):
            content.append({"type": "text", "text": part["text"]})
        elif part.get("type") == "compaction":
            content.append({"type": "text", "text": _ASKED})
        elif part.get("type") == "file" and text_of(part, "mime").startswith("image/"):
            content.append({"type": "image_url", "image_url": {"url": text_of(part, "url")}})
    if len(content) == 1 and content[0]["type"] == "text":
        return content[0]["text"]
    return content or ""


def _usage_of(told: Any) -> Usage | None:
    """Return a usage in opencode's words; its kinds of tokens have nothing in common."""
    tokens = object_of(told)
    cache = object_of(tokens.get("cache"))
    thought, out = tokens.get("reasoning"), tokens.get("output")
    if isinstance(thought, int) and isinstance(out, int):
        out += thought
    return usage_of_counts(
        tokens.get("input"), out, cache.get("read"), cache.get("write"), is_all=False
    )
