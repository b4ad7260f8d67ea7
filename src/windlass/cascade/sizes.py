"""What stands at the head of every request of a phase, held against its caps, before a run.

STABLE blocks are never cut, so that a system role or a list of tools that is too long is told
here, with sizes, by the count of the phase's model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from windlass.cascade.layers import PhaseInjectors, injectors_of
from windlass.cascade.model import Cascade, Phase
from windlass.errors import CascadeError, Mistake, UsageError, WindlassError
from windlass.injectors.known import make_injector
from windlass.injectors.roles import SystemRole, ToolDefinitions, long_role_text, long_tools_text
from windlass.injectors.volatile import looks_volatile, move_volatile
from windlass.safety.pattern_search import SECONDS
from windlass.safety.patterns import Unsupported, compiled
from windlass.safety.schemas import patterns_in
from windlass.settings.modules import UntrustedError
from windlass.text.tokens import Counter
from windlass.tools.base import Tool
from windlass.tools.registry import Registry


@dataclass(frozen=True, slots=True)
class Warned:
    """Something that costs, and is a mistake for those only who want to know of it.

    `mended`: a run does something about it by itself.
    """

    mistake: Mistake
    mended: bool = False


def warnings(
    cascade: Cascade, tools: Registry, counter_of: Callable[[Phase], Counter]
) -> Iterator[Warned]:
    """What is too long at the head of the phases that have injectors, and what looks volatile.

    And which patterns are searched for slowly.

    Tools of MCP servers are known only in a run, and are told there. Raises UsageError for an
    injector that cannot be made.
    """
    yield from _slow_patterns(cascade)
    warned = (
        each
        for at, phase in enumerate(cascade.phases)
        if (injectors := injectors_of(cascade, phase)) is not None
        for each in _of_phase(
            cascade, phase, injectors, tools, counter_of(phase), base=f"phases[{at}]"
        )
    )
    yield from dict.fromkeys(warned)


def _slow_patterns(cascade: Cascade) -> Iterator[Warned]:
    """What is searched for by an engine that may take for ever, and is stopped then."""
    for at, phase in enumerate(cascade.phases):
        patterns: list[tuple[str, str]] = []
        if phase.output_extraction is not None:
            place = f"phases[{at}].output_extraction.pattern"
            patterns.append((place, phase.output_extraction.pattern))
        schema = cascade.settings_for(phase).output_schema
        patterns += [(f"phases[{at}].output_schema", each) for each in patterns_in(schema)]
        for path, pattern in patterns:
            try:
                compiled(pattern)
            except Unsupported as error:
                text = (
                    f"the pattern {pattern!r} {error}; it is searched for in a process of its own,"
                    f" and the phase fails where that takes more than {SECONDS:g} s"
                )
                yield Warned(cascade.mistake_at(path, text), mended=True)


def _of_phase(
    cascade: Cascade,
    phase: Phase,
    injectors: PhaseInjectors,
    tools: Registry,
    counter: Counter,
    *,
    base: str,
) -> Iterator[Warned]:
    prompt = phase.system or cascade.system or ""
    where = f"{base}.system" if phase.system else "system"
    for spec in injectors.specs.values():
        try:
            placed = make_injector(spec, tools.modules)
        except UntrustedError:
            continue  # it was not loaded, and that is told
        except UsageError as error:
            raise CascadeError([cascade.mistake_at(base, str(error))]) from error
        size = counter.text(prompt)
        if isinstance(placed.injector, SystemRole) and size > placed.cap:
            yield Warned(cascade.mistake_at(where, long_role_text(size, placed.cap)))
        if isinstance(placed.injector, ToolDefinitions) and phase.tackle != "manifest":
            specs = [tool.spec for name in phase.tackle for tool in _known(tools, name)]
            if text := long_tools_text(specs, counter.text, placed.cap):
                yield Warned(cascade.mistake_at(f"{base}.tackle", text))
    moved = move_volatile(prompt, state=not phase.system)
    if moved.values and injectors.volatile == "move":
        names = ", ".join(moved.values)
        text = f"{names} will be moved behind the stable part, to each call's end"
        yield Warned(cascade.mistake_at(where, text), mended=True)
    if moved.stay:
        named = ", ".join(moved.stay)
        text = f"{named} stand in a block of the template, and stay in the stable part"
        yield Warned(cascade.mistake_at(where, text))
    for volatile in looks_volatile(prompt):
        text = (
            f"character {volatile.at:,}: {volatile.text!r} looks as if it changed from run to"
            f" run; each change costs {counter.text(prompt[volatile.at :]):,} tokens written anew"
            " and all that stands behind the system prompt"
        )
        yield Warned(cascade.mistake_at(where, text))


def _known(tools: Registry, name: str) -> list[Tool]:
    try:
        return list(tools.of_tackle([name]))
    except WindlassError:
        return []
