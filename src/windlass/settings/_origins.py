"""Where settings come from: a file with the line of each key, and environment variables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from windlass.declared import Model, ModelNames
from windlass.errors import FileError, Mistake, UsageError
from windlass.safety.files import MissingFileError, UnreadableError, read_text
from windlass.safety.foreign import TOML_BYTES, parse_toml, toml_statements
from windlass.selection.options import CardOptions
from windlass.settings._checked_sources import (
    Keys,
    Layer,
    SettingValue,
    in_source,
    merged,
    read_layer,
)
from windlass.settings.fields import ADDRESSES, SettingFields


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
