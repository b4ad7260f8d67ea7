"""What a cascade of the runner that this language comes from does in another way here.

Each is no mistake and no warning: it is told before a run, where the file says it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from windlass.caching.rates import many
from windlass.cascade.flow import is_graph
from windlass.cascade.load import LoadedCascade, PartialCascade
from windlass.cascade.model import Phase, own_tackle
from windlass.cascade.source import Path
from windlass.cascade.templates import templates_of
from windlass.cascade.tools_named import wards_of
from windlass.errors import Mistake
from windlass.text.lookups import lookups
from windlass.text.templates import OUTPUT_OF, PhaseOutput, TemplateError

_ELSEWHERE: Final = "elsewhere it holds what the tools of the last turn gave, too"


def differences(loaded: LoadedCascade) -> Iterator[Mistake]:
    """Yield what is different here, with the place that says it."""
    if (partial := loaded.partial) is None:
        return
    with_tools = {each.name for each in partial.cascade.phases if own_tackle(each)}
    for path, template, _ in templates_of(partial):
        for name, line in _outputs_in(template):
            if name in with_tools:
                text = (
                    f"outputs.{name} is the phase's text; {_ELSEWHERE}: that is"
                    f" outputs.{name}.tool_results.TOOL"
                )
                yield partial.in_template(path, template, line, text)
    for index, phase in enumerate(partial.cascade.phases):
        base: Path = ("phases", index)
        if phase.name in with_tools:
            for place in _judging(phase):
                text = f"takes the phase's text; {_ELSEWHERE}"
                yield partial.mistake((*base, *place), text)
        yield from _of_children(partial, base, phase)
    if is_graph(partial.cascade.phases) or partial.cascade.is_lenient:
        yield from _of_graphs(partial)


def _of_graphs(partial: PartialCascade) -> Iterator[Mistake]:
    """Yield what a cascade with `handoffs`, or one that is read leniently, may be written for."""
    seeing: dict[int, str] = {}
    for index, phase in enumerate(partial.cascade.phases):
        base: Path = ("phases", index)
        chosen = phase.context or phase.inject_from is not None or phase.context_strategy
        if index and phase.instructions is not None and not chosen:
            seeing[index] = phase.name
        if phase.sub_cascades:
            text = "each has a session of its own, and the phase fails where one fails"
            yield partial.mistake((*base, "sub_cascades"), text)
        written = phase.rules.model_fields_set
        if phase.rules.loop_until is not None and "on_exhausted" not in written:
            text = (
                f"after {many(phase.rules.max_attempts, 'refused attempt')} the phase fails; to go"
                " on with the last output, as elsewhere, write 'on_exhausted': 'continue'"
            )
            yield partial.mistake((*base, "rules", "loop_until"), text)
    if seeing:
        first, *others = seeing
        names = ", ".join(repr(seeing[at]) for at in others)
        also = f", and so do {names}" if others else ""
        text = (
            f"sees all that was said before it{also}; a clean slate, as elsewhere, is"
            " 'context_strategy': 'fresh'"
        )
        yield partial.mistake(("phases", first), text)


def _of_children(partial: PartialCascade, base: Path, phase: Phase) -> Iterator[Mistake]:
    """Yield words of sources that elsewhere may mean a phase of a sub-cascade."""
    below = {"previous": phase, "first": partial.cascade.phases[0]}
    for place, source in phase.sources.items():
        runs = below.get(source.phase)
        if runs is not None and any(sub.context_out for sub in runs.sub_cascades):
            text = (
                f"{source.phase!r} is a phase of this cascade; elsewhere it is one of the"
                f" sub-cascades that phase {runs.name!r} runs before it: name that phase"
            )
            yield partial.mistake((*base, *place), text)


def _judging(phase: Phase) -> Iterator[Path]:
    """Where a phase says what judges its output, or what is taken from it."""
    if phase.rules.loop_until is not None:
        yield "rules", "loop_until"
    if phase.output_extraction is not None:
        yield "output_extraction", "pattern"
    for place, at, _ in wards_of(phase):
        if place == "post":
            yield "wards", place, at


def _outputs_in(template: str) -> list[tuple[str, int]]:
    """Get the phases whose output a template uses as text, each once, with its first line there."""
    try:
        found = lookups(template)
    except TemplateError:  # a mistake of its own
        return []
    used: dict[str, int] = {}
    for each in found:
        match each.name, each.keys:
            case "state", (key, *_) if key.startswith(OUTPUT_OF):
                used.setdefault(key.removeprefix(OUTPUT_OF), each.line)
            case "outputs", (phase, *parts) if not parts or parts[0] not in _PARTS:
                used.setdefault(phase, each.line)
    return list(used.items())


_PARTS: Final = frozenset(PhaseOutput.NAMES) - {"text"}
