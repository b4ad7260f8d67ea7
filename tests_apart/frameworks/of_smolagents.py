"""smolagents, which writes calls and results into messages of text."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import smolagents
from tests.providers.thinking_server import Body, Say

from tests_apart.frameworks.work import TASK, Wrap, in_modes, read_log


def reads_logs(turns: int) -> Callable[[Body], Say]:
    """A model that reads so many logs, and ends with the tool that ends the work."""

    def script(body: Body) -> Say:
        said = [json.dumps(one) for one in body["messages"] if one["role"] == "assistant"]
        made = sum("read_log" in one for one in said)
        if made >= turns:
            return Say("", [("final_answer", {"answer": "Order 7 is late."})])
        return Say(f"Next is log {made}.", [("read_log", {"number": made})])

    return script


def work(wrap: Wrap, mode: str) -> None:
    """Have an agent read the logs."""
    model = smolagents.OpenAIModel("gpt-5")
    client = model.client
    model.client = wrap(client)
    agent = smolagents.ToolCallingAgent(
        tools=[smolagents.tool(read_log)],
        model=model,
        max_steps=20,
        stream_outputs=mode == "stream",
        verbosity_level=smolagents.LogLevel.OFF,
    )
    agent.run(TASK)
    client.close()


WORKS = [
    replace(one, script=reads_logs, saves=False)
    for one in in_modes("smolagents", "openai", work, {"sync": "sync"})
]
