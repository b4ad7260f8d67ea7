"""Keys of soundings that say nothing where they stand: told, as nobody writes them for that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from windlass.cascade.decision_points import HumanInput
from windlass.cascade.evaluators import HumanEval
from windlass.cascade.load import PartialCascade
from windlass.cascade.sounding_options import Soundings
from windlass.cascade.source import Path
from windlass.cascade.tools_named import all_soundings
from windlass.errors import Mistake

_OF_PERSON: Final = ("llm_prefilter", "timeout_seconds", "on_timeout")


def idle_sounding_keys(partial: PartialCascade) -> Iterator[Mistake]:
    """A warning for each key of soundings that has no effect where it stands."""
    for path, soundings in all_soundings(partial.cascade).items():
        written = partial.written(path)
        if not isinstance(written, Mapping):
            continue
        for key, text in (*_of_models(soundings, written), *_of_judging(soundings, written)):
            place: Path = (*path, *key)
            yield partial.mistake(place, text)


def idle_decision_keys(partial: PartialCascade) -> Iterator[Mistake]:
    """A warning for each key of decision points that is about a page, or never acts."""
    for index in range(len(partial.cascade.phases)):
        asked: Path = ("phases", index, "human_input")
        says = partial.written(asked)
        known = {*HumanInput.model_fields, "prompt"}
        if isinstance(says, Mapping) and (page := sorted({*map(str, says)} - known)):
            text = f"{', '.join(page)}: not part of Windlass, which asks a person in text"
            yield partial.mistake(asked, text)
        path: Path = ("phases", index, "decision_points")
        written = partial.written(path)
        if not isinstance(written, Mapping):
            continue
        if written.get("ui"):
            text = "not part of Windlass, which asks a person in text"
            yield partial.mistake((*path, "ui"), text)
        if written.get("trigger", "output") != "output":
            yield partial.mistake((*path, "trigger"), "only 'output' asks a person")


def _of_models(soundings: Soundings, written: Mapping[str, Any]) -> Iterator[tuple[Path, str]]:
    factor, counted = written.get("factor"), soundings.factor
    if soundings.models and factor is not None and factor != counted:
        yield ("factor",), f"is {factor}, but 'models' say {counted} attempts; {counted} are made"
    left = len(soundings.attempt_models) - counted
    if left > 0 and soundings.model_strategy == "round_robin":
        last = ", ".join(each.model for each in soundings.attempt_models[counted:])
        text = f"lists more models than 'factor' makes attempts ({counted}): {last} never runs"
        yield ("models",), text
    if "model_strategy" in written and not soundings.models:
        yield ("model_strategy",), "says how 'models' are handed out, and there are none"
    if written.get("mutate") is False:
        for key in ("mutations", "mutation_mode"):
            if written.get(key):
                yield (key,), "has no effect, as 'mutate' is false"


def _of_judging(soundings: Soundings, written: Mapping[str, Any]) -> Iterator[tuple[Path, str]]:
    if soundings.joins is not None:
        for key in ("evaluator", "evaluator_instructions", "reforge"):
            if written.get(key):
                yield (key,), "has no effect: all outputs are joined, and none wins"
    elif not soundings.are_several and len(written) > 1:
        yield (
            ("factor",),
            "makes one attempt: nothing is picked, and no other key here has an effect",
        )
    for key in ("aggregator_instructions", "aggregator_model"):
        if getattr(soundings, key) is not None:
            yield (key,), "has no effect without 'mode': 'aggregate'"
    for key in _OF_PERSON:
        if getattr(soundings, key) is not None:
            yield (key,), "is for a person who picks; write 'evaluator': 'human'"
    for at in (("human_eval",), ("evaluator", "human")):
        layout = _unknown_to_person(written, at)
        if layout:
            listed = ", ".join(layout)
            yield at, f"{listed}: not part of Windlass, which asks a person in text"
    reforge = written.get("reforge")
    threshold = reforge.get("threshold") if isinstance(reforge, Mapping) else None
    if isinstance(threshold, Mapping):
        for key in sorted({*threshold} - {"validator"}):
            text = "has no effect: the rounds end when the validator accepts the best so far"
            yield ("reforge", "threshold", key), text


def _unknown_to_person(written: Mapping[str, Any], at: Path) -> list[str]:
    """The keys of `human_eval` that are about a page."""
    held: Any = written
    for step in at:
        held = held.get(step) if isinstance(held, Mapping) else None
    return sorted({*held} - {*HumanEval.model_fields}) if isinstance(held, Mapping) else []
