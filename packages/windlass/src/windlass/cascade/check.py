"""What can be known to go wrong before a run: names, order, templates, tools, contradictions.

`check` says everything at once, together with the mistakes of form that `load` found.

What can be known to go wrong with a phase that runs a tool, before it runs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from windlass.cascade._sentences import shown
from windlass.cascade.decision_points import (
    ABORTS,
    ACTIONS,
    AGAIN,
    GOES_ON,
    DecisionPoints,
)
from windlass.cascade.deterministic import BESIDE_TOOL, INPUTS, SQL
from windlass.cascade.flow import is_graph, may_have_run
from windlass.cascade.handoffs import END, ROUTE_TO, targets_of
from windlass.cascade.layers import choosing_layers, merge_layers
from windlass.cascade.load import LoadedCascade, PartialCascade, sort_mistakes
from windlass.cascade.model import PARENT, REACHES, Phase, can_choose
from windlass.cascade.needs import needs_of
from windlass.cascade.options import WEIGHTS, InterPhase
from windlass.cascade.other_products import foreign_name
from windlass.cascade.rules import ContextSource
from windlass.cascade.source import Path
from windlass.cascade.templates import templates_of
from windlass.cascade.tools_at_hand import CHOICES, ToolsAtHand
from windlass.errors import Mistake, WindlassError, did_you_mean
from windlass.messages import ToolSpec
from windlass.safety.files import PROMPT_BYTES, MissingFileError, UnreadableError
from windlass.settings.plugins import QUERIES, announced, missing_plugin
from windlass.text.lookups import NameUse, find_names
from windlass.text.templates import (
    CALLOUT,
    JUDGED,
    MOMENTS,
    NAMES,
    RECORDED,
    RULES,
    SOUNDING,
    TemplateError,
    is_constant,
)
from windlass.tools.registry import Registry

_NO_TEMPLATE: Final = "put text that is no template between {% raw %} and {% endraw %}"
_WORDS_FOR_TRUTH: Final = frozenset({"true", "false", "yes", "no", "0", "1", "none"})


def check(
    loaded: LoadedCascade,
    *,
    tools: Registry | None = None,
    servers: Collection[str] = (),
    parents: Collection[str] | None = None,
    children: Mapping[int, Collection[str]] = MappingProxyType({}),
) -> tuple[Mistake, ...]:
    """Return all mistakes of a cascade, from the top of its file to the end.

    Args:
        loaded: what `load`, `parse` or `of` made.
        tools: a registry, which is given the cascade's own `tools` first; or None where tools are
            not to be looked at. What its user does not trust is no mistake: whoever made the
            registry knows what was not loaded.
        servers: the MCP servers that are declared in the settings.
        parents: the phases before it of the cascade that runs it (None: no such cascade is known).
        children: what the sub-cascades of each phase add to `outputs`, by the phase's index.
    """
    if loaded.partial is None:
        return loaded.mistakes
    checker = _Checker(loaded.partial, tools, servers, parents=parents, children=children)
    return sort_mistakes([*loaded.mistakes, *checker.cascade_mistakes()])


class _Checker:
    """One look over one cascade: what is valid of it, what its file says, the tools there are."""

    def __init__(
        self,
        partial: PartialCascade,
        tools: Registry | None,
        servers: Collection[str],
        *,
        parents: Collection[str] | None,
        children: Mapping[int, Collection[str]],
    ) -> None:
        self.partial = partial
        self.cascade = partial.cascade
        self.mistake, self.written = partial.mistake, partial.written
        self.in_template = partial.in_template
        self.at_hand = ToolsAtHand(partial, tools, servers)
        self.parents = parents
        self.children = children
        self.names = [phase.name for phase in self.cascade.phases]
        self.is_graph = is_graph(self.cascade.phases)

    # ---- where things stand ----------------------------------------------------------

    def says(self, index: int, key: str) -> bool:
        """Return whether the phase says anything under `key`, be it right or wrong."""
        written = self.written(("phases", index))
        if isinstance(written, dict):
            return written.get(key) is not None
        phase = self.cascade.phases[index]  # made in Python, inside a dict
        return key in phase.model_fields_set and getattr(phase, key) is not None

    def as_written(self, index: int, place: Path) -> Path:
        """The place of a source: data from Python may say `from_`, where `from` is a keyword."""
        base: Path = ("phases", index, *place[:1])
        if place[0] == "context" and self.written((*base, "from")) is None:
            return (*base, "from_", place[-1])
        return (*base, *place[1:])

    def known(self, before: int | None = None) -> list[str]:
        """The names that phases have in the file, of those that may have run before one of them."""
        run = self.names if before is None else may_have_run(self.cascade.phases, before)
        unnamed = {self.names[index] for index in self.partial.unnamed}
        return [name for name in run if name not in unnamed]

    def line_of_phase(self, name: str) -> str:
        line = self.partial.reading.line(("phases", self.names.index(name)))
        return "" if line is None else f" (line {line})"

    # ---- what is looked at -----------------------------------------------------------

    def cascade_mistakes(self) -> Iterator[Mistake]:
        yield from self.at_hand.register_own()
        for path, template, index in templates_of(self.partial):
            is_condition = path[2:3] in (("context",), ("inject_from",))
            look = self.condition if is_condition else self.template
            yield from look(path, template, index)
        choice = self.cascade.tool_choice
        if choice is not None and not any(
            can_choose(phase, choice) or self.at_hand.tackle_unknown(index)
            for index, phase in enumerate(self.cascade.phases)
        ):
            text = (
                f"no phase has the tool {choice!r}; name one that a phase has, or write"
                f" {', '.join(CHOICES)}"
            )
            yield self.mistake(("tool_choice",), text)
        yield from self.inter_phase()
        for absent in self.at_hand.absent():
            yield self.mistake(absent.place, absent.why)
        for index, phase in enumerate(self.cascade.phases):
            yield from self.phase(index, phase)

    def phase(self, index: int, phase: Phase) -> Iterator[Mistake]:
        base: Path = ("phases", index)
        yield from self.name(index, phase.name)
        yield from self.contradictions(index)
        yield from self.tool_phase(index, phase)
        for place, source in phase.sources.items():
            yield from self.source(self.as_written(index, place), index, source)
        if phase.context is not None:
            for position, name in enumerate(phase.context.exclude):
                if name not in (*self.names, *self.of_children(index)):
                    text = f"there is no phase {name!r}; {did_you_mean(name, self.known())}"
                    yield self.mistake((*base, "context", "exclude", position), text)
            yield from self.choosing(index, phase)
        yield from self.handoffs(index, phase)
        yield from self.at_hand.wrong_in_phase(index, phase)
        yield from self.decisions(index, phase)

    def name(self, index: int, name: str) -> Iterator[Mistake]:
        path: Path = ("phases", index, "name")
        if index in self.partial.unnamed:
            return
        if name in REACHES:
            text = f"a phase cannot be called {name!r}: the word stands for phases in a source"
            yield self.mistake(path, text)
        if name == END and self.is_graph:
            text = (
                f"a phase cannot be called {name!r}: as a target of handoffs the word ends the run"
            )
            yield self.mistake(path, text)
        if name in self.names[:index]:
            text = f"there already is a phase {name!r}{self.line_of_phase(name)}; names are unique"
            yield self.mistake(path, text)

    def contradictions(self, index: int) -> Iterator[Mistake]:
        base: Path = ("phases", index)
        selective, injected = self.says(index, "context"), self.says(index, "inject_from")
        if selective and injected:
            text = "cannot be combined with 'context'; put its sources into context.from"
            yield self.mistake((*base, "inject_from"), text)
            if self.written((*base, "context", "exclude")) is not None:
                text = "works on context.from only and cannot be combined with 'inject_from'"
                yield self.mistake((*base, "context", "exclude"), text)
        if self.says(index, "context_strategy") and (selective or injected):
            other = "context" if selective else "inject_from"
            text = f"is a shorthand and cannot be combined with {other!r}; keep one of them"
            yield self.mistake((*base, "context_strategy"), text)
        if self.says(index, "turns") and self.written((*base, "context_strategy")) != "recent":
            yield self.mistake((*base, "turns"), "applies only with context_strategy 'recent'")
        if self.says(index, "position") and not injected:
            text = "says where 'inject_from' stands, and this phase has none"
            yield self.mistake((*base, "position"), text)

    def tool_phase(self, index: int, phase: Phase) -> Iterator[Mistake]:
        """What is wrong with a phase that runs a tool, or with keys that only such a phase has."""
        yield from form_mistakes(self.partial, index, phase)
        yield from way_mistakes(self.partial, index, phase, self.known())
        base: Path = ("phases", index)
        if phase.tool is not None and not phase.tool.startswith(SQL):  # noqa: SIM102
            if wrong := self.at_hand.missing(phase, phase.tool):
                if not self.cascade.is_lenient:
                    yield self.mistake((*base, "tool"), wrong)
                return
        if phase.tool is not None and phase.tool.startswith(SQL):
            yield from self.query(index, phase, phase.tool.removeprefix(SQL).strip())
        else:
            yield from call_mistakes(self.partial, index, phase, self.at_hand.tools)

    def query(self, index: int, phase: Phase, name: str) -> Iterator[Mistake]:
        """What is wrong with a query's file, and with the template in it, told with its line."""
        language = SQL.removesuffix(":")
        if language not in {each.name for each in announced(QUERIES)}:
            text = str(missing_plugin(QUERIES, language))
            yield self.mistake(("phases", index, "tool"), text)
        folders = self.partial.reading.folders
        try:
            template = folders.read_text(name, PROMPT_BYTES)
        except UnreadableError as error:
            is_gone = isinstance(error, MissingFileError)
            text = f"no such file: {name!r}" if is_gone else f"{name!r} {error}"
            yield self.mistake(("phases", index, "tool"), text)
            return
        file, known = str(folders.at(name)), (*NAMES, *phase.inputs, INPUTS)
        try:
            used, needs = find_names(template), needs_of(template, of=INPUTS)
        except TemplateError as error:
            yield Mistake(file, error.line, f"bad template: {error.text}")
            return
        for each in used:
            if not each.of and each.name not in known:
                text = f"the query cannot use {each.name!r}; {did_you_mean(each.name, known)}"
                yield Mistake(file, each.line, text)
        for need in needs:
            if need.name not in phase.inputs:
                near = did_you_mean(need.name, phase.inputs) if phase.inputs else "it has none"
                text = f"phase {phase.name!r} has no {need.name!r} under 'inputs'; {near}"
                yield Mistake(file, need.line, text)

    def handoffs(self, index: int, phase: Phase) -> Iterator[Mistake]:
        """Targets that there are not, and a tool that has nothing to choose from."""
        base: Path = ("phases", index)
        for position, target in enumerate(targets_of(phase.handoffs)):
            if target in (*self.names, END):
                continue
            path: Path = (*base, "handoffs", position)
            path = path if isinstance(self.written(path), str) else (*path, "target")
            near = did_you_mean(target, [*self.known(), END])
            yield self.mistake(path, f"there is no phase {target!r}; {near}")
        if ROUTE_TO in phase.tackle and not phase.handoffs and not self.at_hand.has_own(ROUTE_TO):
            at = (*base, "tackle", list(phase.tackle).index(ROUTE_TO))
            text = f"{ROUTE_TO!r} says which of the phase's 'handoffs' comes next, and it has none"
            yield self.mistake(at, text)

    # ---- choosing --------------------------------------------------------------------

    def inter_phase(self) -> Iterator[Mistake]:
        """Yield what the whole cascade says of anchors: phases that there are."""
        auto = self.cascade.auto_context
        inter = getattr(auto, "inter_phase", None)
        if not isinstance(inter, InterPhase) or inter.anchors is None:
            return
        path: Path = ("auto_context", "inter_phase", "anchors", "from_phases")
        for position, name in enumerate(inter.anchors.from_phases):
            if name not in (*self.names, *REACHES):
                near = did_you_mean(name, [*self.known(), *REACHES])
                yield self.mistake((*path, position), f"there is no phase {name!r}; {near}")

    def choosing(self, index: int, phase: Phase) -> Iterator[Mistake]:
        """Yield what is wrong with how a phase chooses its context."""
        base: Path = ("phases", index, "context")
        context = phase.context
        assert context is not None
        if self.written((*base, "mode")) != "auto" and context.mode != "auto":
            for key in ("anchors", "selection"):
                if self.written((*base, key)) is not None:
                    yield self.mistake((*base, key), "applies only with context.mode 'auto'")
            return
        for position, name in enumerate(context.anchors.from_phases if context.anchors else ()):
            problem = None if name in REACHES else self.unreachable(name, index)
            if problem:
                path = (*base, "anchors", "from_phases", position)
                yield self.mistake(path, problem)
        selection = merge_layers(choosing_layers(self.cascade, phase))["selection"]
        weights = {name: selection[name] for name in WEIGHTS if name in selection}
        if len(weights) == len(WEIGHTS) and not any(weights.values()):
            text = "together with auto_context all weights are 0: nothing is left to choose by"
            yield self.mistake((*base, "selection"), text)

    # ---- sources ---------------------------------------------------------------------

    def source(self, path: Path, index: int, source: ContextSource) -> Iterator[Mistake]:
        short = isinstance(self.written(path), str)
        name = source.phase
        is_parents = name.startswith(PARENT) and name not in self.names
        problem = self.not_above(name) if is_parents else self.unreachable(name, index)
        if problem and name not in self.of_children(index):
            yield self.mistake(path if short else (*path, "phase"), problem)
        # Asked of the file: a wrong filter is a mistake of its own, and gone from the partial.
        filtered = self.written((*path, "images_filter")) or source.images_filter
        if "images_count" in source.model_fields_set and filtered in ("all", "last"):
            text = f"applies only with images_filter 'last_n', and images_filter is {filtered!r}"
            yield self.mistake((*path, "images_count"), text)

    def unreachable(self, name: str, index: int) -> str | None:
        """Return why the phase at `index` cannot take anything from `name`; None when it can."""
        if name in self.before(index) or name in REACHES:
            return None
        if name == self.names[index]:
            return f"a phase cannot take from itself; {self.earlier(name, index)}"
        if name in self.names:
            return f"{self.never_before(name)}; {self.earlier(name, index)}"
        if name.startswith(PARENT):
            return f"{name!r} is a phase of the cascade that runs this one; only a source may be"
        return f"there is no phase {name!r}; {self.earlier(name, index)}"

    def before(self, index: int) -> tuple[str, ...]:
        """Return the phases that may have run before the one at `index`."""
        return may_have_run(self.cascade.phases, index)

    def never_before(self, name: str) -> str:
        """Return why a phase that there is cannot have run."""
        where = self.line_of_phase(name)
        if self.is_graph:
            return f"no way leads here from phase {name!r}{where}"
        return f"phase {name!r} comes later{where}"

    def not_above(self, name: str) -> str | None:
        """Return why the cascade that runs this one has no such phase to take from."""
        phase = name.removeprefix(PARENT)
        if not phase:
            return f"{name!r} names no phase; write it as 'parent.PHASE'"
        if self.parents is None or phase in self.parents:
            return None
        near = did_you_mean(phase, self.parents) if self.parents else "it runs before all of them"
        return f"the cascade that runs this one has had no phase {phase!r} by then; {near}"

    def earlier(self, name: str, index: int) -> str:
        below = self.of_children(index)
        if not self.before(index) and not below:
            return "no phase comes before this one"
        return did_you_mean(name, [*self.known(index), *below, *REACHES])

    # ---- templates -------------------------------------------------------------------

    def condition(self, path: Path, condition: str, index: int | None) -> Iterator[Mistake]:
        mistakes = list(self.template(path, condition, index))
        yield from mistakes
        plain = condition.strip()
        if not mistakes and is_constant(condition) and plain.lower() not in _WORDS_FOR_TRUTH:
            text = f"{shown(plain)} is plain text and so always true"
            yield self.mistake(
                path, f"{text}; a condition is a template, such as {{{{ state.x }}}}"
            )

    def template(self, path: Path, template: str, index: int | None) -> Iterator[Mistake]:
        """Yield what is wrong with a template of the phase at `index` (None: of the cascade)."""
        try:
            used = find_names(template)
        except TemplateError as error:
            wrong = f"bad template: {error.text}; {_NO_TEMPLATE}"
            yield self.in_template(path, template, error.line, wrong)
            return
        names = _names_at(path)
        for name in used:
            if name.of != "outputs" and self.cascade.is_lenient:
                continue  # it prints nothing, and is told
            if name.of != "outputs":
                if (text := foreign_name(name.name)) is not None:
                    yield self.in_template(path, template, name.line, text)
                elif name.name not in names:
                    near = did_you_mean(name.name, names)
                    near = near if near.startswith("did") else f"{near}; {_NO_TEMPLATE}"
                    text = f"a template cannot use {name.name!r}; {near}"
                    yield self.in_template(path, template, name.line, text)
            elif path[0] == "validators":  # any phase may name it
                every = [*self.known(), *(each for them in self.children.values() for each in them)]
                if name.name not in every:
                    near = did_you_mean(name.name, every)
                    text = f"outputs.{name.name}: there is no phase {name.name!r}; {near}"
                    yield self.in_template(path, template, name.line, text)
            elif index is None:
                text = f"outputs.{name.name}: the system prompt of all phases can use no output"
                yield self.in_template(path, template, name.line, text)
            elif name.name not in (*self.before(index), *self.of_children(index)):
                text = f"outputs.{name.name}: {self.no_output(name.name, index)}"
                yield self.in_template(path, template, name.line, text)

    def no_output(self, name: str, index: int) -> str:
        if name == self.names[index]:
            return "the output of a phase is not known while it runs"
        if name in self.names:
            return self.never_before(name)
        known = [*self.known(index), *self.of_children(index)]
        near = did_you_mean(name, known) if known else "no phase comes before this one"
        return f"there is no phase {name!r}; {near}"

    def of_children(self, index: int) -> list[str]:
        """Return what the sub-cascades that have run add to `outputs`."""
        run = {*self.before(index), *self.names[index : index + 1]}
        children = self.children.items()
        return [name for at, names in children if self.names[at] in run for name in names]

    # ---- people ----------------------------------------------------------------------

    def decisions(self, index: int, phase: Phase) -> Iterator[Mistake]:
        """Yield where an answer leads that is neither a phase nor an action."""
        if phase.tool is not None:
            for key in ("decision_points", "human_input"):
                if getattr(phase, key):
                    text = "this phase runs a tool; 'routing' says where its result leads"
                    yield self.mistake(("phases", index, key), text)
        known = {*self.names, *GOES_ON, *ABORTS, *AGAIN}
        points = phase.decision_points
        for key, action in points.routing.items() if isinstance(points, DecisionPoints) else ():
            if action not in known:
                near = did_you_mean(action, [*self.known(), *ACTIONS])
                text = f"{action!r} is neither a phase nor an action; {near}"
                yield self.mistake(("phases", index, "decision_points", "routing", key), text)


def unknown_names(path: Path, template: str) -> list[NameUse]:
    """Return the names of a template that nothing at its place gives. Raises TemplateError."""
    names = _names_at(path)
    return [each for each in find_names(template) if not each.of and each.name not in names]


def _names_at(path: Path) -> tuple[str, ...]:
    """Return the names that a template at this place may use, besides the outputs of phases."""
    match path:
        case ("phases", _, "callouts", _):
            return (*NAMES, *CALLOUT)
        case ("phases", _, "inputs", *_):
            return (*NAMES, *RECORDED)
        case ("phases", _, "human_input", _):
            return (*NAMES, "output")
        case ("phases", _, "instructions"):
            return (*NAMES, *MOMENTS, *SOUNDING, *RULES, *RECORDED)
        case ("phases", _, "rules", _):
            return (*NAMES, *MOMENTS, *SOUNDING, *RULES)
        case ("validators", *_):
            return (*NAMES, *MOMENTS, *SOUNDING, *RULES, *JUDGED)
        case (*_, "system" | "instructions"):
            return (*NAMES, *MOMENTS)
        case _:
            return NAMES


def form_mistakes(partial: PartialCascade, index: int, phase: Phase) -> Iterator[Mistake]:
    """Yield whether a phase asks a model or runs a tool, and says what belongs to that."""
    base: Path = ("phases", index)
    written = phase.model_fields_set
    if phase.tool is None and phase.instructions is None:
        given = partial.written(base)
        empty = [
            key for key in ("instructions", "tool") if isinstance(given, dict) and key in given
        ]
        if not empty:
            yield partial.mistake(base, "'instructions' is missing, or 'tool'")
        elif given[empty[0]] is None:
            yield partial.mistake((*base, empty[0]), "expected text; nothing is written here")
    elif phase.instructions is not None and phase.tool is not None:
        text = "cannot be combined with 'instructions': a phase asks a model or runs a tool"
        yield partial.mistake((*base, "tool"), text)
    for key in BESIDE_TOOL:
        if key in written and phase.tool is None and not partial.written((*base, "tool")):
            yield partial.mistake((*base, key), "applies only with 'tool'")
    if phase.tool is not None and phase.soundings is not None:
        text = "are attempts at asking a model, and this phase runs a tool"
        yield partial.mistake((*base, "soundings"), text)


def way_mistakes(
    partial: PartialCascade, index: int, phase: Phase, known: list[str]
) -> Iterator[Mistake]:
    """Yield the phases to which a tool phase goes on and that are not among those `known`."""
    base: Path = ("phases", index)
    targets: dict[Path, str] = {
        (*base, "routing", key): target for key, target in phase.routing.items()
    }
    if isinstance(phase.on_error, str):
        targets[*base, "on_error"] = phase.on_error
    for path, target in targets.items():
        if target not in (*known, END):
            text = f"there is no phase {target!r}; {did_you_mean(target, [*known, END])}"
            yield partial.mistake(path, text)


def call_mistakes(
    partial: PartialCascade, index: int, phase: Phase, tools: Registry | None
) -> Iterator[Mistake]:
    """Yield arguments that the tool of a phase does not take, or needs."""
    base: Path = ("phases", index)
    if phase.tool is None or (spec := _spec_of(tools, phase.tool)) is None:
        return
    properties = spec.parameters.get("properties", {})
    for name in phase.inputs if not spec.parameters.get("additionalProperties") else ():
        if name not in properties:
            near = did_you_mean(name, properties) if properties else "it takes none"
            text = f"{spec.name!r} takes no argument {name!r}; {near}"
            yield partial.mistake((*base, "inputs", name), text)
    lacks = [name for name in spec.parameters.get("required", ()) if name not in phase.inputs]
    if lacks:
        place = (*base, "inputs") if phase.inputs else (*base, "tool")
        text = f"{spec.name!r} needs {', '.join(map(repr, lacks))}; give it under 'inputs'"
        yield partial.mistake(place, text)


def _spec_of(tools: Registry | None, tool: str) -> ToolSpec | None:
    """Return what a tool takes; None where it is not known here."""
    if tools is None:
        return None
    try:
        return tools.get(tool).spec
    except WindlassError:
        return None
