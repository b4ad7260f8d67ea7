"""Names in templates that may not be set when a run comes to them, so that it fails there.

A key of the state that a model may or may not set, a name of the input that only some ways need,
and what an output does not have. Where a template asks first (`is defined`, `in state`, `default`),
nothing is told.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from jinja2 import nodes

from windlass.cascade._tool_checks import input_templates
from windlass.cascade.callout_rules import MESSAGES, OUTPUT, name_for
from windlass.cascade.check import unknown_names
from windlass.cascade.children import CascadeFamily
from windlass.cascade.decision_points import HumanInput
from windlass.cascade.flow import certain, may_have_run
from windlass.cascade.inputs_schema import fields_of
from windlass.cascade.load import Loaded, PartialCascade
from windlass.cascade.model import Cascade
from windlass.cascade.needs import input_needs
from windlass.cascade.source import Path
from windlass.cascade.tools_named import all_soundings
from windlass.errors import Mistake
from windlass.text.templates import (
    LAST_ERROR,
    NAMES,
    OUTPUT_OF,
    PhaseOutput,
    TemplateError,
    syntax,
)

_SET_STATE: Final = "set_state"
_ASKED: Final = frozenset({"defined", "undefined"})
_TOLERANT: Final = frozenset({"d", "default"})


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
    """A warning for each such place of a cascade and those below it.

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
    loaded: Loaded, partial: PartialCascade, inherited: frozenset[str]
) -> Iterator[Mistake]:
    cascade = partial.cascade
    fields = fields_of(cascade.inputs_schema)
    given = {need.name for need in input_needs(loaded)}
    given |= {name for name, field in fields.items() if field.default is not None}
    for path, template, index in _templates(partial):
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
    """The keys that the state certainly has when the phase at `index` begins."""
    if index is None:
        return set()
    sure, keys = certain(cascade.phases), set[str]()
    before = {*may_have_run(cascade.phases, index)} & {*sure}
    for phase in cascade.phases:
        if phase.name not in before or phase is cascade.phases[index]:
            continue
        extraction = phase.output_extraction
        if extraction is not None and extraction.required:
            keys.add(extraction.store_as)
        if cascade.settings_for(phase).output_schema is not None:
            keys.add("validated_output")
        asked = phase.human_input
        if isinstance(asked, HumanInput) and not (asked.condition or asked.timeout_seconds):
            keys.add(phase.name)
        key = phase.inputs.get("key") if phase.tool == _SET_STATE else None
        if isinstance(key, str):
            keys.add(key)
    return keys


def _templates(partial: PartialCascade) -> Iterator[tuple[Path, str, int | None]]:
    """Each template of a cascade with its place, and the index of its phase."""
    cascade = partial.cascade
    if cascade.system is not None:
        yield ("system",), cascade.system, None
    for name, validator in cascade.validators.items():
        yield ("validators", name, "instructions"), validator.instructions, None
    for place, soundings in all_soundings(cascade).items():
        for key, text in soundings.templates.items():
            yield (*place, *key.split(".")), text, int(place[1]) if len(place) > 1 else None
    for index, phase in enumerate(cascade.phases):
        base: Path = ("phases", index)
        found: dict[Path, str | None] = {
            ("instructions",): phase.instructions,
            ("system",): phase.system,
            **{("rules", key): text for key, text in phase.rules.templates.items()},
        }
        for what in (OUTPUT, MESSAGES):
            rule = name_for(phase.callouts, what)
            found["callouts", what] = rule.as_ if rule is not None else None
        for place, source in phase.sources.items():
            short = partial.written((*base, *place, "if")) is not None
            found[*place, "if" if short else "condition"] = source.condition
        found |= dict(input_templates(phase))
        for at, template in found.items():
            if template is not None:
                yield (*base, *at), template, index


def _uses(template: str) -> list[_Use]:
    """What a template cannot do without, each name once."""
    try:
        tree = syntax(template)
    except TemplateError:  # a mistake of its own
        return []
    spared, asked = _asked_for(tree)
    uses: dict[str, _Use] = {}
    for node in tree.find_all((nodes.Getattr, nodes.Getitem)):
        use = _use_in(node)
        if use is not None and id(node) not in spared and use.name not in asked:
            uses.setdefault(use.name, use)
    return list(uses.values())


def _asked_for(tree: nodes.Template) -> tuple[set[int], set[str]]:
    """The nodes that may be missing, and the names that the template asks for before."""
    spared: set[int] = set()
    asked: set[str] = set()
    for each in tree.find_all((nodes.Filter, nodes.Test)):
        if isinstance(each, nodes.Test) and each.name in _ASKED and (use := _use_in(each.node)):
            asked.add(use.name)
        if each.name in (_ASKED if isinstance(each, nodes.Test) else _TOLERANT):
            spared.add(id(each.node))
    for compared in tree.find_all(nodes.Compare):
        holder = compared.ops[0].expr
        if isinstance(compared.expr, nodes.Const) and isinstance(holder, nodes.Name):
            asked.add(f"{holder.name}.{compared.expr.value}")
    return spared, asked


def _use_in(node: nodes.Node | None) -> _Use | None:
    """`input.key`, `state.key` or `outputs.PHASE.key` that may not be there; else None."""
    key = _key(node)
    if not isinstance(node, nodes.Getattr | nodes.Getitem) or key is None:
        return None
    holder = node.node
    if isinstance(holder, nodes.Name) and holder.name in NAMES and holder.name != "outputs":
        return None if hasattr(dict, key) else _Use(holder.name, key, node.lineno)
    phase = _key(holder)
    if phase is None or not isinstance(holder, nodes.Getattr | nodes.Getitem):
        return None
    if not isinstance(holder.node, nodes.Name) or holder.node.name != "outputs":
        return None
    if key in PhaseOutput.NAMES or hasattr(str, key):
        return None
    return _Use(f"outputs.{phase}", key, node.lineno)


def _key(node: nodes.Node | None) -> str | None:
    if isinstance(node, nodes.Getattr):
        return node.attr
    if isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Const):
        return node.arg.value if isinstance(node.arg.value, str) else None
    return None
