"""Agents' loops as their authors write them, by client: each reads logs until the model is done.

`marked` sets the cache mark that most authors set where the vendor wants one: on the last block.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeAlias

from google.genai import types

from tests.providers.model_server import log

Loop: TypeAlias = Callable[[Any], list[Any]]

TASK = "Read all logs and say which order is late."
SYSTEM = "You read logs, one at a time. " * 20
ABOUT = {"name": "read_log", "description": "Read a log."}
SCHEMA = {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}
CLAUDE_TOOLS = [{**ABOUT, "input_schema": SCHEMA}]
CHAT_TOOLS = [{"type": "function", "function": {**ABOUT, "parameters": SCHEMA}}]
FLAT_TOOLS = [{"type": "function", **ABOUT, "parameters": SCHEMA, "strict": False}]


def claude_request(messages: list[Any], model: str = "claude-sonnet-5-5") -> dict[str, Any]:
    return {
        "model": model,
        "max_tokens": 1_000,
        "system": SYSTEM,
        "tools": CLAUDE_TOOLS,
        "messages": messages,
    }


def claude_result(block: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": block.id, "content": log(block.input["number"])}


def claude_results(content: list[Any]) -> list[dict[str, Any]]:
    return [claude_result(block) for block in content if block.type == "tool_use"]


def _marked(messages: list[Any]) -> list[Any]:
    *before, last = messages
    content = last["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    blocks = [*blocks[:-1], {**blocks[-1], "cache_control": {"type": "ephemeral"}}]
    return [*before, {**last, "content": blocks}]


def claude(client: Any, *, model: str = "claude-sonnet-5-5", marked: bool = False) -> list[Any]:
    messages: list[Any] = [{"role": "user", "content": TASK}]
    while True:
        sent = _marked(messages) if marked else messages
        answer = client.messages.create(**claude_request(sent, model))
        messages.append({"role": "assistant", "content": answer.content})
        if answer.stop_reason != "tool_use":
            return messages
        messages.append({"role": "user", "content": claude_results(answer.content)})


def chat(client: Any) -> list[Any]:
    messages: list[Any] = [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": TASK},
    ]
    while True:
        answer = client.chat.completions.create(model="gpt-5", messages=messages, tools=CHAT_TOOLS)
        message = answer.choices[0].message
        messages.append(message)
        if not message.tool_calls:
            return messages
        for call in message.tool_calls:
            number = json.loads(call.function.arguments)["number"]
            messages.append({"role": "tool", "tool_call_id": call.id, "content": log(number)})


def responses(client: Any) -> list[Any]:
    items: list[Any] = [{"role": "user", "content": TASK}]
    while True:
        answer = client.responses.create(
            model="gpt-5", instructions=SYSTEM, input=items, tools=FLAT_TOOLS
        )
        items += answer.output
        calls = [item for item in answer.output if item.type == "function_call"]
        if not calls:
            return items
        for call in calls:
            output = log(json.loads(call.arguments)["number"])
            about = {"type": "function_call_output", "call_id": call.call_id}
            items.append({**about, "output": output})


def gemini_config() -> types.GenerateContentConfig:
    declared = types.FunctionDeclaration(
        name=ABOUT["name"],
        description=ABOUT["description"],
        parameters=types.Schema(
            type=types.Type.OBJECT,
            properties={"number": types.Schema(type=types.Type.INTEGER)},
            required=["number"],
        ),
    )
    return types.GenerateContentConfig(
        system_instruction=SYSTEM, tools=[types.Tool(function_declarations=[declared])]
    )


def gemini(client: Any) -> list[Any]:
    contents = [types.Content(role="user", parts=[types.Part(text=TASK)])]
    while True:
        answer = client.models.generate_content(
            model="gemini-2.5-flash", contents=contents, config=gemini_config()
        )
        contents.append(answer.candidates[0].content)
        if not answer.function_calls:
            return contents
        results = [
            types.Part(
                function_response=types.FunctionResponse(
                    id=call.id, name=call.name, response={"output": log(call.args["number"])}
                )
            )
            for call in answer.function_calls
        ]
        contents.append(types.Content(role="user", parts=results))


LOOPS: dict[str, Loop] = {
    "anthropic": claude,
    "openai": chat,
    "responses": responses,
    "gemini": gemini,
}
