"""Task files: from the elements of an XML file to the tree of tasks, with all that is wrong.

Atomic tasks also become phases of a cascade, as data with the line of each value: so the checks of
cascades (templates, tools, forms) hold for tasks and name their lines.

The table of defaults and the rules are those of the context-management decision record. A block
that is there but lacks a required element takes the table's default with a warning; a block that
is not there takes it silently, for `windlass check --explain-defaults` tells it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, TypeVar

from windlass.cascade.source import Path as Place
from windlass.errors import Mistake, TaskFileError, UsageError, did_you_mean, perhaps_newer
from windlass.safety.foreign import parse_json
from windlass.tasks._xml import Element, read_xml
from windlass.tasks.model import (
    FORMATS,
    INHERIT,
    KINDS,
    PARALLEL,
    ContextManagement,
    Form,
    Input,
    Kind,
    Role,
    Task,
    TaskFile,
    TaskFinding,
)
from windlass.text.templates import NAMES, TemplateError, Used, find_names

T = TypeVar("T")

BLOCK: Final = "context_management"
FRESH: Final = {"enabled": True, "disabled": False}
ACCUMULATE: Final = {"true": True, "false": False}
ELEMENTS: Final = ("inherit_context", "accumulate_data", "accumulation_format", "fresh_context")

TABLE: Final[dict[str, ContextManagement]] = {
    "atomic": ContextManagement("full", fresh_context=True),
    "sequential": ContextManagement(
        "full", fresh_context=True, accumulate_data=True, accumulation_format="notes_only"
    ),
    "reduce": ContextManagement("full", fresh_context=True),
    "inner_task": ContextManagement("full", fresh_context=False),
    "reduction_task": ContextManagement("full", fresh_context=True),
}
"""Defaults by operator, and by the place in a reduce, which goes before the operator."""

TEXTS: Final = ("system", "model", "reasoning_effort", "tool_choice")
NUMBERS: Final = ("max_output_tokens", "temperature", "max_input_tokens")
OBJECTS: Final = (
    *("output_schema", "intra_context", "output_extraction", "context_ttl", "callouts"),
    "injectors",
)
"""Elements whose text is JSON."""
FETCHED: Final = ("user_memory", "knowledge")
"""Injectors that tasks have not: fresh context brings what a task's memory and folders hold."""
RULES: Final = (
    "max_turns",
    "max_attempts",
    "loop_until",
    "on_exhausted",
    "budget",
    "max_tokens",
    "max_seconds",
    "approve",
)

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


@dataclass(slots=True)
class TaskBuilder:
    """The work in hand: what was found, the phases so far, and the line of each of their values."""

    file: str
    findings: list[TaskFinding] = field(default_factory=list[TaskFinding])
    phases: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    lines: dict[Place, int] = field(default_factory=dict[Place, int])
    uses_input: bool = False

    def wrong(self, line: int, text: str, *, error: bool = True, lacking: bool = False) -> None:
        """Tell a mistake, or with `error` false what is odd."""
        self.findings.append(TaskFinding(line, text, error, lacking))

    def unknown(self, holder: Element, child: Element, tags: Collection[str]) -> None:
        """Tell that an element cannot hold what it holds."""
        text = f"<{holder.tag}> has no <{child.tag}>; {perhaps_newer(child.tag, tags)}"
        self.wrong(child.line, text)


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
        if not path.is_file():
            folder = path.parent
            there = sorted(file.name for file in folder.glob("*.xml")) if folder.is_dir() else []
            raise UsageError(f"no such task file: {str(path)!r}; {did_you_mean(path.name, there)}")
        data = path.read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"cannot read {str(path)!r}: {reason}") from error
    return read_task(data, str(path), name=path.stem)


def read_task(data: bytes | str, file: str, *, name: str = "task") -> TaskFile:
    """The task in an XML text, with all that was found to be wrong in it.

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
        cascade["auto_context"] = json_of(builder, auto)
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
        for tag, key, called in (
            ("inner_task", "inner", "inner"),
            ("reduction_task", "reduction", "reduction"),
        ):
            part = element.first(tag)
            if part is None:
                builder.wrong(element.line, f"a reduce task needs an <{tag}>")
            else:
                handed = tag == "reduction_task"  # it is handed what the inner tasks gave
                below = _Around(inside, inherited, handed)
                parts[key] = _task(builder, part, tag, called, below)  # type: ignore[arg-type]
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
            text = f"a {kind} task has no attribute {name!r}; {did_you_mean(name, attributes)}"
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
            text = f"a {kind} task has no <{child.tag}>; {did_you_mean(child.tag, tags)}"
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
        builder.wrong(line, f"a {kind} task needs a <description> that says what is to be done")
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


def _note_names(builder: TaskBuilder, line: int, names: list[Used], what: str) -> None:
    """Tell which names `what` (empty: it is checked elsewhere) cannot know; note the input."""
    for used in names:
        if what and not used.of and used.name not in NAMES:
            near = did_you_mean(used.name, NAMES)
            builder.wrong(line, f"{what} knows no {used.name!r}; {near}")
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
    if not written.isdecimal() or int(written) < 1:
        builder.wrong(element.line, f"parallel must be a whole number from 1, not {written!r}")
        return PARALLEL
    return int(written)


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
    """The declarations in `<inputs>`, in order. What they come to is the engine's affair."""
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
    """The published RELAX NG schema of task files, for editors and for other programs.

    It is as strict as the reader on elements, attributes and values. What one part of a file says
    of another only `windlass check` knows.
    """
    return files("windlass.tasks").joinpath("task.rng").read_text(encoding="utf-8")


# ---- atomic tasks as phases ---------------------------------------------------------------


def add_phase(
    builder: TaskBuilder,
    element: Element,
    path: str,
    inherited: Mapping[str, Element],
    banks: tuple[str, ...],
) -> None:
    """Add the task as a phase of the cascade, with the line of each of its values."""
    number = len(builder.phases)
    base: Place = ("phases", number)
    phase: dict[str, Any] = {"name": path}
    builder.phases.append(phase)
    builder.lines[base] = builder.lines[*base, "name"] = element.line
    own = {child.tag: child for child in element.children}
    for tag, child in {**inherited, **own}.items():
        key = "instructions" if tag == "description" else "tackle" if tag == "tools" else tag
        value = _value(builder, child, (*base, key))
        if value is None:
            continue
        phase[key] = value
        builder.lines[*base, key] = child.line
    phase.setdefault("instructions", "-")
    if banks:
        phase["memory"] = {"read": list(banks), "write": list(banks)}
        builder.lines[*base, "memory"] = inherited["memory"].line


def _value(builder: TaskBuilder, child: Element, place: Place) -> Any:
    text = child.text.strip()
    if child.tag in ("description", *TEXTS):
        if child.tag != "description" and not text:
            builder.wrong(child.line, f"<{child.tag}> is empty")
            return None
        return text or "-"
    if child.tag in NUMBERS:
        return _number(builder, child)
    if child.tag == "injectors":
        return _injectors(builder, child)
    if child.tag in OBJECTS:
        return json_of(builder, child)
    if child.tag == "tools":
        return _tools(builder, child, place)
    if child.tag == "rules":
        return _rules(builder, child, place)
    return None


def _number(builder: TaskBuilder, element: Element) -> float | None:
    text = element.text.strip()
    try:
        return int(text)
    except ValueError:
        try:
            return float(text)
        except ValueError:
            builder.wrong(element.line, f"<{element.tag}> must be a number, not {text!r}")
            return None


def json_of(builder: TaskBuilder, element: Element) -> Any:
    """The JSON value in an element; None where it is none, which is told."""
    try:
        return parse_json(element.text)
    except ValueError as error:
        builder.wrong(element.line, f"<{element.tag}> must hold JSON: {error}")
        return None


def _injectors(builder: TaskBuilder, element: Element) -> Any:
    """What a task injects, without what its fresh context is for."""
    value = json_of(builder, element)
    if value is not True and not isinstance(value, dict):
        return value
    injectors = {} if value is True else dict(value)
    for name in FETCHED:
        if injectors.get(name, False) is not False:
            builder.wrong(
                element.line,
                f"<injectors>: a task has no {name!r}; <fresh_context>enabled</fresh_context>"
                " brings what matches it out of the banks and folders named in <memory>",
            )
        injectors[name] = False
    return injectors


def _tools(builder: TaskBuilder, element: Element, place: Place) -> Any:
    text = element.text.strip()
    if text and not element.children:
        if text == "manifest":
            return text
        text = f"<tools> holds <tool> elements, or the word manifest, not {text!r}"
        builder.wrong(element.line, text)
        return None
    names: list[str] = []
    for child in element.children:
        if child.tag != "tool" or not child.text.strip():
            builder.wrong(child.line, "<tools> holds <tool> elements, each with the name of a tool")
            continue
        builder.lines[*place, len(names)] = child.line
        names.append(child.text.strip())
    return names


def _rules(builder: TaskBuilder, element: Element, place: Place) -> Any:
    rules: dict[str, Any] = {}
    for child in element.children:
        if child.tag not in RULES:
            builder.unknown(element, child, RULES)
            continue
        counted = child.tag.startswith("max_") or child.tag == "budget"
        value: Any = _number(builder, child) if counted else child.text.strip()
        if child.tag == "approve":
            value = child.text.split()
        if value is not None:
            rules[child.tag] = value
            builder.lines[*place, child.tag] = child.line
    return rules


# ---- what a context_management block says, and what it leaves out -------------------------


def default_for(kind: Kind, role: Role) -> tuple[ContextManagement, str]:
    """The row of the table for a task, and what the row is called."""
    row, name = (TABLE[role], f"reduce.{role}") if role in TABLE else (TABLE[kind], kind)
    if kind == "sequential":  # as an inner or reduction task it has steps to accumulate, too
        row = replace(TABLE[kind], fresh_context=row.fresh_context)
    return row, name


def context_of(
    builder: TaskBuilder, block: Element | None, kind: Kind, role: Role
) -> ContextManagement:
    """The settings of a task; the builder is told what is wrong with its block."""
    default, name = default_for(kind, role)
    origins: dict[str, str] = {}
    at_default = f"default of {name}"
    if block is None:
        names = ELEMENTS if kind == "sequential" else ("inherit_context", "fresh_context")
        return replace(default, origins=dict.fromkeys(names, at_default))
    _tell_misplaced(builder, block, kind, role)

    def written(name: str, values: dict[str, T], otherwise: T, *, required: bool = True) -> T:
        element = block.first(name)
        if element is not None:
            word = element.text.strip()
            if word in values:
                origins[name] = f"line {element.line}"
                return values[word]
            text = f"<{name}> is {word!r}; {did_you_mean(word, values)}"
            builder.wrong(element.line, text)
        elif required:
            shown = next(word for word, value in values.items() if value == otherwise)
            text = f"<{BLOCK}> lacks <{name}>: the {at_default}, {shown!r}, is taken"
            builder.wrong(block.line, text, error=False, lacking=True)
        origins[name] = at_default
        return otherwise

    inherit = written("inherit_context", {word: word for word in INHERIT}, default.inherit_context)
    fresh = written("fresh_context", FRESH, default.fresh_context)
    if kind != "sequential":
        return ContextManagement(inherit, fresh, origins=origins)
    accumulate = written("accumulate_data", ACCUMULATE, otherwise=True)
    element = block.first("accumulation_format")
    if accumulate and element is None and block.first("accumulate_data") is not None:
        text = (
            "<accumulate_data> is true, so <accumulation_format> must say what is kept of a step:"
            f" {' or '.join(FORMATS)}"
        )
        builder.wrong(block.line, text)
    how = written(
        "accumulation_format", {word: word for word in FORMATS}, "notes_only", required=False
    )
    if not accumulate and element is not None:
        text = "<accumulation_format> does nothing where <accumulate_data> is false"
        builder.wrong(element.line, text, error=False)
    return ContextManagement(inherit, fresh, accumulate, how if accumulate else None, origins)


def _tell_misplaced(builder: TaskBuilder, block: Element, kind: Kind, role: Role) -> None:
    seen: set[str] = set()
    for child in block.children:
        if child.tag not in ELEMENTS:
            builder.unknown(block, child, ELEMENTS)
        elif child.tag in seen:
            builder.wrong(child.line, f"<{child.tag}> is given twice in <{BLOCK}>")
        elif child.tag.startswith("accumul") and kind != "sequential":
            what = f"a {kind} task" if role == "task" else f"a {kind} <{role}>"
            text = (
                f"<{child.tag}> is for sequential tasks: {what} has no steps whose outputs could"
                " be kept; leave it out"
            )
            builder.wrong(child.line, text)
        seen.add(child.tag)
