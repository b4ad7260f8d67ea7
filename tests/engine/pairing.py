"""The pairing rules of Anthropic and Gemini, told anew and by other means than the package.

Written from the providers' own documents. Both read OpenAI chat dicts and the names
of the tools that the request defines; they answer what is wrong, as sentences.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

Chat = Sequence[dict[str, Any]]


def anthropic_refuses(chat: Chat, tools: Collection[str]) -> list[str]:
    """Each tool_use is answered in the next user message, and each result answers one there."""
    wrong: list[str] = []
    merged: list[tuple[str, list[tuple[str, str]]]] = []
    for message in chat:
        if message["role"] in ("system", "developer"):
            continue  # top level
        role = "assistant" if message["role"] == "assistant" else "user"
        blocks: list[tuple[str, str]] = []
        if message["role"] == "tool":
            blocks.append(("result", message["tool_call_id"]))
        else:
            blocks += [("text", "")] if message["content"] else []
            for call in message.get("tool_calls", ()):
                blocks.append(("use", call["id"]))
                if call["function"]["name"] not in tools:
                    wrong.append(f"tool {call['function']['name']} is not defined")
        if merged and merged[-1][0] == role:
            merged[-1][1].extend(blocks)
        else:
            merged.append((role, blocks))
    ids = [id_ for _, blocks in merged for kind, id_ in blocks if kind == "use"]
    if len(ids) != len(set(ids)):
        wrong.append("tool_use ids must be unique")
    if merged and merged[0][0] != "user":
        wrong.append("the first message must be the user's")
    for at, (role, blocks) in enumerate(merged):
        if not blocks:
            wrong.append(f"message {at} is empty")
        uses = {id_ for kind, id_ in blocks if kind == "use"}
        after = merged[at + 1][1] if at + 1 < len(merged) else []
        if uses - {id_ for kind, id_ in after if kind == "result"}:
            wrong.append(f"message {at}: a tool_use without a result in the next message")
        results = {id_ for kind, id_ in blocks if kind == "result"}
        asked = {id_ for kind, id_ in merged[at - 1][1] if kind == "use"} if at else set()
        if results - asked:
            wrong.append(f"message {at}: a result without a tool_use in the message before")
        kinds = [kind for kind, _ in blocks if kind != "use"]
        if role == "user" and kinds != sorted(kinds, key=lambda kind: kind == "text"):
            wrong.append(f"message {at}: results must stand before text")
    return wrong


def gemini_refuses(chat: Chat, tools: Collection[str]) -> list[str]:
    """Calls come right after the user or responses, and as many responses right after them."""
    wrong: list[str] = []
    turns: list[tuple[str, int]] = []
    for message in chat:
        match message["role"]:
            case "system" | "developer":
                continue
            case "assistant":
                count = len(message.get("tool_calls", ()))
                turns.append(("call", count) if count else ("model", 1))
                wrong += [
                    f"function {call['function']['name']} is not declared"
                    for call in message.get("tool_calls", ())
                    if call["function"]["name"] not in tools
                ]
            case "tool" if turns and turns[-1][0] == "response":
                turns[-1] = ("response", turns[-1][1] + 1)
            case "tool":
                turns.append(("response", 1))
            case _:
                turns.append(("user", 1))
    if turns and turns[0][0] != "user":
        wrong.append("contents must start with the user")
    for at, (kind, count) in enumerate(turns):
        before = turns[at - 1][0] if at else ""
        after = turns[at + 1] if at + 1 < len(turns) else ("", 0)
        if kind == "call" and before not in ("user", "response"):
            wrong.append(f"turn {at}: a function call after {before or 'nothing'}")
        if kind == "call" and after != ("response", count):
            wrong.append(f"turn {at}: {count} function calls, then {after}")
        if kind == "response" and before != "call":
            wrong.append(f"turn {at}: a function response after {before or 'nothing'}")
    return wrong
