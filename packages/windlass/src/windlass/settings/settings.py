"""Settings: what the user chose, and where.

Priority: flags, environment (`WINDLASS_*`), the cascade file, `windlass.toml`, the
addresses that variables give the vendors' own clients (`ADDRESSES`), defaults.
`windlass.toml` stands in the current folder or in the user's folder of settings; the
nearer one wins, key by key. `fields.py` has the names, types and defaults.

What a folder's own settings file may not set unless the user trusts the folder.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ConfigDict

from windlass.caching.rates import Rate, override, rate
from windlass.declared import ModelNames
from windlass.errors import TrustNeeded
from windlass.safety.redaction import redacted_url
from windlass.settings import trust as trusting
from windlass.settings._sources import (
    Layer,
    SettingValue,
    in_source,
    merged,
    read_file,
    read_layer,
    read_variables,
    with_vendor_addresses,
)
from windlass.settings.fields import (
    KEYS,
    PriceSettings,
    ProviderSettings,
    SettingFields,
    StoreAddress,
)
from windlass.settings.modules import SETTINGS

__all__ = ["SettingValue", "Settings"]


class Settings(SettingFields):
    """The settings of one command; `settings["store"]` is one of them with its origin."""

    model_config = ConfigDict(defer_build=True)  # its own fields are never read from outside

    folder: Path
    """The current folder of the command."""

    layers: Mapping[str, Layer]
    """What each source sets, the strongest last: file, cascade, environment, flags."""

    in_force: Layer
    """Every setting with its origin."""

    untrusted: Layer
    """What the file of a folder without trust must not set: it may be shown, not used."""

    tripped: bool = False
    """Whether the breaker keeps a run from shortening anything to save money."""

    @classmethod
    def read(
        cls,
        flags: Mapping[str, Any],
        environ: Mapping[str, str] = os.environ,
        folder: Path | None = None,
        *,
        user_folder: Path | None = None,
        trust: bool = False,
    ) -> Settings:
        """Return the settings of one command that runs in `folder` (default: the current one).

        A flag that is None was not given; `through` is the one of `models`; an empty variable is
        not set; variables that are no settings are left alone. `user_folder` holds the user's own
        `windlass.toml` (by default where the platform keeps settings).
        `trust`: the folder's own file is trusted, whether or not the folder carries a mark.

        Raises UsageError where a file, a flag or a variable is wrong.
        """
        flags = dict(flags)
        if (through := flags.pop("through", None)) is not None:
            flags["models"] = {"through": through}
        folder = folder or Path.cwd()
        user_folder = user_folder or trusting.user_folder()
        users, here = read_file(user_folder / SETTINGS), read_file(folder / SETTINGS)
        untrusted: dict[str, SettingValue] = {}
        own = folder.resolve() == user_folder.resolve()
        if here and not (trust or own or trusting.is_trusted(folder, user_folder)):
            # The price table takes time to load.

            for name, setting in here.items():
                part = part_needing_trust(name, setting.value, folder, users)
                if part is not None:
                    untrusted[name] = replace(setting, value=part)
        layers: dict[str, Layer] = {
            "file": with_vendor_addresses(merged(users, here), environ, folder),
            "cascade": {},
            "environment": read_variables(environ, folder),
            "flags": read_layer(
                flags, folder, lambda keys: ("--" + keys[0].replace("_", "-"), None)
            ),
        }
        return cls._of(layers, folder=folder, untrusted=untrusted)

    @classmethod
    def _of(
        cls,
        layers: Mapping[str, Layer],
        *,
        folder: Path,
        untrusted: Layer,
        tripped: bool = False,
    ) -> Settings:
        defaults = SettingFields.model_validate({}, context=folder)
        in_force = {
            name: SettingValue(name, getattr(defaults, name), "default")
            for name in SettingFields.model_fields
        }
        chosen: Layer = {}
        for layer in layers.values():
            chosen = merged(chosen, layer)
        in_force.update(chosen)
        values = {name: setting.value for name, setting in in_force.items()}
        return cls.model_construct(
            **values,
            folder=folder,
            layers=layers,
            in_force=in_force,
            untrusted=untrusted,
            tripped=tripped,
        )

    def _with(self, name: str, layer: Layer, *, tripped: bool) -> Settings:
        """Return these settings with another layer of that name."""
        layers = {**self.layers, name: layer}
        return self._of(layers, folder=self.folder, untrusted=self.untrusted, tripped=tripped)

    def with_cascade(
        self, values: Mapping[str, Any], origin: str, folder: Path | None = None
    ) -> Settings:
        """Return these settings with what a cascade file sets, at its place in the priority.

        None is not set. `origin` names the file, `folder` what its paths are relative to.
        """
        layer = read_layer(values, folder or self.folder, in_source(origin))
        return self._with("cascade", layer, tripped=self.tripped)

    def after_losses(self) -> Settings:
        """Return these settings for a run whose breaker has tripped."""
        name = "breaker_sessions"
        by_breaker = replace(self[name], origin=f"the breaker ({name})")
        return self._with("flags", {**self.layers["flags"], name: by_breaker}, tripped=True)

    def untrusted_servers(self) -> tuple[str, ...]:
        """MCP servers of the settings that are not started, because nobody trusts the folder."""
        setting = self.untrusted.get("mcp_servers")
        return tuple(setting.value) if setting else ()

    def check_trust(self, *names: str) -> None:
        """Raise TrustNeeded where the folder's own file sets what only a trusted one may set.

        `names` are the settings that matter (none: all of them). What a flag, a variable or the
        cascade sets overrides the file and needs no trust.
        """
        stronger = [self.layers[source] for source in ("cascade", "environment", "flags")]
        settings = [
            setting
            for name, setting in self.untrusted.items()
            if (not names or name in names) and not any(name in layer for layer in stronger)
        ]
        if settings:
            values = ", ".join(f"{setting.name} ({_listed(setting.value)})" for setting in settings)
            raise TrustNeeded(
                f"{settings[0].origin}: {values}: what a folder's own file of settings imports,"
                " starts, gives a key to, sends elsewhere or opens outside the folder needs your"
                " trust; read the file, then mark the folder",
                [str(self.folder.resolve())],
            )

    def __getitem__(self, name: str) -> SettingValue:
        return self.in_force[name]

    def rows(self) -> tuple[SettingValue, ...]:
        """Return every setting with its value and origin, as `windlass config` prints them."""
        shown: dict[str, Any] = {
            "cards": self.cards.model_dump(exclude_unset=True),
            "models": self.models.model_dump(exclude_unset=True),
            "headings": self.headings.model_dump(exclude_unset=True),
            "providers": {
                name: provider.model_dump() | {"base_url": self.addresses().get(name)}
                for name, provider in self.providers.items()
            },
            "prices": {name: price.model_dump() for name, price in self.prices.items()},
            "mcp_servers": {name: server.shown() for name, server in self.mcp_servers.items()},
        }
        return tuple(
            replace(
                setting,
                value=shown.get(name, setting.value),
                origin=setting.origin + (" (not trusted)" if name in self.untrusted else ""),
            )
            for name, setting in self.in_force.items()
        )

    def model_for(self, written: str | None) -> str:
        """Return the model of a phase whose file says `written`.

        For models the order is: the flag, the file, `WINDLASS_MODEL`, `windlass.toml`,
        the local one.
        """
        flag = self.layers["flags"].get("model")
        return self.routed(str(flag.value)) if flag else written or self.model

    def routed(self, name: str) -> str:
        """Return the name of a model as it is asked: by the provider that `models.through` names.

        Models on this machine, of providers of one's own and of litellm stay where they are.
        """
        through, (provider, slash, model) = self.models.through, name.partition("/")
        own = {*self.providers} - {*KEYS}
        if through is None or not slash or provider in {through, "local", "litellm", *own}:
            return name
        vendor = "google" if provider == "gemini" else provider
        return f"{through}/{vendor}/{model}"

    def of_models(self, models: ModelNames | None, origin: str) -> Settings:
        """Return these settings with what a cascade says of `models`, or one that runs it."""
        if models is None or models.through is None:
            return self
        return self.with_cascade({"models": models.model_dump()}, origin)

    def addresses(self) -> dict[str, str]:
        """The addresses that a file or a variable gives providers: not always the vendors' own."""
        given = ((name, provider.base_url) for name, provider in self.providers.items())
        return {name: redacted_url(url) for name, url in given if url is not None}


def _listed(value: Any) -> str:
    return ", ".join(value) if isinstance(value, Mapping | tuple) else str(value)


def part_needing_trust(name: str, value: Any, folder: Path, users: Layer) -> Any:
    """Return the part of a setting that needs trust, or None.

    That is whatever directs an import, a command, a key or what is sent, leads out of the folder,
    or lifts a limit of the user's own file (`users`).
    """
    if name in ("tools", "mcp_servers"):
        return value or None
    if name == "otel":
        return None if value == "off" else value
    mine = users[name].value if name in users else {}
    if name == "providers":  # a table here replaces the one in the user's own file as a whole
        return {
            key: provider
            for key, provider in value.items()
            if _destination(provider) != _destination(mine.get(key) or ProviderSettings())
            and (provider.key is not None or key in mine or key in KEYS)
        } or None
    if name == "prices":  # what a run may cost is counted by them
        own = {*KEYS, *(users["providers"].value if "providers" in users else ())}
        return {
            key: price
            for key, price in value.items()
            if (key in mine or key.partition("/")[0] in own)
            and _may_be_too_low(key, price, mine.get(key))
        } or None
    if name == "http_allow":
        return value if name in users else None
    if isinstance(value, Path):
        return None if value.resolve().is_relative_to(folder.resolve()) else value
    return value if isinstance(value, StoreAddress) else None


def _destination(provider: ProviderSettings) -> tuple[str | None, ...]:
    """Where requests go, in which format, and with which key."""
    return provider.base_url, provider.wire, provider.key


def _may_be_too_low(model: str, price: PriceSettings, own: PriceSettings | None) -> bool:
    """Return whether a limit of money would let more pass at this price than at the user's own.

    Where the user gives none (`own` is None), the listed price counts.
    """
    with override({}):
        listed = own or rate(model)
    if listed is None or price.search is not None:
        return True
    return any(one < other for one, other in zip(_dollars(price), _dollars(listed), strict=True))


def _dollars(price: PriceSettings | Rate) -> tuple[float, ...]:
    read = price.input if price.cache_read is None else price.cache_read
    written = price.input if price.cache_write is None else price.cache_write
    return price.input, price.output, read, written
