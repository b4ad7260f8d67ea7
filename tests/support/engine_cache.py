"""What tests of engine cache build their cases of; others use it, too."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tests.engine.harness import by_phase
from windlass.providers.base import ModelInfo
from windlass.providers.scripted import Scripted
from windlass.wire.base import Reply, Request, Usage

Told = Callable[[int, Usage], Usage]


class Reporting(Scripted):
    """A scripted model that is paid for, and whose usage says what a test wants."""

    def __init__(self, replies: Mapping[str, Sequence[Any]], told: Told, name: str) -> None:
        super().__init__(by_phase(replies))
        self.told = told
        self.name = name

    def model(self, name: str) -> ModelInfo:
        return replace(super().model(name), free=False, name=self.name)

    async def send(self, request: Request, on_text: Callable[[str], None]) -> Reply:
        reply = await super().send(request, on_text)
        return replace(reply, usage=self.told(len(self.requests), reply.usage))


def honest(call: int, usage: Usage) -> Usage:
    return usage
