"""What can be known to go wrong with a phase that runs a tool, before it runs."""

from __future__ import annotations

from collections.abc import Iterator

from windlass.cascade.deterministic import BESIDE_TOOL
from windlass.cascade.handoffs import END
from windlass.cascade.load import PartialCascade
from windlass.cascade.model import Phase
from windlass.cascade.source import Path
from windlass.errors import Mistake, WindlassError, did_you_mean
from windlass.messages import ToolSpec
from windlass.tools.registry import Registry


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
    """Arguments that the tool of a phase does not take, or needs."""
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
