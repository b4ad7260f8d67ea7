"""The names of OpenTelemetry's conventions for GenAI: attributes, metrics, providers.

No name of these conventions is stable. Of each attribute the first name is that of their release
v0.1.0, which is the one that is written; the others are older, or of OpenInference (`llm.`), the AI
SDK (`ai.`) and other programs, and are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

CHAT: Final = "chat"
INVOKE_AGENT: Final = "invoke_agent"
EXECUTE_TOOL: Final = "execute_tool"

ATTRIBUTES: Final[Mapping[str, tuple[str, ...]]] = {
    "operation": ("gen_ai.operation.name", "ai.operationId", "openinference.span.kind"),
    "provider": (
        "gen_ai.provider.name",
        "gen_ai.system",
        "ai.model.provider",
        "llm.provider",
        "llm.system",
    ),
    "model": ("gen_ai.request.model", "gen_ai.response.model", "ai.model.id", "llm.model_name"),
    "id": ("gen_ai.response.id", "ai.response.id"),
    "finish": ("gen_ai.response.finish_reasons",),
    "conversation": ("gen_ai.conversation.id", "session.id", "ai.telemetry.metadata.sessionId"),
    "compacted": ("gen_ai.conversation.compacted",),
    "agent": ("gen_ai.agent.id",),
    "agent_name": ("gen_ai.agent.name",),
    "system": ("gen_ai.system_instructions",),
    "input": ("gen_ai.input.messages", "gen_ai.prompt", "ai.prompt.messages"),
    "output": ("gen_ai.output.messages", "gen_ai.completion"),
    "tools": ("gen_ai.tool.definitions", "gen_ai.request.tools", "ai.prompt.tools"),
    "tool_name": ("gen_ai.tool.name",),
    "tool_type": ("gen_ai.tool.type",),
    "tool_call": ("gen_ai.tool.call.id",),
    "tool_arguments": ("gen_ai.tool.call.arguments",),
    "tool_result": ("gen_ai.tool.call.result",),
    "in": (
        "gen_ai.usage.input_tokens",
        "gen_ai.usage.prompt_tokens",
        "ai.usage.inputTokens",
        "ai.usage.promptTokens",
        "llm.token_count.prompt",
    ),
    "out": (
        "gen_ai.usage.output_tokens",
        "gen_ai.usage.completion_tokens",
        "ai.usage.outputTokens",
        "ai.usage.completionTokens",
        "llm.token_count.completion",
    ),
    "read": (
        "gen_ai.usage.cache_read.input_tokens",
        "gen_ai.usage.cache_read_input_tokens",
        "gen_ai.usage.input_tokens.cached",
        "ai.usage.inputTokenDetails.cacheReadTokens",
        "ai.usage.cachedInputTokens",
        "llm.token_count.prompt_details.cache_read",
    ),
    "written": (
        "gen_ai.usage.cache_write.input_tokens",
        "gen_ai.usage.cache_creation.input_tokens",
        "gen_ai.usage.cache_creation_input_tokens",
        "ai.usage.inputTokenDetails.cacheWriteTokens",
        "llm.token_count.prompt_details.cache_write",
    ),
    "metadata": ("ai.response.providerMetadata",),
    "error": ("error.type",),
    "token_type": ("gen_ai.token.type",),
    "modality": ("gen_ai.token.modality",),
    "phase": ("windlass.phase",),
    "turn": ("windlass.turn",),
    "attempt": ("windlass.attempt",),
    "sounding": ("windlass.sounding",),
    "cost": ("windlass.cost", "llm.cost.total"),
    "saved": ("windlass.tokens_saved",),
    "status": ("windlass.status",),
}
"""The names of each attribute by what it says; those of Windlass itself have no other names."""

PROVIDERS: Final[Mapping[str, str]] = {
    "gcp.gemini": "gemini",
    "gcp.gen_ai": "gemini",
    "gcp.vertex_ai": "gemini",
    "google": "gemini",
    "vertexai": "gemini",
    "aws.bedrock": "bedrock",
    "aws": "bedrock",
    "amazon-bedrock": "bedrock",
    "azure": "openai",
    "azure-openai": "openai",
    "azure.ai.openai": "openai",
}
"""What Windlass calls the providers that have another name in the conventions."""

_WRITTEN_AS: Final = {
    own: theirs for theirs, own in reversed([*PROVIDERS.items()]) if own != "openai"
}

DURATIONS: Final = ("gen_ai.client.inference.duration", "gen_ai.client.operation.duration")
"""Histograms of the seconds that calls take: that of v0.1.0, and that which it replaces."""
DURATION_BOUNDS: Final = tuple(0.01 * 2**power for power in range(14))
"""The bounds of their buckets, in seconds."""
TOKENS: Final[Mapping[str, str]] = {
    "in": "gen_ai.client.inference.usage.input_tokens",
    "out": "gen_ai.client.inference.usage.output_tokens",
    "read": "gen_ai.client.inference.usage.cache_read.input_tokens",
    "written": "gen_ai.client.inference.usage.cache_write.input_tokens",
}
"""Counters of tokens, by the attribute of a call that is added."""
OLD_TOKENS: Final = "gen_ai.client.token.usage"
"""The histogram of tokens that they replace, which most dashboards still read."""
OLD_TOKEN_TYPES: Final = {"in": "input", "out": "output"}
TOKEN_BOUNDS: Final = tuple(4**power for power in range(14))
"""The bounds of its buckets."""


def named(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes under the names that are written; those without a value are left out.

    >>> named({"model": "m", "in": None})
    {'gen_ai.request.model': 'm'}
    """
    return {ATTRIBUTES[key][0]: value for key, value in values.items() if value is not None}


def provider_and_model(model: str) -> dict[str, str]:
    """Return the attributes of a model that is named `provider/model`.

    >>> provider_and_model("gemini/gemini-3-pro")
    {'gen_ai.provider.name': 'gcp.gemini', 'gen_ai.request.model': 'gemini-3-pro'}
    """
    provider, _, name = model.partition("/")
    return named({"provider": _WRITTEN_AS.get(provider, provider), "model": name or provider})
