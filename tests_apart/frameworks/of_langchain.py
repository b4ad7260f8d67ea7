"""LangChain's agents, which LangGraph runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langchain.agents import create_agent
from langchain_anthropic import ChatAnthropic
from langchain_anthropic.middleware import AnthropicPromptCachingMiddleware
from langchain_google_genai import ChatGoogleGenerativeAI
from langchain_openai import ChatOpenAI

from tests_apart.frameworks.work import (
    MODES,
    SYSTEM,
    TASK,
    Work,
    Wrap,
    in_modes,
    read_log,
    wait,
)


def claude(wrap: Wrap) -> Any:
    model = ChatAnthropic(model="claude-sonnet-5-5", max_tokens=1_000)
    model._client = wrap(model._client)
    model._async_client = wrap(model._async_client)
    return model


def chat(wrap: Wrap) -> Any:
    return _openai(ChatOpenAI(model="gpt-5", stream_usage=True), wrap)


def responses(wrap: Wrap) -> Any:
    return _openai(ChatOpenAI(model="gpt-5", use_responses_api=True), wrap)


def _openai(model: Any, wrap: Wrap) -> Any:
    model.root_client = wrap(model.root_client)
    model.client = model.root_client.chat.completions
    model.root_async_client = wrap(model.root_async_client)
    model.async_client = model.root_async_client.chat.completions
    return model


def gemini(wrap: Wrap) -> Any:
    model = ChatGoogleGenerativeAI(model="gemini-2.5-flash")
    model.client = wrap(model.client)
    return model


def work(model: Any, mode: str, **more: Any) -> None:
    """Have an agent with this model read the logs."""
    agent = create_agent(model, tools=[read_log], system_prompt=SYSTEM, **more)
    asked: Any = {"messages": [{"role": "user", "content": TASK}]}

    async def stream() -> None:
        async for _ in agent.astream(asked, stream_mode="messages"):
            pass

    if mode == "sync":
        agent.invoke(asked)
    elif mode == "stream":
        assert list(agent.stream(asked, stream_mode="messages"))
    else:
        wait(agent.ainvoke(asked) if mode == "async" else stream())


def marked(wrap: Wrap, mode: str) -> None:
    work(claude(wrap), mode, middleware=[AnthropicPromptCachingMiddleware()])


def _works(sdk: str, name: str, model: Callable[[Wrap], Any], package: str) -> list[Work]:
    modes = {mode: f"{name}, {mode}" for mode in MODES}
    return in_modes(package, sdk, lambda wrap, mode: work(model(wrap), mode), modes)


WORKS = [
    *_works("anthropic", "ChatAnthropic", claude, "langchain-anthropic"),
    *in_modes("langchain-anthropic", "anthropic", marked, {"sync": "ChatAnthropic, own marks"}),
    *_works("openai", "ChatOpenAI", chat, "langchain-openai"),
    *_works("openai", "ChatOpenAI, Responses", responses, "langchain-openai"),
    *_works("google-genai", "ChatGoogle", gemini, "langchain-google-genai"),
]
