"""MCP servers in a cascade: how each is reached, without any key in the file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypeAlias

from pydantic import AfterValidator, Field, model_validator

from windlass.cascade.part import Part, Text
from windlass.cascade.values import (
    SERVER_NAME,
    refuse,
    working_names,
    working_secrets,
    working_url,
)


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


McpServers: TypeAlias = Annotated[
    dict[str, McpServer],
    Field(json_schema_extra={"propertyNames": {"pattern": SERVER_NAME}}),
    AfterValidator(working_names),
]
"""Servers by name."""
