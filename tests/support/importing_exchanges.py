"""What tests of importing exchanges build their cases of; others use it, too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.importing.making import used
from windlass.importing.recording import Recording
from windlass.importing.streams import recordings

TOOLS = [{"type": "function", "function": {"name": "ls", "parameters": {"type": "object"}}}]


USED = {"prompt_tokens": 90, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 64}}


def read(path: Path, form: str | None = None) -> list[Recording]:
    return list(recordings(path, form))


def chat(role: str, content: Any, **keys: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **keys}


def chat_log(**keys: Any) -> list[dict[str, Any]]:
    said = [chat("system", "Be."), chat("user", "Go.")]
    made = {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
    asked = chat("assistant", None, tool_calls=[made])
    answers = [asked, chat("assistant", "done")]
    log = []
    for number, answer in enumerate(answers):
        request = {"model": "gpt-5", "messages": list(said), "tools": TOOLS}
        response = {
            "id": f"chatcmpl-{number}",
            "object": "chat.completion",
            "created": 1_760_000_000 + number,
            "model": "gpt-5",
            "choices": [{"index": 0, "message": {**answer, "refusal": None}}],
            "usage": USED,
        }
        log.append({"request": request, "response": response, **keys})
        said += [answer, chat("tool", "a.py", tool_call_id="c1")]
    return log


def anthropic_log() -> list[dict[str, Any]]:
    mark: Any = {"cache_control": {"type": "ephemeral"}}
    asked = [{"type": "tool_use", "id": "t1", "name": "ls", "input": {}}]
    system: Any = [
        {"type": "text", "text": "x-anthropic-billing-header: 1"},
        {"type": "text", "text": "Be.", **mark},
    ]
    tools = [{"name": "ls", "description": "Lists.", "input_schema": {"type": "object"}}]
    first = [chat("user", [{"type": "text", "text": "Go.", **mark}])]
    results = [{"type": "tool_result", "tool_use_id": "t1", "content": "a.py", **mark}]
    second = [chat("user", "Go."), chat("assistant", asked), chat("user", results)]
    log: list[dict[str, Any]] = []
    for number, (messages, content) in enumerate(
        [(first, asked), (second, [{"type": "text", "text": "done"}])]
    ):
        told = [{"type": "text", "text": f"x-anthropic-billing-header: {number}"}, *system[1:]]
        request = {"model": "claude-opus-4-5", "system": told, "messages": messages}
        response: Any = {"id": f"msg_{number}", "type": "message", "role": "assistant"}
        response |= {"model": "claude-opus-4-5", "content": content, "usage": used(5, 6, 7, 8)}
        log.append({"request": {**request, "tools": tools}, "response": response})
    return log


def rollout(*records: tuple[str, dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {"timestamp": f"2026-09-21T11:14:{at:02}.000Z", "type": kind, "payload": payload}
        for at, (kind, payload) in enumerate(records)
    ]


def item(role: str, words: str) -> tuple[str, dict[str, Any]]:
    part = "output_text" if role == "assistant" else "input_text"
    content = [{"type": part, "text": words}]
    return "response_item", {"type": "message", "role": role, "content": content}


def spent(tokens: int, read: int = 0) -> dict[str, Any]:
    return {"input_tokens": tokens, "cached_input_tokens": read, "output_tokens": 5}


def counted(tokens: int, total: int) -> tuple[str, dict[str, Any]]:
    info = {"last_token_usage": spent(tokens), "total_token_usage": spent(total)}
    return "event_msg", {"type": "token_count", "info": info}


META = ("session_meta", {"id": "th-1", "base_instructions": {"text": "Be."}})


ASKED = ("response_item", {"type": "function_call", "call_id": "c1", "name": "ls", "arguments": ""})


GOT = ("response_item", {"type": "function_call_output", "call_id": "c1", "output": "a.py"})


TURN = ("turn_context", {"model": "gpt-5.6"})
