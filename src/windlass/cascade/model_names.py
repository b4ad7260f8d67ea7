"""The models that a cascade names, and through which provider they are asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from windlass.cascade.layers import selector_models
from windlass.cascade.model import Cascade, Phase
from windlass.cascade.tools_named import all_soundings, asking_phases
from windlass.declared import Model
from windlass.errors import Mistake
from windlass.settings.settings import Settings

_KEYS: Final = frozenset({"model", "aggregator_model", "selector_model", "helper_model"})
"""The keys under which parts of a cascade name a model."""


def model_names(cascade: Cascade, settings: Settings) -> list[str]:
    """All models that a cascade's run asks by its phases, soundings, judges and selectors."""
    asking = asking_phases(cascade)
    names = [settings.model_for(cascade.settings_for(each).model) for each in asking]
    names += [name for each in all_soundings(cascade).values() for name in each.helpers]
    names += [name for each in cascade.validators.values() if (name := each.model)]
    return list(dict.fromkeys([*names, *selector_models(cascade, settings)]))


def with_model_names(cascade: Cascade, settings: Settings) -> Cascade:
    """The cascade with the names by which its models are asked.

    Each goes through the provider that `models.through` names, and in the place of those of
    soundings stands the model that a flag names. Judges keep the model that they name.
    """
    flag = settings.layers["flags"].get("model")
    if settings.models.through is None and flag is None:
        return cascade
    routed: Cascade = _with_names(cascade, settings.routed)
    if flag is None:
        return routed

    def tried(part: Phase | Cascade) -> dict[str, Any]:
        soundings = part.soundings
        if soundings is None or not soundings.models:
            return {}
        models = _in_value(soundings.models, lambda _: settings.model_for(None))
        return {"soundings": soundings.model_copy(update={"models": models})}

    phases = tuple(phase.model_copy(update=tried(phase)) for phase in routed.phases)
    return routed.model_copy(update={**tried(routed), "phases": phases})


def _with_names(part: Any, name_of: Callable[[str], str]) -> Any:
    """A part of a cascade with other names for its models."""
    changes: dict[str, Any] = {}
    for key in type(part).model_fields:
        value = getattr(part, key)
        is_name = key in _KEYS and isinstance(value, str)
        changed = name_of(value) if is_name else _in_value(value, name_of)
        if changed is not value:
            changes[key] = changed
    return part.model_copy(update=changes) if changes else part


def _in_value(value: Any, name_of: Callable[[str], str]) -> Any:
    if isinstance(value, Model):
        return _with_names(value, name_of)
    if isinstance(value, tuple):
        changed = tuple(_in_value(each, name_of) for each in value)
        same = all(one is other for one, other in zip(changed, value, strict=True))
        return value if same else changed
    if isinstance(value, Mapping):
        held = {key: _in_value(each, name_of) for key, each in value.items()}
        return value if all(held[key] is value[key] for key in value) else held
    return value


def wrong_model_names(
    cascade: Cascade, settings: Settings, problem_of: Callable[[str], str | None]
) -> Iterator[Mistake]:
    """A mistake for each model that cannot be asked, where the cascade names it first.

    `problem_of` says why a model cannot be.
    """
    for name in model_names(cascade, settings):
        if problem := problem_of(name):
            place = next((at for at, held in _places(cascade) if held == name), "")
            yield cascade.mistake_at(place, problem)


def _places(part: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Each name of a model in a part of a cascade, with its place."""
    for key in type(part).model_fields:
        value, at = getattr(part, key), f"{path}.{key}" if path else key
        if key in _KEYS and isinstance(value, str):
            yield at, value
        held: Any = value.items() if isinstance(value, Mapping) else enumerate(_listed(value))
        for step, each in held:
            below = f"{at}.{step}" if isinstance(step, str) else f"{at}[{step}]"
            if isinstance(each, Model):
                yield from _places(each, below)
        if isinstance(value, Model):
            yield from _places(value, at)


def _listed(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else ()
