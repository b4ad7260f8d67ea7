"""LiteLLM, called in a loop."""

from __future__ import annotations

from typing import Any

import openai
from tests.context.loops import CHAT_TOOLS

import litellm
from tests_apart.frameworks.work import MODES, SYSTEM, TASK, Wrap, in_modes, numbers, wait


def _is_done(messages: list[Any], answer: Any) -> bool:
    """Append an answer, and the results of its calls."""
    message = answer.choices[0].message
    messages.append(message)
    for call in message.tool_calls or ():
        result = numbers(call.function.arguments)
        messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    return not message.tool_calls


def _asked(mode: str) -> dict[str, Any]:
    said = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": TASK}]
    asked: dict[str, Any] = {"model": "openai/gpt-5", "messages": said, "tools": CHAT_TOOLS}
    if mode.endswith("stream"):
        asked |= {"stream": True, "stream_options": {"include_usage": True}}
    return asked


def work(wrap: Wrap, mode: str) -> None:
    """Read the logs."""
    asked = _asked(mode)
    if mode.startswith("async"):
        wait(_work(asked, wrap))
        return
    with openai.OpenAI() as client:
        wrapped = wrap(client)
        done = False
        while not done:
            answer: Any = litellm.completion(client=wrapped, **asked)
            if "stream" in asked:
                answer = litellm.stream_chunk_builder(list(answer))
            done = _is_done(asked["messages"], answer)


async def _work(asked: dict[str, Any], wrap: Wrap) -> None:
    async with openai.AsyncOpenAI() as client:
        wrapped = wrap(client)
        done = False
        while not done:
            answer: Any = await litellm.acompletion(client=wrapped, **asked)
            if "stream" in asked:
                answer = litellm.stream_chunk_builder([piece async for piece in answer])
            done = _is_done(asked["messages"], answer)


WORKS = in_modes("litellm", "openai", work, {mode: mode for mode in MODES})
