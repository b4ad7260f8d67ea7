"""Tools of MCP servers: started for a run, named `server.tool`, stopped with it.

Each server is held by a task of its own, from its start to its stop: what goes wrong
inside it ends there, and a run that fails or is cancelled only has to say stop. The
official SDK is imported when a server is needed.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final, TextIO

from windlass.declared import McpServer
from windlass.errors import ServerError, ToolError, UsageError
from windlass.messages import Picture, ToolSpec, clean_text
from windlass.safety.imports import logging_unchanged
from windlass.safety.redaction import HIDDEN, credentials, redacted
from windlass.text.pictures import picture
from windlass.tools.base import Effects, Tool, ToolOutput

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import CallToolResult
    from mcp.types import Tool as Described

INSTALL: Final = "pip install 'windlass[mcp]'"
START_S: Final = 60.0
"""Seconds a server may take until it has listed its tools; some are downloaded first."""

STOP_S: Final = 10.0
"""Seconds a server is waited for at the end. The SDK asks it to go, then kills it."""

_CONNECT_S: Final = 30.0
_READ_S: Final = 300.0  # a server may hold the stream of an answer open
_PAGES: Final = 100
_SHORTEST_SECRET: Final = 4
_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


class Servers:
    """The MCP servers of one run, by name: `start` answers their tools, `stop` ends them all.

    Raises UsageError at once where the SDK, a command or a variable is missing.
    """

    def __init__(
        self, servers: Mapping[str, McpServer], environ: Mapping[str, str] | None = None
    ) -> None:
        try:
            if servers:
                with logging_unchanged("mcp"):
                    import mcp  # noqa: F401 - only whether it is there
        except ModuleNotFoundError as problem:
            raise UsageError(f"tools of MCP servers need the package mcp: {INSTALL}") from problem
        variables = os.environ if environ is None else environ
        self._servers = [_Server(name, server, variables) for name, server in servers.items()]

    async def start(self) -> tuple[Tool, ...]:
        """Start all servers together; their tools. Raises ServerError where one does not start."""
        for server in self._servers:
            server.open()
        tools: list[Tool] = []
        for server in self._servers:
            tools += await server.ready()
        return tuple(tools)

    async def stop(self) -> None:
        """Stop all servers together; may be called twice, and before `start`."""
        await asyncio.gather(*(server.close() for server in self._servers))


class _Server:
    """One server: its task, its client while it runs, and what must not be shown of it."""

    def __init__(self, name: str, server: McpServer, environ: Mapping[str, str]) -> None:
        self.name = name
        self._command = tuple(server.command)
        self._url = server.url or ""
        self._secrets: dict[str, str] = {}
        self._env = self._filled(server.env, environ)
        self._headers = self._filled(server.headers, environ)
        # Behind the variables: what one of them holds is called by its name.
        self._written = credentials(self._command, self._url)
        if self._command:
            program = self._command[0]
            where = self._env.get("PATH", environ.get("PATH"))
            if shutil.which(program, path=where) is None:
                program = redacted(program)
                raise UsageError(
                    f"the MCP server {self.name!r} is started with {program!r}, and there is no "
                    "such program on the PATH; install it or write its full path"
                )
        self._task: asyncio.Task[None] | None = None
        self._tools: asyncio.Future[list[Tool]]
        self._stop: asyncio.Event
        self._log: TextIO | None = None

    def _filled(self, values: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
        """Return the values with their variables put in; each variable is a secret from then on."""

        def value_of(match: re.Match[str]) -> str:
            name = match[1]
            if name not in environ:
                raise UsageError(
                    f"the MCP server {self.name!r} needs the environment variable {name!r}, "
                    "which is not set"
                )
            self._secrets[name] = environ[name]
            return environ[name]

        return {key: _VARIABLE.sub(value_of, value) for key, value in values.items()}

    def open(self) -> None:
        """Begin to start."""
        self._stop = asyncio.Event()
        self._tools = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._live(), name=f"MCP server {self.name}")

    async def ready(self) -> list[Tool]:
        """Return the server's tools, once it has listed them."""
        assert self._task is not None, "open comes first"
        either: set[asyncio.Future[Any]] = {self._task, self._tools}
        done, _ = await asyncio.wait(either, timeout=START_S, return_when=asyncio.FIRST_COMPLETED)
        if self._tools.done():
            return self._tools.result()
        problem = self._task.exception() if self._task in done else None
        reason = _reason(problem) if done else f"it did not answer within {START_S:g} s"
        ending = ""
        if self._log is not None:
            self._log.seek(0)
            lines = [line.strip() for line in self._log if line.strip()]
            ending = f"; the last it said: {lines[-1][:500]}" if lines else ""
        text = f"the MCP server {self.name!r} did not start: {reason}{ending}"
        raise ServerError(redacted(self._hide(text))) from problem

    async def close(self) -> None:
        """Ask the server to stop and wait until it has."""
        if self._task is None:
            return
        self._stop.set()
        if not self._tools.done():
            self._task.cancel()  # it is still starting, and may never come so far
        _, late = await asyncio.wait({self._task}, timeout=STOP_S)
        if late:
            self._task.cancel()
            await asyncio.wait(late, timeout=STOP_S)
        if self._task.done() and not self._task.cancelled():
            self._task.exception()  # looked at: what a server does while it goes is its own matter
        if self._log is not None:
            self._log.close()

    async def _live(self) -> None:
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(await self._client(stack))
            self._tools.set_result(await self._list_tools(client))
            await self._stop.wait()

    async def _client(self, stack: AsyncExitStack) -> Client:
        import httpx2  # comes with the SDK, which takes its clients
        from mcp import Client
        from mcp.client.stdio import StdioServerParameters, stdio_client
        from mcp.client.streamable_http import streamable_http_client

        if self._command:
            # A server's own words would run through the progress on the terminal.
            self._log = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115 - `close` does
            program, *arguments = self._command
            parameters = StdioServerParameters(command=program, args=arguments, env=self._env)
            return Client(stdio_client(parameters, self._log))
        patience = httpx2.Timeout(_CONNECT_S, read=_READ_S)
        http = httpx2.AsyncClient(headers=self._headers, timeout=patience)
        await stack.enter_async_context(http)
        return Client(streamable_http_client(self._url, http_client=http))

    async def _list_tools(self, client: Client) -> list[Tool]:
        tools: list[Tool] = []
        cursor: str | None = None
        for _ in range(_PAGES):
            page = await client.list_tools(cursor=cursor)
            tools += [self._tool(client, each) for each in page.tools]
            cursor = page.next_cursor
            if not cursor:
                break
        return tools

    def _tool(self, client: Client, described: Described) -> Tool:
        from mcp import MCPError
        from mcp.types import CONNECTION_CLOSED

        gone = f"the MCP server {self.name!r} has stopped, and its tools with it"

        async def call(**arguments: Any) -> ToolOutput:
            if self._task is None or self._task.done():
                raise ToolError(gone)
            try:
                answer = await client.call_tool(described.name, arguments)
            except MCPError as problem:
                if problem.code == CONNECTION_CLOSED:
                    raise ToolError(gone) from problem
                text = f"the MCP server {self.name!r} answered with an error: {problem.message}"
                raise ToolError(redacted(self._hide(text))) from problem
            output = to_output(answer, described.name)
            return ToolOutput(self._hide(output.text), output.pictures, output.error)

        hints = described.annotations
        effects: Effects = "external"
        if hints is not None and (hints.read_only_hint or hints.idempotent_hint):
            effects = "none" if hints.read_only_hint else "idempotent"
        return Tool(
            effects=effects,
            spec=ToolSpec(
                f"{self.name}.{described.name}",
                clean_text(described.description or described.title or ""),
                described.input_schema,
            ),
            function=call,
            origin=f"MCP server {self.name}",
            parse=dict,  # the server checks its own arguments, and says what is wrong with them
        )

    def _hide(self, text: str) -> str:
        """The text without credentials: variables by their names, those written out hidden."""
        for name, value in self._secrets.items():
            if len(value) >= _SHORTEST_SECRET:
                text = text.replace(value, f"${{{name}}}")
        for value in self._written:
            text = text.replace(value, HIDDEN)
        return text


def _reason(problem: BaseException | None) -> str:
    """Return the innermost reason; task groups wrap what happened in them."""
    while isinstance(problem, BaseExceptionGroup):
        problem = problem.exceptions[0]
    if problem is None:
        return "it ended at once"
    return str(problem) or type(problem).__name__


def to_output(answer: CallToolResult, name: str) -> ToolOutput:
    """Return what the server's tool `name` answered, as text and pictures.

    Structured content is shown where there is no text: servers say it as text, too.
    """
    from mcp import types

    texts: list[str] = []
    pictures: list[Picture] = []
    for block in answer.content:
        match block:
            case types.TextContent():
                texts.append(block.text)
            case types.ImageContent() | types.AudioContent():
                _add_bytes(block.data, block.mime_type, name, texts, pictures)
            case types.ResourceLink():
                texts.append(f"({block.name}: {block.uri})")
            case types.EmbeddedResource(resource=types.TextResourceContents() as inside):
                texts.append(inside.text)
            case types.EmbeddedResource(resource=types.BlobResourceContents() as blob):
                kind = blob.mime_type or "application/octet-stream"
                _add_bytes(blob.blob, kind, str(blob.uri), texts, pictures)
    if answer.structured_content is not None and not any(
        isinstance(block, types.TextContent) for block in answer.content
    ):
        texts.insert(0, json.dumps(answer.structured_content, ensure_ascii=False, default=str))
    text = "\n".join(texts) or ("failed without saying why" if answer.is_error else "done")
    return ToolOutput(clean_text(text), tuple(pictures), answer.is_error)


def _add_bytes(
    data: str, media_type: str, name: str, texts: list[str], pictures: list[Picture]
) -> None:
    try:
        decoded = base64.b64decode(data, validate=True)
        image = picture(decoded, name=f"{name}.{media_type.rpartition('/')[2]}")
    except ValueError:
        texts.append(f"({name}: {media_type}, {len(data) * 3 // 4} bytes, not shown)")
        return
    texts.append(f"picture {image.describe()}")
    pictures.append(image)
