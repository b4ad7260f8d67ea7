"""The OpenAI Agents SDK, with both of its models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import agents
import openai

from tests_apart.frameworks.work import SYSTEM, TASK, TURNS, Wrap, in_modes, read_log, wait

_KINDS: dict[str, Callable[..., Any]] = {
    "Responses": agents.OpenAIResponsesModel,
    "chat": agents.OpenAIChatCompletionsModel,
}


def work(wrap: Wrap, mode: str) -> None:
    """Have an agent read the logs."""
    kind, _, way = mode.partition(", ")

    async def run() -> None:
        async with openai.AsyncOpenAI() as client:
            agent = agents.Agent(
                name="Reader",
                instructions=SYSTEM,
                tools=[agents.function_tool(read_log)],
                model=_KINDS[kind](model="gpt-5", openai_client=wrap(client)),
                model_settings=agents.ModelSettings(include_usage=True),
            )
            if way == "async":
                await agents.Runner.run(agent, TASK, max_turns=TURNS + 1)
                return
            streamed = agents.Runner.run_streamed(agent, TASK, max_turns=TURNS + 1)
            assert [event async for event in streamed.stream_events()]

    wait(run())


_MODES = [f"{kind}, {way}" for kind in _KINDS for way in ("async", "async stream")]
WORKS = in_modes("openai-agents", "openai", work, {mode: mode for mode in _MODES})
