"""Cascade files: read, turned into models, every mistake with its file and line.

What cannot be read at all raises. What can be read but is no valid cascade is
`Loaded` all the same: with its mistakes, and with a draft in which the bad parts
are left out, so that `check` can go on and say everything at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path as FilePath
from typing import Any, Final, Literal, TypeAlias

from windlass.cascade import sentences
from windlass.cascade.draft import Draft, at, path_of, validate
from windlass.cascade.model import Cascade
from windlass.cascade.origin import Origin, Path, place_of
from windlass.cascade.source import Reading, read_json, read_yaml
from windlass.errors import CascadeError, Mistake, UsageError

Format: TypeAlias = Literal["json", "yaml"]
FORMATS: Final[dict[str, Format]] = {".json": "json", ".yaml": "yaml", ".yml": "yaml"}


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a text holds: a cascade, or the mistakes that keep it from being one.

    `path` is None for a text that came from no file; `file` is what messages call
    it. `draft` is None where nothing in it can be looked at further.
    """

    file: str
    text: str
    reading: Reading
    mistakes: tuple[Mistake, ...]
    draft: Draft | None
    path: FilePath | None = None

    @property
    def cascade(self) -> Cascade:
        """The cascade; raises CascadeError with all mistakes of form where there are any."""
        if self.mistakes or self.draft is None:
            raise CascadeError(self.mistakes)
        return self.draft.cascade

    @property
    def data(self) -> Any:
        """The file's data as it was read."""
        return self.reading.data


def load(path: FilePath | str) -> Loaded:
    """Read a cascade file: JSON (.json) or YAML (.yaml, .yml).

    Raises:
        UsageError: there is no such file, or it is none that can be read.
        CascadeError: the text is no JSON or YAML at all.
    """
    path = FilePath(path)
    form = FORMATS.get(path.suffix.lower())
    try:
        if not path.is_file():
            raise _no_file(path)
        if form is None:
            task = "; a task in XML runs with: windlass evaluate" if path.suffix == ".xml" else ""
            raise UsageError(
                f"{str(path)!r} is no cascade file by its name: it must end in "
                f"{' or '.join(FORMATS)}{task}"
            )
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = 1 + error.object[: error.start].count(b"\n")
        byte = error.object[error.start]
        text = f"not UTF-8: the byte 0x{byte:02X} is no part of a character; save the file as UTF-8"
        raise CascadeError([Mistake(str(path), line, text)]) from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"cannot read {str(path)!r}: {reason}") from error
    return parse(text, name=str(path), format=form, path=path)


def parse(
    text: str,
    *,
    name: str,
    format: Format,  # noqa: A002  # the word for it
    path: FilePath | None = None,
) -> Loaded:
    """Read the text of a cascade; `name` is what messages call it.

    Raises:
        CascadeError: the text is no JSON or YAML at all, or no object.
    """
    needs = "a cascade is an object with at least 'cascade_id' and 'phases'"
    if not text.strip():
        raise CascadeError([Mistake(name, None, f"the file is empty; {needs}")])
    reading = (read_json if format == "json" else read_yaml)(text, name)
    if not isinstance(reading.data, dict):
        empty = reading.data is None and format == "yaml"
        found = (
            "the file is empty"
            if empty
            else f"expected an object at the top, not {sentences.shown(reading.data)}"
        )
        raise CascadeError([Mistake(name, reading.lines.get(()), f"{found}; {needs}")])
    return look(reading, text, path)


def of(cascade: Cascade | Mapping[str, Any]) -> Loaded:
    """A cascade made in Python, or the data of one, as if loaded: places have no lines."""
    if isinstance(cascade, Cascade):
        file = f"cascade {cascade.cascade_id!r}"
        data = cascade.model_dump(mode="json", by_alias=True, exclude_unset=True)
        return Loaded(file, "", Reading(file, data), (), Draft(cascade))
    given = cascade.get("cascade_id")
    file = f"cascade {given!r}" if isinstance(given, str) else "the cascade"
    return look(Reading(file, dict(cascade)))


def look(reading: Reading, text: str = "", path: FilePath | None = None) -> Loaded:
    """What data that was read holds: a cascade, or what keeps it from being one."""
    errors, draft = validate(reading.data)
    if draft is not None and reading.lines:
        lines = {place_of(place): line for place, line in reading.lines.items()}
        draft.cascade._origin = Origin(reading.file, lines)  # noqa: SLF001  # set nowhere else
    mistakes = _repeated(reading)
    if reading.lines:
        mistakes += _pythons_spelling(reading)
    for error in errors:
        place = path_of(error)
        words = sentences.sentence(error, reading.data, reading.texts.get(place))
        mistakes.append(Mistake(reading.file, reading.line(place), words))
    return Loaded(reading.file, text, reading, in_order(mistakes), draft, path)


def in_order(mistakes: Iterable[Mistake]) -> tuple[Mistake, ...]:
    """Each mistake once, from the top of the file to its end."""
    return tuple(sorted(dict.fromkeys(mistakes), key=lambda mistake: mistake.line or 0))


def _repeated(reading: Reading) -> list[Mistake]:
    mistakes = []
    for path, line, first in reading.repeated:
        place = sentences.where(path[:-1], reading.data)
        text = f"the key {path[-1]!r} is given twice, first in line {first}"
        mistakes.append(Mistake(reading.file, line, f"{place}: {text}" if place else text))
    return mistakes


def _pythons_spelling(reading: Reading) -> list[Mistake]:
    """`from_` is for Python, where `from` is a keyword; files say `from`."""
    phases = reading.data.get("phases")
    mistakes = []
    for index in range(len(phases) if isinstance(phases, list) else 0):
        context: Path = ("phases", index, "context")
        held = at(reading.data, context)
        if isinstance(held, dict) and "from_" in held:
            text = sentences.unknown_key("from_", context, reading.data)
            mistakes.append(Mistake(reading.file, reading.line((*context, "from_")), text))
    return mistakes


def _no_file(path: FilePath) -> UsageError:
    folder = path if path.is_dir() else path.parent
    there = sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
    cascades = [name for name in there if FilePath(name).suffix.lower() in FORMATS]
    if path.is_dir():
        listed = ", ".join(cascades[:10])
        files = f"cascade files in it: {listed}" if listed else "it holds no .json or .yaml file"
        return UsageError(f"{str(path)!r} is a folder; name a file; {files}")
    if path.exists():
        return UsageError(f"{str(path)!r} is no ordinary file")
    near = get_close_matches(path.name, cascades, n=3)
    hint = f"; did you mean {' or '.join(repr(name) for name in near)}?" if near else ""
    if not folder.is_dir():
        hint = f"; there is no folder {str(folder)!r}"
    return UsageError(f"no such file: {str(path)!r}{hint}")
