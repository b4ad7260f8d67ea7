"""What a run is made with: settings, providers, the store and limits, opened and closed."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from windlass.caching.rates import override
from windlass.errors import UsageError
from windlass.safety.fairness import preload, wait_for_turn
from windlass.settings.settings import Settings

if TYPE_CHECKING:
    from windlass.engine.events import Event
    from windlass.history.base import Store
    from windlass.providers.at_hand import Providers
    from windlass.providers.base import Provider, Resolve
    from windlass.providers.spending import Allowance


_Answer = TypeVar("_Answer")


_MODULES = (
    "windlass.cascade.check",
    "windlass.cascade.load",
    "windlass.engine.cards.indexer",
    "windlass.engine.cascade",
    "windlass.engine.tasks.task_runner",
    "windlass.engine.setup",
    "windlass.history.sqlite",
    "windlass.tasks.parse",
)


class Resources(NamedTuple):
    """What a run is made with. `closing` closes what is entered into it when the run ends."""

    settings: Settings
    providers: Providers
    closing: AsyncExitStack


@asynccontextmanager
async def opened(
    flags: Mapping[str, Any],
    providers: Mapping[str, Provider] | None,
    on_event: Callable[[Event], None] | None = None,
    *,
    folder: Path | None = None,
    trust: bool = False,
) -> AsyncIterator[Resources]:
    """The settings and providers of one run in `folder` (default: the current one).

    Meanwhile the user's own prices hold. Raises UsageError for what the user wrote.
    """
    await preload(load_engine)
    await wait_for_turn()
    from windlass.providers.at_hand import Providers

    settings = Settings.read(flags, folder=folder, trust=trust)
    settings.check_trust()
    at_hand = Providers(providers or {}, settings, warn=noted(on_event), on_wait=on_event)
    async with AsyncExitStack() as closing:
        closing.enter_context(override(settings.prices))
        closing.push_async_callback(at_hand.close)
        yield Resources(settings, at_hand, closing)


def load_engine() -> None:
    """Import what every run needs, and load the vocabulary by which most models are counted."""
    for name in _MODULES:
        import_module(name)
    from windlass.text.tokens import FamilyCounter

    FamilyCounter("").text("any")


def open_store(settings: Settings, *, existing: bool = False, writing: bool = False) -> Store:
    """The store that the settings name; `existing`: raise UsageError where there is none.

    One that cannot be written is opened for reading, unless `writing` is meant (StoreError).
    """
    from windlass.history.places import open_place

    settings.check_trust("store")
    return open_place(settings.store, os.environ, existing=existing, writing=writing)


def shared_store(settings: Settings) -> AbstractContextManager[Store]:
    """The store that the settings name, made where it is missing; one for all runs at a time."""
    from windlass.history.places import shared_place

    settings.check_trust("store")
    return shared_place(settings.store, os.environ)


def listening(on_event: Callable[[Event], None] | None) -> Callable[[Event], None] | None:
    """What hands events on, and keeps what that raises until the run can end by it."""
    from windlass.engine.events import Listener

    return on_event and Listener(on_event)


def noted(on_event: Callable[[Event], None] | None) -> Callable[[str], None] | None:
    """What passes a warning on as an event; None where nobody watches."""
    from windlass.engine.events import Noted

    return on_event and (lambda text: on_event(Noted("", text)))


def limited(
    providers: Providers, shared: Sequence[Allowance], **limits: float | None
) -> tuple[Resolve, tuple[Allowance, ...]]:
    """How the models of a run are found, and the limits that their calls count against."""
    from windlass.providers.spending import Allowance

    within = (*shared, Allowance("the run", **limits))
    resolve: Resolve = providers.resolve
    for allowance in within:
        resolve = allowance.resolving(resolve)
    return resolve, within


def in_a_loop(work: Callable[[], Coroutine[Any, Any, _Answer]], name: str) -> _Answer:
    """What the public coroutine `windlass.name` comes to, for code that is not async.

    Raises UsageError inside a running event loop.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work())
    raise UsageError(
        f"{name}_sync cannot be called inside a running event loop; write:"
        f" await windlass.{name}(...)"
    )


def check_input(given: object) -> None:
    """Raise UsageError for an input that is none."""
    kind = type(given).__name__
    if given is not None and not isinstance(given, Mapping):
        raise UsageError(
            f"the input must be a mapping of names to values, such as {{'question': 'text'}}, "
            f"not {kind} {str(given)[:60]!r}"
        )
    if names := [name for name in given or () if not isinstance(name, str)]:
        raise UsageError(f"the input's names must be text, not {names[0]!r}")
