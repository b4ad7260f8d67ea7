"""What a person is told of a value that a setting does not take."""

from __future__ import annotations

import re
from typing import Final

from pydantic_core import ErrorDetails

from windlass.declared import PRIVATE, SENTENCE, Model
from windlass.errors import did_you_mean
from windlass.settings.fields import SERVER_VALUES, SettingFields, tables_in

_LONGEST: Final = 200
"""Characters of a name or a value that are repeated."""


def sentence_about(error: ErrorDetails, keys: tuple[str, ...]) -> str:
    """What is wrong with the value at `keys`, in one sentence that leaves out its place."""
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
    """The names that may stand where `keys` stands."""
    table: type[Model] = SettingFields
    if len(keys) > 1:
        table = next(tables_in(SettingFields.model_fields[keys[0]].annotation))
    return list(table.model_fields)
