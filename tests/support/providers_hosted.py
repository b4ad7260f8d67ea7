"""What tests of providers hosted build their cases of; others use it, too."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.providers.exchanges import (
    MODELS,
)
from tests.providers.server import Answer, Server, serving
from windlass.messages import Message, system, user
from windlass.providers._hosted import HostedProvider
from windlass.providers._pace import Patience
from windlass.providers.base import RequestWait
from windlass.providers.catalog import Key, catalog
from windlass.settings.fields import ProviderSettings
from windlass.wire.base import Reply, Request

SECRET = "sk-proj-VERY-secret-0123456789"


VARIABLES = {
    "openai": "OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
    "gemini": "GEMINI_API_KEY",
}


@dataclass
class Hosted:
    """A provider, the server it talks to, and what both did."""

    provider: HostedProvider
    server: Server
    model: str
    slept: list[float]
    warned: list[str]
    waited: list[RequestWait] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)

    async def ask(self, *messages: Message, **more: Any) -> Reply:
        told: dict[str, Any] = {"max_output_tokens": 64, **more}
        said = messages or (system("Be brief."), user("What of the prices?"))
        request = Request(model=told.pop("model", self.model), messages=said, **told)
        return await self.provider.send(request, self.pieces.append)


@asynccontextmanager
async def hosted(wire: str, *script: Answer, own: str = "", **said: Any) -> AsyncIterator[Hosted]:
    """The provider of `wire`, or one that a user defined under the name `own`."""
    slept: list[float] = []
    warned: list[str] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    async with serving(*script) as server:
        if own:
            settings = ProviderSettings.model_validate(
                {"base_url": server.url, "wire": wire, **said}
            )
        else:
            settings = ProviderSettings(base_url=server.url, **said)
        entry = catalog({own or wire: settings})[own or wire]
        key = Key() if own else Key(VARIABLES[wire], SECRET)
        patience = Patience(sleep=sleep, random=lambda: 1.0)
        waited: list[RequestWait] = []
        provider = HostedProvider(
            entry, key, warn=warned.append, on_wait=waited.append, patience=patience
        )
        try:
            yield Hosted(provider, server, MODELS[wire], slept, warned, waited)
        finally:
            await provider.close()
            await provider.close()  # twice is once
