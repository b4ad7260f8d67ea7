"""The models that a cascade names, and through which provider they are asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from windlass.cascade.layers import selector_models
from windlass.cascade.model import Cascade
from windlass.cascade.source import Path, path_text, with_value
from windlass.cascade.tools_named import all_soundings, asking_phases
from windlass.declared import Model
from windlass.errors import Mistake
from windlass.settings.settings import Settings

_KEYS: Final = frozenset({"model", "aggregator_model", "selector_model", "helper_model"})
"""The keys under which parts of a cascade name a model."""


def model_names(cascade: Cascade, settings: Settings) -> list[str]:
    """Give all models that a cascade's run asks by its phases, soundings, judges and selectors."""
    asking = asking_phases(cascade)
    names = [settings.model_for(cascade.settings_for(each).model) for each in asking]
    names += [name for each in all_soundings(cascade).values() for name in each.helpers]
    names += [name for each in cascade.validators.values() if (name := each.model)]
    return list(dict.fromkeys([*names, *selector_models(cascade, settings)]))


def with_model_names(cascade: Cascade, settings: Settings) -> Cascade:
    """Return the cascade with the names by which its models are asked.

    Each goes through the provider that `models.through` names, and in the place of those of
    soundings stands the model that a flag names. Judges keep the model that they name.
    """
    flag = settings.layers["flags"].get("model")
    if settings.models.through is None and flag is None:
        return cascade
    for path, name in _places(cascade):
        if (routed := settings.routed(name)) != name:
            cascade = with_value(cascade, path, routed)
    for place, soundings in all_soundings(cascade).items() if flag is not None else ():
        for at in range(len(soundings.models)):
            tried: Path = (*place, "models", at, "model")
            cascade = with_value(cascade, tried, settings.model_for(None))
    return cascade


def wrong_model_names(
    cascade: Cascade, settings: Settings, problem_of: Callable[[str], str | None]
) -> Iterator[Mistake]:
    """Yield a mistake for each model that cannot be asked, where the cascade names it first.

    `problem_of` says why a model cannot be.
    """
    for name in model_names(cascade, settings):
        if problem := problem_of(name):
            place = next((path for path, held in _places(cascade) if held == name), ())
            yield cascade.mistake_at(path_text(place), problem)


def _places(value: Any, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Yield each name of a model in a part of a cascade, with its place."""
    held: Any = enumerate(value) if isinstance(value, tuple) else ()
    if isinstance(value, Mapping):
        held = value.items()
    elif isinstance(value, Model):
        held = [(key, getattr(value, key)) for key in type(value).model_fields]
        names = [(key, each) for key, each in held if key in _KEYS and isinstance(each, str)]
        yield from (((*path, key), name) for key, name in names)
    for step, each in held:
        yield from _places(each, (*path, step))
