"""What an engine holds for its calls: options, settings, providers and the store."""

from __future__ import annotations

import asyncio
import os
import warnings
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
)
from contextvars import ContextVar
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, TypeAlias, Unpack

from windlass.api.options import EngineOptions, RunLimits
from windlass.caching.rates import override
from windlass.errors import UsageError, did_you_mean
from windlass.safety.fairness import preload, wait_for_turn
from windlass.safety.own_files import refuse_linked_store
from windlass.settings.plugins import TELEMETRY, load_plugin
from windlass.settings.settings import Settings

if TYPE_CHECKING:
    from windlass.engine.events import Event
    from windlass.engine.opening import OpenSession
    from windlass.history.base import Store
    from windlass.providers.at_hand import Providers
    from windlass.providers.base import Provider


_MODULES: Final = (
    "windlass.api._runs",
    "windlass.cascade.check",
    "windlass.cascade.load",
    "windlass.history.sqlite",
    "windlass.tasks.parse",
)

_DEFAULTS: Final[EngineOptions] = {
    "model": None,
    "through": None,
    "store": None,
    "root": None,
    "search_folder": None,
    "otel": None,
    "tools": (),
    "providers": {},
    "on_event": None,
    "auto": False,
    "trust": False,
    "lenient": False,
    "limits": {},
    "allowances": (),
    "approve": (),
    "on_question": None,
}

_SETTINGS: Final = ("model", "through", "store", "root", "search_folder", "otel")
"""The options that are settings."""

OnEvent: TypeAlias = "Callable[[Event], None]"

_ON_EVENT: Final[ContextVar[OnEvent | None]] = ContextVar("_ON_EVENT", default=None)
"""Who is told of the call in this context, for providers, which all calls of an engine share."""


class Observer(Protocol):
    """What tells a collector of an engine's runs."""

    def observe(self, store: Store, *, contents: bool) -> Store:
        """Return the store, whose sessions are told; `contents`: with what was said."""
        ...

    async def close(self) -> str:
        """Send what is not sent yet; says what could not be sent (empty: all was)."""
        ...


@dataclass(frozen=True, slots=True)
class SharedObjects:
    """What is the same for all inner tasks, and sent once: the user's tools and providers."""

    tools: tuple[Callable[..., Any] | str, ...]
    providers: Mapping[str, Provider]
    auto: bool


@dataclass(slots=True)
class Resources:
    """What is open, for one call or for all calls of an engine; `closing` closes it."""

    settings: Settings
    providers: Providers
    closing: AsyncExitStack
    telemetry: Observer | None = None
    _store: Store | None = field(init=False, default=None)

    def store(self, *, existing: bool = False) -> Store:
        """The store, made where it is missing; `existing`: raise UsageError where there is none."""
        if self._store is None:
            if existing:
                opening: AbstractContextManager[Store]
                opening = open_store(self.settings, existing=True, writing=True)
            else:
                opening = shared_store(self.settings)
            self._store = self.closing.enter_context(opening)
            if self.telemetry is not None:
                contents = self.settings.otel == "content"
                self._store = self.telemetry.observe(self._store, contents=contents)
        return self._store

    async def end_telemetry(self, on_event: OnEvent | None) -> None:
        """Send the last spans; what could not be sent is told as an event, or as a warning."""
        lost = "" if self.telemetry is None else await self.telemetry.close()
        if lost:
            token = _ON_EVENT.set(on_event)
            _warn(lost)
            _ON_EVENT.reset(token)


@asynccontextmanager
async def open_resources(
    flags: Mapping[str, Any],
    providers: Mapping[str, Provider],
    *,
    folder: Path | None = None,
    trust: bool = False,
    on_event: OnEvent | None = None,
) -> AsyncIterator[Resources]:
    """Read the settings that hold in `folder` (default: the current one), and find providers.

    `providers` go before others of the same name; `on_event` is told where spans could not be sent.
    Raises UsageError for what the user wrote.
    """
    await load_rooms()
    from windlass.providers.at_hand import Providers

    settings = Settings.read(flags, folder=folder, trust=trust)
    settings.check_trust()
    telemetry = (
        None
        if settings.otel == "off"
        else await asyncio.to_thread(
            _open_telemetry  # its imports take time
        )
    )
    at_hand = Providers(providers, settings, warn=_warn, on_wait=_tell)
    async with AsyncExitStack() as closing:
        closing.push_async_callback(at_hand.close)
        resources = Resources(settings, at_hand, closing, telemetry)
        closing.push_async_callback(resources.end_telemetry, on_event)
        yield resources


def _open_telemetry() -> Observer:
    opener = load_plugin(TELEMETRY, "otel")
    made: Observer = opener()
    return made


@dataclass(frozen=True, slots=True)
class EngineCall:
    """One call of an engine: what is open for it, and who is told of it.

    `closing` closes what only this call holds.
    """

    engine: EngineBase
    resources: Resources
    on_event: OnEvent | None
    closing: AsyncExitStack

    @property
    def options(self) -> EngineOptions:
        """Return the options of the engine."""
        return self.engine.options

    @property
    def settings(self) -> Settings:
        """Return the settings of the engine."""
        return self.resources.settings

    def settings_with(self, model: str | None, through: str | None = None) -> Settings:
        """Return the settings of a run with this model, and models asked through this provider.

        None: what the engine's settings say.
        """
        options = self.options
        through = None if options["through"] else through
        if (model is None or model == options["model"]) and through is None:
            return self.settings
        given = {"model": model, "through": through}
        flags = {**self.engine.flags, **{key: each for key, each in given.items() if each}}
        trust = self.options["trust"]
        return Settings.read(flags, folder=self.settings.folder, trust=trust)

    def open_session(self, name: str | None = None, *, begun: bool = False) -> OpenSession:
        """Open a session of the engine's store until the call ends, as `open_session` does."""
        from windlass.engine.opening import open_session

        return self.closing.enter_context(
            open_session(self.resources.store(existing=begun), name, begun=begun)
        )

    @property
    def warn(self) -> Callable[[str], None] | None:
        """Passes a warning on as an event; None where nobody is told."""
        return None if self.on_event is None else _warn

    @contextmanager
    def in_force(self) -> Iterator[None]:
        """Meanwhile the user's own prices hold, and what providers tell is told of this call."""
        token = _ON_EVENT.set(self.on_event)
        try:
            with override(self.settings.prices):
                yield
        finally:
            _ON_EVENT.reset(token)


class EngineBase:
    """What an engine holds for its calls: options, and the resources that are open."""

    def __init__(self, **options: Unpack[EngineOptions]) -> None:
        check_options(type(self).__name__, options, EngineOptions)
        self.options: EngineOptions = {**_DEFAULTS, **options}
        """All options, with the defaults of those that were not given."""
        self.resources: Resources | None = None
        """What is open (None: each call opens what it needs)."""
        self._closing: AsyncExitStack | None = None

    def with_options(self, options: Mapping[str, Any]) -> Self:
        """Return the same with other options, for one call; each limit may stand among them.

        It shares what is open, but for settings, providers and trust of its own.
        """
        limits, shared = split_options(options, RunLimits)
        if not options:
            return self
        whole = {**self.options["limits"], **shared.get("limits", {}), **limits}
        made = type(self)(**{**self.options, **shared, "limits": whole})
        if shared.keys().isdisjoint((*_SETTINGS, "providers", "trust")):
            made.resources = self.resources
        return made

    @property
    def flags(self) -> dict[str, Any]:
        """Return the options that are settings, by their names; None where they were not given."""
        options: dict[str, Any] = {**self.options}
        return {name: options[name] for name in _SETTINGS}

    @property
    def limits(self) -> dict[str, Any]:
        """Return the limits of each run. Raises UsageError for one that does not exist."""
        limits = self.options["limits"]
        if not isinstance(limits, Mapping):
            raise UsageError(f"limits must be a mapping such as {{'budget': 2.5}}, not {limits!r}")
        for name in limits.keys() - RunLimits.__annotations__.keys():
            near = did_you_mean(str(name), RunLimits.__annotations__)
            raise UsageError(f"there is no limit {name!r}; {near}")
        return {**limits}

    async def __aenter__(self) -> Self:
        """Open what calls share. Raises UsageError for settings that are wrong."""
        if self._closing is not None:
            raise UsageError("the engine is open already; use it, or make another one")
        async with AsyncExitStack() as closing:
            opening = self._open(self.options["on_event"])
            self.resources = await closing.enter_async_context(opening)
            self._closing = closing.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close what was opened; the engine may be used and opened again."""
        closing, self._closing, self.resources = self._closing, None, None
        if closing is not None:
            await closing.aclose()

    def _open(self, on_event: OnEvent | None) -> AbstractAsyncContextManager[Resources]:
        providers, trust = self.options["providers"] or {}, self.options["trust"]
        return open_resources(self.flags, providers, trust=trust, on_event=on_event)

    @asynccontextmanager
    async def open_call(self, on_event: OnEvent | None) -> AsyncIterator[EngineCall]:
        """Open what one call needs, with what the engine holds; `on_event` is told of it."""
        async with AsyncExitStack() as closing:
            resources = self.resources
            if resources is None:
                resources = await closing.enter_async_context(self._open(on_event))
            yield EngineCall(self, resources, on_event, closing)

    @asynccontextmanager
    async def open_own_call(self) -> AsyncIterator[EngineCall]:
        """A call of which the user's own function is told."""
        from windlass.engine.events import Listener

        on_event = self.options["on_event"]
        async with self.open_call(on_event and Listener(on_event)) as call:
            with call.in_force():
                yield call


def split_options(options: Mapping[str, Any], own: type) -> tuple[Any, dict[str, Any]]:
    """Return the options that `own` lists, and the others."""
    names = own.__annotations__.keys()
    return (
        {name: value for name, value in options.items() if name in names},
        {name: value for name, value in options.items() if name not in names},
    )


def check_options(name: str, given: Mapping[str, Any], options: type) -> None:
    """Raise TypeError for an option that the callable of this name does not take."""
    for unknown in given.keys() - options.__annotations__.keys():
        near = did_you_mean(unknown, options.__annotations__)
        raise TypeError(f"{name}() got an unexpected keyword argument {unknown!r}; {near}")


def _tell(event: Event) -> None:
    on_event = _ON_EVENT.get()
    if on_event is not None:
        on_event(event)


def _warn(text: str) -> None:
    from windlass.engine.events import Noted

    if _ON_EVENT.get() is None:
        warnings.warn(text, stacklevel=3)
    else:
        _tell(Noted("", text))


async def load_rooms() -> None:
    """Import what runs need, in a thread: that takes seconds, and the event loop goes on."""
    await preload(load_engine)
    await wait_for_turn()


def load_engine() -> None:
    """Import what every run needs, and load the vocabulary by which most models are counted."""
    for name in _MODULES:
        import_module(name)
    from windlass.text.tokens import FamilyCounter

    FamilyCounter("").text("any")


def open_store(
    settings: Settings, *, existing: bool = False, writing: bool = False, reading: bool = False
) -> Store:
    """Return the store that the settings name; `existing`: raise UsageError where there is none.

    One that cannot be written is opened for reading, unless `writing` is meant (StoreError). Where
    `reading` is meant, nothing in its folder is touched.
    """
    from windlass.history.places import open_place

    check_store(settings)
    return open_place(
        settings.store, os.environ, existing=existing, writing=writing, reading=reading
    )


def shared_store(settings: Settings) -> AbstractContextManager[Store]:
    """The store that the settings name, made where it is missing; one for all runs at a time."""
    from windlass.history.places import shared_place

    check_store(settings)
    return shared_place(settings.store, os.environ)


def check_store(settings: Settings) -> None:
    """Raise TrustNeeded or StoreError for a store that somebody else may have put there."""
    settings.check_trust("store")
    if isinstance(settings.store, Path) and settings["store"].origin == "default":
        refuse_linked_store(settings.store)
