"""Sending a request: the border at which a provider's own exceptions become ours."""

from __future__ import annotations

from collections.abc import Callable

from windlass.engine.names import with_own_names, with_sent_names
from windlass.engine.state import PhaseRun
from windlass.errors import ProviderError, WindlassError
from windlass.providers.base import Provider
from windlass.wire.base import Reply, Request


async def send(phase_run: PhaseRun, request: Request, on_text: Callable[[str], None]) -> Reply:
    """The provider's reply. Raises ProviderError, also for what a provider did not foresee.

    Nothing is sent a second time: whether to try again is the user's decision.
    """
    return await send_to(phase_run.provider, phase_run.info.name, request, on_text)


async def send_to(
    provider: Provider, name: str, request: Request, on_text: Callable[[str], None]
) -> Reply:
    """The same for any model: `name` is `provider/model`, for messages to the user."""
    try:
        reply = await provider.send(with_sent_names(request), on_text)
    except WindlassError:
        raise
    except Exception as bug:  # a provider may come from anywhere and raise anything
        told = f"{type(bug).__name__}: {bug}".removesuffix(": ")
        raise ProviderError(f"the provider of {name!r} failed: {told}") from bug
    return with_own_names(reply, request)
