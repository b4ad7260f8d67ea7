"""Policies by the names under which users compare them: profiles, options, files, everything."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from windlass.cascade.load import FORMATS, LoadedCascade, load, validate
from windlass.cascade.model import Cascade
from windlass.cascade.ready import ReadyCascade
from windlass.cascade.source import ParsedText
from windlass.errors import CascadeError, UsageError, did_you_mean
from windlass.safety.foreign import parse_json
from windlass.window.options import OPTIONS, over
from windlass.window.profiles import PROFILES

EVERYTHING: Final = "everything"
"""The policy that shortens nothing and chooses nothing."""
FULL: Final = "full"
"""The same, as `context_strategy` calls it."""
MASK: Final = "mask"
_KNOWN: Final = (EVERYTHING, FULL, f"{MASK}:TURNS", *PROFILES)
_ALL_OFF: Final[Mapping[str, Any]] = {
    **{name: None for name, option in OPTIONS.items() if option.optional or option.is_block},
    **{name: False for name, option in OPTIONS.items() if option.kind is bool},
    "enabled": True,
    "commit": "at_once",
    "preserve_reasoning": True,
}


class NamedPolicy(NamedTuple):
    """What a cascade says as `auto_context` under a policy (False: everything is sent)."""

    name: str
    auto_context: Mapping[str, Any] | bool

    def over(self, ready: ReadyCascade) -> ReadyCascade:
        """Return the cascade under this policy, and its sub-cascades likewise.

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
        tools = {file: self.over(each) for file, each in ready.tool_cascades.items()}
        return ready._replace(cascade=cascade, children=children, tool_cascades=tools)


_DIGITS: Final = 8
"""Digits of a number of turns."""
_DEPTH: Final = 9
"""Dots in the name of an option."""
_TOLD: Final = 80
"""Characters of a name in an error."""
_PHASE: Final = {"name": "phase", "instructions": "-"}


def policy_of(name: str | Path, auto_context: object = None) -> NamedPolicy:
    """Return the policy of that name, or the one that `auto_context` describes.

    A name is a profile's; `everything` (or `full`); `mask:TURNS`, which hides older results at
    once; a profile and options, `lean,window=3`; or that of a JSON or YAML file, of a cascade or of
    an `auto_context`. Raises UsageError, CascadeError with the mistakes of a file.
    """
    named = str(name)
    if auto_context is not None:
        return NamedPolicy(named, _checked(ParsedText(f"policy {named!r}", None), auto_context))
    if Path(name).suffix.lower() in FORMATS:
        return NamedPolicy(named, _in_file(Path(name)))
    first, _, written = named.partition(",")
    if first in (EVERYTHING, FULL):
        title = named.replace(FULL, EVERYTHING, 1)
        if not written:
            return NamedPolicy(title, auto_context=False)
        off = {"enabled": False, **_options(written, named)}
        return NamedPolicy(title, _of_windows(named, off, {"inter_phase": False}))
    kind, colon, turns = first.partition(":")
    if kind == MASK and colon:
        if not turns.isdecimal() or turns == "0" or len(turns) > _DIGITS:
            raise UsageError(
                f"policy {named[:_TOLD]!r}: {MASK}:TURNS takes a whole number from 1,"
                f" of {_DIGITS} digits at most"
            )
        masking = {**_ALL_OFF, "mask_observations_after": int(turns), "min_masked_chars": 100}
        options = over(masking, _options(written, named))
        return NamedPolicy(named, _of_windows(named, options, {"inter_phase": False}))
    if first in PROFILES:
        options = _options(written, named)
        return NamedPolicy(named, _of_windows(named, options, {"profile": first}))
    key, equals, _ = first.partition("=")
    if equals and key.partition(".")[0] in OPTIONS:
        options = _options(named, named)
        return NamedPolicy(named, _of_windows(named, options, {"profile": "default"}))
    raise UsageError(
        f"there is no policy {named!r}: {did_you_mean(first, _KNOWN)}; or OPTION=VALUE,"
        f" or a file ({', '.join(FORMATS)}) with an auto_context"
    )


def _of_windows(
    named: str, options: Mapping[str, Any], beside: Mapping[str, Any]
) -> Mapping[str, Any] | bool:
    """Return an `auto_context` whose windows have these options."""
    auto = {**beside, **({"intra_phase": options} if options else {})}
    return _checked(ParsedText(f"policy {named!r}", None), auto)


def _options(written: str, named: str) -> dict[str, Any]:
    """Return `a=1,b.c=x` as an object; a value is JSON where it can be read so, else a word."""
    options: dict[str, Any] = {}
    for item in filter(None, _split(written)):
        name, equals, value = item.partition("=")
        if not equals:
            raise UsageError(f"policy {named!r}: options are written OPTION=VALUE, not {item!r}")
        if name.count(".") > _DEPTH:
            raise UsageError(f"policy {named[:_TOLD]!r}: there is no option {name[:_TOLD]!r}")
        try:
            given = parse_json(value)
        except ValueError:
            given = value
        for key in reversed(name.split(".")):
            given = {key: given}
        options = over(options, given)
    return options


def _split(written: str) -> list[str]:
    """Return the items between the commas that stand in no brackets."""
    items, depth = [""], 0
    for char in written:
        depth += (char in "{[") - (char in "}]")
        if char == "," and depth == 0:
            items.append("")
        else:
            items[-1] += char
    return items


def _in_file(path: Path) -> Mapping[str, Any] | bool:
    """Return what a file says: its `auto_context`, or the whole of it."""
    if not path.is_file():
        reason = "there is no such file" if not path.exists() else "it is not a file"
        known = ", ".join(_KNOWN)
        raise UsageError(f"policy {str(path)!r}: {reason}; known without a file: {known}")
    reading = load(path).reading
    data = reading.data
    if "auto_context" in data or "phases" in data:
        return _checked(reading, data.get("auto_context", False))
    return _checked(ParsedText(reading.file, None), data)


def _checked(reading: ParsedText, auto_context: object) -> Mapping[str, Any] | bool:
    """Return the value, where `auto_context` may be that; mistakes have the lines of its file."""
    data = {"cascade_id": "policy", "phases": [_PHASE], "auto_context": auto_context}
    loaded: LoadedCascade = validate(ParsedText(reading.file, data, reading.lines))
    if loaded.mistakes:
        raise CascadeError(loaded.mistakes)
    value: Mapping[str, Any] | bool = json.loads(json.dumps(auto_context))
    return value
