"""Files of other agents, made small after what the programs write."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

HEADER = {"sessionId": "g-1", "projectHash": "ab12", "startTime": "2026-10-02T09:00:00.000Z"}


def gemini_user(ident: str, words: Any) -> dict[str, Any]:
    return {"id": ident, "timestamp": "2026-10-02T09:00:00Z", "type": "user", "content": words}


def gemini(ident: str, words: str, *calls: str, **tokens: int) -> dict[str, Any]:
    answer: dict[str, Any] = {
        **gemini_user(ident, words),
        "type": "gemini",
        "model": "gemini-2.5-pro",
        "thoughts": [{"subject": "Plan", "description": "list"}],
        "tokens": {"input": 0, "output": 0, "cached": 0, "thoughts": 0, "tool": 0} | tokens,
    }
    if calls:
        answer["toolCalls"] = [
            {
                "id": one,
                "name": "ls",
                "args": {"path": "."},
                "status": "success",
                "result": [
                    {"functionResponse": {"id": one, "name": "ls", "response": {"output": "b1"}}}
                ],
            }
            for one in calls
        ]
    return answer


def cline_user(*content: dict[str, Any], ts: int | None = None) -> dict[str, Any]:
    return {"role": "user", "content": list(content), **({} if ts is None else {"ts": ts})}


def cline_answer(words: str, *content: dict[str, Any], **keys: Any) -> dict[str, Any]:
    blocks = [{"type": "text", "text": words}, *content]
    return {"role": "assistant", "content": blocks, **keys}


TASK = {"type": "text", "text": "<task>\nlist\n</task>"}
CLINE_CALL = {"type": "tool_use", "id": "t1", "name": "read_file", "input": {"path": "a"}}
CLINE_RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "b1"}
SONNET = {"modelId": "claude-sonnet-4-5", "providerId": "anthropic", "mode": "act"}


def request(ts: int, *kinds: str, **told: Any) -> dict[str, Any]:
    (kind,) = kinds or ("api_req_started",)
    return {"ts": ts, "type": "say", "say": kind, "text": json.dumps({"request": "…", **told})}


def opencode(role: str, *parts: dict[str, Any], **info: Any) -> dict[str, Any]:
    return {"info": {"role": role, "time": {"created": 1_795_600_000_000}, **info}, "parts": parts}


def step(cost: float, sent: int, out: int, thought: int = 0, read: int = 0) -> dict[str, Any]:
    cache = {"read": read, "write": 0}
    tokens = {"input": sent, "output": out, "reasoning": thought, "cache": cache}
    return {"type": "step-finish", "reason": "stop", "cost": cost, "tokens": tokens}


def opencode_call(ident: str, **state: Any) -> dict[str, Any]:
    return {"type": "tool", "tool": "read", "callID": ident, "state": {"input": {}, **state}}


def words(text: str, **keys: Any) -> dict[str, Any]:
    return {"type": "text", "text": text, **keys}


CLAUDE = {"providerID": "anthropic", "modelID": "claude-sonnet-4-5"}
START = {"type": "step-start"}


def item(kind: str, ident: str, *events: str, **told: Any) -> dict[str, Any]:
    (event,) = events or ("item.completed",)
    return {"type": event, "item": {"id": ident, "type": kind, **told}}


def turn_end(sent: int, cached: int, out: int) -> dict[str, Any]:
    usage = {"input_tokens": sent, "cached_input_tokens": cached, "output_tokens": out}
    return {"type": "turn.completed", "usage": usage}


def _gemini() -> list[Any]:
    answer = gemini("m2", "I look.", "ls-1", input=9_000, output=40, cached=3_000)
    short = {"$set": {"messages": [gemini_user("s1", [{"text": "A summary."}])]}}
    last = gemini("m3", "Done.", input=100, output=5)
    return [HEADER, gemini_user("m1", "list"), answer, short, last]


def _cline() -> list[Any]:
    metrics = {"tokens": {"prompt": 900, "completion": 40, "cached": 100}, "cost": 0.02}
    answer = cline_answer("I look", CLINE_CALL, ts=2, modelInfo=SONNET, metrics=metrics)
    return [cline_user(TASK, ts=1), answer, cline_user(CLINE_RESULT)]


def _opencode() -> list[Any]:
    done = opencode_call("t1", status="completed", output="b1")
    told = {**CLAUDE, "id": "m1", "cost": 0.5, "tokens": step(0.5, 10, 5)["tokens"]}
    messages = [
        opencode("user", words("list")),
        opencode("assistant", START, words("I look."), done, step(0.5, 10, 5), **told),
        opencode("assistant", words("A summary."), **{**told, "id": "m2", "summary": True}),
        opencode("assistant", words("Done."), **{**told, "id": "m3"}),
    ]
    return [{"info": {"id": "ses_1"}, "messages": messages}]


def _codex_exec() -> list[Any]:
    ran = item("command_execution", "i1", command="ls", exit_code=0, aggregated_output="b1")
    said = item("agent_message", "i2", text="One.")
    begin = [{"type": "thread.started", "thread_id": "t-1"}, {"type": "turn.started"}]
    return [*begin, ran, said, turn_end(1_000, 600, 50), turn_end(2_000, 600, 70)]


AGENTS: dict[str, Callable[[], list[Any]]] = {
    "gemini-cli": _gemini,
    "cline": _cline,
    "opencode": _opencode,
    "codex-exec": _codex_exec,
}
"""The records of a small file of each."""
