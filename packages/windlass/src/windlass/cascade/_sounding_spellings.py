"""Soundings as other runners and earlier versions spell them, put into their one long form.

Only what has the right form is moved; anything else stays where it is written, and is refused
there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from windlass.cascade.evaluators import SHORTENED_TO

MOST_SOUNDINGS: Final = 32
"""The most attempts that one round of soundings makes side by side."""

_OF_PERSON: Final = ("timeout_seconds", "on_timeout", "llm_prefilter")


def varied_in_long_form(written: Any) -> Any:
    """Return what says how attempts vary: a switch, a mode and texts.

    A list of texts is the switch with these texts; a mode or texts alone switch it on.
    """
    if not isinstance(written, Mapping):
        return written
    data = dict(written)
    listed = data.get("mutate")
    if isinstance(listed, Sequence) and not isinstance(listed, str):
        data["mutate"] = bool(listed)
        if listed:
            data["mutations"] = listed
    elif listed is None and (data.get("mutations") or data.get("mutation_mode")):
        data["mutate"] = True
    return data


def soundings_in_long_form(written: Any) -> Any:
    """Soundings with one place for each thing that may be spelled in several ways."""
    if not isinstance(written, Mapping):
        return written
    data = dict(written)
    _count_attempts(data)
    _name_person(data)
    _name_joining(data)
    strategy = data.get("model_strategy")
    if isinstance(strategy, str):
        data["model_strategy"] = strategy.replace("-", "_")
    return data


def _count_attempts(data: dict[str, Any]) -> None:
    """Numbers of attempts at `models` go before `factor`; without either each has one."""
    models = data.get("models")
    if isinstance(models, Mapping):
        counted = [_factor_of(each) for each in models.values()]
    elif isinstance(models, Sequence) and not isinstance(models, str):
        counted = [_factor_of(each) for each in models]
        named = any(isinstance(each, Mapping) and "factor" in each for each in models)
        if data.get("factor") is not None and not named:
            return
    else:
        return
    if counted and all(isinstance(n, int) and 0 < n <= MOST_SOUNDINGS for n in counted):
        data["factor"] = sum(counted)


def _factor_of(model: Any) -> Any:
    """Return how many attempts a model is given, where it says so; else one."""
    if isinstance(model, Mapping):
        return model.get("factor", 1)
    return model if isinstance(model, int) else 1


def _name_person(data: dict[str, Any]) -> None:
    """Whatever is said of a person who picks stands in `evaluator.human`."""
    named = data.get("evaluator")
    if named == "llm":
        named = data.pop("evaluator") and None
    settings = data.get("human_eval")
    if named not in (None, "human", "hybrid") or (named is None and settings is None):
        return
    if not isinstance(settings, Mapping | None):
        return
    data.pop("human_eval", None)
    human = {**(settings or {}), **{key: data.pop(key) for key in _OF_PERSON if key in data}}
    if named == "hybrid":
        human.setdefault("llm_prefilter", SHORTENED_TO)
    data["evaluator"] = {"human": human}


def _name_joining(data: dict[str, Any]) -> None:
    """`mode: aggregate` and what it is asked stand in `aggregate`."""
    if data.get("mode") == "evaluate":
        del data["mode"]
    if data.get("mode") != "aggregate":
        return
    del data["mode"]
    spelled = {"aggregator_instructions": "instructions", "aggregator_model": "model"}
    settings = {spelled[key]: data.pop(key) for key in spelled if key in data}
    held = data.get("aggregate")
    data["aggregate"] = {**(held if isinstance(held, Mapping) else {}), **settings}
