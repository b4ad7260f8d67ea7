"""Pydantic AI, with the models of three vendors."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import anthropic
import openai
from google import genai
from pydantic_ai import Agent
from pydantic_ai.models.anthropic import AnthropicModel, AnthropicModelSettings
from pydantic_ai.models.google import GoogleModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.google import GoogleProvider
from pydantic_ai.providers.openai import OpenAIProvider

from tests_apart.frameworks.work import SYSTEM, TASK, Work, Wrap, in_modes, read_log, wait


@asynccontextmanager
async def claude(wrap: Wrap) -> AsyncIterator[Any]:
    async with anthropic.AsyncAnthropic() as client:
        provider = AnthropicProvider(anthropic_client=wrap(client))
        yield AnthropicModel("claude-sonnet-5-5", provider=provider)


@asynccontextmanager
async def chat(wrap: Wrap) -> AsyncIterator[Any]:
    async with openai.AsyncOpenAI() as client:
        yield OpenAIChatModel("gpt-5", provider=OpenAIProvider(openai_client=wrap(client)))


@asynccontextmanager
async def responses(wrap: Wrap) -> AsyncIterator[Any]:
    async with openai.AsyncOpenAI() as client:
        yield OpenAIResponsesModel("gpt-5", provider=OpenAIProvider(openai_client=wrap(client)))


@asynccontextmanager
async def gemini(wrap: Wrap) -> AsyncIterator[Any]:
    client = genai.Client()
    try:
        yield GoogleModel("gemini-2.5-flash", provider=GoogleProvider(client=wrap(client)))
    finally:
        client.close()
        await client.aio.aclose()


_MODELS: dict[str, tuple[str, Callable[[Wrap], AbstractAsyncContextManager[Any]]]] = {
    "AnthropicModel": ("anthropic", claude),
    "OpenAIChatModel": ("openai", chat),
    "OpenAIResponsesModel": ("openai", responses),
    "GoogleModel": ("google-genai", gemini),
}


async def _read(_: object, events: AsyncIterable[Any]) -> None:
    async for _ in events:
        pass


def work(wrap: Wrap, mode: str, **more: Any) -> None:
    """Have an agent read the logs."""
    name, _, way = mode.partition(", ")

    async def run() -> None:
        async with _MODELS[name][1](wrap) as model:
            agent: Any = Agent(model, instructions=SYSTEM, tools=[read_log], **more)
            handler = _read if way == "async stream" else None
            await agent.run(TASK, event_stream_handler=handler)

    wait(run())


def marked(wrap: Wrap, mode: str) -> None:
    settings = AnthropicModelSettings(
        anthropic_cache_messages=True, anthropic_cache_tool_definitions=True
    )
    work(wrap, mode, model_settings=settings)


def _works() -> list[Work]:
    works: list[Work] = []
    for name, (sdk, _) in _MODELS.items():
        modes = [f"{name}, {way}" for way in ("async", "async stream")]
        works += in_modes("pydantic-ai-slim", sdk, work, {mode: mode for mode in modes})
    own = {"AnthropicModel, async": "AnthropicModel, own marks"}
    return [*works, *in_modes("pydantic-ai-slim", "anthropic", marked, own)]


WORKS = _works()
