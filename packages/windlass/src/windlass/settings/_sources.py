"""Where settings come from: a file with the line of each key, and environment variables.

What one source of settings says, checked: a layer of values, each with its origin.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeAlias

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from windlass.declared import PRIVATE, SENTENCE, Model, ModelNames
from windlass.errors import FileError, Mistake, UsageError, did_you_mean
from windlass.safety.files import MissingFileError, UnreadableError, read_text
from windlass.safety.foreign import TOML_BYTES, parse_toml, toml_statements
from windlass.selection.options import CardOptions
from windlass.settings.fields import ADDRESSES, SERVER_VALUES, SettingFields, tables_in


def read_file(path: Path) -> dict[str, SettingValue]:
    """Return the settings of a file; none where there is no such file. Raises UsageError."""
    try:
        text = read_text(path, TOML_BYTES)
        values = parse_toml(text)
    except MissingFileError:
        return {}
    except UnreadableError as error:
        raise UsageError(f"{path}: {error}") from error
    except ValueError as error:
        line = re.search(r"at line (\d+)", str(error))
        where = int(line[1]) if line else None
        raise FileError([Mistake(str(path), where, f"not TOML: {error}")]) from error
    lines = _lines_of_keys(text)

    def place(keys: Keys) -> tuple[str, int | None]:
        known = (lines.get(keys[:length]) for length in range(len(keys), 0, -1))
        return str(path), next((line for line in known if line is not None), 1)

    return read_layer(values, path.parent, place)


def _lines_of_keys(text: str) -> dict[Keys, int]:
    """Return the line of each key and table of a valid TOML text.

    Each statement is parsed on its own, so that dotted and quoted keys and inline tables are
    read as TOML reads them. Of an array of tables, the first table counts.
    """
    lines: dict[Keys, int] = {}
    table: Keys = ()
    for number, statement in toml_statements(text):
        keys = [*_keys_in(parse_toml(statement))]
        is_table = statement.lstrip().startswith("[")
        above = () if is_table else table
        for key in keys:
            lines.setdefault((*above, *key), number)
        if is_table:
            table = keys[-1]
    return lines


def _keys_in(value: Any) -> Iterator[Keys]:
    if isinstance(value, list):
        for item in value:
            yield from _keys_in(item)
    elif isinstance(value, dict):
        for key, held in value.items():
            yield (key,)
            yield from ((key, *inner) for inner in _keys_in(held))


def read_variables(environ: Mapping[str, str], folder: Path) -> dict[str, SettingValue]:
    """Return what `WINDLASS_NAME` sets, and for tables such as `cards` `WINDLASS_CARDS_KEY`.

    An empty variable is not set. Raises FileError.
    """

    def given(names: Iterable[str], prefix: str) -> dict[str, Any]:
        texts = {name: environ.get(prefix + name.upper(), "").strip() for name in names}
        return {name: text for name, text in texts.items() if text}

    tables: dict[str, type[Model]] = {"cards": CardOptions, "models": ModelNames}
    values = given(SettingFields.model_fields.keys() - tables.keys(), "WINDLASS_")
    for name, table in tables.items():
        values[name] = given(table.model_fields, f"WINDLASS_{name.upper()}_") or None
    return read_layer(values, folder, lambda keys: (f"WINDLASS_{keys[0].upper()}", None))


def with_vendor_addresses(
    layer: Layer, environ: Mapping[str, str], folder: Path
) -> dict[str, SettingValue]:
    """Return the layer, with the addresses of the vendors' own clients where it names none.

    Whoever sets such a variable wants requests to go there. Raises FileError.
    """
    filled = dict(layer)
    for name, (variable, version) in ADDRESSES.items():
        address = environ.get(variable, "").strip().rstrip("/")
        held = filled.get("providers")
        given = held.value.get(name) if held else None
        if not address or (given is not None and given.base_url is not None):
            continue
        if version and not re.search(r"/v\d\w*$", address):
            address += version
        table = {"providers": {name: {"base_url": address}}}
        read = read_layer(table, folder, in_source(variable))["providers"]
        if given is not None:
            read.value[name] = given.model_copy(update={"base_url": read.value[name].base_url})
        filled = merged(filled, {"providers": read})
    return filled


@dataclass(frozen=True, slots=True)
class SettingValue:
    """One setting in force. `origin` names its source: a flag, a variable, a file, `default`."""

    name: str
    value: Any
    origin: str

    @property
    def help(self) -> str:
        """Return what the setting means."""
        return SettingFields.meanings()[self.name]


_TOLD: Final = 50
"""Mistakes of a source that are told one by one."""
_LONGEST: Final = 200
"""Characters of a name or a value that are repeated."""

Layer: TypeAlias = Mapping[str, SettingValue]

Keys: TypeAlias = tuple[str, ...]
"""Where a value or a table stands in a file: its keys, the outermost first."""

Place: TypeAlias = Callable[[Keys], tuple[str, int | None]]
"""Gives the source of a value and its line there, from 1; None where the source has no lines."""


def in_source(source: str) -> Place:
    """Return the place of every value of a source without lines."""
    return lambda _: (source, None)


def read_layer(values: Mapping[str, Any], folder: Path, place: Place) -> dict[str, SettingValue]:
    """Return the settings that one source gives; None is not given.

    `folder`: what paths start from.

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
    told = [Mistake(*where, _sentence_about(error, keys)) for where, keys, error in wrong[:_TOLD]]
    if more := wrong[_TOLD:]:
        told.append(Mistake(*more[0][0], f"{len(more):,} more mistakes from here on"))
    return list(dict.fromkeys(told))


def merged(far: Layer, near: Layer) -> dict[str, SettingValue]:
    """Return two layers as one: the nearer wins, key by key and table by table."""
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


def _sentence_about(error: ErrorDetails, keys: tuple[str, ...]) -> str:
    """Return what is wrong with the value at `keys`, in one sentence that leaves out its place."""
    kind, expected, private = error["type"], error["msg"], error["type"] == PRIVATE
    if keys[-1] == "[key]":  # what is wrong is the key itself
        keys = keys[:-1]
    name = _short(".".join(key if re.fullmatch(r"[\w-]+", key) else f'"{key}"' for key in keys))
    match kind:
        case "extra_forbidden":
            return f"unknown setting '{name}'; {did_you_mean(keys[-1], _siblings(keys))}"
        case "missing":
            table = name.rpartition(".")[0]
            return f"{table} must say input and output, in US dollars per million tokens"
        case _ if kind == SENTENCE:
            return f"{name}: {expected}"
        case _ if keys[0] == "mcp_servers" and len(keys) > 1:
            private = True
            expected = f"a table [{name}]" if kind == "model_type" else SERVER_VALUES[keys[2]]
        case "dict_type":
            expected = "tables in windlass.toml"
        case "model_type":
            expected = f"a table [{name}]"
    return f"{name} must be {expected}" + (
        "" if private else f", not {_short(repr(error['input']))}"
    )


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _siblings(keys: tuple[str, ...]) -> list[str]:
    """Return the names that may stand where `keys` stands."""
    table: type[Model] = SettingFields
    if len(keys) > 1:
        table = next(tables_in(SettingFields.model_fields[keys[0]].annotation))
    return list(table.model_fields)
