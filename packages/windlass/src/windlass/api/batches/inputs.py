"""The inputs of a batch: JSON lines, CSV, or mappings of a program.

The lines of a file of results as they are read back: what money and rows are counted by.

A file lies where others may write, so that its numbers are not believed as they stand.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, NamedTuple, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from windlass.cascade.needs import InputNeed
from windlass.errors import FileError, Mistake, UsageError, did_you_mean
from windlass.history.base import Status
from windlass.safety.foreign import TOO_DEEP, is_too_deep, parse_json

_Dollars: TypeAlias = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]
"""Of one run: more is not believed."""
_Tokens: TypeAlias = Annotated[int, Field(ge=0, le=10**12)]
_Number: TypeAlias = Annotated[int, Field(ge=1)]


class _Line(BaseModel):
    """What else a line says is for people and programs, and nothing is counted by it."""

    model_config = ConfigDict(strict=True, extra="allow", populate_by_name=True)


class ResultTokens(_Line):
    """The tokens that a run used."""

    in_: _Tokens = Field(alias="in")
    out: _Tokens


class ResultLine(_Line):
    """A row's line in the file of results of a batch."""

    row: _Number
    input_hash: str
    cascade_hash: str
    status: Status
    again: bool
    cost: _Dollars | None
    tokens: ResultTokens
    reason: str | None = None
    session_id: str | None = None
    error: str | None = None
    output: str | None = None
    outputs: dict[str, str | None] = Field(default_factory=dict)


class RunOfLine(_Line):
    """What a run took without its judge."""

    cost: _Dollars | None
    tokens: ResultTokens


class ComparedLine(ResultLine):
    """A run's line in the file of results of a comparison."""

    policy: str
    input: _Number
    take: _Number
    run: RunOfLine | None = None
    judge: str | None = None
    score: bool | Annotated[float, Field(allow_inf_nan=False)] | None = None
    judge_cost: _Dollars | None = None
    why: str = ""

    @model_validator(mode="after")
    def _has_run(self) -> Self:
        if self.run is None and not self.again:
            raise PydanticCustomError("windlass", "'run' is missing, and the run counts")
        return self


_PROGRAM: Final = "inputs"
"""The name in messages of rows that a program gives; their number is their line."""
_MOST_TOLD: Final = 20
"""The most mistakes that are listed of a file of inputs."""


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
    """What, beside the cascade, must be the same for a file of results to belong to a batch."""
    line: ClassVar[type[ResultLine]] = ResultLine
    """The form of its line in the file of results."""

    @property
    def hash(self) -> str:
        """Identifies the row: equal values have equal hashes."""
        return hash_of(self.values)

    @property
    def name(self) -> str:
        """Return its name in messages."""
        return str(self.place)

    @property
    def tag(self) -> str:
        """The end of its session's name."""
        return str(self.row)

    @property
    def about(self) -> Mapping[str, Any]:
        """Return what its line in the file of results also says, as JSON values."""
        return {}


def hash_of(value: Any) -> str:
    """Return a hash of a JSON value, whatever the order of its keys."""
    text = json.dumps(value, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def read_inputs(
    source: str | Path | Iterable[Mapping[str, Any]], needs: Sequence[InputNeed]
) -> list[BatchInput]:
    """Return all rows, each with what the cascade needs of its input (`needs`).

    Raises UsageError for a file that cannot be read, and FileError with its mistakes.
    """
    columns = None
    if isinstance(source, str | Path):
        path, name = Path(source), str(source)
        if path.suffix.lower() not in _FORMATS:
            known = ", ".join(_FORMATS)
            raise UsageError(
                f"{name}: the inputs of a batch must be a file of one of these kinds: {known}"
            )
        text = _read_text(path)
        if path.suffix.lower() == ".csv":
            columns = _read_columns(text, name)
        read = _FORMATS[path.suffix.lower()](text, name)
    else:
        name, read = _PROGRAM, _read_rows(source, _PROGRAM)
    rows: list[BatchInput] = []
    mistakes: list[Mistake] = []
    if columns is not None:  # a column that is missing is missing in every row
        mistakes += _missing_inputs(InputPlace(name, 1), "column ", needs, columns)
        needs = ()
    for each in read:
        if isinstance(each, Mistake):
            mistakes.append(each)
            continue
        place, values = each
        mistakes += _missing_inputs(place, "", needs, values)
        rows.append(BatchInput(len(rows) + 1, place, values))
    if mistakes:
        left = len(mistakes) - _MOST_TOLD
        more = [Mistake(name, None, f"and {left:,} more mistakes")] if left > 0 else []
        raise FileError([*mistakes[:_MOST_TOLD], *more])
    if not rows:
        raise UsageError(f"{name}: it holds no inputs; a batch needs at least one")
    return rows


def _missing_inputs(
    place: InputPlace, kind: str, needs: Iterable[InputNeed], names: Collection[str]
) -> Iterator[Mistake]:
    """Yield one mistake for each need that these names do not meet."""
    for need in needs:
        if need.name not in names:
            use = InputPlace(need.use.file, need.use.line)
            text = f"{kind}{need.name!r} is missing, and {use} needs it"
            yield Mistake(*place, f"{text}; {did_you_mean(need.name, names)}")


def _read_text(path: Path) -> str:
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: the inputs cannot be read ({error.strerror})") from error
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise FileError([Mistake(str(path), line, "it is not UTF-8 text")]) from error


def _read_json_lines(text: str, name: str) -> _Read:
    for line, written in enumerate(text.split("\n"), start=1):
        if not written.strip():
            continue
        try:
            value = parse_json(written)
        except ValueError as error:
            yield Mistake(name, line, f"it is not JSON: {error}")
        else:
            if not isinstance(value, dict):
                kind = type(value).__name__
                yield Mistake(name, line, f"a row must be an object of names to values, not {kind}")
            else:
                yield InputPlace(name, line), value


def _read_columns(text: str, name: str) -> list[str]:
    """Return the names in the first line of a CSV file.

    Raises UsageError for none, or wrong ones.
    """
    try:
        columns = next(csv.reader(io.StringIO(text, newline=""), strict=True), [])
    except csv.Error as error:
        raise FileError([Mistake(name, 1, f"it is not CSV: {error}")]) from error
    if not columns:
        raise UsageError(f"{name}: it holds no inputs; a batch needs at least one")
    for column in columns:
        if not column.strip():
            raise FileError([Mistake(name, 1, "a column has no name")])
        if columns.count(column) > 1:
            raise FileError([Mistake(name, 1, f"two columns are named {column!r}")])
    return columns


def _read_csv(text: str, name: str) -> _Read:
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
        yield Mistake(name, line, f"it is not CSV: {error}")


def _read_rows(rows: Iterable[Mapping[str, Any]], name: str) -> _Read:
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


_FORMATS: Final = {".jsonl": _read_json_lines, ".ndjson": _read_json_lines, ".csv": _read_csv}
