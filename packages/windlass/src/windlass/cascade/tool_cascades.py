"""Cascades that are tools: files, or folders of files, that stand among `tools`.

A cascade with `inputs_schema` is a tool: its name is the cascade's, its parameters are the names of
its input, its result is the output. What is asked of it, a session of its own answers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from windlass.cascade.inputs_schema import InputField, fields_of
from windlass.cascade.load import FORMATS, load
from windlass.cascade.model import Cascade
from windlass.cascade.needs import names_of
from windlass.errors import CascadeError, ToolError, UsageError
from windlass.messages import ToolSpec
from windlass.safety.files import Folders
from windlass.text.templates import TemplateError
from windlass.tools.base import Tool, ToolContext
from windlass.tools.registry import Registry

TIMEOUT_S: Final = 3_600.0
"""Seconds that a cascade may take as a tool; limits of the run hold besides."""


def is_path(item: str) -> bool:
    """Return whether an entry of `tools` is a file or a folder, and no module.

    >>> is_path("./checks"), is_path("checks/tone.yaml"), is_path("my_tools"), is_path("a.b:c")
    (True, True, False, False)
    """
    return "/" in item or Path(item).suffix.lower() in FORMATS


def add_cascades(registry: Registry, path: Path) -> None:
    """Register the cascade in a file, or all in a folder that are tools.

    Links that lead out of the folder are left alone. A name that a tool of the registry has
    already, from another file, is a mistake. Raises UsageError.
    """
    inside = Folders((path,))
    files = sorted(filter(inside.holds, path.iterdir())) if path.is_dir() else [path]
    for file in files:
        cascade = _cascade_in(file, in_folder=path.is_dir())
        if cascade is None:
            continue
        tool = _tool_of(cascade, file)
        present = tool.spec.name in registry.names() and registry.get(tool.spec.name)
        if not present or present.cascade != tool.cascade:
            registry.register(tool)


def _cascade_in(file: Path, *, in_folder: bool) -> Cascade | None:
    """Return the cascade in a file.

    None: it is in a folder beside cascades that are tools, and is none.

    Raises UsageError for a file that is named itself and holds none.
    """
    if in_folder and file.suffix.lower() not in FORMATS:
        return None
    try:
        partial = load(file).partial
    except CascadeError:
        if in_folder:
            return None
        raise
    if partial is not None and partial.cascade.inputs_schema:
        return partial.cascade
    if in_folder:
        return None
    raise UsageError(
        f"{str(file)!r} is no tool: a cascade that is one says under 'inputs_schema' what it takes"
    )


def _tool_of(cascade: Cascade, file: Path) -> Tool:
    fields = fields_of(cascade.inputs_schema)
    parameters = {
        "type": "object",
        "properties": {name: _parameter(field) for name, field in fields.items()},
        "required": [name for name, field in fields.items() if field.is_parameter_needed],
    }
    about = cascade.description or f"Runs the cascade {cascade.cascade_id}."
    return Tool(
        spec=ToolSpec(cascade.cascade_id, about, parameters),
        function=_run_cascade,
        timeout_s=TIMEOUT_S,
        context_parameter="context",
        origin=str(file),
        effects="idempotent",  # a second run takes up the session of the first
        cascade=str(file.resolve()),
    )


def _parameter(field: InputField) -> Mapping[str, Any]:
    schema: dict[str, Any] = {"type": "string" if field.type == "any" else field.type}
    if field.description:
        schema["description"] = field.description
    if field.default is not None:
        schema["default"] = field.default
    return schema


_ALWAYS: Final = ("content", "original_input")
"""What every cascade is given that judges, whatever it declares."""


def validator_input(cascade: Cascade, given: Mapping[str, Any]) -> dict[str, Any]:
    """The input of a cascade that judges: of what validators are `given`, its text and the input.

    The rest it is given where it declares it. Where it neither declares nor looks at a name of the
    text, and needs one other name, that takes the text.
    """
    fields = fields_of(cascade.inputs_schema)
    passed = {name: value for name, value in given.items() if name in (*_ALWAYS, *fields)}
    if (whole := fields.get("original_input")) is not None and whole.type == "string":
        passed["original_input"] = json.dumps(given["original_input"], ensure_ascii=False)
    needed = [each for each, field in fields.items() if field.is_parameter_needed]
    others = [each for each in needed if each not in given]
    if len(others) == 1 and not _TEXTS & (fields.keys() | _looked_at(cascade)):
        passed[others[0]] = given["content"]
    return passed


_TEXTS: Final = frozenset({"content", "output"})
"""What the judged text is called."""


def _looked_at(cascade: Cascade) -> set[str]:
    """Return the names of the input that its phases ask for."""
    templates = [each.instructions for each in cascade.phases if each.instructions is not None]
    names = set[str]()
    for template in templates:
        with suppress(TemplateError):  # which is told where it stands
            names |= names_of(template) or set()
    return names


async def _run_cascade(context: ToolContext, **arguments: Any) -> str:
    """Run the cascade that the call names."""
    if context.run_cascade is None or context.call is None:
        raise ToolError("cascades that are tools run in cascades only")
    return await context.run_cascade(context.call, arguments)


def named_cascades(registry: Registry, names: Iterable[str]) -> Iterator[Path]:
    """Yield the files of those among the tools of these names that are cascades."""
    for name in names:
        if name in registry.names() and (file := registry.get(name).cascade):
            yield Path(file)
