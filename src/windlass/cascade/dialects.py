"""Keys that other runners write in another sense.

A cascade that was written elsewhere must not run as something else without a word. What cannot
be meant as it would be read is a mistake; what can be is told, and runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from windlass.cascade._idle_keys import idle_decision_keys, idle_sounding_keys
from windlass.cascade._sentences import shown
from windlass.cascade._tool_checks import idle_keys
from windlass.cascade.layers import injectors_of
from windlass.cascade.load import Loaded, PartialCascade, sort_mistakes
from windlass.cascade.model import Phase, own_tackle, tool_names
from windlass.cascade.needs import undeclared_inputs
from windlass.cascade.source import Path
from windlass.cascade.tools_named import REMEMBER, SEARCH
from windlass.cascade.unused_rules import unused_rules
from windlass.errors import Mistake

_NAMING: Final = frozenset({"output", "messages", "messages_filter"})
"""The keys of `callouts` where they name messages."""
_OF_A_PATTERN: Final = re.compile(r"[\^$\\\[\]|*+]|\(\?")
"""What names of things do not hold, and regular expressions do."""
_TEMPLATE: Final = re.compile(r"\{[{%]")


class _Misread(NamedTuple):
    """What there is to say of a key; `fails`: it cannot be meant as it is read here."""

    mistake: Mistake
    fails: bool


def perhaps_misread(loaded: Loaded) -> tuple[Mistake, ...]:
    """A warning for each key that may be meant in another sense, or has no effect."""
    if loaded.partial is None:
        return ()
    told = [key.mistake for key in _in_other_senses(loaded.partial) if not key.fails]
    told += [*unused_rules(loaded.partial), *idle_sounding_keys(loaded.partial)]
    told += idle_decision_keys(loaded.partial)
    return sort_mistakes([*told, *undeclared_inputs(loaded), *idle_keys(loaded)])


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
        yield from _callouts(partial, (*base, "callouts"), phase)
        yield from _instructions(partial, (*base, "instructions"), phase)
        if phase.tool is not None:
            continue
        if isinstance(partial.written((*base, "memory")), str):
            yield from _memory(partial, (*base, "memory"), [phase])
        yield from _turns(partial, (*base, "rules", "max_turns"), phase)


def _callouts(partial: PartialCascade, path: Path, phase: Phase) -> Iterator[_Misread]:
    if not phase.callouts or not _NAMING.issuperset(phase.callouts):
        return
    for key, pattern in phase.callouts.items():
        if key != "messages_filter" and _OF_A_PATTERN.search(_TEMPLATE.split(pattern)[0]):
            continue
        text = (
            f"{shown(pattern)} would be looked for in the text of messages, as a regular"
            f" expression, and what holds it be called {key!r}; elsewhere this key names what the"
            " phase says. Write the name first, and a pattern of what is to be kept in sight:"
            " {'decision': '^DECISION:'}"
        )
        yield _Misread(partial.mistake((*path, key), text), fails=True)


def _instructions(partial: PartialCascade, path: Path, phase: Phase) -> Iterator[_Misread]:
    prompt = (phase.instructions or "").strip()
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
    if phase.rules.max_turns != 1 or not own_tackle(phase) or choice == "none":
        return
    text = (
        "one turn is one call: if it asks for a tool, a closing call without tools answers the"
        " result, and the phase ends incomplete (turns); elsewhere that is one turn. Write 2"
    )
    yield _Misread(partial.mistake(path, text), fails=False)
