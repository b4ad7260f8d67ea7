"""How a provider is asked to edit the context of a request, and what it says it did.

The values are the provider's own objects, in its own words: they are kept as they came, and read
where they are shown. Documented at platform.claude.com, build-with-claude: preserved-thinking,
context-editing, compaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

from windlass.messages import Message, Opaque


@dataclass(frozen=True, slots=True)
class ServerClear:
    """Old tool uses that the provider is asked to clear before its model reads a request.

    It does so above `trigger` input tokens, leaves the newest `keep` and those of `exclude_tools`,
    and clears nothing where less than `clear_at_least` tokens would go (None: it always does).
    """

    trigger: int
    keep: int
    clear_at_least: int | None = None
    exclude_tools: tuple[str, ...] = ()


def clears_tool_uses(model: str) -> bool:
    """Return whether the provider of `provider/model` can be asked to clear tool uses."""
    return model.startswith("anthropic/")


_COMPACTIONS = ("compaction", "compaction_summary")


def is_compaction(part: object) -> bool:
    """Return whether a part of a message is a compaction that its provider made."""
    return isinstance(part, Opaque) and part.kind.rpartition(":")[2] in _COMPACTIONS


def holds_compaction(message: Message) -> bool:
    """Return whether a message has a compaction, which is sent back whole and in its place."""
    return any(map(is_compaction, message.parts))


class ProviderEdits(TypedDict, total=False):
    """What a provider did to the context of one call before its model read it.

    `input_transformations`: thinking that it dropped, or let pass although what stood before it
    was another thing. `applied_edits`: tool uses and thinking that it cleared. `iterations`: the
    runs of the model that the call was made of, where one of them made a compaction.
    """

    input_transformations: Sequence[Mapping[str, Any]]
    applied_edits: Sequence[Mapping[str, Any]]
    iterations: Sequence[Mapping[str, Any]]


def read_edits(answer: Mapping[str, Any]) -> ProviderEdits:
    """Read the edits from a whole answer of Anthropic; kinds without edits have no key."""
    usage = answer.get("usage")
    edits: ProviderEdits = {}
    if transformations := _objects(answer, "input_transformations"):
        edits["input_transformations"] = transformations
    if applied := _objects(answer.get("context_management"), "applied_edits"):
        edits["applied_edits"] = applied
    if compactions(usage):
        edits["iterations"] = _objects(usage, "iterations")
    return edits


def cleared(edits: ProviderEdits, key: str) -> int:
    """Return the sum of a count over the edits that a provider applied."""
    counts = (one.get(key) for one in edits.get("applied_edits", ()))
    return sum(one for one in counts if isinstance(one, int))


def compactions(usage: object) -> list[Mapping[str, Any]]:
    """Return what the compactions of a call used, which its other counts leave out."""
    return [one for one in _objects(usage, "iterations") if one.get("type") == "compaction"]


def _objects(given: object, key: str) -> list[Mapping[str, Any]]:
    held = given.get(key) if isinstance(given, Mapping) else None
    return [one for one in held if isinstance(one, Mapping)] if isinstance(held, list) else []
