"""Sub-cascades: the files that phases name, loaded and checked together with the cascade.

What can be seen before a run is seen here: files that are not there, cascades that run
themselves, nesting that is too deep, and an input that a sub-cascade needs and nobody gives.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path as FilePath
from typing import Any, Final, NamedTuple

from windlass.cascade.check import check
from windlass.cascade.flow import certain, keys_set, may_have_run
from windlass.cascade.layers import injector_folders, load_own_injectors
from windlass.cascade.load import LoadedCascade, PartialCascade, sort_mistakes
from windlass.cascade.model import PARENT, Cascade, Phase, SubCascade
from windlass.cascade.model_names import with_model_names
from windlass.cascade.needs import InputNeed, input_needs, names_of
from windlass.cascade.ready import Place, ReadyCascade, output_names
from windlass.cascade.source import Path
from windlass.cascade.templates import templates_of
from windlass.cascade.tool_cascades import (
    add_cascades,
    is_path,
    named_cascades,
    validator_input,
)
from windlass.cascade.tools_named import judges_at, place_of_tool, tools_named
from windlass.cascade.validators import GIVEN
from windlass.declared import ModelNames
from windlass.errors import CascadeError, Mistake, UsageError, did_you_mean
from windlass.injectors.markdown import folder_in
from windlass.injectors.matched import Knowledge
from windlass.safety.files import Folders, UnreadableError
from windlass.settings.settings import Settings
from windlass.tools.registry import Registry

DEPTH: Final = 5
"""How many cascades may be nested below the one that runs."""

CASCADES: Final = 1_000
"""How many sub-cascades one cascade may come to, each counted as often as it would run."""


@dataclass(frozen=True, slots=True)
class CascadeFamily:
    """A cascade as it was read, with those that it names; `mistakes` are those of naming them."""

    loaded: LoadedCascade
    tools: Registry
    children: Mapping[Place, CascadeFamily] = field(default_factory=dict[Place, "CascadeFamily"])
    mistakes: tuple[Mistake, ...] = ()
    tool_cascades: Mapping[str, CascadeFamily] = field(default_factory=dict[str, "CascadeFamily"])
    """The cascades that are tools of it or of one below, by their file; the top alone has them."""

    def parts(self) -> Iterator[tuple[Place, SubCascade, CascadeFamily]]:
        """Yield each sub-cascade that could be read, with how it is named."""
        partial = self.loaded.partial
        for place, child in self.children.items():
            if partial is not None:
                yield place, partial.cascade.phases[place[0]].sub_cascades[place[1]], child

    def changed(self, change: Callable[[LoadedCascade, Registry], LoadedCascade]) -> CascadeFamily:
        """Return the same, with what each file holds changed."""
        children = {place: child.changed(change) for place, child in self.children.items()}
        tools = {file: each.changed(change) for file, each in self.tool_cascades.items()}
        held = change(self.loaded, self.tools)
        return replace(self, loaded=held, children=children, tool_cascades=tools)

    def walk(self) -> Iterator[CascadeFamily]:
        """It, and all below it, in the order of the file; then the cascades that are tools."""
        yield self
        for child in (*self.children.values(), *self.tool_cascades.values()):
            yield from child.walk()


def read_family(
    loaded: LoadedCascade,
    tools: Registry,
    file: FilePath | None,
    registry_of: Callable[[FilePath], Registry],
    read: Callable[[FilePath, Folders], LoadedCascade],
) -> CascadeFamily:
    """Return the cascade and all that it names, read from their files; nothing is checked yet.

    `file` is the cascade's own (None: it has none); `registry_of` gives the tools of the cascade in
    a file, and `read` what the file holds, whose own files must lie in the folders it is given.
    """
    own = () if file is None else (file,)
    reading = _Reading(registry_of, read, loaded.reading.folders)
    family = reading.family(loaded, tools, own, 0)
    tool_cascades = reading.tool_cascades()
    mistakes = (*family.mistakes, *reading.circles())
    family = replace(family, tool_cascades=tool_cascades, mistakes=mistakes)
    for each in family.walk():
        each.tools.modules.protect(*own, *reading.read)
    return family


class _Naming(NamedTuple):
    """Where a cascade names another one, and what it calls it."""

    partial: PartialCascade
    place: Path
    name: str
    by_call: bool = False
    """Whether it is named as a tool."""


@dataclass(slots=True)
class _Reading:
    """The work in hand: each file is read once."""

    registry_of: Callable[[FilePath], Registry]
    load: Callable[[FilePath, Folders], LoadedCascade]
    folders: Folders
    """In which what is named must lie, and besides in the folder of the file that names it."""
    read: dict[FilePath, tuple[LoadedCascade, Registry]] = field(
        default_factory=dict[FilePath, tuple[LoadedCascade, Registry]]
    )
    count: int = 0
    """Of the sub-cascades so far."""
    of_tools: dict[str, CascadeFamily | None] = field(
        default_factory=dict[str, "CascadeFamily | None"]
    )
    """Of the cascades that are tools and are named (None: it is yet to be read)."""
    names: dict[tuple[str, str], _Naming] = field(default_factory=dict[Any, Any])
    """Where one file names another, by their real paths: as a sub-cascade, or to be called."""

    def tool_cascades(self) -> dict[str, CascadeFamily]:
        """Return the cascades that are tools of those read, and of these cascades in their turn."""
        while waiting := [file for file, family in self.of_tools.items() if family is None]:
            for file in waiting:
                held = self.file(FilePath(file))
                self.of_tools[file] = self.family(*held, (FilePath(file),), 0)
        return {file: family for file, family in self.of_tools.items() if family is not None}

    def circles(self) -> list[Mistake]:
        """Return where cascades that call each other as tools would do so without end."""
        graph: dict[str, set[str]] = {}
        for above, below in self.names:
            graph.setdefault(above, set()).add(below)
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            way = list(reversed(error.args[1]))
            told = [self.names[pair] for pair in pairwise(way)]
            # One of sub-cascades alone is told where they are read.
            called = next((each for each in told if each.by_call), None)
            if called is not None:
                text = _without_end(called.name, [FilePath(each) for each in way])
                return [called.partial.mistake(called.place, text)]
        return []

    def add_tools(
        self, partial: PartialCascade, tools: Registry, chain: tuple[FilePath, ...]
    ) -> list[Mistake]:
        """Register the tools in files and folders that a cascade names; returns what is wrong.

        Those that it uses are to be read.
        """
        mistakes: list[Mistake] = []
        for position, item in enumerate(partial.cascade.tools):
            if is_path(item):
                try:
                    folders = partial.reading.folders
                    folders.find(item)
                    add_cascades(tools, folders.at(item))
                except CascadeError as error:
                    mistakes += error.mistakes
                except UnreadableError as error:
                    mistakes.append(partial.mistake(("tools", position), f"{item!r} {error}"))
                except UsageError as error:
                    mistakes.append(partial.mistake(("tools", position), str(error)))
        for file in named_cascades(tools, tools_named(partial.cascade, tools.names())):
            self.of_tools.setdefault(str(file), None)
        for name in tools_named(partial.cascade, ()) if chain else ():
            for file in named_cascades(tools, [name]):
                naming = _Naming(partial, place_of_tool(partial.cascade, name), name, by_call=True)
                self.names.setdefault((os.path.realpath(chain[-1]), str(file)), naming)
        return mistakes

    def family(
        self, loaded: LoadedCascade, tools: Registry, chain: tuple[FilePath, ...], depth: int
    ) -> CascadeFamily:
        """`chain` are the files from the cascade that runs to this one.

        Raises CascadeError where they are more than `CASCADES`.
        """
        if loaded.partial is None:
            return CascadeFamily(loaded, tools)
        partial, folders = loaded.partial, loaded.reading.folders
        children: dict[Place, CascadeFamily] = {}
        mistakes = self.add_tools(partial, tools, chain)
        for index, phase in enumerate(loaded.partial.cascade.phases):
            for position, sub in enumerate(phase.sub_cascades):
                path: Path = ("phases", index, "sub_cascades", position, "ref")
                file = folders.at(sub.ref)
                if problem := _not_to_run(file, sub.ref, chain, depth):
                    mistakes.append(partial.mistake(path, problem))
                    continue
                try:
                    folders.find(sub.ref)
                    held = self.file(file)
                except UnreadableError as error:
                    mistakes.append(partial.mistake(path, f"{sub.ref!r} {error}"))
                except CascadeError as error:
                    mistakes += error.mistakes
                except UsageError as error:
                    mistakes.append(partial.mistake(path, str(error)))
                else:
                    self.count += 1
                    if self.count > CASCADES:
                        raise CascadeError([partial.mistake(path, _too_many(sub.ref))])
                    if chain:
                        pair = os.path.realpath(chain[-1]), os.path.realpath(file)
                        self.names.setdefault(pair, _Naming(partial, path, sub.ref))
                    children[index, position] = self.family(*held, (*chain, file), depth + 1)
        return CascadeFamily(loaded, tools, children, tuple(mistakes))

    def file(self, file: FilePath) -> tuple[LoadedCascade, Registry]:
        """Return what a file holds, and the tools for it.

        Raises UsageError where it cannot be read.
        """
        real = file.resolve()
        if real not in self.read:
            loaded = self.load(file, self.folders.with_first(file.parent))
            self.read[real] = loaded, self.registry_of(file)
        return self.read[real]


def _too_many(ref: str) -> str:
    return (
        f"{ref!r} is one sub-cascade too many: with those that they name themselves, a cascade has"
        f" at most {CASCADES:,}, each counted as often as it would run"
    )


def _not_to_run(file: FilePath, ref: str, chain: tuple[FilePath, ...], depth: int) -> str | None:
    """Return why the cascade in a file cannot run below those of `chain`; None where it can."""
    real = os.path.realpath(file)
    above = [os.path.realpath(each) for each in chain]
    if real in above:
        return _without_end(ref, (*chain[above.index(real) :], file))
    if depth >= DEPTH:
        names = [each.name for each in (*chain, file)]
        return (
            f"{ref!r} would be nested {depth + 1} deep ({' -> '.join(names)}); sub-cascades are"
            f" nested at most {DEPTH} deep"
        )
    return None


def _without_end(name: str, files: Iterable[FilePath]) -> str:
    way = " -> ".join(file.name for file in files)
    return f"{name!r} would run itself without end ({way}); take one of these references out"


# ---- what is wrong, and what is needed ----------------------------------------------------------


def check_family(
    family: CascadeFamily, servers: Collection[str] = (), parents: Collection[str] | None = None
) -> tuple[Mistake, ...]:
    """Return all mistakes: those of the cascade from the top of its file, then those of each child.

    `parents` are the phases that have run when it begins, of the cascade that runs it (None: no
    cascade is known to).
    """
    loaded = family.loaded
    own = [
        *check(
            loaded,
            tools=family.tools,
            servers=servers,
            parents=parents,
            children=_outputs(family),
        ),
        *_ungiven(family),
    ]
    own += [mistake for mistake in family.mistakes if mistake.file == loaded.file]
    listed = [*sort_mistakes(own), *(each for each in family.mistakes if each.file != loaded.file)]
    for (index, _), _sub, child in family.parts():
        assert loaded.partial is not None
        names = may_have_run(loaded.partial.cascade.phases, index)
        listed += check_family(child, servers, names)
    for each in family.tool_cascades.values():
        listed += check_family(each, servers)
    if parents is None:
        listed += _not_to_judge(family)
    return tuple(dict.fromkeys(listed))


def outside_root(family: CascadeFamily, root: FilePath) -> Iterator[Mistake]:
    """Yield the folders of injectors that lead out of the root."""
    for partial in (each.loaded.partial for each in family.walk()):
        if partial is None:
            continue
        places: dict[Path, Cascade | Phase] = {(): partial.cascade}
        places |= {("phases", at): phase for at, phase in enumerate(partial.cascade.phases)}
        for place, holder in places.items():
            for path, folder in injector_folders(holder):
                try:
                    folder_in(root, folder, hidden=Knowledge.name not in path)
                except UsageError as error:
                    yield partial.mistake((*place, "injectors", *path), str(error))


def _outputs(family: CascadeFamily) -> dict[int, list[str]]:
    """Say what each phase's sub-cascades put beside the outputs of phases, by the phase's index."""
    names: dict[int, list[str]] = {}
    for (index, _), sub, child in family.parts():
        if sub.context_out and child.loaded.partial is not None:
            names.setdefault(index, []).extend(output_names(child.loaded.partial.cascade))
    return names


def _ungiven(family: CascadeFamily) -> Iterator[Mistake]:
    """Yield what sub-cascades need that see nothing of the parent's input, and are not given."""
    partial = family.loaded.partial
    if partial is None:
        return
    for (index, position), sub, child in family.parts():
        for need in family_needs(child) if not sub.context_in else ():
            if need.name not in sub.input_map:
                path: Path = ("phases", index, "sub_cascades", position)
                text = (
                    f"{sub.ref!r} needs the input {need.name!r} ({_where(need.use)}), and with"
                    " 'context_in: false' has only what 'input_map' gives it; add it there"
                )
                yield partial.mistake(path, text)


def _not_to_judge(top: CascadeFamily) -> Iterator[Mistake]:
    """Yield what cascades need that are named as validators, and no validator is given."""
    for family in top.walk():
        partial = family.loaded.partial
        named = () if partial is None else judges_at(partial.cascade)
        for path, name in named:
            assert partial is not None
            is_own = name in partial.cascade.validators or path[-1] == "function"
            for file in () if is_own else named_cascades(family.tools, [name]):
                judge = top.tool_cascades.get(str(file))
                if judge is None or judge.loaded.partial is None:
                    continue
                given = validator_input(judge.loaded.partial.cascade, dict.fromkeys(GIVEN))
                for need in family_needs(judge):
                    if need.name not in given:
                        text = (
                            f"the cascade {name!r} needs the input {need.name!r}"
                            f" ({_where(need.use)}), and as a validator it is given"
                            f" {', '.join(given)}; give it a default there"
                        )
                        yield partial.mistake(path, text)


def _where(use: Mistake) -> str:
    return use.file if use.line is None else f"{use.file}:{use.line}"


def family_needs(family: CascadeFamily) -> tuple[InputNeed, ...]:
    """Return what a run cannot do without of its input, that of sub-cascades included.

    What a phase before may put into the state is no such need of a sub-cascade.
    """
    needs = {need.name: need for need in input_needs(family.loaded)}
    for place, sub, child in family.parts():
        assert family.loaded.partial is not None
        phases = family.loaded.partial.cascade.phases
        runs = phases[place[0]].name in certain(phases)
        for need in _from_above(sub, child) if runs else ():
            if not _may_be_in_state(family, place, need.name):
                needs.setdefault(need.name, need)
    return tuple(needs.values())


def _from_above(sub: SubCascade, child: CascadeFamily) -> list[InputNeed]:
    """Return what a sub-cascade needs of the input and the state of the cascade that runs it."""
    needs = family_needs(child) if sub.context_in else ()
    return [need for need in needs if need.name not in sub.input_map]


def _may_be_in_state(family: CascadeFamily, before: Place, name: str) -> bool:
    """Return whether the state may have a key of that name where a sub-cascade begins."""
    partial = family.loaded.partial
    assert partial is not None
    phases = partial.cascade.phases
    ran = may_have_run(phases, before[0])
    if any(_may_set(family, phase, name) for phase in phases if phase.name in ran):
        return True
    return any(
        sub.context_out and _sets(child, name)
        for (index, at), sub, child in family.parts()
        if phases[index].name in ran or (index == before[0] and at < before[1])
    )


def _may_set(family: CascadeFamily, phase: Phase, name: str) -> bool:
    assert family.loaded.partial is not None
    keys = keys_set(family.loaded.partial.cascade, phase, family.tools)
    return keys is None or name in keys


def _sets(family: CascadeFamily, name: str) -> bool:
    """Return whether a cascade, or one below, may set a key of its state."""
    partial = family.loaded.partial
    if partial is None or any(_may_set(family, each, name) for each in partial.cascade.phases):
        return True
    return any(sub.context_out and _sets(child, name) for _, sub, child in family.parts())


def perhaps_unset(family: CascadeFamily) -> Iterator[Mistake]:
    """Yield a warning for each name of a sub-cascade's input that the state alone may give it."""
    for each in family.walk():
        partial = each.loaded.partial
        own = {need.name for need in input_needs(each.loaded)}
        for place, sub, child in each.parts():
            for need in _from_above(sub, child):
                if partial is None or need.name in own:
                    continue
                if _may_be_in_state(each, place, need.name):
                    text = (
                        f"{sub.ref!r} needs the input {need.name!r} ({_where(need.use)}), which may"
                        " not be set: a phase before it may put it into the state"
                    )
                    path: Path = ("phases", place[0], "sub_cascades", place[1])
                    yield partial.mistake(path, text)


def unused_inputs(family: CascadeFamily, given: Iterable[str]) -> list[str]:
    """Return a warning for each name of the input that nothing of the cascade looks at."""
    used: set[str] = set()
    for each in family.walk():
        cascade, partial = each.loaded.cascade, each.loaded.partial
        assert partial is not None
        mapped = (name for _, sub, _ in each.parts() for name in sub.input_map.values())
        used |= {name for name in mapped if isinstance(name, str)}
        if cascade.auto_context is not None or any(map(_sees_input, cascade.phases)):
            return []
        for template in templates_of(partial):
            if (names := names_of(template.text)) is None:
                return []
            used |= names
    return [
        f"no template uses the input {name!r}: write {{{{ input.{name} }}}} where it belongs"
        + (f"; {did_you_mean(name, used)}" if used else "")
        for name in given
        if name not in used
    ]


def _sees_input(phase: Phase) -> bool:
    """Return whether a phase is shown the whole input, or hands it to somebody's function."""
    shown = phase.context is not None and phase.context.include_input
    judged = phase.rules.loop_until is not None or phase.wards is not None
    return shown or phase.context_strategy is not None or judged


def sources_without_parent(loaded: LoadedCascade) -> tuple[Mistake, ...]:
    """Return one mistake for each source that only a cascade which runs this one could give."""
    cascade, partial, mistakes = loaded.cascade, loaded.partial, list[Mistake]()
    assert partial is not None
    names = {phase.name for phase in cascade.phases}
    for index, phase in enumerate(cascade.phases):
        for place, source in phase.sources.items():
            if source.phase.startswith(PARENT) and source.phase not in names:
                text = (
                    f"{source.phase!r} is a phase of the cascade that runs this one, and nobody"
                    " does: run that cascade, which names this file under 'sub_cascades'"
                )
                mistakes.append(partial.mistake(("phases", index, *place), text))
    return tuple(mistakes)


def make_ready(
    family: CascadeFamily,
    settings: Settings,
    *,
    auto: bool,
    model: str | None = None,
    names: ModelNames | None = None,
) -> ReadyCascade:
    """Give a family without mistakes as it is run, with models by the names that they are asked by.

    `auto`: a cascade that says nothing of `auto_context` gets it. `model` is the one of the phase
    that runs it, for a cascade that names none, and `names` what the cascade that runs it says of
    names. Raises CascadeError for an injector of its own that is not there.
    """
    cascade = family.loaded.cascade
    load_own_injectors(cascade, family.tools.modules)
    over: dict[str, object] = {}
    if auto and cascade.auto_context is None:
        over["auto_context"] = True
    if model is not None and cascade.model is None:
        over["model"] = model
    if names is not None and cascade.models is None:
        over["models"] = names
    if over:
        cascade = cascade.model_copy(update=over)
    cascade = with_model_names(cascade, settings.of_models(cascade.models, cascade.cascade_id))
    models = [cascade.settings_for(phase).model for phase in cascade.phases]
    children = {
        place: make_ready(child, settings, auto=auto, model=models[place[0]], names=cascade.models)
        for place, child in family.children.items()
    }
    tool_cascades = {
        file: make_ready(each, settings, auto=auto, model=cascade.model, names=cascade.models)
        for file, each in family.tool_cascades.items()
    }
    folders = family.loaded.reading.folders
    return ReadyCascade(cascade, family.tools, children, tool_cascades, folders)
