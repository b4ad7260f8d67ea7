"""What is no mistake, and is told before a run: what costs, and what a run does in another way.

STABLE blocks are never cut, so that a system role or a list of tools that is too long is told
here, with sizes, by the count of the phase's model; and so is what a model does not take.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from windlass.cascade.flow import reachable
from windlass.cascade.layers import PhaseInjectors, injectors_of, window_policy
from windlass.cascade.model import Cascade, Phase
from windlass.cascade.tool_caching import may_be_kept
from windlass.declared import Model
from windlass.errors import CascadeError, Mistake, UsageError, WindlassError
from windlass.injectors.head import (
    SystemRole,
    ToolDefinitions,
    long_role_text,
    long_tools_text,
    looks_volatile,
    move_volatile,
)
from windlass.injectors.orchestrate import make_injector
from windlass.safety.patterns import SECONDS, Unsupported, compile_pattern
from windlass.safety.schemas import patterns_in
from windlass.settings.modules import UntrustedError
from windlass.text.tokens import Counter
from windlass.tools.base import Tool
from windlass.tools.registry import Registry
from windlass.wire.editing import clears_tool_uses
from windlass.wire.thinking import takes_choice


@dataclass(frozen=True, slots=True)
class CascadeWarning:
    """Something that costs, and is a mistake for those only who want to know of it.

    `mended`: a run does something about it by itself.
    """

    mistake: Mistake
    mended: bool = False


def prompt_warnings(
    cascade: Cascade, tools: Registry, counter_of: Callable[[Phase], Counter]
) -> Iterator[CascadeWarning]:
    """Yield what is too long at the head of a phase, what looks volatile, and slow patterns.

    Tools of MCP servers are known only in a run, and are told there. Raises UsageError for an
    injector that cannot be made.
    """
    yield from _slow_patterns(cascade)
    yield from _never_kept(cascade, tools)
    warned = (
        each
        for at, phase in enumerate(cascade.phases)
        if (injectors := injectors_of(cascade, phase)) is not None
        for each in _of_phase(
            cascade, phase, injectors, tools, counter_of(phase), base=f"phases[{at}]"
        )
    )
    yield from dict.fromkeys(warned)


def flow_warnings(cascade: Cascade) -> Iterator[CascadeWarning]:
    """Yield the phases to which no way leads, so that they never run."""
    run = reachable(cascade.phases)
    for at, phase in enumerate(cascade.phases):
        if phase.name not in run:
            text = f"no way leads to phase {phase.name!r} by 'handoffs', so it never runs"
            yield CascadeWarning(cascade.mistake_at(f"phases[{at}]", text))


def _slow_patterns(cascade: Cascade) -> Iterator[CascadeWarning]:
    """Yield what is searched for by an engine that may take for ever, and is stopped then."""
    for at, phase in enumerate(cascade.phases):
        patterns: list[tuple[str, str]] = []
        if phase.output_extraction is not None:
            place = f"phases[{at}].output_extraction.pattern"
            patterns.append((place, phase.output_extraction.pattern))
        schema = cascade.settings_for(phase).output_schema
        patterns += [(f"phases[{at}].output_schema", each) for each in patterns_in(schema)]
        for path, pattern in patterns:
            try:
                compile_pattern(pattern)
            except Unsupported as error:
                text = (
                    f"the pattern {pattern!r} {error}; it is searched for in a process of its own,"
                    f" and the phase fails where that takes more than {SECONDS:g} s"
                )
                yield CascadeWarning(cascade.mistake_at(path, text), mended=True)


def _never_kept(cascade: Cascade, tools: Registry) -> Iterator[CascadeWarning]:
    """Yield the tools of `tool_caching` whose results are not used again, as they may write."""
    caching = cascade.tool_caching
    for name in caching.tools if caching is not None and caching.enabled else ():
        for tool in _known(tools, name):
            if not may_be_kept(tool):
                text = (
                    f"{name!r} always runs, as it may write or acts on the run; a function of your"
                    " own that only reads is marked with @tool(effects='none')"
                )
                yield CascadeWarning(
                    cascade.mistake_at(f"tool_caching.tools.{name}", text), mended=True
                )


def _of_phase(
    cascade: Cascade,
    phase: Phase,
    injectors: PhaseInjectors,
    tools: Registry,
    counter: Counter,
    *,
    base: str,
) -> Iterator[CascadeWarning]:
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
            yield CascadeWarning(cascade.mistake_at(where, long_role_text(size, placed.cap)))
        if isinstance(placed.injector, ToolDefinitions) and phase.tackle != "manifest":
            specs = [tool.spec for name in phase.tackle for tool in _known(tools, name)]
            if text := long_tools_text(specs, counter.text, placed.cap):
                yield CascadeWarning(cascade.mistake_at(f"{base}.tackle", text))
    moved = move_volatile(prompt, state=not phase.system)
    if moved.values and injectors.volatile == "move":
        names = ", ".join(moved.values)
        text = f"{names} will be moved behind the stable part, to each call's end"
        yield CascadeWarning(cascade.mistake_at(where, text), mended=True)
    if moved.stay:
        named = ", ".join(moved.stay)
        text = f"{named} stand in a block of the template, and stay in the stable part"
        yield CascadeWarning(cascade.mistake_at(where, text))
    for volatile in looks_volatile(prompt):
        text = (
            f"character {volatile.at:,}: {volatile.text!r} looks as if it changed from run to"
            f" run; each change costs {counter.text(prompt[volatile.at :]):,} tokens written anew"
            " and all that stands behind the system prompt"
        )
        yield CascadeWarning(cascade.mistake_at(where, text))


def _known(tools: Registry, name: str) -> list[Tool]:
    try:
        return list(tools.of_tackle([name]))
    except WindlassError:
        return []


# ---- what a phase asks of its model that the model does not take ------------------------------


def model_warnings(
    cascade: Cascade, model_for: Callable[[str | None], str]
) -> Iterator[CascadeWarning]:
    """What a phase asks of its model that the model does not take, so that a run does without it.

    `model_for` gives the model of a phase whose file says this of it.
    """
    seen: set[str] = set()
    for tell in (_choice_not_taken, _uses_not_cleared):
        for at, phase in enumerate(cascade.phases):
            model = model_for(cascade.settings_for(phase).model)
            place, text = tell(cascade, phase, model)
            place = place.format(phase=f"phases[{at}]")
            if text and place not in seen:
                seen.add(place)
                yield CascadeWarning(cascade.mistake_at(place, text), mended=True)


def _choice_not_taken(cascade: Cascade, phase: Phase, model: str) -> tuple[str, str]:
    """Where a tool choice is written that the model does not take, and what is said of it."""
    choice = cascade.settings_for(phase).tool_choice or "auto"
    place = "{phase}.tool_choice" if phase.tool_choice else "tool_choice"
    if takes_choice(model, choice):
        return place, ""
    return place, (
        f"{model} takes no tool_choice {choice!r}; a run sends 'auto', and asks for the call"
        " at the end of the instructions"
    )


def _uses_not_cleared(cascade: Cascade, phase: Phase, model: str) -> tuple[str, str]:
    """Where `server_clear` is written for a provider without it, and what is said of that."""
    own, (policy, _) = phase.intra_context, window_policy(cascade, phase)
    says = isinstance(own, Model) and "server_clear" in own.model_fields_set
    inside = "{phase}.intra_context" if says else "auto_context.intra_phase"
    if policy is None or policy.server_clear is None or clears_tool_uses(model):
        return inside, ""
    return f"{inside}.server_clear", (
        f"the provider of {model} clears no tool uses; models of anthropic/ do, and a run"
        " of this one sends them all"
    )
