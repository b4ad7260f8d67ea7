"""Policies by the names under which users compare them: a profile, `full`, or a file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from windlass.cascade.children import ReadyCascade
from windlass.cascade.load import FORMATS, Loaded, load, look
from windlass.cascade.model import Cascade
from windlass.cascade.source import ParsedText
from windlass.errors import CascadeError, UsageError, did_you_mean
from windlass.window.profiles import PROFILES

FULL: Final = "full"
"""The policy that shortens nothing and chooses nothing."""


class NamedPolicy(NamedTuple):
    """What a cascade says as `auto_context` under a policy (False: everything is sent)."""

    name: str
    auto_context: Mapping[str, Any] | bool

    def over(self, ready: ReadyCascade) -> ReadyCascade:
        """The cascade under this policy, and its sub-cascades likewise.

        What phases say of their own windows goes before it; under `full` they have none.
        """
        data = {"cascade_id": "policy", "phases": [_PHASE], "auto_context": self.auto_context}
        auto = Cascade.model_validate(data).auto_context
        cascade = ready.cascade.model_copy(update={"auto_context": auto})
        if not auto:
            off = {"intra_context": False}
            phases = tuple(each.model_copy(update=off) for each in cascade.phases)
            cascade = cascade.model_copy(update={"phases": phases})
        children = {place: self.over(child) for place, child in ready.children.items()}
        return ReadyCascade(cascade, ready.registry, children)


_PHASE: Final = {"name": "phase", "instructions": "-"}


def policy_of(name: str | Path, auto_context: object = None) -> NamedPolicy:
    """The policy of that name, or the one that `auto_context` describes.

    A name is a profile's, `full`, or that of a JSON or YAML file with the key `auto_context`, such
    as a cascade. Raises UsageError, CascadeError with the mistakes of a file.
    """
    known = str(name)
    if auto_context is not None:
        return NamedPolicy(known, _checked(ParsedText(f"policy {known!r}", None), auto_context))
    if known == FULL:
        return NamedPolicy(FULL, auto_context=False)
    if known in PROFILES:
        return NamedPolicy(known, {"profile": known})
    path = Path(name)
    if path.suffix.lower() not in FORMATS:
        hint = did_you_mean(known, (*PROFILES, FULL))
        raise UsageError(
            f"there is no policy {known!r}; {hint}; a file with 'auto_context' ends in"
            f" {' or '.join(FORMATS)}"
        )
    reading = load(path).reading
    if reading.data.get("auto_context") is None:
        raise UsageError(f"{known}: it says nothing of 'auto_context', so it names no policy")
    return NamedPolicy(known, _checked(reading, reading.data["auto_context"]))


def _checked(reading: ParsedText, auto_context: object) -> Mapping[str, Any] | bool:
    """The value, where `auto_context` may be that; mistakes have the lines of its file."""
    data = {"cascade_id": "policy", "phases": [_PHASE], "auto_context": auto_context}
    loaded: Loaded = look(ParsedText(reading.file, data, reading.lines))
    if loaded.mistakes:
        raise CascadeError(loaded.mistakes)
    value: Mapping[str, Any] | bool = json.loads(json.dumps(auto_context))
    return value
