"""MCP servers, as cascades and settings declare them: how each is reached, without any key.

One model for both places, so that what is allowed in one is allowed in the other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, TypeAlias, TypeVar
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from windlass.errors import UsageError, did_you_mean
from windlass.parts import SENTENCE, Part, Text, refuse
from windlass.redaction import HIDDEN, redacted_command, redacted_url

T = TypeVar("T")

SERVER_NAME: Final = "^[A-Za-z][A-Za-z0-9_-]{0,31}$"
"""What an MCP server may be called: it stands before the dot in the names of its tools."""

_SECRET: Final = re.compile(
    r"key|token|secret|password|passwd|credential|authorization|cookie", re.IGNORECASE
)


def working_names(servers: dict[str, T]) -> dict[str, T]:
    """Servers by names that can stand before the dot in a tool's name."""
    for name in servers:
        if not re.fullmatch(SERVER_NAME, name):
            raise refuse(
                f"{name!r} is no name for a server; give one of letters, digits, '_' and '-'"
                " that begins with a letter (32 at most)"
            )
    return servers


def working_secrets(values: dict[str, str]) -> dict[str, str]:
    """Values of which those that look like keys are named as variables, not written out.

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
    """An address over http or https that holds no password."""
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        told = redacted_url(url)
        raise refuse(f"{told!r} is no address; write it in full, like 'http://127.0.0.1:8000/mcp'")
    if "@" in parts.netloc:
        raise refuse("an address is recorded or shown; put what proves who you are into 'headers'")
    return url


class McpServer(Part):
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
        """The server for people and for the record.

        What may be a secret is hidden: values that `env` and `headers` write out, arguments that
        look like keys, what stands behind the `?` of an address.
        """
        said = self.model_dump(exclude_defaults=True)
        for key in {"env", "headers"} & said.keys():
            said[key] = {
                name: value if "${" in value else HIDDEN for name, value in said[key].items()
            }
        if self.url is not None:
            said["url"] = redacted_url(self.url)
        if self.command:
            said["command"] = redacted_command(self.command)
        return said


McpServers: TypeAlias = Annotated[
    dict[str, McpServer],
    Field(json_schema_extra={"propertyNames": {"pattern": SERVER_NAME}}),
    AfterValidator(working_names),
]
"""Servers by name."""

_EXPECTED: Final[Mapping[str, str]] = {
    "command": 'a list of texts, such as ["npx", "-y", "server"]',
    "env": "a table of texts",
    "url": "text",
    "headers": "a table of texts",
}


def read_server(name: str, said: Any) -> McpServer:
    """The server of the settings' table `[mcp_servers.NAME]`.

    Raises UsageError with one sentence, in which no value stands that may be private.
    """
    table = f"mcp_servers.{name}"
    try:
        working_names({name: said})
        return McpServer.model_validate(said)
    except PydanticCustomError as error:
        raise UsageError(f"mcp_servers: {error.message()}") from None
    except ValidationError as invalid:
        first = invalid.errors(include_url=False, include_input=False)[0]
        kind, path = first["type"], first["loc"]
        place = ".".join([table, *(step for step in path if isinstance(step, str))])
        if kind == "extra_forbidden":
            hint = did_you_mean(str(path[-1]), McpServer.model_fields)
            raise UsageError(f"unknown setting {place!r}; {hint}") from None
        if kind == SENTENCE:
            raise UsageError(f"{place}: {first['msg']}") from None
        wanted = _EXPECTED[str(path[0])] if path else f"a table [{table}]"
        raise UsageError(f"{place} must be {wanted}") from None
