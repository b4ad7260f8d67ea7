"""What one source of settings says, checked: a layer of values, each with its origin."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeAlias

from pydantic import ValidationError

from windlass.declared import Model
from windlass.errors import FileError, Mistake, UsageError
from windlass.settings._wrong_values import sentence_about
from windlass.settings.fields import SettingFields


@dataclass(frozen=True, slots=True)
class SettingValue:
    """One setting in force. `origin` names its source: a flag, a variable, a file, `default`."""

    name: str
    value: Any
    origin: str

    @property
    def help(self) -> str:
        """What the setting means."""
        return SettingFields.meanings()[self.name]


_TOLD: Final = 50
"""Mistakes of a source that are told one by one."""

Layer: TypeAlias = Mapping[str, SettingValue]

Keys: TypeAlias = tuple[str, ...]
"""Where a value or a table stands in a file: its keys, the outermost first."""

Place: TypeAlias = Callable[[Keys], tuple[str, int | None]]
"""Gives the source of a value and its line there, from 1; None where the source has no lines."""


def in_source(source: str) -> Place:
    """The place of every value of a source without lines."""
    return lambda _: (source, None)


def read_layer(values: Mapping[str, Any], folder: Path, place: Place) -> dict[str, SettingValue]:
    """The settings that one source gives; None is not given. `folder`: what paths start from.

    Raises FileError with every mistake.
    """
    given = {name: value for name, value in values.items() if value is not None}
    try:
        fields = SettingFields.model_validate(given, context=folder)
    except ValidationError as invalid:
        raise FileError(_mistakes(invalid, place)) from None
    except UsageError as error:
        raise FileError([Mistake(*place(("store",)), str(error))]) from None

    def origin(name: str) -> str:
        source, line = place((name,))
        return source if line is None else f"{source}:{line}"

    return {name: SettingValue(name, getattr(fields, name), origin(name)) for name in given}


def _mistakes(invalid: ValidationError, place: Place) -> list[Mistake]:
    """What is wrong, from the top of the source: the first of it, and how much more there is."""
    wrong = []
    for error in invalid.errors(include_url=False):
        keys = tuple(key for key in error["loc"] if isinstance(key, str))
        wrong.append((place(keys), keys, error))
    wrong.sort(key=lambda each: each[0][1] or 0)
    told = [Mistake(*where, sentence_about(error, keys)) for where, keys, error in wrong[:_TOLD]]
    if more := wrong[_TOLD:]:
        told.append(Mistake(*more[0][0], f"{len(more):,} more mistakes from here on"))
    return list(dict.fromkeys(told))


def merged(far: Layer, near: Layer) -> dict[str, SettingValue]:
    """Two layers as one: the nearer wins, key by key and table by table."""
    both = {**far, **near}
    for name in far.keys() & near.keys():
        before, after = far[name].value, near[name].value
        origin = f"{near[name].origin}, {far[name].origin}"
        if isinstance(after, dict):
            both[name] = replace(near[name], value={**before, **after}, origin=origin)
        elif isinstance(after, Model):
            table = before.model_copy(update=after.model_dump(exclude_unset=True))
            both[name] = replace(near[name], value=table, origin=origin)
    return both
