"""Atomic tasks as phases of a cascade: data, with the line of each value.

So the checks of cascades (templates, tools, forms) hold for tasks and name their lines.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from windlass.cascade.source import Path
from windlass.errors import did_you_mean
from windlass.operators.model import TaskFinding
from windlass.operators.xml import Element

TEXTS: Final = ("system", "model", "reasoning_effort", "tool_choice")
NUMBERS: Final = ("max_output_tokens", "temperature", "max_input_tokens")
OBJECTS: Final = (
    *("output_schema", "intra_context", "output_extraction", "context_ttl", "callouts"),
    "injectors",
)
"""Elements whose text is JSON."""
FETCHED: Final = ("user_memory", "knowledge")
"""Injectors that tasks have not: fresh context brings what a task's memory and folders hold."""
RULES: Final = ("max_turns", "max_attempts", "loop_until", "on_exhausted")


@dataclass(slots=True)
class TaskBuilder:
    """The work in hand: what was found, the phases so far, and the line of each of their values."""

    file: str
    findings: list[TaskFinding] = field(default_factory=list[TaskFinding])
    phases: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    lines: dict[Path, int] = field(default_factory=dict[Path, int])
    uses_input: bool = False

    def wrong(self, line: int, text: str, *, error: bool = True, lacking: bool = False) -> None:
        """Tell a mistake, or with `error` false what is odd."""
        self.findings.append(TaskFinding(line, text, error, lacking))

    def unknown(self, holder: Element, child: Element, tags: Collection[str]) -> None:
        """Tell that an element cannot hold what it holds."""
        text = f"<{holder.tag}> has no <{child.tag}>; {did_you_mean(child.tag, tags)}"
        self.wrong(child.line, text)


def add_phase(
    builder: TaskBuilder,
    element: Element,
    path: str,
    inherited: Mapping[str, Element],
    banks: tuple[str, ...],
) -> None:
    """Add the task as a phase of the cascade, with the line of each of its values."""
    number = len(builder.phases)
    base: Path = ("phases", number)
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


def _value(builder: TaskBuilder, child: Element, place: Path) -> Any:
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
        return json.loads(element.text)
    except (ValueError, RecursionError) as error:
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


def _tools(builder: TaskBuilder, element: Element, place: Path) -> Any:
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


def _rules(builder: TaskBuilder, element: Element, place: Path) -> Any:
    rules: dict[str, Any] = {}
    for child in element.children:
        if child.tag not in RULES:
            builder.unknown(element, child, RULES)
            continue
        counted = child.tag.startswith("max_")
        value = _number(builder, child) if counted else child.text.strip()
        if value is not None:
            rules[child.tag] = value
            builder.lines[*place, child.tag] = child.line
    return rules
