"""Keys that other runners write in another sense.

A cascade that was written elsewhere must not run as something else without a word. What cannot
be meant as it would be read is a mistake; what can be is told, and runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple, TypeGuard

from windlass.caching.rates import many
from windlass.cascade._idle_keys import idle_decision_keys, idle_sounding_keys
from windlass.cascade._sentences import shown
from windlass.cascade._tool_checks import idle_keys
from windlass.cascade.callout_rules import FILTER, MESSAGES
from windlass.cascade.flow import is_graph
from windlass.cascade.load import Loaded, PartialCascade, sort_mistakes
from windlass.cascade.memory_banks import REMEMBER, SEARCH
from windlass.cascade.model import Phase, own_tackle, tool_names
from windlass.cascade.needs import undeclared_inputs
from windlass.cascade.source import Path
from windlass.cascade.unused_rules import unused_rules
from windlass.errors import Mistake, did_you_mean
from windlass.text.templates import TemplateError, find_names


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
    told += loaded.warnings
    return sort_mistakes([*told, *undeclared_inputs(loaded), *idle_keys(loaded)])


def misread(partial: PartialCascade) -> Iterator[Mistake]:
    """A mistake for each key that cannot be meant as it is read here."""
    return (key.mistake for key in _in_other_senses(partial) if key.fails)


def _in_other_senses(partial: PartialCascade) -> Iterator[_Misread]:
    yield from _memory(partial, ("memory",))
    yield from _of_mapped_keys(partial)
    for index, phase in enumerate(partial.cascade.phases):
        base: Path = ("phases", index)
        yield from _callouts(partial, (*base, "callouts"))
        yield from _instructions(partial, (*base, "instructions"), phase)
        if phase.tool is not None:
            continue
        yield from _memory(partial, (*base, "memory"))
        yield from _turns(partial, (*base, "rules", "max_turns"), phase)


def _callouts(partial: PartialCascade, path: Path) -> Iterator[_Misread]:
    """A filter of messages that nothing names."""
    written = partial.written(path)
    if isinstance(written, dict) and FILTER in written and MESSAGES not in written:
        text = f"{FILTER!r} says which replies {MESSAGES!r} names, and there is no {MESSAGES!r}"
        yield _Misread(partial.mistake((*path, FILTER), text), fails=False)


def _instructions(partial: PartialCascade, path: Path, phase: Phase) -> Iterator[_Misread]:
    """A prompt that begins as the name of a file, and is none: of more than one word."""
    written = partial.written(path)
    is_text = isinstance(written, str) and phase.instructions == written
    if is_text and written.strip().startswith("@") and len(written.split()) > 1:
        text = (
            f"{shown(written.strip())} is sent to the model as it stands; '@' and one word would be"
            " the name of a file whose text is meant"
        )
        yield _Misread(partial.mistake(path, text), fails=False)


def _memory(partial: PartialCascade, path: Path) -> Iterator[_Misread]:
    """A bank that is only named, and into which our own tools and injectors only look."""
    bank, everywhere = partial.written(path), partial.cascade.phases
    if not isinstance(bank, str) or not _is_read(partial):
        return
    if any(each.tackle == "manifest" or REMEMBER in tool_names(each.tackle) for each in everywhere):
        return
    text = (
        f"nothing is put into the bank {bank!r}: only the tool {REMEMBER!r} does that, and no"
        f" tackle has it; every message is kept by {{'bank': {bank!r}, 'keep': 'all'}}, and a bank"
        f" that is only looked into is {{'read': [{bank!r}]}}"
    )
    yield _Misread(partial.mistake(path, text), fails=False)


def _is_read(partial: PartialCascade) -> bool:
    """Whether the cascade says in our own words how its memory is used."""
    cascade = partial.cascade
    if cascade.injectors or any(each.injectors for each in cascade.phases):
        return True
    return any(SEARCH in tool_names(each.tackle) for each in cascade.phases)


def _of_mapped_keys(partial: PartialCascade) -> Iterator[_Misread]:
    """Parts of keys of other runners that are accepted and change nothing."""
    for path, text in (*_of_cascade(partial), *_of_phases(partial)):
        yield _Misread(partial.mistake(path, text), fails=False)


def _of_cascade(partial: PartialCascade) -> Iterator[tuple[Path, str]]:
    names = [phase.name for phase in partial.cascade.phases]
    budget: Path = ("token_budget",)
    for place in (budget, *((*budget, "phase_overrides", name) for name in names)):
        if partial.written((*place, "summarizer", "model")) is not None:
            text = "the summary is written by the model of the phase, not by another"
            yield (*place, "summarizer", "model"), text
    overrides = partial.written((*budget, "phase_overrides"))
    for name in overrides if isinstance(overrides, dict) else ():
        if name not in names:
            text = f"there is no phase {name!r}, so this limits nothing"
            yield (*budget, "phase_overrides", name), f"{text}; {did_you_mean(name, names)}"
    caching = partial.cascade.tool_caching
    if caching is not None and caching.storage != "memory":
        text = "results are used again within a run, out of its record; no other place is needed"
        yield ("tool_caching", "storage"), text
    if caching is not None and caching.tools and "enabled" not in caching.model_fields_set:
        yield ("tool_caching",), "nothing is used again without 'enabled': true"
    if partial.written(("use_native_tools",)) is False:
        yield ("use_native_tools",), _NATIVE


def _of_phases(partial: PartialCascade) -> Iterator[tuple[Path, str]]:
    for index, phase in enumerate(partial.cascade.phases):
        base: Path = ("phases", index)
        if partial.written((*base, "use_native_tools")) is False:
            yield (*base, "use_native_tools"), _NATIVE
        if phase.tackle != "manifest" and partial.written((*base, "manifest_context")):
            yield (*base, "manifest_context"), "applies only with tackle 'manifest'"
        tackle = partial.written((*base, "tackle"))
        listed = [each for each in tackle if isinstance(each, str)] if _is_list(tackle) else []
        for at, name in enumerate(listed):
            if name in listed[:at]:
                yield (*base, "tackle", at), f"{name!r} is listed twice; once is enough"
        context = partial.written((*base, "context"))
        sources = context.get("from") if isinstance(context, dict) else None
        plain = [each for each in sources if isinstance(each, str)] if _is_list(sources) else []
        if isinstance(context, dict) and "include" in context and not plain:
            text = "says what plain names in 'from' take, and there are none"
            yield (*base, "context", "include"), text


def _is_list(value: object) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


_NATIVE: Final = "calls of tools are always the provider's own; nothing is parsed out of texts"


def _turns(partial: PartialCascade, path: Path, phase: Phase) -> Iterator[_Misread]:
    choice = partial.cascade.settings_for(phase).tool_choice
    if phase.rules.max_turns != 1 or not own_tackle(phase) or choice == "none":
        return
    text = (
        "one turn is one call: if it asks for a tool, a closing call without tools answers the"
        " result, and the phase ends incomplete (turns); elsewhere that is one turn. Write 2"
    )
    yield _Misread(partial.mistake(path, text), fails=False)


# ---- what is no mistake anywhere, and means something else here -------------------------------


def differences(partial: PartialCascade) -> Iterator[Mistake]:
    """What the runner that the language comes from does in another way, where a cascade has it.

    Only of cascades as they are written there: with `handoffs`, or read leniently.
    """
    cascade = partial.cascade
    if not (is_graph(cascade.phases) or cascade.is_lenient):
        return
    tackles = {phase.name: own_tackle(phase) for phase in cascade.phases}
    for index, phase in enumerate(cascade.phases):
        base: Path = ("phases", index)
        chosen = phase.context or phase.inject_from is not None or phase.context_strategy
        if index and phase.instructions is not None and not chosen:
            text = (
                "sees all that was said before it; a clean slate, as elsewhere, is"
                " 'context_strategy': 'fresh'"
            )
            yield partial.mistake(base, text)
        if phase.sub_cascades:
            text = "each has a session of its own, and the phase fails where one fails"
            yield partial.mistake((*base, "sub_cascades"), text)
        if (
            phase.rules.loop_until is not None
            and "on_exhausted" not in phase.rules.model_fields_set
        ):
            tries = phase.rules.max_attempts
            text = (
                f"after {many(tries, 'refused attempt')} the phase fails; to go on with the last"
                " output, as elsewhere, write 'on_exhausted': 'continue'"
            )
            yield partial.mistake((*base, "rules", "loop_until"), text)
        for name in _whole_outputs(phase.instructions or ""):
            if tackles.get(name):
                text = (
                    f"outputs.{name} is what the model said last; results of tools are in"
                    f" outputs.{name}.tool_results"
                )
                yield partial.mistake((*base, "instructions"), text)


def _whole_outputs(template: str) -> list[str]:
    """The phases of which a template uses outputs. A template that cannot be read uses none."""
    try:
        return list(dict.fromkeys(each.name for each in find_names(template) if each.of))
    except TemplateError:
        return []
