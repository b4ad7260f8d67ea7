"""Cascades read leniently: tools and validators that are not there are left out with warnings."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from windlass.cascade._tools_at_hand import ToolsAtHand
from windlass.cascade.deterministic import SQL
from windlass.cascade.load import Loaded
from windlass.cascade.parts import without
from windlass.tools.registry import Registry


def without_unknown_tools(loaded: Loaded, tools: Registry, servers: Collection[str] = ()) -> Loaded:
    """Return what a text holds without the tools and validators that are not there, with warnings.

    A phase that runs such a tool stays, and fails when a run comes to it.
    """
    if loaded.partial is None:
        return loaded
    at_hand = ToolsAtHand(loaded.partial, tools, servers)
    list(at_hand.register_own())  # what is wrong with them is said by `check`
    cascade, warnings = loaded.partial.cascade, list(loaded.warnings)
    for index, phase in enumerate(cascade.phases):
        tool = phase.tool if phase.tool and not phase.tool.startswith(SQL) else None
        if tool is not None and (why := at_hand.missing(phase, tool)):
            text = f"{why}; a run that comes here fails"
            warnings.append(at_hand.mistake(("phases", index, "tool"), text))
    absent = [each for each in at_hand.absent() if "evaluator" not in each.path]
    warnings += [at_hand.mistake(each.place, f"{each.why}; it is left out") for each in absent]
    for each in reversed(absent):  # from the end, so that positions in lists still hold
        cascade = without(cascade, each.path)
    partial = replace(loaded.partial, cascade=cascade)
    return replace(loaded, partial=partial, warnings=tuple(warnings))
