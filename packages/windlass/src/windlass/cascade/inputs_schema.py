"""`inputs_schema`: what a cascade says of its input, name by name.

Held in one long form: a bare text is the description.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal, Self, TypeAlias

from pydantic import AfterValidator, BeforeValidator, model_validator

from windlass.declared import Model, Short, Text, YesNo, refuse
from windlass.errors import UsageError

InputType: TypeAlias = Literal["string", "integer", "number", "boolean", "array", "object", "any"]

_OTHER_WORDS: Final[Mapping[str, InputType]] = {
    "str": "string",
    "text": "string",
    "file": "string",
    "path": "string",
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "list": "array",
    "dict": "object",
    "json": "any",
}
"""What other runners call the types."""

_KINDS: Final[Mapping[InputType, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list, tuple),
    "object": (Mapping,),
    "any": (object,),
}


class WrittenNumber(float):
    """A number and its text, which holds where the input is declared as text: `1.10`, `1e3`."""

    written: str

    def __new__(cls, value: float, written: str) -> Self:
        """Make one of a number and its text."""
        made = super().__new__(cls, value)
        made.written = written
        return made

    def __getnewargs__(self) -> tuple[float, str]:  # type: ignore[override]
        return float(self), self.written


def in_our_words(value: Any) -> Any:
    """Return a type by its name here, whatever another runner calls it."""
    return _OTHER_WORDS.get(value, value) if isinstance(value, str) else value


class InputField(Model):
    """What is said of one name of the input."""

    type: Annotated[InputType, BeforeValidator(in_our_words)] = "any"
    """What its value is; a text that is given for something else is read as JSON."""

    default: Any = None
    """Its value where none is given (null: it has no default)."""

    required: YesNo | None = None
    """Whether a run needs it: true, also where no template is certain to use it; false, it may be
    missing. Unset, the templates say."""

    description: str = ""
    """What it is, for people, and for models where the cascade is a tool."""

    @model_validator(mode="after")
    def _default_fits(self) -> InputField:
        if self.default is not None and not fits(read_as(self.default, self.type), self.type):
            raise refuse(f"the default {_shown(self.default)} is not of the type {self.type}")
        return self

    @property
    def is_parameter_needed(self) -> bool:
        """Return whether a call of the cascade as a tool must give it."""
        return self.default is None and self.required is not False


def fits(value: Any, kind: InputType) -> bool:
    """Return whether a JSON value is of a type; true and false are no numbers."""
    if isinstance(value, bool) and kind in ("integer", "number"):
        return False
    return isinstance(value, _KINDS[kind])


def _described(field: InputField | None) -> InputField:
    return field or InputField()


InputsSchema: TypeAlias = dict[
    Text, Annotated[Annotated[InputField, Short("description")] | None, AfterValidator(_described)]
]
"""Names of the input, each with its description, or an object with `type`, `default`, `required`,
`description`."""


def fields_of(schema: Mapping[str, InputField | None]) -> Mapping[str, InputField]:
    """Return what an `inputs_schema` says of the input, by name."""
    return {name: each or InputField() for name, each in schema.items()}


def fill_input(schema: Mapping[str, InputField | None], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the input of a run: what is given, by its types, and the defaults of the rest.

    Raises UsageError for a value of another type.
    """
    fields = fields_of(schema)
    defaults = {name: each.default for name, each in fields.items() if each.default is not None}
    values = {**defaults, **given}
    for name, field in fields.items():
        if (value := values.get(name)) is None:
            continue
        values[name] = read_as(value, field.type)
        if not fits(values[name], field.type):
            raise UsageError(
                f"the input {name!r} must be of the type {field.type}, not {_shown(value)};"
                " 'inputs_schema' of the cascade says so"
            )
    return values


def read_as(value: Any, kind: InputType) -> Any:
    """Return a value as one of a type where it can be: a text read as JSON, a number as text."""
    if kind == "string" and isinstance(value, WrittenNumber):
        return value.written
    if kind == "string" and isinstance(value, int | float):  # `-i year=2026` reads a number
        return json.dumps(value)
    if fits(value, kind) or not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def inputs_in_words(schema: Mapping[str, InputField | None]) -> Iterator[str]:
    """Yield a line for each declared name of the input: its type, its default, what it is."""
    for name, field in fields_of(schema).items():
        kind = "" if field.type == "any" else field.type
        default = "" if field.default is None else f"default {_shown(field.default)}"
        details = ", ".join(filter(None, (kind, default)))
        text = f"{name} ({details})" if details else name
        yield f"{text}: {field.description}" if field.description else text


def _shown(value: Any) -> str:
    text = json.dumps(value, default=repr)
    return text if len(text) <= 60 else f"{text[:57]}..."  # noqa: PLR2004  (a line)
