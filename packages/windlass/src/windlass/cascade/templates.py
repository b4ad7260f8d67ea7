"""The templates of a cascade, and where they stand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from windlass.cascade.callout_rules import MESSAGES, OUTPUT, name_for
from windlass.cascade.decision_points import HumanInput
from windlass.cascade.load import PartialCascade
from windlass.cascade.model import Phase
from windlass.cascade.source import Path
from windlass.cascade.tools_named import all_soundings


class Template(NamedTuple):
    """A template, its place in the cascade, and the number of its phase (None: of none)."""

    path: Path
    text: str
    phase: int | None


def templates_of(partial: PartialCascade) -> Iterator[Template]:
    """Yield each template of a cascade, in the order in which a run comes to them."""
    cascade = partial.cascade
    if cascade.system is not None:
        yield Template(("system",), cascade.system, None)
    for name, validator in cascade.validators.items():
        yield Template(("validators", name, "instructions"), validator.instructions, None)
    for place, soundings in all_soundings(cascade).items():
        at = int(place[1]) if len(place) > 1 else 0
        for key, text in soundings.templates.items():
            yield Template((*place, *key.split(".")), text, at)
    for index, phase in enumerate(cascade.phases):
        base: Path = ("phases", index)
        for place, written in _of_phase(phase).items():
            path: Path = (*base, *place)
            is_short = place[0] in ("context", "inject_from") and place[-1] == "condition"
            if is_short and partial.written((*path[:-1], "if")) is not None:
                path = (*path[:-1], "if")
            if written is not None:
                yield Template(path, written, index)


def _of_phase(phase: Phase) -> dict[Path, str | None]:
    """Return what of a phase is a template, by its place there (None: it says nothing there)."""
    found: dict[Path, str | None] = {
        (*place, "condition"): source.condition for place, source in phase.sources.items()
    }
    if isinstance(phase.human_input, HumanInput):
        found["human_input", "condition"] = phase.human_input.asks_if
    found |= {("instructions",): phase.instructions, ("system",): phase.system}
    found |= {("rules", key): text for key, text in phase.rules.templates.items()}
    for what in (OUTPUT, MESSAGES):
        rule = name_for(phase.callouts, what)
        found["callouts", what] = rule.as_ if rule is not None else None
    return found | dict(_texts(("inputs",), phase.inputs))


def _texts(place: Path, value: Any) -> Iterator[tuple[Path, str]]:
    """Yield each text in a value that holds others, with its place."""
    match value:
        case str():
            yield place, value
        case dict() | list() | tuple():
            for step, each in value.items() if isinstance(value, dict) else enumerate(value):
                yield from _texts((*place, step), each)
        case _:
            pass
