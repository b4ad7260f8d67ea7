"""Cascade files: read, turned into models, every mistake with its file and line.

What cannot be read at all raises. What can be read but is no valid cascade is
`LoadedCascade` all the same: with its mistakes, and with a partial in which the bad parts
are left out, so that `check` can go on and say everything at once.

Instructions that are a file's: `"@prompts/ask.md"` is the text of that file, beside the cascade.

The text is the template, and what is wrong in it is told with that file and its line.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path as FilePath
from typing import Any, Final, Literal, TypeAlias

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from windlass.cascade import _sentences as sentences
from windlass.cascade.deterministic import bodies_in
from windlass.cascade.inputs_schema import in_our_words
from windlass.cascade.model import Cascade, FileLines
from windlass.cascade.other_products import (
    lenient_values,
    not_a_cascade,
    without_foreign_keys,
)
from windlass.cascade.source import (
    ParsedText,
    Path,
    misread,
    path_text,
    quoted_line,
    read_json,
    read_yaml,
    value_at,
)
from windlass.errors import CascadeError, Mistake, UsageError, did_you_mean
from windlass.safety.files import (
    HERE,
    PROMPT_BYTES,
    Folders,
    MissingFileError,
    UnreadableError,
    read_bytes,
)
from windlass.settings.trust import is_trusted

Format: TypeAlias = Literal["json", "yaml"]
FORMATS: Final[dict[str, Format]] = {".json": "json", ".yaml": "yaml", ".yml": "yaml"}


@dataclass(frozen=True, slots=True)
class PartialCascade:
    """A cascade out of those parts of a file that are valid, to be looked at and never run.

    One mistake should not hide the others: a file with a wrong number in one phase still has
    references, templates and tools.

    `reading` is what the file says. `unnamed` are the phases whose name is made up. `kept` says,
    for a list out of which items were left, which positions the remaining ones had in the file.
    `moved` says where in it the parts stand that the cascade holds elsewhere.
    """

    cascade: Cascade
    reading: ParsedText
    unnamed: frozenset[int] = frozenset()
    kept: Mapping[Path, list[int]] = field(default_factory=dict[Path, list[int]])
    moved: Mapping[Path, Path] = field(default_factory=dict[Path, Path])

    def in_file(self, path: Path) -> Path:
        """Return the place in the file of what stands at `path` in the cascade."""
        for step in range(len(path), 0, -1):
            if (before := self.moved.get(path[:step])) is not None:
                path = (*before, *path[step:])
                break
        return _original(path, self.kept)

    def mistake(self, path: Path, text: str, line: int | None = None) -> Mistake:
        """Say what is said of the value at `path`; `line` where it is another than the value's."""
        path = self.in_file(path)
        line = self.reading.line(path) if line is None else line
        return _mistake(self.reading, path, line, text)

    def in_template(self, path: Path, template: str, line: int, text: str) -> Mistake:
        """Return what is said of a line of the template at `path`; lines count from 1."""
        in_file = self.in_file(path)
        if (file := self.reading.included.get(in_file)) is not None:
            return Mistake(file, line, f"{sentences.where(in_file, self.reading.data)}: {text}")
        block = self.reading.blocks.get(in_file)
        if block is not None:
            return self.mistake(path, text, block + line)
        within = f" (line {line} of the text)" if "\n" in template.strip() else ""
        return self.mistake(path, text + within)

    def written(self, path: Path) -> Any:
        """Return what the file says at `path`; None where it says nothing."""
        return value_at(self.reading.data, self.in_file(path))


@dataclass(frozen=True, slots=True)
class LoadedCascade:
    """What a text holds: a cascade, or the mistakes that keep it from being one.

    `partial` is None where nothing in it can be looked at further. `warnings` tell what was left
    out of it.
    """

    reading: ParsedText
    mistakes: tuple[Mistake, ...]
    partial: PartialCascade | None
    warnings: tuple[Mistake, ...] = ()

    @property
    def file(self) -> str:
        """Return what messages call the file."""
        return self.reading.file

    @property
    def cascade(self) -> Cascade:
        """Return the cascade; raises CascadeError with all mistakes of form where there are any."""
        if self.mistakes or self.partial is None:
            raise CascadeError(self.mistakes)
        return self.partial.cascade


def _mistake(reading: ParsedText, path: Path, line: int | None, text: str) -> Mistake:
    """Return what is said of a place in the file, named in front."""
    place = sentences.where(path, reading.data)
    return Mistake(reading.file, line, f"{place}: {text}" if place else text)


def load(
    path: FilePath | str, *, lenient: bool = False, folders: Folders | None = None
) -> LoadedCascade:
    """Read a cascade file: JSON (.json) or YAML (.yaml, .yml).

    `lenient`: keys that are not known are left out with a warning. `folders`: where the files may
    lie that it names (None: in its own).

    Raises:
        UsageError: there is no such file, or it is none that can be read.
        CascadeError: the text is no JSON or YAML at all.
    """
    path = FilePath(path)
    form = FORMATS.get(path.suffix.lower())
    try:
        if not path.is_file():  # which is told in more words
            raise _no_file(path)
        if form is None:
            task = "; a task in XML runs with: windlass evaluate" if path.suffix == ".xml" else ""
            raise UsageError(
                f"{str(path)!r} does not have the name of a cascade file: it must end in "
                f"{' or '.join(FORMATS)}{task}"
            )
        text = read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = 1 + error.object[: error.start].count(b"\n")
        byte = error.object[error.start]
        text = (
            f"not UTF-8: the byte 0x{byte:02X} is not part of any character; save the file as UTF-8"
        )
        raise CascadeError([Mistake(str(path), line, text)]) from error
    except UnreadableError as error:
        raise UsageError(f"{str(path)!r} {error}") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"cannot read {str(path)!r}: {reason}") from error
    folders = folders or Folders((path.parent,))
    return parse(text, name=str(path), format=form, lenient=lenient, folders=folders)


def parse(
    text: str,
    *,
    name: str,
    format: Format,  # noqa: A002  # the word for it
    lenient: bool = False,
    folders: Folders = HERE,
) -> LoadedCascade:
    """Read the text of a cascade; `name` is what messages call it, the others are as in `load`.

    Raises:
        CascadeError: the text is no JSON or YAML at all, or no object.
    """
    needs = "a cascade is an object with at least 'cascade_id' and 'phases'"
    if not text.strip():
        raise CascadeError([Mistake(name, None, f"the file is empty; {needs}")])
    reading = (read_json if format == "json" else read_yaml)(text, name)
    if not isinstance(reading.data, dict):
        empty = reading.data is None and format == "yaml"
        problem = (
            "the file is empty"
            if empty
            else not_a_cascade(reading.data)
            or f"expected an object at the top, not {sentences.shown(reading.data)}"
        )
        raise CascadeError([Mistake(name, reading.lines.get(()), f"{problem}; {needs}")])
    reading.folders = folders
    return validate(reading, lenient=lenient)


def from_python(
    cascade: Cascade | Mapping[str, Any], *, lenient: bool = False, folders: Folders = HERE
) -> LoadedCascade:
    """Return a cascade made in Python, or the data of one, as if loaded: places have no lines."""
    if isinstance(cascade, Cascade):
        data = cascade.model_dump(mode="json", by_alias=True, exclude_unset=True)
        reading = ParsedText(f"cascade {cascade.cascade_id!r}", data, folders=folders)
        return LoadedCascade(reading, (), PartialCascade(cascade, reading))
    given = cascade.get("cascade_id")
    file = f"cascade {given!r}" if isinstance(given, str) else "the cascade"
    return validate(ParsedText(file, dict(cascade), folders=folders), lenient=lenient)


def validate(reading: ParsedText, *, lenient: bool = False) -> LoadedCascade:
    """Return what data that was read holds: a cascade, or what keeps it from being one."""
    if (other := not_a_cascade(reading.data)) is not None:
        return LoadedCascade(reading, (Mistake(reading.file, reading.line(()), other),), None)
    data, warnings = without_foreign_keys(reading)
    if lenient:
        data, changed = lenient_values(data)
        warnings += [_mistake(reading, path, reading.line(path), text) for path, text in changed]
        unknown = [each for each in _held(data)[1] if each["type"] == "extra_forbidden"]
        warnings += [_in_file(error, reading, "; it is left out") for error in unknown]
        rest = _Remaining(copy.deepcopy(data))
        rest.leave_out(unknown)
        data = rest.data
    data, unread = with_included_texts(data, reading)
    errors, partial = _validate(reading, data)
    if partial is not None and (reading.lines or lenient):
        lines = {path_text(place): line for place, line in reading.lines.items()}
        for moved, place in partial.moved.items():
            below = (each for each in reading.lines if each[: len(place)] == place)
            lines |= {
                path_text((*moved, *each[len(place) :])): reading.lines[each] for each in below
            }
        file = reading.file if reading.lines else ""
        included = {path_text(place): each for place, each in reading.included.items()}
        origin = FileLines(file, lines, included, lenient)
        partial.cascade._origin = origin  # noqa: SLF001  # set nowhere else
    mistakes = unread + [
        _mistake(
            reading, path[:-1], line, f"the key {path[-1]!r} is given twice, first in line {first}"
        )
        for path, line, first in reading.repeated
    ]
    if reading.lines:
        mistakes += _pythons_spelling(reading)
    mistakes += [_in_file(error, reading) for error in errors]
    mistakes += _read_as_others(
        reading, [sentences.path_of(error, reading.data) for error in errors]
    )
    return LoadedCascade(reading, sort_mistakes(mistakes), partial, sort_mistakes(warnings))


def _in_file(error: ErrorDetails, reading: ParsedText, then: str = "") -> Mistake:
    """Return what pydantic found, in words and with its line; `then` is what became of it."""
    place = sentences.path_of(error, reading.data)
    words = sentences.sentence(error, reading.data, reading.texts.get(place))
    line, value = reading.line(place), error["input"]
    is_entry = error["type"] == "string_type" and isinstance(value, dict) and len(value) == 1
    if reading.yaml and is_entry and line and (meant := quoted_line(reading.yaml, line)):
        words += f"; put the text in quotes: {meant}"
    return Mistake(reading.file, line, words + then)


def _read_as_others(reading: ParsedText, refused: Iterable[Path]) -> Iterator[Mistake]:
    """Yield a mistake for each value that YAML made of another text than is meant.

    Those that are refused already are told.
    """
    at, wrong = set(refused), dict[Path, str]()
    for path in reading.misread:
        wrong[path] = misread(value_at(reading.data, path), reading.texts[path])
    declared = value_at(reading.data, ("inputs_schema",))
    for name, field_ in declared.items() if isinstance(declared, dict) else ():
        path = ("inputs_schema", name, "default")
        value, written = value_at(reading.data, path), reading.texts.get(path)
        is_text = isinstance(field_, dict) and in_our_words(field_.get("type")) == "string"
        if is_text and written and value is not None and json.dumps(value) != written:
            wrong[path] = sentences.not_as_written(value, written)
    for path, text in wrong.items():
        if path not in at and path[:2] not in at:
            yield _mistake(reading, path, reading.line(path), text)


def sort_mistakes(mistakes: Iterable[Mistake]) -> tuple[Mistake, ...]:
    """Return each mistake once, from the top of the file to its end."""
    return tuple(sorted(dict.fromkeys(mistakes), key=lambda mistake: mistake.line or 0))


def _pythons_spelling(reading: ParsedText) -> list[Mistake]:
    """`from_` is for Python, where `from` is a keyword; files say `from`."""
    phases = reading.data.get("phases")
    mistakes = []
    for index in range(len(phases) if isinstance(phases, list) else 0):
        context: Path = ("phases", index, "context")
        held = value_at(reading.data, context)
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
        return UsageError(f"{str(path)!r} is not a regular file")
    near = get_close_matches(path.name, cascades, n=3)
    hint = f"; did you mean {' or '.join(repr(name) for name in near)}?" if near else ""
    if not folder.is_dir():
        hint = f"; there is no folder {str(folder)!r}"
    return UsageError(f"no such file: {str(path)!r}{hint}")


# ---- what remains without the wrong parts ----------------------------------------------


def _validate(reading: ParsedText, data: Any) -> tuple[list[ErrorDetails], PartialCascade | None]:
    """Return what is wrong with the data that was read, and what remains without it.

    None: nothing.
    """
    moved = bodies_in(data) if isinstance(data.get("phases"), list) else {}
    cascade, errors = _held(data)
    if cascade is not None:
        return [], PartialCascade(cascade, reading, moved=moved)
    rest, remaining = _Remaining(copy.deepcopy(data)), errors
    # What stands around a wrong part may be wrong without it, and goes then, too; at last all of
    # the phase's key.
    for whole in (False, False, True):
        if not rest.leave_out(remaining, whole=whole):
            break
        cascade, remaining = _held(rest.data)
        if cascade is not None:
            moved = bodies_in(rest.data)
            return errors, PartialCascade(
                cascade, reading, frozenset(rest.unnamed), rest.kept, moved
            )
    return errors, None


def _held(data: Any) -> tuple[Cascade | None, list[ErrorDetails]]:
    """Return the cascade that the data is, or what keeps it from being one."""
    try:
        return Cascade.model_validate(data), []
    except ValidationError as invalid:
        return None, invalid.errors(include_url=False)


def _original(path: Path, kept: Mapping[Path, list[int]]) -> Path:
    """Return the place in the file of what stands at `path` in the partial."""
    place: Path = ()
    for step in path:
        positions = kept.get(place)
        if positions and isinstance(step, int) and step < len(positions):
            step = positions[step]  # noqa: PLW2901  (the same step, in the file)
        place += (step,)
    return place


@dataclass(slots=True)
class _Remaining:
    """Data out of which wrong parts are left; `kept` and `unnamed` are those of a partial."""

    data: Any
    kept: dict[Path, list[int]] = field(default_factory=dict[Path, list[int]])
    unnamed: set[int] = field(default_factory=set[int])

    def leave_out(self, errors: Iterable[ErrorDetails], *, whole: bool = False) -> bool:
        """Leave out what the errors are about, or the `whole` key of the phase or the cascade.

        False where nothing would remain.
        """
        places = (self._wrong(error) for error in errors)
        wrong = {
            place[: 3 if place[:1] == ("phases",) else 1] if whole else place
            for place in places
            if place is not None
        }
        if wrong & {(), ("phases",)}:
            return False
        # From the end, so that positions in lists still hold; the inner part first.
        for path in sorted(wrong, key=_reading_order, reverse=True):
            holder, step = value_at(self.data, path[:-1]), path[-1]
            if path[:-1] == ("phases",):
                holder[step] = {"name": self._name(step)}
            elif isinstance(holder, list) and isinstance(step, int):
                where = _original(path[:-1], self.kept)
                del self.kept.setdefault(where, list(range(len(holder))))[step]
                del holder[step]
            elif isinstance(holder, dict):
                holder.pop(step, None)
        return True

    def _wrong(self, error: ErrorDetails) -> Path | None:
        """Return the place of what is wrong; None where a name that is missing is made up."""
        path = sentences.path_of(error, self.data)
        if error["type"] != "missing":
            return path
        match path:
            case ("cascade_id",):
                self.data["cascade_id"] = "cascade"
            case ("phases", int(at), "name"):
                self.data["phases"][at]["name"] = self._name(at)
            case _:  # a source without a phase is none; a cascade without phases neither
                return path[:-1]
        return None

    def _name(self, at: Any) -> str:
        self.unnamed.add(at)
        return f"phase {at + 1}"


def _reading_order(path: Path) -> tuple[tuple[int, str], ...]:
    return tuple((step, "") if isinstance(step, int) else (0, step) for step in path)


def with_included_texts(data: Any, reading: ParsedText) -> tuple[Any, list[Mistake]]:
    """Give the data with the texts of the files that its phases name, and what is wrong with those.

    `reading.included` is told which place has the text of which file.
    """
    phases = data.get("phases") if isinstance(data, dict) else None
    if not isinstance(phases, list):
        return data, []
    mistakes: list[Mistake] = []

    def included(holder: Any, path: Path, name: str) -> Any:
        written = holder.get("instructions") if isinstance(holder, dict) else None
        if not isinstance(written, str) or not written.strip().startswith("@"):
            return holder
        named = written.strip().removeprefix("@").strip()
        file = reading.folders.at(named)
        if len(named.split()) != 1 and not _is_file(file):
            return holder  # somebody is spoken to
        text, problem = _text_of(named, reading.folders)
        here = FilePath.cwd()
        if problem and not _is_file(file) and _is_file(here / named):
            if is_trusted(here):
                file = here / named
                text, problem = _text_of(named, Folders((here,)))
            else:
                problem = (
                    f"'@{named}' is not beside the cascade; it is in the current folder, from which"
                    " it is taken where you trust that (windlass trust .)"
                )
        if problem:
            place = f"phase {name!r}, {path_text((*path[2:], 'instructions'))}: {problem}"
            line = reading.line((*path, "instructions"))
            mistakes.append(Mistake(reading.file, line, place))
            return holder
        reading.included[*path, "instructions"] = str(file)
        return {**holder, "instructions": text}

    changed: list[Any] = []
    for index, phase in enumerate(phases):
        name = phase.get("name", str(index + 1)) if isinstance(phase, dict) else ""
        made = included(phase, ("phases", index), name)
        if isinstance(made, dict) and isinstance(made.get("on_error"), dict):
            body = included(made["on_error"], ("phases", index, "on_error"), name)
            made = {**made, "on_error": body}
        changed.append(made)
    return {**data, "phases": changed}, mistakes


def _is_file(file: FilePath) -> bool:
    try:
        return file.is_file()
    except (OSError, ValueError):
        return False


def _text_of(name: str, folders: Folders) -> tuple[str, str]:
    """Return the text of a file, and why there is none."""
    try:
        text = folders.read_text(name, PROMPT_BYTES)
    except MissingFileError:
        file = folders.at(name)
        there = [each.name for each in file.parent.iterdir()] if file.parent.is_dir() else []
        near = did_you_mean(file.name, there) if there else "there is no such folder"
        return "", f"'@{name}' names a file beside the cascade that is not there; {near}"
    except UnreadableError as error:
        return "", f"'@{name}' {error}"
    return text, "" if text.strip() else f"'@{name}' is empty"
