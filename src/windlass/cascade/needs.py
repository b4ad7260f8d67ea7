"""What templates need of their input: the names without which they cannot be rendered.

Only what is certain counts. What stands behind a condition, in a loop, under `default` or in a
test such as `is defined` may never be looked at, and is no need. A name is needed where every
way through the template uses it; using one that is not there fails.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from types import MappingProxyType
from typing import Final, TypeAlias

from jinja2 import nodes

from windlass.cascade._tool_checks import input_templates
from windlass.cascade.compile import reach
from windlass.cascade.flow import certain
from windlass.cascade.inputs_schema import InputField, fields_of
from windlass.cascade.load import Loaded, PartialCascade
from windlass.cascade.source import Path
from windlass.cascade.tools_named import all_soundings
from windlass.errors import Mistake, did_you_mean
from windlass.text.templates import TemplateError, syntax


@dataclass(frozen=True, slots=True)
class Need:
    """A name of the input that a template needs, and the first line in it that uses it."""

    name: str
    line: int


class _Input:
    """Stands for `input` itself."""


_INPUT: Final = _Input()
_Value: TypeAlias = _Input | Need | None
"""What an expression gives: the input, one of its names, or something of which nothing is known."""
_Names: TypeAlias = dict[str, _Value]

_TOLERANT: Final = frozenset({"default", "d", "items", "pprint"})
"""Filters that take what is not there."""
_LAZY: Final = frozenset(
    {"batch", "map", "reject", "rejectattr", "select", "selectattr", "slice", "unique"}
)
"""Filters that look at nothing until somebody takes what they give."""
_TAKING: Final = frozenset({"join", "list", "max", "min", "sort", "sum"})
"""Filters that take all that they are given."""


def needs_of(template: str, of: str = "input") -> tuple[Need, ...]:
    """The names of the input without which the template fails, in the order of their lines.

    `of` is what the template calls the input. Raises TemplateError where it cannot be read.
    """
    walk = _Walk()
    walk.run(syntax(template).body, {of: _INPUT})
    needs = (Need(name, line) for name, line in walk.used.items())
    return tuple(sorted(needs, key=lambda need: (need.line, need.name)))


def names_of(template: str) -> set[str] | None:
    """The names of the input that a template may look at (None: perhaps all of them).

    Raises TemplateError where it cannot be read.
    """
    tree = syntax(template)
    names: set[str] = set()
    parts = 0
    attributes, items = tree.find_all(nodes.Getattr), tree.find_all(nodes.Getitem)
    looked_into: tuple[nodes.Getattr | nodes.Getitem, ...] = (*attributes, *items)
    for node in looked_into:
        if isinstance(node.node, nodes.Name) and node.node.name == "input":
            key = node.attr if isinstance(node, nodes.Getattr) else getattr(node.arg, "value", None)
            if not isinstance(key, str) or hasattr(dict, key):
                return None
            names.add(key)
            parts += 1
    return (
        names if parts == sum(node.name == "input" for node in tree.find_all(nodes.Name)) else None
    )


class _Walk:
    """One way through a template: the names it is certain to use, and where it first does."""

    def __init__(self) -> None:
        self.used: dict[str, int] = {}

    def use(self, value: _Value) -> None:
        """The value is printed, compared or looked into, which a missing one does not survive."""
        if isinstance(value, Need):
            self.used[value.name] = min(value.line, self.used.get(value.name, value.line))

    # ---- statements ------------------------------------------------------------------

    def run(self, body: Iterable[nodes.Node], names: _Names) -> None:
        """Statements, one after the other; `names` are the variables, which they may set."""
        for node in body:
            self.statement(node, names)

    def statement(self, node: nodes.Node, names: _Names) -> None:
        match node:
            case nodes.Output():
                for each in node.nodes:
                    self.use(self.value(each, names))
            case nodes.If():
                self.use(self.value(node.test, names))
                later = node.else_
                if node.elif_:
                    first, *others = node.elif_
                    later = [nodes.If(first.test, first.body, others, node.else_)]
                self.either([node.body, later], names)
            case nodes.For():
                self.use(self.value(node.iter, names, taken=True))
            case nodes.Assign():
                self.assign(node.target, self.value(node.node, names), names)
            case nodes.AssignBlock():
                self.run(node.body, dict(names))
                self.assign(node.target, None, names)
            case nodes.With():
                values = [self.value(each, names) for each in node.values]
                inside = dict(names)
                for target, value in zip(node.targets, values, strict=True):
                    self.assign(target, value, inside)
                self.run(node.body, inside)
            case nodes.FilterBlock() | nodes.ScopedEvalContextModifier():
                self.run(node.body, dict(names))
            case nodes.Macro():
                names[node.name] = None
            case nodes.CallBlock() | nodes.Block():
                pass  # what stands in it may be left out, or see other names
            case _:
                # Unknown to us: from here on nothing is certain of any variable.
                names.update(dict.fromkeys(names))

    def assign(self, target: nodes.Node, value: _Value, names: _Names) -> None:
        if isinstance(target, nodes.Name):
            names[target.name] = value
            return
        if isinstance(target, nodes.Tuple):
            self.use(value)  # it is taken apart
        for each in target.find_all(nodes.Name):
            names[each.name] = None

    def either(self, bodies: Sequence[Sequence[nodes.Node]], names: _Names) -> None:
        """One of several ways: certain is only what all of them use, and set alike."""
        ways = []
        for body in bodies:
            inside = dict(names)
            way = _Walk()
            way.run(body, inside)
            ways.append((way, inside))
        self.common([way for way, _ in ways])
        for name in {name for _, inside in ways for name in inside}:
            values = [inside.get(name) for _, inside in ways]
            names[name] = values[0] if all(value == values[0] for value in values) else None

    def common(self, ways: Sequence[_Walk]) -> None:
        for name in reduce(set.intersection, (set(way.used) for way in ways)):
            for way in ways:
                self.use(Need(name, way.used[name]))

    # ---- expressions -----------------------------------------------------------------

    def value(self, node: nodes.Node, names: _Names, *, taken: bool = False) -> _Value:
        """What an expression gives; what is certain to be used on the way is noted.

        `taken`: all of it is taken, item by item.
        """
        match node:
            case nodes.Name():
                return names.get(node.name)
            case nodes.Getattr():
                return self.part(node, node.attr, names)
            case nodes.Getitem():
                self.value(node.arg, names)
                key = node.arg.value if isinstance(node.arg, nodes.Const) else None
                return self.part(node, key if isinstance(key, str) else None, names)
            case nodes.Filter():
                self.filter(node, names, taken=taken)
            case nodes.Test():
                self.value(node.node, names)
            case nodes.Call():
                self.call(node, names)
            case nodes.And() | nodes.Or():
                self.use(self.value(node.left, names))
            case nodes.CondExpr():
                return self.choice(node, names, taken=taken)
            case nodes.Compare():
                self.compare(node, names)
            case nodes.Mod():
                self.use(self.value(node.left, names))
                self.value(node.right, names)
            case nodes.BinExpr():
                for each in (node.left, node.right):
                    self.use(self.value(each, names))
            case nodes.UnaryExpr():
                self.use(self.value(node.node, names))
            case nodes.Concat():
                for each in node.nodes:
                    self.use(self.value(each, names))
            case nodes.List() | nodes.Tuple():
                for each in node.items:
                    self.value(each, names)
            case nodes.Dict():
                for pair in node.items:
                    self.value(pair.value, names)
        return None

    def part(self, node: nodes.Getattr | nodes.Getitem, key: str | None, names: _Names) -> _Value:
        """`input.key`, or something of another value, which must be there for it."""
        owner = self.value(node.node, names)
        self.use(owner)
        # `input.items` may be the method that every mapping has.
        if isinstance(owner, _Input) and key is not None and not hasattr(dict, key):
            return Need(key, node.lineno)
        return None

    def filter(self, node: nodes.Filter, names: _Names, *, taken: bool) -> None:
        for each in (*node.args, *(pair.value for pair in node.kwargs)):
            self.value(each, names)
        if node.node is None:
            return
        takes = node.name in _TAKING or (node.name in _LAZY and taken)
        value = self.value(node.node, names, taken=takes)
        if node.name not in _TOLERANT and (node.name not in _LAZY or taken):
            self.use(value)

    def call(self, node: nodes.Call, names: _Names) -> None:
        self.use(self.value(node.node, names))
        for each in (*node.args, *(pair.value for pair in node.kwargs)):
            value = self.value(each, names)
            if isinstance(node.node, nodes.Name) and node.node.name == "range":
                self.use(value)

    def choice(self, node: nodes.CondExpr, names: _Names, *, taken: bool) -> _Value:
        self.use(self.value(node.test, names))
        ways, values = [], []
        for each in filter(None, (node.expr1, node.expr2)):
            ways.append(_Walk())
            values.append(ways[-1].value(each, names, taken=taken))
        if node.expr2 is not None:
            self.common(ways)
            if values[0] == values[1]:
                return values[0]
        return None

    def compare(self, node: nodes.Compare, names: _Names) -> None:
        first = node.ops[0]  # where it does not hold, nothing behind it is looked at
        value = self.value(node.expr, names)
        among = self.value(first.expr, names)
        if first.op in ("in", "notin"):
            self.use(among)  # in an empty list nothing is compared
        else:
            self.use(value)
            self.use(among)


# ---- what a whole cascade needs of its input --------------------------------------------------


@dataclass(frozen=True, slots=True)
class InputNeed:
    """A name of the input that a run cannot do without; `use` is where a template uses it first."""

    name: str
    use: Mistake


def input_needs(
    loaded: Loaded, own: Mapping[int, Collection[str]] = MappingProxyType({})
) -> tuple[InputNeed, ...]:
    """What a checked cascade needs of its input, each name once, in the order of use.

    `own` are names that a phase's input has without being given them, by the phase's number.
    """
    if loaded.partial is None:
        return ()
    uses: dict[str, InputNeed] = {}
    declared = fields_of(loaded.partial.cascade.inputs_schema)
    for path, template in _templates(loaded.partial):
        index = path[1] if len(path) > 1 else None
        names = own.get(index, ()) if isinstance(index, int) else ()
        for need in needs_of(template):
            field = declared.get(need.name)
            if need.name in names or (field is not None and field.default is not None):
                continue
            text = f"the template needs the input {_described(need.name, field)}"
            use = loaded.partial.in_template(path, template, need.line, text)
            uses.setdefault(need.name, InputNeed(need.name, use))
    for name, field in declared.items():
        if field.required and field.default is None:
            text = f"the cascade needs the input {_described(name, field)}"
            use = loaded.partial.mistake(("inputs_schema", name), text)
            uses.setdefault(name, InputNeed(name, use))
    return tuple(uses.values())


def _described(name: str, field: InputField | None) -> str:
    """A name of the input with what is said of it."""
    return f"{name!r} ({field.description})" if field and field.description else repr(name)


def undeclared_inputs(loaded: Loaded) -> Iterator[Mistake]:
    """A warning for each template that uses a name of the input which `inputs_schema` leaves out.

    A cascade without `inputs_schema` says nothing of its input.
    """
    partial = loaded.partial
    declared = fields_of(partial.cascade.inputs_schema) if partial is not None else {}
    if partial is None or not declared:
        return
    seen: set[str] = set()
    for path, template in _templates(partial):
        try:
            names = names_of(template) or set[str]()
        except TemplateError:  # a mistake of its own
            continue
        for name in sorted(names - declared.keys() - seen):
            seen.add(name)
            text = f"'inputs_schema' has no input {name!r}; {did_you_mean(name, declared)}"
            yield partial.mistake(path, text)


def not_given(needs: Iterable[InputNeed], given: Collection[str]) -> list[Mistake]:
    """One mistake for each need that the names of the input do not meet."""
    mistakes = []
    for need in needs:
        if need.name not in given:
            way = f"give it with -i {need.name}=... (in Python: input={{{need.name!r}: ...}})"
            near = did_you_mean(need.name, given)
            way = f"{near}; {way}" if near.startswith("did") else way
            text = f"{need.use.text}, which is not given; {way}"
            mistakes.append(replace(need.use, text=text))
    return mistakes


def flags(needs: Iterable[InputNeed]) -> str:
    """The needs as flags of the command line: `-i file=... -i region=...`."""
    return " ".join(f"-i {need.name}=..." for need in needs)


def _templates(partial: PartialCascade) -> Iterator[tuple[Path, str]]:
    """Each template that is rendered in every run that gets that far, with its place."""
    cascade = partial.cascade
    shared = cascade.system
    if shared is not None and any(phase.system is None for phase in cascade.phases):
        yield ("system",), shared
    names, sure = [phase.name for phase in cascade.phases], certain(cascade.phases)
    for index, phase in enumerate(cascade.phases):
        if phase.name not in sure:
            continue
        base: Path = ("phases", index)
        for place, source in phase.sources.items():
            exclude = frozenset(phase.context.exclude) if phase.context else frozenset[str]()
            if source.condition is not None and reach(source.phase, names[:index], exclude):
                path = (*base, *place)
                short = "if" if partial.written((*path, "if")) is not None else "condition"
                yield (*path, short), source.condition
        if phase.instructions is not None:
            yield (*base, "instructions"), phase.instructions
        if phase.rules.loop_until_prompt is not None and not phase.rules.loop_until_silent:
            yield (*base, "rules", "loop_until_prompt"), phase.rules.loop_until_prompt
        for place, text in input_templates(phase):
            yield (*base, *place), text
        if phase.system is not None:
            yield (*base, "system"), phase.system
    for place, soundings in all_soundings(cascade).items():
        if len(place) > 1 and names[int(place[1])] not in sure:
            continue
        for key, text in soundings.templates.items():
            yield (*place, *key.split(".")), text
