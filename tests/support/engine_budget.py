"""What tests of engine budget build their cases of; others use it, too."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

from tests.engine.harness import call, calls, cascade, phase
from windlass.messages import Message
from windlass.providers.base import ModelInfo
from windlass.providers.scripted import Scripted
from windlass.wire.base import Reply, Request, Usage

MODEL = "priced/m"


PRICES = '[prices."priced/m"]\ninput = 1000.0\noutput = 10000.0\n'
"""US dollars per million tokens: a token in costs $0.001, one out $0.01."""


MOST_OUT = 50


class Priced(Scripted):
    """A scripted model that costs money and reports `usage` for each call.

    It waits a moment with each reply, so that calls are under way at the same time.
    """

    def __init__(self, script: Any, usage: Usage, name: str = MODEL) -> None:
        super().__init__(script)
        self.usage = usage
        self.name = name
        self.running = self.most_running = 0

    def model(self, name: str) -> ModelInfo:
        info = super().model(name)
        return dataclasses.replace(info, name=self.name, free=False, max_output_tokens=MOST_OUT)

    async def send(self, request: Request, on_text: Any) -> Reply:
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        await asyncio.sleep(0.001)
        self.running -= 1
        reply = await super().send(request, on_text)
        return dataclasses.replace(reply, usage=self.usage)


SMALL = Usage(100, 10)
"""A call that costs $0.20."""


def loops(_: Request) -> Message:
    """A reply that always calls a tool."""
    return calls(call("set_state", '{"key": "k", "value": 1}'), text="So far.")


ENDLESS = cascade(
    phase("a", tackle=["set_state"], rules={"max_turns": 30}),
    phase("b"),
    max_output_tokens=MOST_OUT,
)
