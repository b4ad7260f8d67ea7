"""Keys that cascades of other runners write in another sense than the one they have here.

A cascade that was written elsewhere must not run as something else without a word. What cannot
be meant as it would be read is a mistake; what can be is told, and runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from windlass.cascade.layers import injectors_of
from windlass.cascade.load import Loaded, Spots, in_order
from windlass.cascade.model import REMEMBER, SEARCH, Phase, tool_names
from windlass.cascade.sentences import shown
from windlass.cascade.source import Path
from windlass.errors import Mistake

_NAMING: Final = frozenset({"output", "messages", "messages_filter"})
"""The keys of `callouts` where they name messages."""
_OF_A_PATTERN: Final = re.compile(r"[\^$\\\[\]|*+]|\(\?")
"""What names of things do not hold, and regular expressions do."""
_TEMPLATE: Final = re.compile(r"\{[{%]")
_ANY: Final = "manifest"


class _Misread(NamedTuple):
    """What there is to say of a key; `fails`: it cannot be meant as it is read here."""

    mistake: Mistake
    fails: bool


def mistakes_of(spots: Spots) -> Iterator[Mistake]:
    """The keys that cannot be meant as they would be read."""
    return (key.mistake for key in _misread(spots) if key.fails)


def warnings_of(loaded: Loaded) -> tuple[Mistake, ...]:
    """The keys that may be meant as they are read, or in the other sense."""
    if loaded.partial is None:
        return ()
    return in_order(key.mistake for key in _misread(Spots(loaded, loaded.partial)) if not key.fails)


def _misread(spots: Spots) -> Iterator[_Misread]:
    if isinstance(spots.written(("memory",)), str):
        yield from _memory(spots, ("memory",), [p for p in spots.cascade.phases if not p.memory])
    for index, phase in enumerate(spots.cascade.phases):
        base: Path = ("phases", index)
        yield from _callouts(spots, (*base, "callouts"), phase)
        yield from _instructions(spots, (*base, "instructions"), phase)
        if isinstance(spots.written((*base, "memory")), str):
            yield from _memory(spots, (*base, "memory"), [phase])
        yield from _turns(spots, (*base, "rules", "max_turns"), phase)


def _callouts(spots: Spots, path: Path, phase: Phase) -> Iterator[_Misread]:
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
        yield _Misread(spots.mistake((*path, key), text), fails=True)


def _instructions(spots: Spots, path: Path, phase: Phase) -> Iterator[_Misread]:
    prompt = phase.instructions.strip()
    if not prompt.startswith("@"):
        return
    text = (
        f"{shown(prompt)} is sent to the model as it stands; elsewhere '@' begins the name of a"
        " file whose text is meant. Write that text here"
    )
    # More than one word is no name of a file.
    yield _Misread(spots.mistake(path, text), fails=len(prompt.split()) == 1)


def _memory(spots: Spots, path: Path, phases: list[Phase]) -> Iterator[_Misread]:
    bank = spots.written(path)
    everywhere = spots.cascade.phases
    if any(each.tackle == _ANY or REMEMBER in tool_names(each.tackle) for each in everywhere):
        return
    tools = {name for phase in phases for name in tool_names(phase.tackle)}
    injectors = [injectors_of(spots.cascade, phase) for phase in phases]
    reads = any(each is not None and "user_memory" in each.specs for each in injectors)
    text = (
        f"nothing is put into the bank {bank!r}: only the tool {REMEMBER!r} does that, and no"
        " tackle has it; elsewhere every message is kept by itself. Give a phase"
        f" {REMEMBER!r} and {SEARCH!r}; a bank that is only looked into is {{'read': [{bank!r}]}}"
    )
    yield _Misread(spots.mistake(path, text), fails=not (reads or tools))


def _turns(spots: Spots, path: Path, phase: Phase) -> Iterator[_Misread]:
    choice = spots.cascade.settings_for(phase).tool_choice
    if phase.rules.max_turns != 1 or not phase.tackle or choice == "none":
        return
    text = (
        "one turn is one call: if it asks for a tool, nothing answers the result, and the phase"
        " ends incomplete; elsewhere a turn has one more call for that. Write 2"
    )
    yield _Misread(spots.mistake(path, text), fails=False)
