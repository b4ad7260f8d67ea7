"""Task files: from the elements of an XML file to the tree of tasks, with all that is wrong."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from windlass.errors import Mistake, TaskFileError, UsageError, did_you_mean
from windlass.safety.files import MissingFileError, UnreadableError, read_bytes
from windlass.safety.foreign import whole_number
from windlass.tasks._phases import BLOCK, NUMBERS, OBJECTS, TEXTS, add_phase, context_of
from windlass.tasks._xml import Element, TaskBuilder, read_xml
from windlass.tasks.model import (
    KINDS,
    PARALLEL,
    Form,
    Input,
    Kind,
    Role,
    Task,
    TaskFile,
)
from windlass.text.lookups import NameUse, find_names
from windlass.text.templates import NAMES, TemplateError

PASSED_ON: Final = (
    "system",
    "model",
    "max_output_tokens",
    "temperature",
    "reasoning_effort",
    "memory",
)
"""What an enclosing task says for all tasks in it that do not say it themselves."""

_COMMON: Final = ("description", BLOCK, *PASSED_ON)
_ATOMIC: Final = ("inputs", "tools", "rules", *TEXTS, *NUMBERS, *OBJECTS)
OWN: Final[dict[str, tuple[str, ...]]] = {
    "atomic": tuple(dict.fromkeys((*_COMMON, *_ATOMIC))),
    "sequential": (*_COMMON, "steps"),
    "reduce": (*_COMMON, "inputs", "inner_task", "reduction_task"),
}
"""The elements that each kind of task may hold; the root also `auto_context`."""

_FORMS: Final[dict[str, Form]] = {
    "input": "inline",
    "file": "file",
    "glob": "glob",
    "expression": "expression",
}
"""What a declaration of input is, by its element."""
_ATTRIBUTES: Final = {"input": ("name",), "file": ("split",), "glob": (), "expression": ()}
_INPUTS_HOLD: Final = "it holds " + ", ".join(f"<{tag}>" for tag in _FORMS)

_NAME: Final = re.compile(r'[^\s./\\<>:"|?*\[\]][^./\\<>:"|?*\[\]\x00-\x1f]*')
_LONGEST: Final = 60
"""Characters of a task's path, which names its phases in the record."""


@dataclass(frozen=True, slots=True)
class _Around:
    """What the tasks around one say for it: elements by tag, and how outputs reach it."""

    path: str = ""
    inherited: Mapping[str, Element] = field(default_factory=dict[str, Element])
    handed: bool = False
    root: bool = False


def load_task(path: Path | str) -> TaskFile:
    """Read a task file (.xml).

    Raises UsageError where there is no such file, TaskFileError for what is no task at all.
    """
    path = Path(path)
    try:
        data = read_bytes(path)
    except MissingFileError as error:
        folder = path.parent
        there = sorted(file.name for file in folder.glob("*.xml")) if folder.is_dir() else []
        near = did_you_mean(path.name, there)
        raise UsageError(f"no such task file: {str(path)!r}; {near}") from error
    except UnreadableError as error:
        raise UsageError(f"{str(path)!r} {error}") from error
    return read_task(data, str(path), name=path.stem)


def read_task(data: bytes | str, file: str, *, name: str = "task") -> TaskFile:
    """Return the task in an XML text, with all that was found to be wrong in it.

    `file` is what messages call it, `name` what the task is called where it has no `name`.
    Raises TaskFileError for what is no XML, or no task at all.
    """
    raw = data.encode() if isinstance(data, str) else data
    root = read_xml(raw, file)
    builder = TaskBuilder(file)
    if root.tag != "task":
        text = f"expected <task type={'|'.join(KINDS)}> at the top, not <{root.tag}>"
        raise TaskFileError([Mistake(file, root.line, text)])
    clean = re.sub(r'[\s./\\<>:"|?*\[\]\x00-\x1f]+', "_", name).strip("_") or "task"
    task = _task(builder, root, "task", clean, _Around(root=True))
    cascade: dict[str, Any] = {"cascade_id": task.name, "phases": builder.phases}
    auto = root.first("auto_context")
    if auto is not None:
        cascade["auto_context"] = builder.json_of(auto)
        builder.lines["auto_context",] = auto.line
    return TaskFile(
        file,
        raw,
        task,
        cascade,
        builder.lines,
        builder.uses_input,
        tuple(sorted(dict.fromkeys(builder.findings), key=lambda finding: finding.line)),
    )


def _task(builder: TaskBuilder, element: Element, role: Role, name: str, around: _Around) -> Task:
    kind = _kind(builder, element, role)
    _known_children(builder, element, kind, root=around.root)
    name = _name(builder, element, name)
    path = ".".join(filter(None, (around.path, name)))
    context = context_of(builder, element.first(BLOCK), kind, role)
    accumulates = context.accumulation_format is not None
    nothing = context.inherit_context == "none" and not context.fresh_context
    if nothing and not accumulates and not around.handed:
        text = (
            f"task {path!r} has no context: it inherits, accumulates and fetches nothing, and sees"
            " its own description and inputs only"
        )
        builder.wrong(element.line, text, error=False)
    passed = {tag: child for tag in PASSED_ON if (child := element.first(tag)) is not None}
    inherited = {**around.inherited, **passed}
    description = _description(builder, element, kind)
    inside = "" if around.root else path  # the root's name says nothing to tell its parts apart
    declared = element.first("inputs") if kind != "sequential" else None
    inputs = _inputs(builder, declared)
    banks, folders = _memory(builder, inherited.get("memory"))
    parts: dict[str, Any] = {}
    if kind == "atomic":
        parts["leaf"] = len(builder.phases)
        add_phase(builder, element, path, inherited, banks)
        if len(path) > _LONGEST:
            builder.wrong(element.line, f"the path {path!r} has more than {_LONGEST} characters")
    elif kind == "sequential":
        parts["steps"] = tuple(_steps(builder, element, accumulates, inside, inherited))
    else:
        if not inputs:
            builder.wrong(element.line, "a reduce task needs <inputs> to work on")
        roles: dict[str, Role] = {"inner": "inner_task", "reduction": "reduction_task"}
        for called, part_role in roles.items():
            part = element.first(part_role)
            if part is None:
                article = "an" if called == "inner" else "a"
                builder.wrong(element.line, f"a reduce task needs {article} <{part_role}>")
            else:
                handed = called == "reduction"  # it is handed what the inner tasks gave
                below = _Around(inside, inherited, handed)
                parts[called] = _task(builder, part, part_role, called, below)
    return Task(
        kind=kind,
        role=role,
        name=name,
        path=path,
        line=element.line,
        description=description,
        context=context,
        inputs=inputs,
        banks=banks,
        folders=folders,
        parallel=_parallel(builder, element, kind),
        described=(element.first("description") or element).line,
        **parts,
    )


def _kind(builder: TaskBuilder, element: Element, role: Role) -> Kind:
    name = element.attributes.get("type")
    if name is None:
        if role == "task":
            text = (
                f"<task> needs a type: {', '.join(KINDS)}; atomic is taken here to go on checking"
            )
            builder.wrong(element.line, text)
        for kind in KINDS[1:]:
            mark = "steps" if kind == "sequential" else "inner_task"
            if element.first(mark) is not None and role != "task":
                text = f'<{role}> holds <{mark}>; say type="{kind}"'
                builder.wrong(element.line, text)
                return kind
        return "atomic"
    for kind in KINDS:
        if name == kind:
            return kind
    builder.wrong(element.line, f"there is no type {name!r}; {did_you_mean(name, KINDS)}")
    return "atomic"


def _known_children(builder: TaskBuilder, element: Element, kind: Kind, *, root: bool) -> None:
    tags = (*OWN[kind], *(("auto_context",) if root else ()))
    attributes = ("type", "name", *(("parallel",) if kind == "reduce" else ()))
    for name in element.attributes:
        if name not in attributes and not name.startswith(("xmlns", "xsi:", "xml:")):
            text = f"this {kind} task has no attribute {name!r}; {did_you_mean(name, attributes)}"
            builder.wrong(element.line, text)
    if element.text.strip():
        text = f"text stands directly in <{element.tag}>; put it into <description>"
        builder.wrong(element.text_line, text)
    seen: set[str] = set()
    for child in element.children:
        if child.tag in seen:
            builder.wrong(child.line, f"<{child.tag}> is given twice in this task")
        elif child.tag not in tags:
            elsewhere = [each for each in KINDS if child.tag in OWN[each]]
            text = f"this {kind} task has no <{child.tag}>; {did_you_mean(child.tag, tags)}"
            if elsewhere:
                text = f"<{child.tag}> belongs to a task of type {' or '.join(elsewhere)},"
                text += f" and this one is {kind}"
            builder.wrong(child.line, text)
        seen.add(child.tag)


def _name(builder: TaskBuilder, element: Element, name: str) -> str:
    written = element.attributes.get("name")
    if written is None:
        return name
    if not _NAME.fullmatch(written):
        text = f'name {written!r} cannot be used: no dots, brackets, / \\ < > : " | ? * in it'
        builder.wrong(element.line, text)
        return name
    return written


def _description(builder: TaskBuilder, element: Element, kind: Kind) -> str:
    description = element.first("description")
    if description is None or not description.text.strip():
        line = element.line if description is None else description.line
        builder.wrong(line, f"this {kind} task needs a <description> that says what is to be done")
        return "-"
    text = description.text.strip()
    is_checked = kind == "atomic"  # the check of phases tells what is wrong
    try:
        names = find_names(text)
    except TemplateError as error:
        if not is_checked:
            builder.wrong(description.line, f"<description>: bad template: {error.text}")
        return text
    what = "" if is_checked else "<description>: a template"
    _note_names(builder, description.line, names, what)
    return text


def _note_names(builder: TaskBuilder, line: int, names: list[NameUse], what: str) -> None:
    """Tell which names `what` (empty: it is checked elsewhere) cannot know; note the input."""
    for used in names:
        if what and not used.of and used.name not in NAMES:
            near = did_you_mean(used.name, NAMES)
            builder.wrong(line, f"{what} cannot use {used.name!r}; {near}")
        builder.uses_input |= used.name == "input" and not used.of


def _steps(
    builder: TaskBuilder,
    element: Element,
    accumulates: bool,
    path: str,
    inherited: Mapping[str, Element],
) -> Iterator[Task]:
    steps = element.first("steps")
    if steps is None or not steps.children:
        line = element.line if steps is None else steps.line
        builder.wrong(line, "a sequential task needs <steps> with at least one <task>")
        return
    names: dict[str, int] = {}
    for number, child in enumerate(steps.children, start=1):
        if child.tag != "task":
            builder.wrong(child.line, f"<steps> holds <task> elements, not <{child.tag}>")
            continue
        around = _Around(path, inherited, handed=accumulates and number > 1)
        step = _task(builder, child, "task", f"step_{number}", around)
        if step.name in names:
            text = f"there already is a step {step.name!r} (line {names[step.name]})"
            builder.wrong(child.line, text)
        names.setdefault(step.name, child.line)
        yield step


def _parallel(builder: TaskBuilder, element: Element, kind: Kind) -> int:
    written = element.attributes.get("parallel")
    if written is None or kind != "reduce":
        return PARALLEL
    number = whole_number(written)
    if not number:
        builder.wrong(element.line, f"parallel must be a whole number from 1, not {written:.40}")
    return number or PARALLEL


def _memory(
    builder: TaskBuilder, element: Element | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if element is None:
        return (), ()
    places: dict[str, list[str]] = {"bank": [], "folder": []}
    for child in element.children:
        if child.tag not in places:
            builder.unknown(element, child, places)
        elif not child.text.strip():
            builder.wrong(child.line, f"<{child.tag}> is empty; name a {child.tag}")
        else:
            places[child.tag].append(child.text.strip())
    return tuple(dict.fromkeys(places["bank"])), tuple(dict.fromkeys(places["folder"]))


def _inputs(builder: TaskBuilder, element: Element | None) -> tuple[Input, ...]:
    """Return the declarations in `<inputs>`, in order. What they come to is the engine's affair."""
    if element is None:
        return ()
    if not element.children:
        builder.wrong(element.line, f"<inputs> is empty; {_INPUTS_HOLD}")
    declared = (_input(builder, child) for child in element.children)
    return tuple(each for each in declared if each is not None)


def _input(builder: TaskBuilder, element: Element) -> Input | None:
    tag, form = element.tag, _FORMS.get(element.tag)
    if form is None:
        builder.wrong(element.line, f"<inputs> has no <{tag}>; {_INPUTS_HOLD}")
        return None
    for name in element.attributes:
        if name not in _ATTRIBUTES[tag]:
            near = did_you_mean(name, _ATTRIBUTES[tag])
            builder.wrong(element.line, f"<{tag}> has no attribute {name!r}; {near}")
    split = element.attributes.get("split", "whole")
    if split not in ("whole", "lines"):
        text = f"split is {split!r}; write whole (one input) or lines (one input a line)"
        builder.wrong(element.line, text)
    value = element.text.strip()
    if not value:
        builder.wrong(element.line, f"<{tag}> is empty")
        return None
    if form == "expression" and value.startswith("{{") and value.endswith("}}"):
        value = value[2:-2].strip()  # the braces that a template would have round it
    name = element.attributes.get("name", "")
    declared = Input(form, value, element.line, name, lines=split == "lines")
    try:
        names = find_names(declared.template)
    except TemplateError as error:
        builder.wrong(element.text_line, f"<{tag}>: {error.text}")
        return declared
    what = "an expression" if form == "expression" else "a template"
    _note_names(builder, element.text_line, names, what)
    return declared


def relax_ng() -> str:
    """Return the published RELAX NG schema of task files, for editors and for other programs.

    It is as strict as the reader on elements, attributes and values. What one part of a file says
    of another only `windlass check` knows.
    """
    return files("windlass.tasks").joinpath("task.rng").read_text(encoding="utf-8")
