"""The inputs that `<inputs>` declares: names, and texts that are read when they are wanted.

Ten thousand inputs are ten thousand small values here, and no text that is not being worked on.
Files lie in the allowed folder and nowhere else.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from windlass.errors import ContextError, Mistake, NoContext, TaskFileError
from windlass.safety.files import MOST_BYTES, MissingFileError, UnreadableError, in_root, open_file
from windlass.safety.foreign import parse_json
from windlass.tasks.model import Input, Task, TaskFile
from windlass.text.templates import free_names, render
from windlass.tools.decode import decode_text

MOST: Final = 1_000_000
"""Inputs of one task."""


@dataclass(frozen=True, slots=True)
class Given:
    """One input: what it is called, and its text, or the file (and the bytes of it) it is in.

    `path` and the folder `root` around it are real paths. `value` is what templates see of it as
    `input.item`; None: its text.
    """

    name: str
    text: str | None = None
    path: Path | None = None
    root: Path = Path()
    start: int = 0
    length: int = -1
    value: Any = None

    def read(self) -> str:
        """Return its text. Raises NoContext where its file cannot be read, or is no text."""
        if self.text is not None:
            return self.text
        assert self.path is not None
        try:
            with open_file(self.path, self.root) as file:
                file.seek(self.start)
                data = file.read(MOST_BYTES + 1 if self.length < 0 else self.length)
        except UnreadableError as error:
            raise NoContext(f"input {self.name!r} {error}") from error
        except OSError as error:
            raise NoContext(f"input {self.name!r} cannot be read: {error.strerror}") from error
        if len(data) > MOST_BYTES:
            raise NoContext(f"input {self.name!r} has more than {MOST_BYTES:,} bytes")
        text = decode_text(data)
        if text is None or "\0" in text:
            raise NoContext(f"input {self.name!r} is no text")
        return text

    def whole(self) -> Given:
        """Return the same with its text in it, for a process that has not its file."""
        return self if self.text is not None else Given(self.name, self.read(), value=self.value)


def digest(text: str) -> str:
    """16 hex digits by which a resumed run knows that an input is still the same."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def read_inputs(
    inputs: Sequence[Input],
    root: Path,
    *,
    values: Mapping[str, Any],
    file: str,
    split_lists: bool,
) -> list[Given]:
    """Return the inputs that the declarations come to, in order.

    `root` is the folder that files must lie in, `values` what templates see; `split_lists`: a list
    that an expression gives is so many inputs (a reduce), else one. Raises NoContext where a
    declaration comes to nothing, ContextError where it is wrong.
    """
    root = root.resolve()
    given: list[Given] = []
    for declared in inputs:
        where = f"{file}:{declared.line}"
        match declared.form:
            case "inline":
                given.append(Given(declared.name or f"line {declared.line}", declared.value))
            case "file":
                path = _inside(root, render(declared.template, **values, where=where), where)
                one = Given(path.relative_to(root).as_posix(), path=path, root=root)
                given += _lines(one, where) if declared.lines else [one]
            case "glob":
                given += _files(root, render(declared.template, **values, where=where), where)
            case "expression":
                given += _expression(declared.value, values, where, split_lists=split_lists)
        if len(given) > MOST:
            raise ContextError(f"{where}: more than {MOST:,} inputs")
    return given


def check_inputs(
    source: TaskFile, root: Path, given: Mapping[str, Any], writes: Callable[[Task], bool]
) -> None:
    """Raise TaskFileError for what is known before anything runs, and is not there.

    These are the inputs and descriptions that depend on the run's input alone. Those of inner tasks
    depend on more. Behind a task that `writes`, its tools may have made files: inputs are looked
    for in their turn.
    """
    mistakes: list[Mistake] = []
    values: dict[str, Any] = {"input": given, "state": {}, "outputs": {}}
    may_be_made = False
    inner = {id(each) for task in source.task.walk() if task.inner for each in task.inner.walk()}

    @contextmanager
    def told(line: int) -> Iterator[None]:
        try:
            yield
        except ContextError as error:
            text = str(error).removeprefix(f"{source.file}:{line}").lstrip(":, ")
            mistakes.append(Mistake(source.file, line, text))

    for task in source.task.walk():
        if id(task) not in inner:
            for declared in () if may_be_made else task.inputs:
                if free_names(declared.template) <= {"input"}:
                    splits = task.kind == "reduce"
                    with told(declared.line):
                        read_inputs(
                            [declared], root, values=values, file=source.file, split_lists=splits
                        )
            if task.leaf is not None and free_names(task.description) <= {"input"}:
                with told(task.line):
                    render(task.description, **values, where=description_of(source.file, task))
        may_be_made = may_be_made or (task.leaf is not None and writes(task))
    if mistakes:
        raise TaskFileError(mistakes)


def description_of(file: str, task: Task) -> str:
    """Return what messages call the description of a task."""
    return f"{file}:{task.line}, the description of {task.path!r}"


def _inside(root: Path, name: str, where: str) -> Path:
    try:
        path = in_root(root).find(name)
        open_file(path, root).close()
    except MissingFileError as error:
        raise NoContext(f"{where}: there is no file {name!r} in {str(root)!r} (--root)") from error
    except UnreadableError as error:
        raise ContextError(f"{where}: {name!r} {error}") from error
    return path


def _files(root: Path, pattern: str, where: str) -> Iterator[Given]:
    if Path(pattern).is_absolute() or ".." in Path(pattern).parts:
        raise ContextError(f"{where}: the pattern {pattern!r} leads out of the folder (--root)")
    folders, count = in_root(root), 0
    for path in sorted(root.glob(pattern)):
        if path.is_file() and folders.holds(path):
            count += 1
            name = path.relative_to(root).as_posix()
            yield Given(name, path=folders.find(path), root=root)
    if not count:
        raise NoContext(f"{where}: no file in {str(root)!r} (--root) matches {pattern!r}")


def _lines(file: Given, where: str) -> Iterator[Given]:
    """Yield the lines of a file that are not blank, found without keeping them."""
    assert file.path is not None
    at = count = number = 0
    with open_file(file.path, file.root) as opened:
        while line := opened.readline(MOST_BYTES + 1):
            number += 1
            content = line.rstrip(b"\r\n")
            if len(content) > MOST_BYTES:
                raise ContextError(
                    f"{where}: line {number} of {file.name!r} has more than {MOST_BYTES:,} bytes"
                )
            if content.strip():
                count += 1
                name = f"{file.name}:{number}"
                yield replace(file, name=name, start=at, length=len(content))
            at += len(line)
    if not count:
        raise NoContext(f"{where}: {file.name!r} has no line that is not blank")


_AS_JSON: Final = (
    "{%% set it = (%s) %%}{%% if it is undefined %%}{{ it }}{%% endif %%}{{ it|tojson }}"
)


def _expression(
    expression: str, values: Mapping[str, Any], where: str, *, split_lists: bool
) -> Iterator[Given]:
    # As JSON, which is what inputs, states and outputs are made of.
    text = render(_AS_JSON % expression, **values, where=where)
    try:
        value = parse_json(text)
    except ValueError as error:
        raise ContextError(
            f"{where}: the expression {expression!r} comes to no value: {error}"
        ) from error
    if split_lists and isinstance(value, str):
        try:
            value = parse_json(value)  # the output of an earlier task may be a list
        except ValueError:
            value = [value]
    if value is None or value in ("", [], {}):
        raise NoContext(f"{where}: the expression {expression!r} comes to nothing")
    each = value if split_lists and isinstance(value, list) else [value]
    for number, item in enumerate(each):
        name = f"{expression}[{number}]" if each is value else expression
        yield Given(name, _as_text(item), value=item)


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
