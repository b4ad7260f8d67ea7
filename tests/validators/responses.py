"""What OpenAI's `/responses` refuses of its `input` (its published types and error texts)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

_NAME = re.compile(r"^[a-zA-Z0-9_-]{1,128}$")
_ID_LENGTH = 64
_OUTPUTS = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "computer_call": "computer_call_output",
    "shell_call": "shell_call_output",
    "local_shell_call": "local_shell_call_output",
    "apply_patch_call": "apply_patch_call_output",
}
"""Calls that the caller answers; there are others with a `call_id`, and there will be more."""
_CONTENT = {
    "assistant": {"output_text", "refusal"},
    "user": {"input_text", "input_image", "input_file"},
}
_TEXTS = {"input_text", "output_text"}


def problems(items: Sequence[Mapping[str, Any]]) -> list[str]:
    """What is wrong with the items, as sentences."""
    if not items:
        return ["input must hold at least one item"]
    return [
        *_pairs(items),
        *(wrong for at, item in enumerate(items) for wrong in _item(item, f"input[{at}]")),
    ]


def _pairs(items: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    waiting: dict[str, str] = {}
    met: set[str] = set()
    others: set[str] = set()
    for at, item in enumerate(items):
        kind, id_ = str(item.get("type")), item.get("call_id") or item.get("id")
        if kind == "mcp_approval_request":
            others.add(str(id_))
        elif kind == "mcp_approval_response":
            if item.get("approval_request_id") not in others:
                yield f"input[{at}]: no approval request {item.get('approval_request_id')}"
        elif item.get("call_id") and kind not in (*_OUTPUTS, *_OUTPUTS.values()):
            if not kind.endswith("_output"):
                others.add(str(id_))
            elif id_ not in others:
                yield f"input[{at}]: no tool call found for {kind} with call_id {id_}"
        if kind in _OUTPUTS:
            if id_ in met:
                yield f"input[{at}]: duplicate call_id {id_}"
            met.add(str(id_))
            waiting[str(id_)] = _OUTPUTS[kind]
        elif kind in _OUTPUTS.values():
            if waiting.get(str(id_)) != kind:
                yield f"input[{at}]: no tool call found for {kind} with call_id {id_}"
            waiting.pop(str(id_), None)
    for id_ in waiting:
        yield f"no tool output found for call {id_}"


def broken_pairs(
    items: Sequence[Mapping[str, Any]], given: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    """Items that are not with the reasoning that they came with in `given`, and the reverse.

    What came right behind a reasoning item belongs to it: both are sent, in their order, or none.
    Items are known by their ids.
    """
    ids = [item.get("id") for item in items]
    for reasoning, led_to in pairwise(given):
        if reasoning.get("type") != "reasoning":
            continue
        first, second, kind = reasoning["id"], led_to.get("id"), led_to.get("type", "message")
        without = "was provided without its required"
        if first in ids and ids[ids.index(first) + 1 :][:1] != [second]:
            yield f"Item '{first}' of type 'reasoning' {without} following item."
        if second in ids and ids[: ids.index(second)][-1:] != [first]:
            yield f"Item '{second}' of type '{kind}' {without} 'reasoning' item: '{first}'."


def _item(item: Mapping[str, Any], where: str) -> Iterator[str]:
    kind = item.get("type", "message")
    if kind == "message":
        yield from _message(item, where)
    elif kind in ("function_call", "custom_tool_call"):
        key = "arguments" if kind == "function_call" else "input"
        if not isinstance(item.get(key), str):
            yield f"{where}: {key} is text"
        if not _NAME.match(str(item.get("name") or "")):
            yield f"{where}: the name of a call must match {_NAME.pattern}"
        if not 0 < len(str(item.get("call_id") or "")) <= _ID_LENGTH:
            yield f"{where}: a call_id has 1 to {_ID_LENGTH} characters"
    elif kind in ("function_call_output", "custom_tool_call_output"):
        output = item.get("output")
        if isinstance(output, list):
            yield from _parts(output, _CONTENT["user"], where)
        elif not isinstance(output, str):
            yield f"{where}: an output is text or a list of parts"
    elif kind in _OUTPUTS.values():
        yield from _output(item, kind, where)
    elif kind == "reasoning" and not isinstance(item.get("summary"), list):
        yield f"{where}: a reasoning item has a summary"


def _output(item: Mapping[str, Any], kind: str, where: str) -> Iterator[str]:
    output = item.get("output")
    match kind:
        case "shell_call_output":
            for chunk in output if isinstance(output, list) else [None]:
                match chunk:
                    case {"stdout": str(), "stderr": str(), "outcome": {"type": "timeout"}}:
                        pass
                    case {
                        "stdout": str(),
                        "stderr": str(),
                        "outcome": {"type": "exit", "exit_code": int()},
                    }:
                        pass
                    case _:
                        yield f"{where}: {chunk} is no output of a shell"
        case "local_shell_call_output":
            if not isinstance(output, str):
                yield f"{where}: the output of a local shell is text"
        case "apply_patch_call_output":
            if item.get("status") not in ("completed", "failed"):
                yield f"{where}: the status of a patch is completed or failed"
            if not isinstance(output, str | None):
                yield f"{where}: the output of a patch is text"
        case _:
            screen = output if isinstance(output, Mapping) else {}
            if screen.get("type") != "computer_screenshot" or not (
                screen.get("image_url") or screen.get("file_id")
            ):
                yield f"{where}: the output of a computer is a screenshot"


def _message(item: Mapping[str, Any], where: str) -> Iterator[str]:
    role, content = str(item.get("role")), item.get("content")
    if role not in ("system", "developer", "user", "assistant"):
        yield f"{where}: {role!r} is no role"
    if isinstance(content, list):
        if not content:
            yield f"{where}: an empty content"
        yield from _parts(content, _CONTENT.get(role, _CONTENT["user"]), where)
    elif not isinstance(content, str):
        yield f"{where}: a content is text or a list of parts"


def _parts(parts: Sequence[Any], allowed: set[str], where: str) -> Iterator[str]:
    for part in parts:
        kind = part.get("type")
        if kind not in allowed:
            yield f"{where}: {kind} stands where only {', '.join(sorted(allowed))} may"
        if kind in _TEXTS and not isinstance(part.get("text"), str):
            yield f"{where}: a text part has a text"
        if kind == "input_image" and not (part.get("image_url") or part.get("file_id")):
            yield f"{where}: an image has an address or an id"
        if kind == "input_file" and not any(
            part.get(key) for key in ("file_id", "file_url", "file_data")
        ):
            yield f"{where}: a file has an id, an address or data"
