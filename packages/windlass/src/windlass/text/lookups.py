"""What templates look at: the names that they use, the keys behind these, and what is certain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from jinja2 import nodes
from jinja2.meta import find_undeclared_variables

from windlass.text.templates import NAMES, syntax


@dataclass(frozen=True, slots=True)
class NameUse:
    """A name that a template uses, and its line in it; `of` is `outputs` for a phase, else ''."""

    name: str
    line: int
    of: str = ""


def find_names(template: str) -> list[NameUse]:
    """Give the names a template uses without defining them, and the phases it takes from `outputs`.

    A name of its own under the filter `default`, or in a test such as `is defined`, need not be
    there and is not among them.

    Raises:
        TemplateError: the template cannot be read.
    """
    tree = syntax(template)
    free, used = find_undeclared_variables(tree), set[NameUse]()
    for name, keys, line, _, _, asked in _lookups(tree, certain=True):
        if name in free and (keys or not asked or name in NAMES):
            used.add(NameUse(name, line))
        # `outputs.items()` and its like are methods of every mapping.
        if name == "outputs" and keys and not hasattr(dict, keys[0]):
            used.add(NameUse(keys[0], line, of="outputs"))
    return sorted(used, key=lambda use: (use.line, use.of, use.name))


class Lookup(NamedTuple):
    """`input.order.id` in a template: the name, the keys behind it, and its line.

    `certain`: no run of the template goes without it. `optional`: the last key may be missing;
    `asked`: because the template asks for it, or has a default.
    """

    name: str
    keys: tuple[str, ...]
    line: int
    certain: bool
    optional: bool
    asked: bool = False

    @property
    def needed(self) -> tuple[str, ...]:
        """Return the keys that must be there."""
        return self.keys[:-1] if self.optional else self.keys


def lookups(template: str) -> list[Lookup]:
    """Return what a template looks at, in the order of its text. Raises TemplateError.

    A name that the template sets once, and to a part of another one, stands for that part.
    """
    tree = syntax(template)
    own = Counter(each.name for each in tree.find_all(nodes.Name) if each.ctx != "load")
    meant: dict[str, tuple[str, tuple[str, ...]]] = {}
    for node in tree.body:
        match node:
            case nodes.Assign(target=nodes.Name(name=name), node=value) if own[name] == 1:
                holder, keys = _chain(value)
                if holder and holder not in own:
                    meant[name] = holder, keys
    return [_meant(each, own, meant) for each in _lookups(tree, certain=True)]


def _meant(
    each: Lookup, own: Container[str], meant: Mapping[str, tuple[str, tuple[str, ...]]]
) -> Lookup:
    if each.name in meant:
        name, keys = meant[each.name]
        return each._replace(name=name, keys=(*keys, *each.keys))
    # A name that the template sets otherwise may be anything by then.
    return each._replace(certain=False) if each.name in own else each


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
_ASKED: Final = frozenset({"d", "default", "defined", "undefined"})
"""Filters and tests for what may not be there."""
_TOLERANT: Final = frozenset({"d", "default", "items", "pprint"})
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
    node: nodes.Node,
    *,
    certain: bool,
    optional: bool = False,
    asked: bool = False,
    taken: bool = False,
) -> Iterator[Lookup]:
    """Yield what stands in a node; `taken`: all of its value is taken, item by item."""
    name, keys = _chain(node)
    if name:
        yield Lookup(name, keys, node.lineno, certain, optional, asked)
        return
    if isinstance(node, nodes.Compare) and (asked_for := _asked_for(node)):
        yield asked_for
        return
    inside = _certain_fields(node)
    spares = isinstance(node, nodes.Test)
    if isinstance(node, nodes.Filter):
        lazy = node.name in _LAZY
        spares = node.name in _TOLERANT or (lazy and not taken)
        taken = node.name in _TAKING or (lazy and taken)
    else:
        taken = isinstance(node, nodes.For)
    for field, value in node.iter_fields():
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, nodes.Node):
                spared = spares and field == "node"
                asks = spared and getattr(node, "name", "") in _ASKED
                # What is asked for may be missing, and what it stands in may not.
                sure = certain and (field in inside or spared)
                yield from _lookups(each, certain=sure, optional=spared, asked=asks, taken=taken)


def _asked_for(node: nodes.Compare) -> Lookup | None:
    """Return what `'key' in state` asks for; None for another comparison."""
    match node:
        case nodes.Compare(expr=nodes.Const(value=str(key)), ops=[nodes.Operand() as operand]):
            name, keys = _chain(operand.expr)
            if name and operand.op in ("in", "notin"):
                return Lookup(
                    name, (*keys, key), node.lineno, certain=False, optional=True, asked=True
                )
    return None


def _chain(node: nodes.Node) -> tuple[str, tuple[str, ...]]:
    """Return a name and the keys behind it; '' where a node is something else."""
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
