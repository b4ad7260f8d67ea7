"""What is told of a cascade before a run, and is no mistake.

A key that has no effect where it stands, or that other runners write in another sense, is accepted
and told: each is a row of a table, with the place that it is told at.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from windlass.cascade._sentences import shown
from windlass.cascade.callout_rules import FILTER, MESSAGES
from windlass.cascade.decision_points import HumanInput
from windlass.cascade.deterministic import ASKING, DEFAULT
from windlass.cascade.evaluators import HumanEval
from windlass.cascade.load import LoadedCascade, PartialCascade, sort_mistakes
from windlass.cascade.memory_banks import REMEMBER, SEARCH
from windlass.cascade.model import Phase, tool_names
from windlass.cascade.needs import undeclared_inputs
from windlass.cascade.sounding_options import Soundings
from windlass.cascade.source import Path, value_at
from windlass.cascade.tools_named import all_soundings, wards_of
from windlass.errors import Mistake, did_you_mean


class _Note(NamedTuple):
    """What is said of a place, where it `holds`."""

    holds: Any
    path: Path
    text: str


def notes(loaded: LoadedCascade) -> tuple[Mistake, ...]:
    """Return a warning for each key that may be meant in another sense, or has no effect."""
    if (partial := loaded.partial) is None:
        return ()
    told = [*_of_cascade(partial)]
    for at, phase in enumerate(partial.cascade.phases):
        told += _below(("phases", at), _of_phase(partial, at, phase))
    for place, soundings in all_soundings(partial.cascade).items():
        if isinstance(written := partial.written(place), Mapping):
            told += _below(place, _of_soundings(soundings, written))
    found = [partial.mistake(each.path, each.text) for each in told if each.holds]
    return sort_mistakes([*found, *loaded.warnings, *undeclared_inputs(loaded)])


def _below(base: Path, table: Iterable[_Note]) -> Iterator[_Note]:
    return (each._replace(path=(*base, *each.path)) for each in table)


_NATIVE: Final = "calls of tools are always the provider's own; nothing is parsed out of texts"
_NO_PAGE: Final = "not part of Windlass, which asks a person in text"
_ALWAYS: Final = True


# ---- of the whole cascade --------------------------------------------------------------


def _of_cascade(partial: PartialCascade) -> Iterator[_Note]:
    names = [phase.name for phase in partial.cascade.phases]
    budget: Path = ("token_budget",)
    for place in (budget, *((*budget, "phase_overrides", name) for name in names)):
        model: Path = (*place, "summarizer", "model")
        text = "the summary is written by the model of the phase, not by another"
        yield _Note(partial.written(model) is not None, model, text)
    for name in _mapping(partial.written((*budget, "phase_overrides"))):
        text = f"there is no phase {name!r}, so this limits nothing; {did_you_mean(name, names)}"
        yield _Note(name not in names, (*budget, "phase_overrides", name), text)
    if (caching := partial.cascade.tool_caching) is not None:
        text = "results are used again within a run, out of its record; no other place is needed"
        yield _Note(caching.storage != "memory", ("tool_caching", "storage"), text)
        is_idle = caching.tools and "enabled" not in caching.model_fields_set
        yield _Note(is_idle, ("tool_caching",), "nothing is used again without 'enabled': true")
    yield _Note(partial.written(("use_native_tools",)) is False, ("use_native_tools",), _NATIVE)
    yield from _of_bank(partial, ("memory",))


def _of_bank(partial: PartialCascade, path: Path) -> Iterator[_Note]:
    """Yield a bank that is only named, and into which our own tools and injectors only look."""
    bank, phases = partial.written(path), partial.cascade.phases
    tackles = [tool_names(each.tackle) for each in phases if each.tackle != "manifest"]
    is_read = partial.cascade.injectors or any(each.injectors for each in phases)
    is_read = is_read or any(SEARCH in tackle for tackle in tackles)
    is_filled = len(tackles) < len(phases) or any(REMEMBER in tackle for tackle in tackles)
    text = (
        f"nothing is put into the bank {bank!r}: only the tool {REMEMBER!r} does that, and no"
        f" tackle has it; every message is kept by {{'bank': {bank!r}, 'keep': 'all'}}, and a bank"
        f" that is only looked into is {{'read': [{bank!r}]}}"
    )
    yield _Note(isinstance(bank, str) and is_read and not is_filled, path, text)


# ---- of a phase ------------------------------------------------------------------------

_WITHOUT_JUDGE: Final = "nothing refuses an output of this phase: it has no 'loop_until'"
_TRYING: Final = ("loop_until", "max_attempts", "max_turns", "on_exhausted")
"""Keys of `rules` that are about attempts at asking a model."""


def _of_phase(partial: PartialCascade, at: int, phase: Phase) -> Iterator[_Note]:
    def written(*path: str | int) -> Any:
        return partial.written(("phases", at, *path))

    says, tackle = written("instructions"), _list(written("tackle"))
    is_name = isinstance(says, str) and says.strip().startswith("@") and phase.instructions == says
    text = (
        f"{shown(str(says).strip())} is sent to the model as it stands; '@' and one word would be"
        " the name of a file whose text is meant"
    )
    yield _Note(is_name and len(says.split()) > 1, ("instructions",), text)
    is_alone = FILTER in _mapping(written("callouts")) and not written("callouts", MESSAGES)
    text = f"{FILTER!r} says which replies {MESSAGES!r} names, and there is no {MESSAGES!r}"
    yield _Note(is_alone, ("callouts", FILTER), text)
    is_all = phase.tackle != "manifest" and written("manifest_context")
    yield _Note(is_all, ("manifest_context",), "applies only with tackle 'manifest'")
    yield _Note(written("use_native_tools") is False, ("use_native_tools",), _NATIVE)
    for number, name in enumerate(tackle):
        text = f"{name!r} is listed twice; once is enough"
        yield _Note(name in tackle[:number], ("tackle", number), text)
    plain = any(isinstance(each, str) for each in _list(written("context", "from")))
    is_idle = not plain and "include" in _mapping(written("context"))
    text = "says what plain names in 'from' take, and there are none"
    yield _Note(is_idle, ("context", "include"), text)
    if phase.tool is None:
        for each in _of_bank(partial, ("phases", at, "memory")):
            yield each._replace(path=("memory",))
    yield from _of_people(_mapping(written("human_input")), _mapping(written("decision_points")))
    yield from _of_rules(partial, phase)
    yield from _of_wards(phase)
    if phase.tool is not None:
        yield from _of_tool_phase(phase)


def _of_people(asked: Mapping[str, Any], points: Mapping[str, Any]) -> Iterator[_Note]:
    page = sorted({*map(str, asked)} - {*HumanInput.model_fields, "prompt"})
    yield _Note(page, ("human_input",), f"{', '.join(page)}: {_NO_PAGE}")
    yield _Note(points.get("ui"), ("decision_points", "ui"), _NO_PAGE)
    is_idle = points.get("trigger", "output") != "output"
    yield _Note(is_idle, ("decision_points", "trigger"), "only 'output' asks a person")


def _of_rules(partial: PartialCascade, phase: Phase) -> Iterator[_Note]:
    """Yield the texts of a phase's rules that no run ever says."""
    rules, never = phase.rules, "is never said: "
    judged = rules.loop_until is not None or partial.cascade.settings_for(phase).output_schema
    retries = any(ward.mode == "retry" and place == "post" for place, _, ward in wards_of(phase))
    if rules.retry_instructions is not None and not retries:
        at: Path = ("rules", "retry_instructions")
        yield _Note(not judged, at, f"{never}{_WITHOUT_JUDGE} and no 'output_schema'")
        yield _Note(judged and rules.max_attempts == 1, at, f"{never}'max_attempts' is 1")
    once = rules.turn_prompt is not None and rules.max_turns == 1
    yield _Note(once, ("rules", "turn_prompt"), f"{never}'max_turns' is 1")
    silent = rules.loop_until_prompt is not None and rules.loop_until_silent
    text = f"{never}'loop_until_silent' is true"
    yield _Note(silent, ("rules", "loop_until_prompt"), text)


def _of_wards(phase: Phase) -> Iterator[_Note]:
    for place, number, ward in wards_of(phase):
        at: Path = ("wards", place, number)
        once = ward.mode == "retry" and (place == "pre" or phase.tool is not None)
        text = "nothing can be tried again here: a refusal is only noted, as with 'advisory'"
        yield _Note(once, (*at, "mode"), text)
        is_idle = ward.mode != "retry" and "max_attempts" in ward.model_fields_set
        text = f"has no effect with mode {ward.mode!r}, only with 'retry'"
        yield _Note(is_idle, (*at, "max_attempts"), text)


def _of_tool_phase(phase: Phase) -> Iterator[_Note]:
    idle: list[Path] = [(key,) for key in sorted(ASKING & phase.model_fields_set)]
    idle += [("rules", key) for key in _TRYING if key in phase.rules.model_fields_set]
    idle += [("wards", "turn", at) for place, at, _ in wards_of(phase) if place == "turn"]
    text = "has no effect: this phase runs a tool and asks no model"
    yield from (_Note(_ALWAYS, path, text) for path in idle)
    ends = phase.routing and not phase.handoffs and DEFAULT not in phase.routing
    text = f"says nothing of other results, after which the run ends; add {DEFAULT!r}"
    yield _Note(ends, ("routing",), text)


# ---- of soundings ----------------------------------------------------------------------

_OF_PERSON: Final = ("llm_prefilter", "timeout_seconds", "on_timeout")


def _of_soundings(soundings: Soundings, written: Mapping[str, Any]) -> Iterator[_Note]:
    factor, counted = written.get("factor"), soundings.factor
    many_models = soundings.models and factor is not None and factor != counted
    text = f"is {factor}, but 'models' say {counted} attempts; {counted} are made"
    yield _Note(many_models, ("factor",), text)
    last = ", ".join(each.model for each in soundings.attempt_models[counted:])
    text = f"lists more models than 'factor' makes attempts ({counted}): {last} never runs"
    yield _Note(last and soundings.model_strategy == "round_robin", ("models",), text)
    is_idle = "model_strategy" in written and not soundings.models
    text = "says how 'models' are handed out, and there are none"
    yield _Note(is_idle, ("model_strategy",), text)
    for key in ("mutations", "mutation_mode"):
        is_idle = written.get("mutate") is False and bool(written.get(key))
        yield _Note(is_idle, (key,), "has no effect, as 'mutate' is false")
    joins = soundings.joins is not None
    for key in ("evaluator", "evaluator_instructions", "reforge"):
        text = "has no effect: all outputs are joined, and none wins"
        yield _Note(joins and written.get(key), (key,), text)
    is_one = not joins and not soundings.are_several and len(written) > 1
    text = "makes one attempt: nothing is picked, and no other key here has an effect"
    yield _Note(is_one, ("factor",), text)
    for key in ("aggregator_instructions", "aggregator_model"):
        text = "has no effect without 'mode': 'aggregate'"
        yield _Note(getattr(soundings, key) is not None, (key,), text)
    for key in _OF_PERSON:
        text = "is for a person who picks; write 'evaluator': 'human'"
        yield _Note(getattr(soundings, key) is not None, (key,), text)
    places: tuple[Path, ...] = (("human_eval",), ("evaluator", "human"))
    for at in places:
        page = sorted({*_mapping(value_at(written, at))} - {*HumanEval.model_fields})
        yield _Note(page, at, f"{', '.join(page)}: {_NO_PAGE}")
    for key in sorted({*_mapping(value_at(written, ("reforge", "threshold")))} - {"validator"}):
        text = "has no effect: the rounds end when the validator accepts the best so far"
        yield _Note(_ALWAYS, ("reforge", "threshold", key), text)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
