"""LlamaIndex's agents, which are async."""

from __future__ import annotations

from typing import Any

import openai
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.llms.anthropic import Anthropic
from llama_index.llms.openai import OpenAI

from tests_apart.frameworks.work import SYSTEM, TASK, TURNS, Wrap, in_modes, read_log, wait


def claude(wrap: Wrap) -> Any:
    llm = Anthropic(model="claude-sonnet-4-5", max_tokens=1_000)
    llm._client, llm._aclient = wrap(llm._client), wrap(llm._aclient)
    return llm


def chat(wrap: Wrap) -> Any:
    return OpenAI(
        model="gpt-4o",
        openai_client=wrap(openai.OpenAI()),
        async_openai_client=wrap(openai.AsyncOpenAI()),
        additional_kwargs={"stream_options": {"include_usage": True}},
    )


def work(llm: Any, mode: str) -> None:
    """Have an agent read the logs."""

    async def run() -> None:
        streaming = mode == "async stream"
        agent = FunctionAgent(tools=[read_log], llm=llm, system_prompt=SYSTEM, streaming=streaming)
        await agent.run(TASK, max_iterations=TURNS + 2)

    wait(run())


WORKS = [
    *in_modes(
        "llama-index-llms-anthropic",
        "anthropic",
        lambda wrap, mode: work(claude(wrap), mode),
        {"async": "async", "async stream": "async stream"},
    ),
    *in_modes(
        "llama-index-llms-openai",
        "openai",
        lambda wrap, mode: work(chat(wrap), mode),
        {"async stream": "async stream"},
    ),
]
