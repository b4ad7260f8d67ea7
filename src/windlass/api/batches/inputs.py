"""The inputs of a batch: JSON lines, CSV, or mappings of a program."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias

from windlass.api.batches.lines import ResultLine
from windlass.cascade.needs import InputNeed
from windlass.errors import FileError, Mistake, UsageError, did_you_mean
from windlass.safety.foreign import TOO_DEEP, is_too_deep, parse_json

_PROGRAM: Final = "inputs"
"""What messages call the rows of a program; their number is their line."""
_MOST_TOLD: Final = 20
"""Mistakes of a file of inputs that are told; one in each line of thousands says no more."""


class InputPlace(NamedTuple):
    """A line of a file, from 1 (None: the whole file)."""

    file: str
    line: int | None

    def __str__(self) -> str:
        return self.file if self.line is None else f"{self.file}:{self.line}"


_Read: TypeAlias = Iterator[tuple[InputPlace, Mapping[str, Any]] | Mistake]
"""Each row with its place, or what is wrong with it."""


@dataclass(frozen=True, slots=True)
class BatchInput:
    """One row: its number from 1, where it stands in the file, and what templates see."""

    row: int
    place: InputPlace
    values: Mapping[str, Any]
    parts: ClassVar[str] = "inputs"
    """What a file of results belongs to beside the cascade."""
    line: ClassVar[type[ResultLine]] = ResultLine
    """What its line in the file of results is checked against."""

    @property
    def hash(self) -> str:
        """What the row is known by: equal values have equal hashes."""
        return hash_of(self.values)

    @property
    def name(self) -> str:
        """What messages call it."""
        return str(self.place)

    @property
    def tag(self) -> str:
        """What its session's name ends with."""
        return str(self.row)

    @property
    def about(self) -> Mapping[str, Any]:
        """What its line in the file of results says besides, as JSON values."""
        return {}


def hash_of(value: Any) -> str:
    """A hash of a JSON value, whatever the order of its keys."""
    text = json.dumps(value, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def read_inputs(
    source: str | Path | Iterable[Mapping[str, Any]], needs: Sequence[InputNeed]
) -> list[BatchInput]:
    """All rows, each with what the cascade needs of its input (`needs`).

    Raises UsageError for a file that cannot be read, and FileError with its mistakes.
    """
    columns = None
    if isinstance(source, str | Path):
        path, name = Path(source), str(source)
        if path.suffix.lower() not in _FORMATS:
            known = ", ".join(_FORMATS)
            raise UsageError(f"{name}: the inputs of a batch are a file of these kinds: {known}")
        text = _text(path)
        if path.suffix.lower() == ".csv":
            columns = _columns(text, name)
        read = _FORMATS[path.suffix.lower()](text, name)
    else:
        name, read = _PROGRAM, _given(source, _PROGRAM)
    rows: list[BatchInput] = []
    mistakes: list[Mistake] = []
    if columns is not None:  # what its first line lacks, every row lacks
        mistakes += _missing(InputPlace(name, 1), "column ", needs, columns)
        needs = ()
    for each in read:
        if isinstance(each, Mistake):
            mistakes.append(each)
            continue
        place, values = each
        mistakes += _missing(place, "", needs, values)
        rows.append(BatchInput(len(rows) + 1, place, values))
    if mistakes:
        left = len(mistakes) - _MOST_TOLD
        more = [Mistake(name, None, f"and {left:,} more mistakes")] if left > 0 else []
        raise FileError([*mistakes[:_MOST_TOLD], *more])
    if not rows:
        raise UsageError(f"{name}: it holds no inputs; a batch needs one at least")
    return rows


def _missing(
    place: InputPlace, kind: str, needs: Iterable[InputNeed], names: Collection[str]
) -> Iterator[Mistake]:
    """One mistake for each need that these names do not meet."""
    for need in needs:
        if need.name not in names:
            use = InputPlace(need.use.file, need.use.line)
            text = f"{kind}{need.name!r} is missing, and {use} needs it"
            yield Mistake(*place, f"{text}; {did_you_mean(need.name, names)}")


def _text(path: Path) -> str:
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: the inputs cannot be read ({error.strerror})") from error
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise FileError([Mistake(str(path), line, "it is not UTF-8 text")]) from error


def _json_lines(text: str, name: str) -> _Read:
    for line, written in enumerate(text.split("\n"), start=1):
        if not written.strip():
            continue
        try:
            value = parse_json(written)
        except ValueError as error:
            yield Mistake(name, line, f"it is no JSON: {error}")
        else:
            if not isinstance(value, dict):
                kind = type(value).__name__
                yield Mistake(name, line, f"a row must be an object of names to values, not {kind}")
            else:
                yield InputPlace(name, line), value


def _columns(text: str, name: str) -> list[str]:
    """The names in the first line of a CSV file. Raises UsageError where they are none."""
    try:
        columns = next(csv.reader(io.StringIO(text, newline=""), strict=True), [])
    except csv.Error as error:
        raise FileError([Mistake(name, 1, f"it is no CSV: {error}")]) from error
    if not columns:
        raise UsageError(f"{name}: it holds no inputs; a batch needs one at least")
    for column in columns:
        if not column.strip():
            raise FileError([Mistake(name, 1, "a column has no name")])
        if columns.count(column) > 1:
            raise FileError([Mistake(name, 1, f"two columns are named {column!r}")])
    return columns


def _csv(text: str, name: str) -> _Read:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    columns = next(reader)
    line = reader.line_num + 1
    try:
        for cells in reader:
            if cells and len(cells) != len(columns):
                wrong = f"the row has {len(cells)} cells, and there are {len(columns)} columns"
                yield Mistake(name, line, wrong)
            elif cells:  # else the line is empty
                yield InputPlace(name, line), dict(zip(columns, cells, strict=True))
            line = reader.line_num + 1
    except csv.Error as error:
        yield Mistake(name, line, f"it is no CSV: {error}")


def _given(rows: Iterable[Mapping[str, Any]], name: str) -> _Read:
    for line, values in enumerate(rows, start=1):
        if not isinstance(values, Mapping) or not all(isinstance(key, str) for key in values):
            wrong = f"a row must be a mapping of names to values, not {str(values)[:60]!r}"
            yield Mistake(name, line, wrong)
            continue
        try:
            deep = is_too_deep(values)
            json.dumps(values, allow_nan=False)
        except (TypeError, ValueError) as error:
            yield Mistake(name, line, f"a row must hold JSON values ({error})")
        except RecursionError:
            yield Mistake(name, line, TOO_DEEP)
        else:
            yield Mistake(name, line, TOO_DEEP) if deep else (InputPlace(name, line), values)


_FORMATS: Final = {".jsonl": _json_lines, ".ndjson": _json_lines, ".csv": _csv}
