"""Adapters: how each agent calls its hooks. One file a way to call them, at most 100 lines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from windlass.errors import UsageError, did_you_mean
from windlass.hooks.agent_events import Adapter
from windlass.hooks.agents.claude_code import ClaudeCode
from windlass.hooks.agents.plain import Plain

# The plugin of opencode (`opencode.js`) says what `tool.execute.after` gets in the plain contract,
# and puts the text that comes back in the place of `output.output`.
AGENTS: Final[Mapping[str, Adapter]] = {
    one.name: one for one in (ClaudeCode(), Plain("opencode"), Plain("plain"))
}
"""The adapters by the names of the agents."""


def adapter_of(agent: str) -> Adapter:
    """Return the adapter of an agent. Raises UsageError for a name that there is not."""
    if agent not in AGENTS:
        raise UsageError(f"there is no adapter for {agent!r}; {did_you_mean(agent, AGENTS)}")
    return AGENTS[agent]
