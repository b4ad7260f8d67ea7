"""Atomic tasks as phases of a cascade, as data, with the line of each value.

So the checks of cascades (templates, tools, forms) hold for tasks and name their lines.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from windlass.cascade.model import Rules
from windlass.cascade.source import Path as Place
from windlass.tasks._builder import TaskBuilder
from windlass.tasks._xml import Element

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
    """What an element says of its phase; None: nothing, or something wrong, which is told."""
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
