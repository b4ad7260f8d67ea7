"""Results of tools that only read, used again within a run, as `tool_caching` says.

A result stands for a later call of the same tool with the same arguments. A tool that writes runs
always, and after it nothing that was kept is used: it may read otherwise now.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from windlass.cascade.tool_caching import KEYS, CachedTool, ToolCaching, cached_tool, may_be_kept
from windlass.messages import ToolCall
from windlass.tools.base import Tool, ToolOutput


@dataclass(frozen=True, slots=True)
class KeptResult:
    """A result that is kept: what it was, when in seconds since 1970, and in which turn."""

    output: ToolOutput
    at: float
    turn: str


_Key = tuple[str, str]


@dataclass(slots=True)
class KeptResults:
    """The results of a run that are kept, the one that was used longest ago first."""

    caching: ToolCaching = field(default_factory=ToolCaching)
    held: OrderedDict[_Key, KeptResult] = field(default_factory=OrderedDict[_Key, KeptResult])

    def find(self, tool: Tool | None, call: ToolCall, now: float) -> KeptResult | None:
        """Return the result of an earlier call that stands for this one, as it is shown."""
        key = self._key(tool, call)
        kept = None if key is None else self.held.get(key)
        rule = cached_tool(self.caching, call.name)
        if key is None or kept is None or rule is None:
            return None
        if now - kept.at >= (rule.ttl or self.caching.global_ttl):
            del self.held[key]
            return None
        self.held.move_to_end(key)
        if not rule.hit_message:
            return kept
        text = f"{rule.hit_message}\n{kept.output.text}"
        return replace(kept, output=replace(kept.output, text=text))

    def note(
        self,
        answered: Sequence[tuple[ToolCall, ToolOutput]],
        tools: Mapping[str, Tool],
        *,
        at: float,
        turn: str,
    ) -> None:
        """Take note of calls that ran: what is kept of them, and what is used no more."""
        for call, _ in answered:
            tool = tools.get(call.name)
            if tool is not None and (tool.effects == "external" or tool.writes):
                self.held.clear()
            for name, rule in self.caching.tools.items():
                if isinstance(rule, CachedTool) and call.name in rule.invalidate_on:
                    self.held = OrderedDict(
                        (key, kept) for key, kept in self.held.items() if key[0] != name
                    )
        for call, output in answered:
            key = self._key(tools.get(call.name), call)
            if key is not None and not output.error:
                self.held[key] = KeptResult(replace(output, spent=None), at, turn)
                self.held.move_to_end(key)
        while len(self.held) > self.caching.max_cache_size:
            self.held.popitem(last=False)

    def _key(self, tool: Tool | None, call: ToolCall) -> _Key | None:
        """Return what calls have in common that have one result; None: this one is always run."""
        rule = cached_tool(self.caching, call.name)
        if tool is None or rule is None or not may_be_kept(tool):
            return None
        try:
            given = call.parsed()
        except ValueError:
            return None
        properties = tool.spec.parameters.get("properties", {})
        defaults = {name: each["default"] for name, each in properties.items() if "default" in each}
        told_by = KEYS.get(rule.key, rule.key)
        arguments = {**defaults, **given}
        if told_by in arguments:
            arguments = {told_by: arguments[told_by]}
        return call.name, json.dumps(arguments, sort_keys=True)
