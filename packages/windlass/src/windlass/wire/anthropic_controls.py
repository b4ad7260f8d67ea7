"""What a request to Anthropic holds besides its messages: how to think, and what to edit.

Features in beta are named in the header `anthropic-beta`; the API refuses their fields without it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from windlass.messages import Opaque
from windlass.wire.base import Request
from windlass.wire.calls import is_foreign
from windlass.wire.editing import ServerClear, is_compaction
from windlass.wire.thinking import claude_version, drops_thinking, takes_choice, thinking_rules

VERSION: Final = "2026-10-21"
"""The API's newest version. It takes no `temperature`, `top_p` or `top_k` of any model, no document
in a reply, and no citations in a user's text."""
WIDEST_VERSION: Final = "2023-06-01"
"""The version before, which gateways know, too; models before 4.7 take a `temperature` by it."""
_NO_TEMPERATURE: Final = (4, 7)
_CONTROLS: Final = "thinking-binding-controls-2026-08-01"
"""Without this name the API refuses the field `block_binding`."""
_MANAGEMENT: Final = "context-management-2025-06-27"
"""Without this name the API refuses the field `context_management`."""
_SIGNED_COMPACTION: Final = "compact-2026-09-04"
_THRESHOLD_COMPACTION: Final = "compact-2026-01-12"
"""Headers needed to send these blocks back; the second also for the edit that makes them."""
ADAPTIVE: Final = (4, 6)
"""From this version on: adaptive thinking with `output_config.effort`, and no prefill."""
_BUDGETS: Final = {"minimal": 1_024, "low": 2_048, "medium": 8_192}
_LARGE_BUDGET: Final = 16_384
_SMALLEST_BUDGET: Final = 1_024
"""`budget_tokens` is at least 1024 and less than `max_tokens`."""


def takes_temperature(request: Request) -> bool:
    """Return whether a request has a temperature that its model takes."""
    return request.temperature is not None and claude_version(request.model) < _NO_TEMPERATURE


def feature_headers(request: Request) -> dict[str, str]:
    """The headers that name the beta features that `request` uses, and a version that it needs."""
    betas = [_CONTROLS] if _drops(request) else []
    betas += [_MANAGEMENT] if request.server_clear is not None else []
    betas += _compactions(request)
    version = {"anthropic-version": WIDEST_VERSION} if takes_temperature(request) else {}
    return version | ({"anthropic-beta": ",".join(betas)} if betas else {})


def controls(
    request: Request, turns: list[dict[str, Any]], names: Mapping[str, str]
) -> dict[str, Any]:
    """Return the keys of a body for thinking and for editing the context.

    `turns` are what it sends as messages, `names` those of its tools on the wire.
    """
    keys = _thinking(request, turns)
    if _drops(request):
        binding = {"prefix_mismatch_behavior": "drop_block"}
        keys["thinking"] = {"type": "adaptive", "block_binding": binding}
    edits = [_clearing(request.server_clear, names)] if request.server_clear else []
    if _THRESHOLD_COMPACTION in _compactions(request):
        edits.append({"type": "compact_20260112"})
    return {**keys, "context_management": {"edits": edits}} if edits else keys


def _clearing(clear: ServerClear, names: Mapping[str, str]) -> dict[str, Any]:
    least = {"type": "input_tokens", "value": clear.clear_at_least}
    excluded = [names.get(name, name) for name in clear.exclude_tools]
    return {
        "type": "clear_tool_uses_20250919",
        "trigger": {"type": "input_tokens", "value": clear.trigger},
        "keep": {"type": "tool_uses", "value": clear.keep},
        **({"clear_at_least": least} if clear.clear_at_least else {}),
        **({"exclude_tools": excluded} if excluded else {}),
    }


def _compactions(request: Request) -> list[str]:
    """Return the headers that the compaction blocks of a request need, in their order."""
    blocks = (
        json.loads(part.data)
        for message in request.messages
        for part in message.parts
        if isinstance(part, Opaque) and is_compaction(part)
        if not is_foreign(part, "anthropic", request.model)
    )
    named = (
        _SIGNED_COMPACTION if block.get("signature") else _THRESHOLD_COMPACTION for block in blocks
    )
    return list(dict.fromkeys(named))


def _drops(request: Request) -> bool:
    """Return whether thinking that is out of place is dropped: header and field go together."""
    choice = _chosen(request) if request.tools else "auto"
    return request.drops_thinking and drops_thinking(
        request.model, request.reasoning_effort, choice
    )


def _chosen(request: Request) -> str:
    """The tool choice as the model accepts it: some always decide themselves whether to call."""
    return request.tool_choice if takes_choice(request.model, request.tool_choice) else "auto"


def tool_choice(request: Request, names: Mapping[str, str]) -> dict[str, str]:
    """Return `tool_choice`, as far as the model lets a caller choose."""
    match _chosen(request):
        case "auto" | "none" as left:
            return {"type": left}
        case "required":
            return {"type": "any"}
        case name:
            return {"type": "tool", "name": names.get(name, name)}


def _thinking(request: Request, turns: list[dict[str, Any]]) -> dict[str, Any]:
    """Give the keys for `reasoning_effort`; thinking is left out where the API would refuse it."""
    effort = request.reasoning_effort
    if effort is None:
        return {}
    if effort == "none":
        if thinking_rules(request.model).disables:
            return {"thinking": {"type": "disabled"}}
        return {"output_config": {"effort": "low"}}  # the least there is
    # `Thinking may not be enabled when tool_choice forces tool use.`
    forced = bool(request.tools) and _chosen(request) not in ("auto", "none")
    if claude_version(request.model) >= ADAPTIVE:
        keys = {"output_config": {"effort": "low" if effort == "minimal" else effort}}
        return keys if forced else {"thinking": {"type": "adaptive"}, **keys}
    tokens = _BUDGETS.get(effort, _LARGE_BUDGET)
    budget = min(tokens, request.max_output_tokens - _SMALLEST_BUDGET)
    if forced or budget < _SMALLEST_BUDGET or not _loop_thinks(turns):
        return {}
    return {"thinking": {"type": "enabled", "budget_tokens": budget}}


def _loop_thinks(turns: list[dict[str, Any]]) -> bool:
    """Return whether an open tool loop begins with thinking, as older models require."""
    if len(turns) < 2 or turns[-1]["content"][0]["type"] != "tool_result":  # noqa: PLR2004
        return True
    return str(turns[-2]["content"][0]["type"]).endswith("thinking")
