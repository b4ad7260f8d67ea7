"""Cascades read leniently: tools and validators that are not there are left out with warnings."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from windlass.cascade._tools_at_hand import ToolsAtHand
from windlass.cascade.deterministic import SQL
from windlass.cascade.load import Loaded
from windlass.cascade.model import Phase
from windlass.cascade.sounding_options import Soundings
from windlass.cascade.source import Path
from windlass.cascade.wards import PLACES, Ward, Wards
from windlass.errors import Mistake
from windlass.tools.registry import Registry


def without_unknown_tools(loaded: Loaded, tools: Registry, servers: Collection[str] = ()) -> Loaded:
    """What a text holds without the tools of its tackles that are not there, with warnings.

    A phase that runs such a tool stays, and fails when a run comes to it.
    """
    if loaded.partial is None:
        return loaded
    at_hand = ToolsAtHand(loaded.partial, tools, servers)
    list(at_hand.register_own())  # what is wrong with them is said by `check`
    cascade, warnings = loaded.partial.cascade, list(loaded.warnings)
    phases = [
        _phase_without(at_hand, index, phase, warnings)
        for index, phase in enumerate(cascade.phases)
    ]
    cascade = cascade.model_copy(update={"phases": tuple(phases)})
    partial = replace(loaded.partial, cascade=cascade)
    return replace(loaded, partial=partial, warnings=tuple(warnings))


def _phase_without(
    at_hand: ToolsAtHand, index: int, phase: Phase, warnings: list[Mistake]
) -> Phase:
    """The phase without what is not there; `warnings` are added to."""
    base: Path = ("phases", index)
    changes: dict[str, Any] = {}
    tool = phase.tool if phase.tool and not phase.tool.startswith(SQL) else None
    if tool is not None and (why := at_hand.missing(phase, tool)):
        text = f"{why}; a run that comes here fails"
        warnings.append(at_hand.mistake((*base, "tool"), text))
    if phase.tackle and phase.tackle != "manifest":
        reasons = {name: at_hand.missing(phase, name) for name in phase.tackle}
        changes["tackle"] = tuple(name for name in phase.tackle if reasons[name] is None)
        for name, why in reasons.items():
            if why is not None:
                path = at_hand.in_tackle(index, name)
                warnings.append(at_hand.mistake(path, f"{why}; it is left out"))
    validator = phase.rules.loop_until
    why = at_hand.not_a_validator(validator) if validator is not None else None
    if why is not None:
        warnings.append(at_hand.mistake((*base, "rules", "loop_until"), f"{why}; it is left out"))
        changes["rules"] = phase.rules.model_copy(update={"loop_until": None})
    if phase.soundings is not None:
        changes["soundings"] = _soundings_without(at_hand, base, phase.soundings, warnings)
    if phase.wards is not None:
        changes["wards"] = _wards_without(at_hand, base, phase.wards, warnings)
    return phase.model_copy(update=changes)


def _soundings_without(
    at_hand: ToolsAtHand, base: Path, soundings: Soundings, warnings: list[Mistake]
) -> Soundings:
    """The soundings without a validator or a threshold that is not there."""
    changes: dict[str, Any] = {}
    reforge = soundings.reforge
    for key in ("validator", "reforge.threshold"):
        name = soundings.judges.get(key)
        why = at_hand.not_a_validator(name) if name is not None else None
        if why is None:
            continue
        path = (*base, "soundings", *key.split("."))
        warnings.append(at_hand.mistake(path, f"{why}; it is left out"))
        if reforge is not None and key == "reforge.threshold":
            changes["reforge"] = reforge.model_copy(update={"threshold": None})
        else:
            changes["validator"] = None
    return soundings.model_copy(update=changes)


def _wards_without(
    at_hand: ToolsAtHand, base: Path, wards: Wards, warnings: list[Mistake]
) -> Wards:
    """The wards whose validators are there; `warnings` are added to."""
    stay: dict[str, tuple[Ward, ...]] = {}
    for place in PLACES:
        reasons = [(ward, at_hand.not_a_validator(ward.validator)) for ward in wards.at(place)]
        stay[place] = tuple(ward for ward, why in reasons if why is None)
        for number, (_, why) in enumerate(reasons):
            if why is not None:
                path = (*base, "wards", place, number)
                warnings.append(at_hand.mistake(path, f"{why}; it is left out"))
    return wards.model_copy(update=stay)
