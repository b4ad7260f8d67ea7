"""The providers of one run: made when a model of theirs is first asked for."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from os import environ

from windlass.caching.rates import split_model
from windlass.providers.base import ModelInfo, Provider, RequestWait
from windlass.settings.plugins import PROVIDERS, load_plugin
from windlass.settings.settings import Settings


class Providers:
    """Providers by name, made when a model of theirs is first asked for.

    Args:
        given: Providers that already exist; they override those of the same name.
        settings: The providers section of `windlass.toml`; default empty.
        warn: Called once with each assumption about a model; default a Python warning.
        on_wait: Called when a request waits for a second or more before it goes.
        keys: Where keys are looked up; None: no key is needed, because nothing is sent.
    """

    def __init__(
        self,
        given: Mapping[str, Provider],
        settings: Settings | None = None,
        *,
        warn: Callable[[str], None] | None = None,
        on_wait: Callable[[RequestWait], None] | None = None,
        keys: Mapping[str, str] | None = environ,
    ) -> None:
        if settings is not None and keys is not None:
            settings.check_trust("providers")
        self._providers: dict[str, Provider] = dict(given)
        self._given = frozenset(given)
        self._settings = settings.providers if settings is not None else {}
        self._warn = warn or _warn
        self._on_wait = on_wait
        self._keys = keys

    def resolve(self, name: str) -> tuple[Provider, ModelInfo]:
        """Return the provider and the facts about `provider/model`.

        Raises UsageError for an unknown provider and for a missing key.
        """
        provider, model = split_model(name)
        if provider not in self._providers:
            self._providers[provider] = self._make(name)
        return self._providers[provider], self._providers[provider].model(model)

    def _make(self, name: str) -> Provider:
        from windlass.providers.catalog import LITELLM, NO_KEY, catalog, find

        entry = find(name, catalog(self._settings), self._given)
        if entry.plugin:
            made: Provider = load_plugin(PROVIDERS, entry.name)()
            return made
        from windlass.providers._hosted import HostedProvider

        sends = self._keys is not None
        key = NO_KEY if self._keys is None else entry.needed_key(self._keys, f"model {name!r}")
        if entry.name == LITELLM:
            from windlass.providers.litellm import LiteLLMProvider

            return LiteLLMProvider(entry, key, warn=self._warn, on_wait=self._on_wait, sends=sends)
        return HostedProvider(entry, key, warn=self._warn, on_wait=self._on_wait)

    async def close(self) -> None:
        """Close every provider that was made."""
        for provider in self._providers.values():
            await provider.close()


def _warn(text: str) -> None:
    warnings.warn(text, stacklevel=2)
