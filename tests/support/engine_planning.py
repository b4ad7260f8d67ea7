"""What tests of engine planning build their cases of; others use it, too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.engine.harness import House
from windlass.history.base import CallRecord


def set_prices(house: House, write: float = 1.25, read: float = 0.1) -> None:
    """US dollars per million tokens, a fresh one 1."""
    (house.folder / "windlass.toml").write_text(
        '[prices."scripted/function"]\ninput = 1.0\noutput = 5.0\n'
        f"cache_read = {read}\ncache_write = {write}\n"
    )


def planned(one: CallRecord) -> Mapping[str, Any]:
    """What the planner decided at a call; empty: nothing that costs anything was proposed."""
    told: Mapping[str, Any] = one.details.as_json().get("planner", {})
    return told
