"""Atomic tasks as phases of a cascade, as data, with the line of each value.

So the checks of cascades (templates, tools, forms) hold for tasks and name their lines.

What a `context_management` block says, and what a task has where it says nothing.

The table of defaults and the rules are those of the context-management decision record. A block
that is there but lacks a required element takes the table's default with a warning; a block that
is not there takes it silently, for `windlass check --explain-defaults` tells it.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, TypeVar

from windlass.cascade.model import Rules
from windlass.cascade.source import Path as Place
from windlass.errors import did_you_mean
from windlass.tasks._xml import Element, TaskBuilder
from windlass.tasks.model import FORMATS, INHERIT, ContextManagement, Kind, Role

TEXTS: Final = ("system", "model", "reasoning_effort", "tool_choice")
NUMBERS: Final = ("max_output_tokens", "temperature", "max_input_tokens")
OBJECTS: Final = (
    "output_schema",
    "intra_context",
    "output_extraction",
    "context_ttl",
    "callouts",
    "injectors",
)
"""Elements whose text is JSON."""
FETCHED: Final = ("user_memory", "knowledge")
"""Injectors that tasks have not: fresh context brings what a task's memory and folders hold."""


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
    """Return what an element says of its phase.

    None: nothing, or something wrong, which is told.
    """
    text = child.text.strip()
    match child.tag:
        case "description":
            return text or "-"
        case "injectors":
            return _injectors(builder, child)
        case "tools":
            return _tools(builder, child, place)
        case "rules":
            return _rules(builder, child, place)
        case tag if tag in NUMBERS:
            return _number(builder, child)
        case tag if tag in OBJECTS:
            return builder.json_of(child)
        case tag if tag in TEXTS:
            if not text:
                builder.wrong(child.line, f"<{tag}> is empty")
            return text or None
    return None


def _number(builder: TaskBuilder, element: Element) -> float | None:
    text = element.text.strip()
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    builder.wrong(element.line, f"<{element.tag}> must be a number, not {text!r}")
    return None


def _injectors(builder: TaskBuilder, element: Element) -> Any:
    """Return what a task injects, without what its fresh context is for."""
    value = builder.json_of(element)
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
        if child.tag not in Rules.model_fields:
            builder.unknown(element, child, Rules.model_fields)
            continue
        counted = child.tag.startswith("max_") or child.tag == "budget"
        value: Any = _number(builder, child) if counted else child.text.strip()
        if child.tag == "approve":
            value = child.text.split()
        if value is not None:
            rules[child.tag] = value
            builder.lines[*place, child.tag] = child.line
    return rules


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


def default_for(kind: Kind, role: Role) -> tuple[ContextManagement, str]:
    """Return the row of the table for a task, and what the row is called."""
    row, name = (TABLE[role], f"reduce.{role}") if role in TABLE else (TABLE[kind], kind)
    if kind == "sequential":  # as an inner or reduction task it has steps to accumulate, too
        row = replace(TABLE[kind], fresh_context=row.fresh_context)
    return row, name


def context_of(
    builder: TaskBuilder, block: Element | None, kind: Kind, role: Role
) -> ContextManagement:
    """Return the settings of a task; the builder is told what is wrong with its block."""
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
            what = f"this {kind} task" if role == "task" else f"this {kind} <{role}>"
            text = (
                f"<{child.tag}> is for sequential tasks: {what} has no steps whose outputs could"
                " be kept; leave it out"
            )
            builder.wrong(child.line, text)
        seen.add(child.tag)
