"""What tests of report costs build their cases of; others use it, too."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from windlass.providers.base import ModelInfo
from windlass.providers.scripted import Scripted
from windlass.wire.base import Reply, Request, Usage

PRICED = "anthropic/claude-sonnet-4-5"


class Hosted(Scripted):
    """A scripted model under the name, and at the prices, of a hosted one.

    `usage` is what it reports; default what the script's request and reply come to.
    """

    def __init__(
        self, named: str, script: Any, usage: Usage | None = None, window: int = 200_000
    ) -> None:
        super().__init__(script, window=window)
        self.named = named
        self.usage = usage

    async def send(self, request: Request, on_text: Callable[[str], None]) -> Reply:
        reply = await super().send(request, on_text)
        return dataclasses.replace(reply, usage=self.usage or reply.usage, tries=2, waited_s=1.5)

    def model(self, name: str) -> ModelInfo:
        return dataclasses.replace(super().model(name), name=self.named, free=False)
