"""What a `context_management` block says, what it leaves out, and what is wrong with it.

The table of defaults and the rules are those of the context-management decision record. A block
that is there but lacks a required element takes the table's default with a warning; a block that
is not there takes it silently, for `windlass check --explain-defaults` tells it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple, TypeVar

from windlass.errors import did_you_mean
from windlass.operators.model import (
    FORMATS,
    INHERIT,
    ContextManagement,
    Format,
    Inherit,
    Kind,
    Role,
    TaskFinding,
)
from windlass.operators.xml import Element

T = TypeVar("T")

BLOCK: Final = "context_management"
FRESH: Final = {"enabled": True, "disabled": False}
ACCUMULATE: Final = {"true": True, "false": False}
ELEMENTS: Final = ("inherit_context", "accumulate_data", "accumulation_format", "fresh_context")


class Default(NamedTuple):
    """A row of the table: a task's context where its file does not say."""

    inherit_context: Inherit
    accumulate_data: bool | None
    accumulation_format: Format | None
    fresh_context: bool


TABLE: Final[dict[str, Default]] = {
    "atomic": Default("full", None, None, fresh_context=True),
    "sequential": Default(
        "full", accumulate_data=True, accumulation_format="notes_only", fresh_context=True
    ),
    "reduce": Default("full", None, None, fresh_context=True),
    "inner_task": Default("full", None, None, fresh_context=False),
    "reduction_task": Default("full", None, None, fresh_context=True),
}
"""Defaults by operator, and by the place in a reduce, which goes before the operator."""


def default_for(kind: Kind, role: Role) -> tuple[Default, str]:
    """The row of the table for a task, and what the row is called."""
    row = TABLE[role] if role in TABLE else TABLE[kind]
    called = f"reduce.{role}" if role in TABLE else kind
    if kind == "sequential":  # as an inner or reduction task it has steps to accumulate, too
        steps = TABLE["sequential"]
        row = row._replace(
            accumulate_data=steps.accumulate_data, accumulation_format=steps.accumulation_format
        )
    return row, called


def context_of(
    block: Element | None, kind: Kind, role: Role, found: list[TaskFinding]
) -> ContextManagement:
    """The settings of a task; what is wrong with its block is added to `found`."""
    default, called = default_for(kind, role)
    origins: dict[str, str] = {}
    at_default = f"default of {called}"
    if block is None:
        names = ELEMENTS if kind == "sequential" else ("inherit_context", "fresh_context")
        return ContextManagement(
            default.inherit_context,
            default.fresh_context,
            default.accumulate_data,
            default.accumulation_format,
            dict.fromkeys(names, at_default),
        )
    found += _misplaced(block, kind, role)

    def said(name: str, known: dict[str, T], otherwise: T, *, required: bool = True) -> T:
        element = block.first(name)
        if element is not None:
            value = element.text.strip()
            if value in known:
                origins[name] = f"line {element.line}"
                return known[value]
            text = f"<{name}> is {value!r}; {did_you_mean(value, known)}"
            found.append(TaskFinding(element.line, text))
        elif required:
            shown = next(word for word, value in known.items() if value == otherwise)
            text = f"<{BLOCK}> lacks <{name}>: the {at_default}, {shown!r}, is taken"
            found.append(TaskFinding(block.line, text, error=False, lacking=True))
        origins[name] = at_default
        return otherwise

    inherit = said("inherit_context", {one: one for one in INHERIT}, default.inherit_context)
    fresh = said("fresh_context", FRESH, default.fresh_context)
    if kind != "sequential":
        return ContextManagement(inherit, fresh, origins=origins)
    accumulate = said("accumulate_data", ACCUMULATE, bool(default.accumulate_data))
    written = block.first("accumulation_format")
    explicit = block.first("accumulate_data") is not None and bool(accumulate)
    if explicit and written is None:
        text = (
            "<accumulate_data> is true, so <accumulation_format> must say what is kept of a step:"
            f" {' or '.join(FORMATS)}"
        )
        found.append(TaskFinding(block.line, text))
    how = said(
        "accumulation_format",
        {one: one for one in FORMATS},
        default.accumulation_format or "notes_only",
        required=False,
    )
    if not accumulate and written is not None:
        text = "<accumulation_format> does nothing where <accumulate_data> is false"
        found.append(TaskFinding(written.line, text, error=False))
    return ContextManagement(inherit, fresh, accumulate, how if accumulate else None, origins)


def _misplaced(block: Element, kind: Kind, role: Role) -> Iterator[TaskFinding]:
    seen: set[str] = set()
    for child in block.children:
        if child.tag not in ELEMENTS:
            text = f"<{BLOCK}> has no <{child.tag}>; {did_you_mean(child.tag, ELEMENTS)}"
            yield TaskFinding(child.line, text)
        elif child.tag in seen:
            yield TaskFinding(child.line, f"<{child.tag}> is given twice in <{BLOCK}>")
        elif child.tag.startswith("accumul") and kind != "sequential":
            what = f"a {kind} task" if role == "task" else f"a {kind} <{role}>"
            text = (
                f"<{child.tag}> is for sequential tasks: {what} has no steps whose outputs could"
                " be kept; leave it out"
            )
            yield TaskFinding(child.line, text)
        seen.add(child.tag)


def no_context(context: ContextManagement, *, handed: bool) -> bool:
    """Whether a task with these settings has no context at all.

    `handed`: what earlier steps left is handed to it by the sequence it stands in.
    """
    nothing = context.inherit_context == "none" and not context.fresh_context
    return nothing and not context.accumulates and not handed
