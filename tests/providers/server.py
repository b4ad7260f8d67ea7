"""An HTTP server on loopback that answers from a script, byte for byte, and can misbehave."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Answer:
    """One scripted answer: `pieces` are sent one by one.

    `cut` drops the connection after them; `hang` holds it and says no more.
    """

    pieces: Sequence[bytes] = ()
    status: int = 200
    content_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()
    cut: bool = False
    hang: bool = False


@dataclass(frozen=True)
class Asked:
    """One request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any


def whole(value: Any, status: int = 200, **headers: str) -> Answer:
    """An answer of one JSON value."""
    told = tuple((name.replace("_", "-"), text) for name, text in headers.items())
    return Answer((json.dumps(value).encode(),), status, headers=told)


def streamed(events: Sequence[bytes], **more: Any) -> Answer:
    """An answer of server-sent events."""
    return Answer(tuple(events), content_type="text/event-stream", **more)


@dataclass
class Server:
    """Answers each request with the next of `script`, then with the last one for ever."""

    script: list[Answer]
    url: str = ""
    asked: list[Asked] = field(default_factory=list)
    busy: asyncio.Event = field(default_factory=asyncio.Event)
    idle: asyncio.Event = field(default_factory=asyncio.Event)

    def answer(self, asked: Asked) -> Answer:
        """What a request is answered with."""
        return self.script.pop(0) if len(self.script) > 1 else self.script[0]

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            return
        finally:
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.strip().split("\r\n")
        method, path, _ = first.split(" ")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        asked = Asked(method, path, headers, json.loads(body) if body else None)
        self.asked.append(asked)
        answer = self.answer(asked)
        self.busy.set()
        try:
            told = [
                f"HTTP/1.1 {answer.status} Told",
                f"content-type: {answer.content_type}",
                "transfer-encoding: chunked",
                *(f"{name}: {value}" for name, value in answer.headers),
            ]
            writer.write(("\r\n".join(told) + "\r\n\r\n").encode("latin-1"))
            for piece in answer.pieces:
                writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
                await writer.drain()
                await asyncio.sleep(0)
            if answer.hang:
                await reader.read()  # until the other side goes away
                return False
            if answer.cut:
                return False
            writer.write(b"0\r\n\r\n")
            await writer.drain()
        finally:
            self.idle.set()
        return True


@asynccontextmanager
async def serving(*script: Answer) -> AsyncIterator[Server]:
    """A server with this script, at `server.url`."""
    server = Server(list(script))
    listening = await asyncio.start_server(server.handle, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    try:
        yield server
    finally:
        listening.close()
