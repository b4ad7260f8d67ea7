"""What a folder's own settings file may not set unless the user trusts the folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from windlass.caching.rates import Rate, override, rate
from windlass.settings._checked_sources import Layer
from windlass.settings.fields import KEYS, PriceSettings, ProviderSettings, StoreAddress


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
