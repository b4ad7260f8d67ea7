"""Keys that other runners write in another sense.

A cascade that was written elsewhere must not run as something else without a word. What cannot
be meant as it would be read is a mistake; what can be is told, and runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from windlass.cascade._sentences import shown
from windlass.cascade.callout_rules import FILTER, MESSAGES
from windlass.cascade.layers import injectors_of
from windlass.cascade.load import Loaded, PartialCascade, sort_mistakes
from windlass.cascade.model import Phase, tool_names
from windlass.cascade.needs import undeclared_inputs
from windlass.cascade.source import Path
from windlass.cascade.tools_named import REMEMBER, SEARCH
from windlass.errors import Mistake

class _Misread(NamedTuple):
    """What there is to say of a key; `fails`: it cannot be meant as it is read here."""

    mistake: Mistake
    fails: bool


def perhaps_misread(loaded: Loaded) -> tuple[Mistake, ...]:
    """A warning for each key that may be meant as it is read here, or in the other sense."""
    if loaded.partial is None:
        return ()
    told = [key.mistake for key in _in_other_senses(loaded.partial) if not key.fails]
    return sort_mistakes([*loaded.warnings, *told, *undeclared_inputs(loaded)])


def misread(partial: PartialCascade) -> Iterator[Mistake]:
    """A mistake for each key that cannot be meant as it is read here."""
    return (key.mistake for key in _in_other_senses(partial) if key.fails)


def _in_other_senses(partial: PartialCascade) -> Iterator[_Misread]:
    if isinstance(partial.written(("memory",)), str):
        yield from _memory(
            partial, ("memory",), [p for p in partial.cascade.phases if not p.memory]
        )
    for index, phase in enumerate(partial.cascade.phases):
        base: Path = ("phases", index)
        yield from _callouts(partial, (*base, "callouts"))
        yield from _instructions(partial, (*base, "instructions"), phase)
        if isinstance(partial.written((*base, "memory")), str):
            yield from _memory(partial, (*base, "memory"), [phase])
        yield from _turns(partial, (*base, "rules", "max_turns"), phase)


def _callouts(partial: PartialCascade, path: Path) -> Iterator[_Misread]:
    """A filter of messages that nothing names."""
    written = partial.written(path)
    if isinstance(written, dict) and FILTER in written and MESSAGES not in written:
        text = f"{FILTER!r} says which replies {MESSAGES!r} names, and there is no {MESSAGES!r}"
        yield _Misread(partial.mistake((*path, FILTER), text), fails=False)


def _instructions(partial: PartialCascade, path: Path, phase: Phase) -> Iterator[_Misread]:
    prompt = phase.instructions.strip()
    if not prompt.startswith("@"):
        return
    text = (
        f"{shown(prompt)} is sent to the model as it stands; elsewhere '@' begins the name of a"
        " file whose text is meant. Write that text here"
    )
    # More than one word is no name of a file.
    yield _Misread(partial.mistake(path, text), fails=len(prompt.split()) == 1)


def _memory(partial: PartialCascade, path: Path, phases: list[Phase]) -> Iterator[_Misread]:
    bank = partial.written(path)
    everywhere = partial.cascade.phases
    if any(each.tackle == "manifest" or REMEMBER in tool_names(each.tackle) for each in everywhere):
        return
    tools = {name for phase in phases for name in tool_names(phase.tackle)}
    injectors = [injectors_of(partial.cascade, phase) for phase in phases]
    reads = any(each is not None and "user_memory" in each.specs for each in injectors)
    text = (
        f"nothing is put into the bank {bank!r}: only the tool {REMEMBER!r} does that, and no"
        " tackle has it; elsewhere every message is kept by itself. Give a phase"
        f" {REMEMBER!r} and {SEARCH!r}; a bank that is only looked into is {{'read': [{bank!r}]}}"
    )
    yield _Misread(partial.mistake(path, text), fails=not (reads or tools))


def _turns(partial: PartialCascade, path: Path, phase: Phase) -> Iterator[_Misread]:
    choice = partial.cascade.settings_for(phase).tool_choice
    if phase.rules.max_turns != 1 or not phase.tackle or choice == "none":
        return
    text = (
        "one turn is one call: if it asks for a tool, a closing call without tools answers the"
        " result, and the phase ends incomplete (turns); elsewhere that is one turn. Write 2"
    )
    yield _Misread(partial.mistake(path, text), fails=False)
