"""Older spellings of a cascade, written out: what is held is one long form.

They work on the data of a file before it is validated. What is wrong is left as it stands, so that
the model names it.

Soundings as other runners and earlier versions spell them, put into their one long form.

Only what has the right form is moved; anything else stays where it is written, and is refused
there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, get_args

from windlass.cascade.evaluators import SHORTENED_TO
from windlass.cascade.memory_banks import with_kept_banks
from windlass.cascade.rules import Include
from windlass.cascade.token_budget import with_token_budget


def in_long_form(data: Any) -> Any:
    """Return the data of a cascade with its older spellings written out."""
    if not isinstance(data, Mapping) or not isinstance(data.get("phases"), list | tuple):
        return data
    for write_out in (with_kept_banks, with_token_budget, _with_sources):
        data = write_out(data)
    return data


def _with_sources(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """The sources with `prev` as `previous`, and plain names with what `context.include` says."""
    phases = data["phases"]
    names = [phase.get("name") for phase in phases if isinstance(phase, Mapping)]
    changed = [_phase_with_sources(phase, "prev" not in names) for phase in phases]
    return data if changed == list(phases) else {**data, "phases": changed}


def _phase_with_sources(phase: Any, short: bool) -> Any:
    if not isinstance(phase, Mapping):
        return phase
    changes: dict[str, Any] = {}
    if isinstance(listed := phase.get("inject_from"), list | tuple):
        changes["inject_from"] = _sources(listed, None, short=short)
    context = phase.get("context")
    if isinstance(context, Mapping):
        include = context.get("include")
        include = [include] if isinstance(include, str) else include
        known = get_args(Include)
        taken = isinstance(include, list | tuple) and all(each in known for each in include)
        held = {key: each for key, each in context.items() if key != "include" or not taken}
        for key in {"from", "from_"} & held.keys():
            if isinstance(held[key], list | tuple):
                held[key] = _sources(held[key], include if taken else None, short=short)
        changes["context"] = held
    return {**phase, **changes}


def _sources(listed: Sequence[Any], include: Any, *, short: bool) -> list[Any]:
    return [_source(each, include, short=short) for each in listed]


def _source(written: Any, include: Any, *, short: bool) -> Any:
    if isinstance(written, str):
        name = "previous" if short and written == "prev" else written
        return {"phase": name, "include": list(include)} if include else name
    if short and isinstance(written, Mapping) and written.get("phase") == "prev":
        return {**written, "phase": "previous"}
    return written


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
    """Return soundings with one place for each thing that may be spelled in several ways."""
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
