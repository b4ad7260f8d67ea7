"""Adapters: how each agent calls its hooks. One file an agent, at most 100 lines."""

from __future__ import annotations

from importlib import import_module
from typing import Final

from windlass.errors import UsageError, did_you_mean
from windlass.hooks.agent_events import Adapter

_MODULES: Final = {"claude-code": "claude_code", "opencode": "opencode", "plain": "plain"}

AGENTS: Final = tuple(_MODULES)
"""The names of the adapters."""


def adapter_of(agent: str) -> Adapter:
    """The adapter of an agent. Raises UsageError for a name that there is not."""
    if agent not in _MODULES:
        raise UsageError(f"there is no adapter for {agent!r}; {did_you_mean(agent, AGENTS)}")
    module = import_module(f"{__name__}.{_MODULES[agent]}")
    adapter: Adapter = module.ADAPTER
    return adapter
