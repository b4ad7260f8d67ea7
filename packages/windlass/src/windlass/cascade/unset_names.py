"""Names in templates that may not be set when a run comes to them, so that it fails there.

A key of the state that a model may or may not set, a name of the input that only some ways need,
and what an output does not have. Where a template asks first (`is defined`, `in state`, `default`),
nothing is told.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from windlass.cascade.check import unknown_names
from windlass.cascade.children import CascadeFamily
from windlass.cascade.flow import certain, may_have_run, sure_keys
from windlass.cascade.inputs_schema import fields_of
from windlass.cascade.load import LoadedCascade, PartialCascade
from windlass.cascade.model import Cascade
from windlass.cascade.needs import input_needs
from windlass.cascade.templates import templates_of
from windlass.errors import Mistake
from windlass.text.lookups import Lookup, lookups
from windlass.text.templates import LAST_ERROR, OUTPUT_OF, PhaseOutput, TemplateError


class _Use(NamedTuple):
    """A key of the input or the state that a template cannot do without, and its line in it."""

    of: str
    key: str
    line: int

    @property
    def name(self) -> str:
        return f"{self.of}.{self.key}"


def unset_names(
    family: CascadeFamily, inherited: frozenset[str] = frozenset()
) -> Iterator[Mistake]:
    """Yield a warning for each such place of a cascade and those below it.

    `inherited` are keys of the state that are there when it begins.
    """
    if family.loaded.partial is None:
        return
    yield from _of_cascade(family.loaded, family.loaded.partial, inherited)
    cascade = family.loaded.partial.cascade
    for (index, _), sub, child in family.parts():
        keys = {*inherited, *_state_before(cascade, index)} if sub.context_in else set[str]()
        yield from unset_names(child, frozenset(keys))
    for each in family.tool_cascades.values():
        yield from unset_names(each)


def _of_cascade(
    loaded: LoadedCascade, partial: PartialCascade, inherited: frozenset[str]
) -> Iterator[Mistake]:
    cascade = partial.cascade
    fields = fields_of(cascade.inputs_schema)
    given = {need.name for need in input_needs(loaded)}
    given |= {name for name, field in fields.items() if field.default is not None}
    for path, template, index in templates_of(partial):
        judged = {"content", "original_input"} if path[0] == "validators" else set[str]()
        there = {
            "input": {*given, *judged},
            "state": {*inherited, *_state_before(cascade, index)},
        }
        is_condition = path[-1] in ("if", "condition")
        if cascade.is_lenient:
            for name in unknown_names(path, template):
                text = f"there is no {name.name!r}; it prints nothing"
                yield partial.in_template(path, template, name.line, text)
        for use in _uses(template):
            if use.key in there.get(use.of, ()) or (use.of == "state" and is_condition):
                continue
            if use.name.startswith(f"state.{OUTPUT_OF}") or use.key == LAST_ERROR:
                continue
            way = f"use {use.name} | default('')"
            if cascade.is_lenient:
                way = "it prints nothing then"
            text = f"may not be set: {use.name}; {way}"
            yield partial.in_template(path, template, use.line, text)


def _state_before(cascade: Cascade, index: int | None) -> set[str]:
    """Return the keys that the state certainly has when the phase at `index` begins."""
    if index is None:
        return set()
    before = {*may_have_run(cascade.phases, index)} & certain(cascade.phases)
    before.discard(cascade.phases[index].name)
    ran = (phase for phase in cascade.phases if phase.name in before)
    return {key for phase in ran for key in sure_keys(cascade, phase)}


def _uses(template: str) -> list[_Use]:
    """Return what a template cannot do without, each name once."""
    try:
        found = lookups(template)
    except TemplateError:  # a mistake of its own
        return []
    asked = {(each.name, each.keys) for each in found if each.asked}
    uses: dict[str, _Use] = {}
    for each in found:
        is_asked = any((each.name, each.keys[:at]) in asked for at in range(1, len(each.keys) + 1))
        if not is_asked and (use := _use_in(each)) is not None:
            uses.setdefault(use.name, use)
    return list(uses.values())


def _use_in(lookup: Lookup) -> _Use | None:
    """Return `input.key`, `state.key` or `outputs.PHASE.key` that may not be there; else None."""
    match lookup.name, lookup.needed:
        case "outputs", (phase, key, *_) if key not in PhaseOutput.NAMES and not hasattr(str, key):
            return _Use(f"outputs.{phase}", key, lookup.line)
        case "input" | "state", (key, *_) if not hasattr(dict, key):
            return _Use(lookup.name, key, lookup.line)
        case _:
            return None
