"""What `--input` and `--set` give: JSON, files, and key=value."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from windlass.cascade.inputs_schema import WrittenNumber
from windlass.cascade.source import misread, path_text, read_yaml, value_at
from windlass.cli.output import shorten
from windlass.errors import FileError, Mistake, UsageError
from windlass.safety.foreign import DeepValueError, parse_json


def read_input(given: Sequence[str]) -> dict[str, Any]:
    """Return the input of a run: JSON objects, JSON or YAML files, and key=value, merged in order.

    In `key=value` the value is read as JSON where it is JSON (a number, true, a list),
    otherwise it is text; `key=@file` is the text of a file. Raises UsageError.
    """
    values: dict[str, Any] = {}
    for item in given:
        stripped = item.strip()
        if stripped.startswith("{"):
            values.update(_object(stripped, "--input"))
        elif "=" in stripped and not _is_file(stripped):
            key, _, text = stripped.partition("=")
            values[key.strip()] = _value(text)
        else:
            values.update(_object(_file(stripped), stripped))
    return values


def read_changes(given: Sequence[str]) -> dict[str, Any]:
    """Return what `--set KEY=VALUE` changes, each value read as in `read_input`.

    Raises UsageError.
    """
    for written in given:
        if "=" not in written:
            raise UsageError(f"--set {written!r}: write KEY=VALUE, such as model=local/smollm2")
    pairs = (written.partition("=") for written in given)
    return {key.strip(): _value(text) for key, _, text in pairs}


def _is_file(name: str) -> bool:
    try:
        return Path(name).is_file()
    except (OSError, ValueError):  # a text too long, or with characters that no name has
        return False


def _value(text: str) -> Any:
    if text.startswith("@"):
        return _file(text[1:])
    try:
        value = parse_json(text)
    except DeepValueError as error:
        raise UsageError(f"--input: {error}") from error
    except ValueError:
        return text
    return WrittenNumber(value, text.strip()) if isinstance(value, float) else value


def _file(name: str) -> str:
    try:
        return Path(name).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"--input {name!r} is not UTF-8 text (byte {error.start})") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(
            f"--input {shorten(name, 80)!r} is neither JSON, key=value nor a file that can be"
            f" read ({reason})"
        ) from error


def _yaml(text: str, where: str) -> Any:
    """Return the values of a YAML text, numbers with their texts. Raises FileError."""
    reading = read_yaml(text, where)
    wrong = list[Mistake]()
    for path, written in reading.texts.items():
        value = value_at(reading.data, path)
        is_word = isinstance(value, bool) and written.lower() not in ("true", "false")
        if path in reading.misread or is_word:
            told = f"{path_text(path)}: {misread(value, written)}"
            wrong.append(Mistake(where, reading.line(path), told))
        elif isinstance(value, float) and path:
            value_at(reading.data, path[:-1])[path[-1]] = WrittenNumber(value, written)
    if wrong:
        raise FileError(wrong)
    return reading.data


def _object(text: str, where: str) -> dict[str, Any]:
    if where.endswith((".yaml", ".yml")):
        value = _yaml(text, where)
    else:
        try:
            value = parse_json(text)
        except DeepValueError as error:
            raise UsageError(f"{where}: {error}") from error
        except ValueError as error:
            raise UsageError(f"{where}: not JSON: {error}") from error
    if not isinstance(value, dict):
        raise UsageError(f"{where}: the input must be an object, not {type(value).__name__}")
    return value
