"""The file of a batch's results: one JSON line a row, appended as each run ends.

The file alone says what is answered, so a batch that was killed goes on from it. A row that ran
twice has two lines, and the last of them counts: the first was paid for, too.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from windlass.api.batches.inputs import BatchInput, ResultLine
from windlass.errors import StoreError, UsageError
from windlass.safety.foreign import parse_json
from windlass.safety.own_files import open_own

_BEGIN: Final = b'{"row": '
"""How each line begins: so what is cut from a file is certain to be ours."""
_ERROR_CHARS: Final = 500
"""What is held of an error in memory; the file has all of it."""


@dataclass(slots=True)
class AnsweredRows:
    """What a file of results holds by now.

    `completed` are the rows that did, `troubles` the last lines of the others, with what matters
    of them, `again` those that are to be run again. `cost` is in US dollars, of the `priced` lines
    (None: there are `unpriced` ones alone, with no known price), `dearest` that of the dearest one,
    `largest` the most tokens of one.
    """

    completed: set[int] = field(default_factory=set[int])
    troubles: dict[int, Mapping[str, Any]] = field(default_factory=dict[int, Mapping[str, Any]])
    again: set[int] = field(default_factory=set[int])
    cost: float | None = 0.0
    priced: int = 0
    unpriced: int = 0
    dearest: float = 0.0
    largest: int = 0
    tokens_in: int = 0
    tokens_out: int = 0

    def add(self, line: Mapping[str, Any]) -> None:
        """Count a line of the file."""
        row, tokens = line["row"], line["tokens"]
        self.completed.discard(row)
        self.troubles.pop(row, None)
        if line["status"] == "completed":
            self.completed.add(row)
        else:
            error = line.get("error")
            self.troubles[row] = {
                **{key: line.get(key) for key in ("status", "reason", "session_id")},
                "error": error if error is None else str(error)[:_ERROR_CHARS],
            }
        (self.again.add if line["again"] else self.again.discard)(row)
        spent = line["cost"]
        self.dearest = max(self.dearest, spent or 0.0)
        self.unpriced += spent is None
        self.priced += spent is not None
        self.cost = (self.cost or 0.0) + (spent or 0.0) if self.priced else None
        self.largest = max(self.largest, tokens["in"] + tokens["out"])
        self.tokens_in += tokens["in"]
        self.tokens_out += tokens["out"]

    @property
    def kept(self) -> set[int]:
        """Return the rows that are not run again."""
        return (self.completed | self.troubles.keys()) - self.again


class ResultsFile:
    """The open file; `answered` is what it holds. To be had from `open_results`."""

    def __init__(self, path: Path, number: int, cascade: str) -> None:
        self.answered = AnsweredRows()
        self._path = path
        self._number = number
        self._cascade = cascade

    def append(self, given: BatchInput, line: Mapping[str, Any]) -> None:
        """Write a row's result; it is the system's when this returns. Raises StoreError."""
        whole = {"row": given.row, "input_hash": given.hash, "cascade_hash": self._cascade}
        whole |= {**given.about, **line}
        try:
            written = _encode(whole)
            while written:
                written = written[os.write(self._number, written) :]
        except OSError as error:
            raise StoreError(f"{self._path}: cannot be written ({error.strerror})") from error
        self.answered.add(whole)

    def read(self, inputs: Sequence[BatchInput]) -> None:
        """Count what the file holds; cut the last line where a kill broke it off.

        Raises UsageError where it is no file of this cascade and these inputs.
        """
        end = 0
        with self._path.open("rb") as file:
            for number, raw in enumerate(file, start=1):
                if _is_broken(raw):
                    break
                self.answered.add(self._checked(f"{self._path}:{number}", raw, inputs))
                end += len(raw)
                if not raw.endswith(b"\n"):
                    os.write(self._number, b"\n")
                    return
        os.truncate(self._number, end)

    def _checked(self, place: str, raw: bytes, inputs: Sequence[BatchInput]) -> Mapping[str, Any]:
        try:
            line = _read_line(raw, inputs[0].line)
        except ValueError as error:
            text = f"{place}: this is not the result of a batch ({error}); give another --out"
            raise UsageError(text) from error
        row = line["row"]
        if line["cascade_hash"] != self._cascade:
            what = "another cascade, or one that was changed since"
        elif row > len(inputs) or not _matches(line, inputs[row - 1]):
            what = f"other {inputs[0].parts}: row {row:,} differs"
        else:
            return line
        raise UsageError(f"{place}: this file belongs to {what}; give another --out")


def _matches(line: Mapping[str, Any], given: BatchInput) -> bool:
    about = {"input_hash": given.hash, **given.about}
    return all(line.get(key) == value for key, value in about.items())


@contextmanager
def open_results(
    path: Path, cascade: str, inputs: Sequence[BatchInput], *, resume: bool
) -> Iterator[ResultsFile]:
    """The file of the results of `inputs` with the cascade of this hash, for this process alone.

    Raises UsageError for one that is there already (without `resume`), that belongs to another
    batch, that another process writes, or that cannot be made.
    """
    try:
        number = open_own(path, 0o666, flags=os.O_APPEND | (0 if resume else os.O_EXCL))
    except FileExistsError:
        raise UsageError(
            f"{path}: this file exists already; go on with it with --resume (in Python:"
            " resume=True), or give another --out"
        ) from None
    except OSError as error:
        raise UsageError(
            f"{path}: the results cannot be written there ({error.strerror})"
        ) from error
    except StoreError as error:  # a link
        raise UsageError(str(error)) from error
    try:
        _lock(number, path)
        try:
            results = ResultsFile(path, number, cascade)
            results.read(inputs)
            yield results
        finally:
            if os.fstat(number).st_size == 0:  # nothing is answered, so there is nothing to resume
                path.unlink(missing_ok=True)
    finally:
        os.close(number)


def read_results(path: Path) -> Iterator[dict[str, Any]]:
    """Yield each row's last line, in the order of the rows. Raises OSError."""
    places: dict[int, int] = {}
    with path.open("rb") as file:
        at = 0
        for raw in file:
            with suppress(ValueError):  # the beginning of a line, where a kill broke it off
                places[_read_line(raw)["row"]] = at
            at += len(raw)
        for row in sorted(places):
            file.seek(places[row])
            yield _read_line(file.readline())


def _lock(number: int, path: Path) -> None:
    if sys.platform == "win32":
        return
    import fcntl

    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UsageError(
            f"{path}: another process writes its results there; wait for it, or end it"
        ) from None
    except OSError:
        return  # a file system that cannot lock


def _encode(line: Mapping[str, Any]) -> bytes:
    try:
        return (json.dumps(line, ensure_ascii=False) + "\n").encode()
    except UnicodeEncodeError:  # halves of characters
        return (json.dumps(line) + "\n").encode()


def _is_broken(raw: bytes) -> bool:
    """Return whether it is the beginning of a line of ours."""
    try:
        json.loads(raw)
    except (ValueError, RecursionError):
        return raw.startswith(_BEGIN[: len(raw)]) and not raw.endswith(b"\n")
    return False


def _read_line(raw: bytes, schema: type[ResultLine] = ResultLine) -> dict[str, Any]:
    """Return what a line holds. Raises ValueError in one clause where it is no result."""
    line = parse_json(raw)
    if not isinstance(line, dict):
        raise ValueError("it is not an object")  # noqa: TRY004 - one error for all
    try:
        schema.model_validate(line)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(map(str, first["loc"])) or "the line"
        raise ValueError(f"{place}: {first['msg'][:1].lower()}{first['msg'][1:]}") from error
    return line
