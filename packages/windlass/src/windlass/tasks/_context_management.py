"""What a `context_management` block says, and what a task has where it says nothing.

The table of defaults and the rules are those of the context-management decision record. A block
that is there but lacks a required element takes the table's default with a warning; a block that
is not there takes it silently, for `windlass check --explain-defaults` tells it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, TypeVar

from windlass.errors import did_you_mean
from windlass.tasks._builder import TaskBuilder
from windlass.tasks._xml import Element
from windlass.tasks.model import FORMATS, INHERIT, ContextManagement, Kind, Role

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
