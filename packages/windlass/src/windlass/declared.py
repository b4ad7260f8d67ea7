"""What all declared data is made of: the base class, types of values, and MCP servers.

Cascades and settings are both declared in files; what may stand in either is defined here.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from inspect import cleandoc, getsource
from itertools import pairwise
from typing import Annotated, Any, Final, TypeAlias, TypeVar
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    Strict,
    StringConstraints,
    Tag,
    ValidationError,
    ValidatorFunctionWrapHandler,
    model_validator,
)
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from windlass.safety.redaction import HIDDEN, redacted_command, redacted_url

T = TypeVar("T")

SENTENCE: Final = "windlass"
"""The pydantic error type of what our own checks find; its message is shown as it is."""


def refuse(sentence: str) -> PydanticCustomError:
    """Return an error for pydantic whose message is `sentence`, braces and all."""
    return PydanticCustomError(SENTENCE, "{sentence}", {"sentence": sentence})


def without_repeats(items: Sequence[T]) -> tuple[T, ...]:
    """Return the items as a tuple; none may occur twice."""
    seen: list[T] = []
    for item in items:
        if item in seen:
            raise refuse(f"{item!r} is listed twice")
        seen.append(item)
    return tuple(seen)


ONCE: Final[dict[str, Any]] = {"uniqueItems": True}

Text: TypeAlias = Annotated[str, Field(min_length=1)]
Name: TypeAlias = Annotated[
    # It becomes a folder of the store, hence no separators and no dot in front.
    str, Field(min_length=1, max_length=100, pattern=r'^[^\s./\\<>:"|?*][^/\\<>:"|?*\x00-\x1f]*$')
]
Names: TypeAlias = Annotated[
    Sequence[Text], Field(json_schema_extra=ONCE), AfterValidator(without_repeats)
]
Count: TypeAlias = Annotated[int, Strict(), Field(ge=1)]
YesNo: TypeAlias = Annotated[bool, Strict()]

FORMS: Final[dict[str, Any]] = {
    "<yes>": bool,
    "<word>": str,
    "<number>": int | float,
    "<list>": Sequence,
    "<object>": object,
}
"""The forms of a value that has shorthands; pydantic names them in the place of an error."""


def by_form(*forms: str) -> Discriminator:
    """Chooses among `forms` by a value's type; what is none of them is held against the last."""

    def form_of(value: Any) -> str:
        form = next(form for form, kind in FORMS.items() if isinstance(value, kind))
        return form if form in forms else forms[-1]

    return Discriminator(form_of)


Switchable: TypeAlias = Annotated[
    Annotated[YesNo, Tag("<yes>")] | Annotated[T, Tag("<object>")], by_form("<yes>", "<object>")
]
"""True, false, or an object of options; `{}` is true."""

WordOr: TypeAlias = Annotated[
    Annotated[Text, Tag("<word>")] | Annotated[T, Tag("<object>")], by_form("<word>", "<object>")
]
"""An object, or the one word that stands for it."""


@dataclass(frozen=True, slots=True)
class Short:
    """A mark on a type of object: a value of `form` stands for the object with it under `key`.

    `key` may be chosen by the value.
    """

    key: str | Callable[[Any], str]
    form: Any = Text

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        whole, short = handler(source), handler.generate_schema(self.form)
        return core_schema.no_info_before_validator_function(
            self._written_out,
            whole,
            json_schema_input_schema=core_schema.union_schema([short, whole]),
        )

    def _written_out(self, value: Any) -> Any:
        kind = str if self.form is Text else bool if self.form is YesNo else int | float
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            return value
        if value == "":
            raise refuse("must not be empty")
        return {self.key(value) if callable(self.key) else self.key: value}


@cache
def meanings_in(kind: type) -> Mapping[str, str]:
    """Return the prose under each field of a class, by the field's name; not that of its bases.

    It is read from the source, which takes too long for every start.
    """
    written = _classes_of(kind.__module__).get(kind.__name__)
    return {
        under.target.id: cleandoc(prose.value.value)
        for under, prose in pairwise(written.body if written else ())
        if isinstance(under, ast.AnnAssign)
        and isinstance(under.target, ast.Name)
        and isinstance(prose, ast.Expr)
        and isinstance(prose.value, ast.Constant)
        and isinstance(prose.value.value, str)
    }


@cache
def _classes_of(module: str) -> Mapping[str, ast.ClassDef]:
    tree = ast.parse(getsource(sys.modules[module]))
    return {each.name: each for each in tree.body if isinstance(each, ast.ClassDef)}


class Model(BaseModel):
    """What all declared objects share: frozen, and no key that is not declared."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    @classmethod
    def meanings(cls) -> Mapping[str, str]:
        """Return what each field means, in prose, by its name."""
        found: dict[str, str] = {}
        for kind in reversed(cls.__mro__):
            if issubclass(kind, Model):
                found |= meanings_in(kind)
        described = {key: field.description for key, field in cls.model_fields.items()}
        return found | {key: text for key, text in described.items() if text is not None}

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Return the schema, with what each field means."""
        schema = handler(core_schema)
        properties = handler.resolve_ref_schema(schema).get("properties", {})
        meanings = cls.meanings()
        for name, field in cls.model_fields.items():
            if name in meanings:
                key = field.serialization_alias or name
                properties[key]["description"] = meanings[name]
        return schema


EXPECTED: Final = "expected"
"""The pydantic error type of a refused value; its message says what was expected."""
PRIVATE: Final = "private"
"""The same, of a value that may hold a secret and must not be shown."""


@dataclass(frozen=True, slots=True)
class Expected:
    """A mark on a type: what a value of it is, in words. `kind` is EXPECTED or PRIVATE."""

    words: str
    kind: str = EXPECTED

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_wrap_validator_function(self._checked, handler(source))

    def _checked(self, value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
        try:
            return handler(value)
        except ValidationError:
            raise PydanticCustomError(self.kind, "{words}", {"words": self.words}) from None


def _no_switch(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("true and false are not numbers")  # noqa: TRY004  (what pydantic catches)
    return value


NUMBER: Final = BeforeValidator(_no_switch)
"""A mark on types of numbers: to pydantic, true is 1."""

Line: TypeAlias = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1), Expected("text")
]
Whole: TypeAlias = Annotated[int, NUMBER, Field(gt=0), Expected("a whole number above 0")]
ModelOrNone: TypeAlias = Annotated[
    str,
    StringConstraints(strip_whitespace=True, pattern=r"^(none|[^/\s]+/\S+)$"),
    Expected("a model as provider/name, or 'none'"),
]


class ModelNames(Model):
    """What the names of models mean."""

    through: Line | None = None
    """The provider through which all models of a cascade are asked: `openrouter` for names of its
    kind (`x-ai/grok-4`). Default: the first part of each name."""


SERVER_NAME: Final = "^[A-Za-z][A-Za-z0-9_-]{0,31}$"
"""What an MCP server may be called: it stands before the dot in the names of its tools."""

_SECRET: Final = re.compile(
    r"key|token|secret|password|passwd|credential|authorization|cookie", re.IGNORECASE
)


def working_names(servers: dict[str, T]) -> dict[str, T]:
    """Return servers by names that can stand before the dot in a tool's name."""
    for name in servers:
        if not re.fullmatch(SERVER_NAME, name):
            raise refuse(
                f"{name!r} is not a name for a server; give one of letters, digits, '_' and '-'"
                " that begins with a letter (32 at most)"
            )
    return servers


def working_secrets(values: dict[str, str]) -> dict[str, str]:
    """Return values of which those that look like keys are named as variables, not written out.

    What a cascade says goes into the record, what settings say is shown; a key never may be.
    """
    for name, value in values.items():
        if _SECRET.search(name) and value and "${" not in value:
            raise refuse(
                f"{name!r} looks like a key, and what stands here is recorded or shown; put the"
                f" key into an environment variable and write '${{{_variable(name)}}}'"
            )
    return values


def _variable(name: str) -> str:
    return re.sub(r"\W", "_", name).upper()


def working_url(url: str) -> str:
    """Return an address over http or https that holds no password."""
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        shown_url = redacted_url(url)
        raise refuse(
            f"{shown_url!r} is not an address; write it in full, like 'http://127.0.0.1:8000/mcp'"
        )
    if "@" in parts.netloc:
        raise refuse("an address is recorded or shown; put what proves who you are into 'headers'")
    return url


class McpServer(Model):
    """An MCP server whose tools a phase may name as `server.tool` or `server.*`."""

    command: Annotated[Sequence[Text], AfterValidator(tuple)] = ()
    """The program that is the server, and its arguments; it speaks over stdin and stdout."""

    env: Annotated[dict[str, str], AfterValidator(working_secrets)] = Field(default_factory=dict)
    """Environment variables for the program; `${NAME}` takes the value of a variable."""

    url: Annotated[str, AfterValidator(working_url)] | None = None
    """In place of a command: the address of a server that runs (streamable HTTP)."""

    headers: Annotated[dict[str, str], AfterValidator(working_secrets)] = Field(
        default_factory=dict
    )
    """HTTP headers for the server at `url`; `${NAME}` takes the value of a variable."""

    @model_validator(mode="after")
    def _one_way_to_reach_it(self) -> McpServer:
        if bool(self.command) == bool(self.url):
            raise refuse("write either 'command' (a program to start) or 'url' (one that runs)")
        if self.env and self.url:
            raise refuse("'env' is for a 'command'; a server at a 'url' takes 'headers'")
        if self.headers and self.command:
            raise refuse("'headers' are for a 'url'; a 'command' takes 'env'")
        return self

    def shown(self) -> dict[str, Any]:
        """Return the server for people and for the record.

        What may be a secret is hidden: values that `env` and `headers` write out, arguments that
        look like keys, what stands behind the `?` of an address.
        """
        fields = self.model_dump(exclude_defaults=True)
        for key in {"env", "headers"} & fields.keys():
            fields[key] = {
                name: value if "${" in value else HIDDEN for name, value in fields[key].items()
            }
        if self.url is not None:
            fields["url"] = redacted_url(self.url)
        if self.command:
            fields["command"] = redacted_command(self.command)
        return fields


McpServers: TypeAlias = Annotated[
    dict[str, McpServer],
    Field(json_schema_extra={"propertyNames": {"pattern": SERVER_NAME}}),
    AfterValidator(working_names),
]
"""Servers by name."""
