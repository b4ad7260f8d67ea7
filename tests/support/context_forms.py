"""What tests of context forms build their cases of; others use it, too."""

from __future__ import annotations

from typing import Any

LONG = "\n".join(f"line {n} of a long result, value {n * 37}" for n in range(400))


def said(number: int) -> str:
    """A result that is like no other."""
    return LONG.replace("value", f"value of {number}")


def anthropic(turns: int = 8) -> list[dict[str, Any]]:
    """A loop of calls in Anthropic's form."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Find the fault."}]
    for turn in range(turns):
        call = {"type": "tool_use", "id": f"t{turn}", "name": "look", "input": {"at": turn}}
        thought = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
        result = {"type": "tool_result", "tool_use_id": f"t{turn}", "content": said(turn)}
        messages.append({"role": "assistant", "content": [thought, call]})
        messages.append({"role": "user", "content": [result, {"type": "text", "text": "Go on."}]})
    return messages


def responses(turns: int = 8) -> list[dict[str, Any]]:
    """A loop of pairs of calls in the Responses form."""
    items: list[dict[str, Any]] = [{"role": "user", "content": "Find the fault."}]
    for turn in range(turns):
        items.append({"type": "reasoning", "id": f"rs_{turn}", "summary": []})
        for call in (f"a{turn}", f"b{turn}"):
            one = {"type": "function_call", "id": f"fc_{call}", "call_id": call, "name": "look"}
            items.append({**one, "arguments": "{}"})
        for call in (f"a{turn}", f"b{turn}"):
            output = said(turn) if call.startswith("a") else "ok"
            items.append({"type": "function_call_output", "call_id": call, "output": output})
    return items


def gemini(turns: int = 8) -> list[dict[str, Any]]:
    """A loop of calls without ids in Gemini's form."""
    contents: list[dict[str, Any]] = [{"role": "user", "parts": [{"text": "Find the fault."}]}]
    for turn in range(turns):
        call = {"functionCall": {"name": "look", "args": {"at": turn}}, "thoughtSignature": "c2ln"}
        result = {"name": "look", "response": {"output": said(turn)}}
        contents.append({"role": "model", "parts": [{"text": "I look."}, call]})
        contents.append({"role": "user", "parts": [{"functionResponse": result}]})
    return contents


LISTS = {"anthropic": anthropic, "responses": responses, "gemini": gemini}
