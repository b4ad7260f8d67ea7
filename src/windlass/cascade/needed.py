"""Which inputs the templates of a cascade need, and what is said where one is not given."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from windlass.cascade.compile import reach
from windlass.cascade.load import Loaded, Spots
from windlass.cascade.model import Phase, long_form
from windlass.cascade.source import Path
from windlass.errors import Mistake, did_you_mean
from windlass.needs import needs_of
from windlass.rules import ContextSource


@dataclass(frozen=True, slots=True)
class Needed:
    """A name of the input that a run cannot do without; `use` is where a template uses it first."""

    name: str
    use: Mistake


def needed(
    loaded: Loaded, own: Mapping[int, Collection[str]] = MappingProxyType({})
) -> tuple[Needed, ...]:
    """What a checked cascade needs of its input, each name once, in the order of use.

    `own` are names that a phase's input has without being given them, by the phase's number.
    """
    if loaded.partial is None:
        return ()
    spots, uses = Spots(loaded, loaded.partial), dict[str, Needed]()
    for path, template in _templates(spots):
        index = path[1] if len(path) > 1 else None
        names = own.get(index, ()) if isinstance(index, int) else ()
        for need in needs_of(template):
            if need.name in names:
                continue
            text = f"the template needs the input {need.name!r}"
            use = spots.in_template(path, template, need.line, text)
            uses.setdefault(need.name, Needed(need.name, use))
    return tuple(uses.values())


def not_given(needs: Iterable[Needed], given: Collection[str]) -> list[Mistake]:
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


def flags(needs: Iterable[Needed]) -> str:
    """The needs as flags of the command line: `-i file=... -i region=...`."""
    return " ".join(f"-i {need.name}=..." for need in needs)


def _templates(spots: Spots) -> Iterator[tuple[Path, str]]:
    """Each template that is rendered in every run that gets that far, with its place."""
    cascade = spots.cascade
    shared = cascade.system
    if shared is not None and any(phase.system is None for phase in cascade.phases):
        yield ("system",), shared
    names = [phase.name for phase in cascade.phases]
    for index, phase in enumerate(cascade.phases):
        base: Path = ("phases", index)
        for path, source, exclude in _sources(phase, base):
            if source.condition is not None and reach(source.phase, names, index, exclude):
                short = "if" if spots.written((*path, "if")) is not None else "condition"
                yield (*path, short), source.condition
        yield (*base, "instructions"), phase.instructions
        if phase.system is not None:
            yield (*base, "system"), phase.system


def _sources(phase: Phase, base: Path) -> Iterator[tuple[Path, ContextSource, frozenset[str]]]:
    context = phase.context
    if context is not None:
        for at, source in enumerate(context.from_):
            path = (*base, "context", "from", at)
            yield path, long_form(source), frozenset(context.exclude)
    for at, source in enumerate(phase.inject_from or ()):
        yield (*base, "inject_from", at), long_form(source), frozenset()
