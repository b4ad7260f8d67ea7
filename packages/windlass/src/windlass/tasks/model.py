"""Tasks as data: the tree that a task file holds, frozen when it was read.

The model knows no file, no tool and no run. `parse` makes it out of XML, `compile` turns it into
rules and phases.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

Kind: TypeAlias = Literal["atomic", "sequential", "reduce"]
Role: TypeAlias = Literal["task", "inner_task", "reduction_task"]
Inherit: TypeAlias = Literal["full", "none", "subset"]
Format: TypeAlias = Literal["notes_only", "full_output"]
Form: TypeAlias = Literal["inline", "file", "glob", "expression"]

KINDS: Final[tuple[Kind, ...]] = ("atomic", "sequential", "reduce")
INHERIT: Final[tuple[Inherit, ...]] = ("full", "none", "subset")
FORMATS: Final[tuple[Format, ...]] = ("notes_only", "full_output")

OPERATORS: Final = "operators"
"""The key by which the definition of a session is known to be a task file."""

OF_INNER: Final = ("index", "item")
"""Names that the input of an inner task has besides: which of the inputs it works on."""

PARALLEL: Final = 4
"""Inner tasks of a reduce that run at the same time where `parallel` does not say."""


@dataclass(frozen=True, slots=True)
class TaskFinding:
    """Something about a file: `line` and `text`. `error`: it cannot run so.

    `lacking`: a required element is missing, which `--strict` takes for an error.
    """

    line: int
    text: str
    error: bool = True
    lacking: bool = False


@dataclass(frozen=True, slots=True)
class ContextManagement:
    """What a task has of the context around it: the three dimensions.

    `accumulate_data` is None where the operator has none (atomic, reduce); `accumulation_format`
    says what steps see of what earlier steps left (None: nothing). `origins` says of each
    setting where its value comes from.
    """

    inherit_context: Inherit
    fresh_context: bool
    accumulate_data: bool | None = None
    accumulation_format: Format | None = None
    origins: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Input:
    """One declaration of input: a text, a file, the files of a pattern, or an expression.

    `value` is the text, the path, the pattern, or a template's expression. `lines`: each line
    is an input of its own (files only). `name` is what an inline input is called.
    """

    form: Form
    value: str
    line: int
    name: str = ""
    lines: bool = False

    @property
    def template(self) -> str:
        """Return what of it is rendered; a text given inline stands as it is."""
        if self.form == "inline":
            return ""
        return "{{ " + self.value + " }}" if self.form == "expression" else self.value


@dataclass(frozen=True, slots=True)
class Task:
    """A task and all below it.

    `path` names it in its file: the names of the tasks it stands in and its own, with dots, the
    root's left out. `line` is where its element begins, `described` where its description does.
    `leaf` is the number of its phase among the atomic tasks of the file (None: an operator).
    `banks` and `folders` are what fresh context is looked for in. `parallel` is how many inner
    tasks run at the same time.
    """

    kind: Kind
    role: Role
    name: str
    path: str
    line: int
    description: str
    context: ContextManagement
    inputs: tuple[Input, ...] = ()
    steps: tuple[Task, ...] = ()
    inner: Task | None = None
    reduction: Task | None = None
    leaf: int | None = None
    banks: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    parallel: int = PARALLEL
    described: int = 0

    @property
    def children(self) -> tuple[Task, ...]:
        """Return the tasks directly below it, in the order of the file."""
        parts = (*self.steps, self.inner, self.reduction)
        return tuple(task for task in parts if task is not None)

    def walk(self) -> Iterator[Task]:
        """This task and all below it, in the order of the file."""
        yield self
        for child in self.children:
            yield from child.walk()

    @property
    def first_leaf(self) -> Task:
        """Return the atomic task that runs first in it."""
        return self if self.kind == "atomic" else self.children[0].first_leaf


@dataclass(frozen=True, slots=True)
class TaskFile:
    """A task file: its tree, and the phases of its atomic tasks as a cascade's data.

    `raw` is the file's XML as it was read, `file` what messages call it. `lines` has the line of
    each place in `cascade`. `uses_input`: an expression or template of it names `input`.
    `findings` are mistakes and warnings of form by line.
    """

    file: str
    raw: bytes
    task: Task
    cascade: Mapping[str, Any]
    lines: Mapping[tuple[str | int, ...], int]
    uses_input: bool
    findings: tuple[TaskFinding, ...] = ()
