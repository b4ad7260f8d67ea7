"""The templates of a cascade: where they stand, and what each looks at of what a run gives it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from jinja2 import nodes

from windlass.cascade.callout_rules import MESSAGES, OUTPUT, name_for
from windlass.cascade.decision_points import HumanInput
from windlass.cascade.load import PartialCascade
from windlass.cascade.model import Phase
from windlass.cascade.source import Path
from windlass.cascade.tools_named import all_soundings
from windlass.text.templates import syntax


class Template(NamedTuple):
    """A template, its place in the cascade, and the number of its phase (None: of none)."""

    path: Path
    text: str
    phase: int | None


def templates_of(partial: PartialCascade) -> Iterator[Template]:
    """Each template of a cascade, in the order in which a run comes to them."""
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
    """What of a phase is a template, by its place there (None: it says nothing there)."""
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
    """Each text in a value that holds others, with its place."""
    match value:
        case str():
            yield place, value
        case dict() | list() | tuple():
            for step, each in value.items() if isinstance(value, dict) else enumerate(value):
                yield from _texts((*place, step), each)
        case _:
            pass


class Lookup(NamedTuple):
    """`input.order.id` in a template: the name, the keys behind it, and its line.

    `certain`: no run of the template goes without it. `optional`: the last key may be missing, as
    the template asks first, or has a default.
    """

    name: str
    keys: tuple[str, ...]
    line: int
    certain: bool
    optional: bool

    @property
    def needed(self) -> tuple[str, ...]:
        """The keys that must be there."""
        return self.keys[:-1] if self.optional else self.keys


def lookups(template: str) -> list[Lookup]:
    """What a template looks at, in the order of its text. Raises TemplateError."""
    tree = syntax(template)
    # A name that the template sets itself may be another one by then.
    own = {each.name for each in tree.find_all(nodes.Name) if each.ctx != "load"}
    return [
        each._replace(certain=False) if each.name in own else each
        for each in _lookups(tree, certain=True)
    ]


_CERTAIN: Final[Mapping[type[nodes.Node], tuple[str, ...]]] = {
    nodes.Template: ("body",),
    nodes.Output: ("nodes",),
    nodes.If: ("test",),
    nodes.For: ("iter",),
    nodes.With: ("body",),
    nodes.FilterBlock: ("body",),
    nodes.AssignBlock: ("body",),
    nodes.And: ("left",),
    nodes.Or: ("left",),
    nodes.CondExpr: ("test",),
    nodes.Concat: ("nodes",),
    nodes.Mod: ("left",),
    nodes.Operand: ("expr",),
    nodes.Getattr: ("node",),
    nodes.Getitem: ("node",),
    nodes.Call: ("node",),
    nodes.Filter: ("node",),
}
"""What of a node no run goes without; all else may never be looked at."""

_BOTH: Final = (nodes.Add, nodes.Sub, nodes.Mul, nodes.Div, nodes.FloorDiv, nodes.Pow)
_ASKING: Final = frozenset({"d", "default", "items", "pprint"})
"""Filters that take what is not there."""
_LAZY: Final = frozenset(
    {"batch", "map", "reject", "rejectattr", "select", "selectattr", "slice", "unique"}
)
"""Filters that look at nothing until somebody takes what they give."""
_TAKING: Final = frozenset({"join", "list", "max", "min", "sort", "sum"})
"""Filters that take all that they are given."""


def _certain_fields(node: nodes.Node) -> tuple[str, ...]:
    if isinstance(node, _BOTH):
        return ("left", "right")
    if isinstance(node, nodes.UnaryExpr):
        return ("node",)
    if isinstance(node, nodes.Compare):
        # In an empty list nothing is compared; where the first fails, no other is looked at.
        first = () if node.ops[0].op in ("in", "notin") else ("expr",)
        return (*first, "ops") if len(node.ops) == 1 else first
    return _CERTAIN.get(type(node), ())


def _lookups(
    node: nodes.Node, *, certain: bool, optional: bool = False, taken: bool = False
) -> Iterator[Lookup]:
    """What stands in a node; `taken`: all of its value is taken, item by item."""
    name, keys = _chain(node)
    if name:
        yield Lookup(name, keys, node.lineno, certain, optional)
        return
    if isinstance(node, nodes.Compare) and (asked_for := _asked_for(node)):
        yield asked_for
        return
    inside = _certain_fields(node)
    spares = isinstance(node, nodes.Test)
    if isinstance(node, nodes.Filter):
        lazy = node.name in _LAZY
        spares = node.name in _ASKING or (lazy and not taken)
        taken = node.name in _TAKING or (lazy and taken)
    else:
        taken = isinstance(node, nodes.For)
    for field, value in node.iter_fields():
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, nodes.Node):
                asked = spares and field == "node"
                # What is asked for may be missing, and what it stands in may not.
                sure = certain and (field in inside or asked)
                yield from _lookups(each, certain=sure, optional=asked, taken=taken)


def _asked_for(node: nodes.Compare) -> Lookup | None:
    """What `'key' in state` asks for; None for another comparison."""
    match node:
        case nodes.Compare(expr=nodes.Const(value=str(key)), ops=[nodes.Operand() as operand]):
            name, keys = _chain(operand.expr)
            if name and operand.op in ("in", "notin"):
                return Lookup(name, (*keys, key), node.lineno, certain=False, optional=True)
    return None


def _chain(node: nodes.Node) -> tuple[str, tuple[str, ...]]:
    """A name and the keys behind it; '' where a node is something else."""
    match node:
        case nodes.Name(name=str(name), ctx="load"):
            return name, ()
        case nodes.Getattr(node=holder, attr=str(key)):
            pass
        case nodes.Getitem(node=holder, arg=nodes.Const(value=str(key))):
            pass
        case _:
            return "", ()
    name, keys = _chain(holder)
    return name, ((*keys, key) if name else ())
