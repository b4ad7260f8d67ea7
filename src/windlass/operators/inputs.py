"""`<inputs>`: how a task says what it works on. What the declarations come to is the engine's."""

from __future__ import annotations

from typing import Final, get_args

from windlass.errors import did_you_mean
from windlass.operators.model import Form, Input, TaskFinding
from windlass.operators.xml import Element
from windlass.templates import NAMES, TemplateError, find_names

TAGS: Final[dict[str, Form]] = {
    "input": "inline",
    "file": "file",
    "glob": "glob",
    "expression": "expression",
}
_ATTRIBUTES: Final = {"input": ("name",), "file": ("split",), "glob": (), "expression": ()}
assert set(TAGS.values()) == set(get_args(Form))


def read_inputs(element: Element | None, found: list[TaskFinding]) -> tuple[Input, ...]:
    """The declarations in `<inputs>`, in order; what is wrong with them is added to `found`."""
    if element is None:
        return ()
    made: list[Input] = []
    if not element.children:
        found.append(TaskFinding(element.line, f"<inputs> is empty; {_known()}"))
    for child in element.children:
        one = _read(child, found)
        if one is not None:
            made.append(one)
    return tuple(made)


def _known() -> str:
    return "it holds " + ", ".join(f"<{tag}>" for tag in TAGS)


def _read(child: Element, found: list[TaskFinding]) -> Input | None:
    form = TAGS.get(child.tag)
    if form is None:
        found.append(TaskFinding(child.line, f"<inputs> has no <{child.tag}>; {_known()}"))
        return None
    for name in child.attributes:
        if name not in _ATTRIBUTES[child.tag]:
            known = did_you_mean(name, _ATTRIBUTES[child.tag])
            found.append(
                TaskFinding(child.line, f"<{child.tag}> has no attribute {name!r}; {known}")
            )
    split = child.attributes.get("split", "whole")
    if split not in ("whole", "lines"):
        text = f"split is {split!r}; write whole (one input) or lines (one input a line)"
        found.append(TaskFinding(child.line, text))
    value = child.text.strip()
    if not value:
        found.append(TaskFinding(child.line, f"<{child.tag}> is empty"))
        return None
    if form == "expression" and value.startswith("{{") and value.endswith("}}"):
        value = value[2:-2].strip()  # the braces that a template would have round it
    name = child.attributes.get("name", "")
    made = Input(form, value, child.line, name, lines=split == "lines")
    _check(child, made, found)
    return made


def _check(child: Element, made: Input, found: list[TaskFinding]) -> None:
    line = child.text_line
    try:
        used = find_names(made.template)
    except TemplateError as error:
        found.append(TaskFinding(line, f"<{child.tag}>: {error.text}"))
        return
    what = "an expression" if made.form == "expression" else "a template"
    for one in used:
        if not one.of and one.name not in NAMES:
            known = did_you_mean(one.name, NAMES)
            found.append(TaskFinding(line, f"{what} knows no {one.name!r}; {known}"))


def names_input(made: Input) -> bool:
    """Whether the declaration takes something of `input`."""
    try:
        return any(one.name == "input" and not one.of for one in find_names(made.template))
    except TemplateError:
        return False  # which was told
