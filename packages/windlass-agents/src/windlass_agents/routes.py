"""The routes of the server for code of ours that runs inside an agent: plain HTTP, JSON both ways.

    POST /result    a tool's result that the model is about to see: {"text": ...}, or {}: it stays
    POST /moment    a session began, was compacted, paused or ended: {}
    POST /tool      a tool is described: {"deferred", "reason"}, or {}: it stays where it is
    POST /compact   a conversation is to be compacted: {"messages": [...]}; {"skip": why}: it stays;
                    {}: the agent compacts it by itself
    POST /due       when the agent should compact by itself: {"seconds", "reason"}
    POST /line      what the agent may show of a session: {"line", "calls", "tokens", "billed",
                    "dollars"}, the last being what was saved

Each takes `{"agent": NAME, "options": [...], "event": {...}}`: the words that `windlass agent run`
takes, and an event in the form of the agent's adapter. `wait_ms` says for how long the answer is
waited for (default 300): a result that takes longer stays as it is.
"""

from __future__ import annotations

import json
import secrets
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, Final, TypeAlias, cast
from urllib.parse import urlsplit

from windlass.public import UsageError, WindlassError, many, money, redacted_text
from windlass_agents.client import MOST_BYTES, WAIT_S, count_failure
from windlass_agents.compaction_moments import CompactionDoor
from windlass_agents.deferred_tools import ToolDoor
from windlass_agents.handler import HookAnswer, HookHandler, HookPlace, HookRequest
from windlass_agents.hook_journal import HookJournal

ROUTES: Final = ("/result", "/moment", "/tool", "/compact", "/due", "/line")
Event: TypeAlias = Mapping[str, Any]
"""An object as JSON."""
_WAIT_MS: Final = 300
"""Milliseconds for which an answer is waited for, where a request does not say."""
_ON_THE_WAY_S: Final = 0.05
"""Seconds that the way back may take: a short form that leaves later comes too late."""


class Routes:
    """Answers requests.

    Args:
        answering: What answers events.
        token: What each request must name, where others reach the address, too.
        variables: Those of the process, for sessions of which no hook told any.
    """

    def __init__(self, answering: HookHandler, token: bytes, variables: Mapping[str, str]) -> None:
        self._answering = answering
        self._token = token
        self._variables = variables
        self._tools = ToolDoor()
        self._compactions = CompactionDoor(time.time)
        self._others = {
            "/tool": self._describe,
            "/compact": self._compact,
            "/due": self._due,
            "/line": _line,
        }

    def serve(self, connection: socket.socket) -> None:
        """Answer the one request of a connection."""
        _Request(connection, self)

    def is_allowed(self, authorization: str) -> bool:
        """Return whether a request may be answered."""
        said = authorization.removeprefix("Bearer ").encode()
        return not self._token or secrets.compare_digest(said, self._token)

    def answer(self, route: str, body: bytes, since: float) -> tuple[bytes, HookAnswer]:
        """Return the JSON that is sent, and what is to be done with the answer afterwards.

        `since`: when the request came, by `time.monotonic`. Raises ValueError and WindlassError.
        """
        told = json.loads(body)
        match told:
            case {"agent": str(agent), "event": Mapping() as event}:
                options = told.get("options") or ()
            case _:
                raise ValueError('expected {"agent": NAME, "options": [...], "event": {...}}')
        words = (agent, *map(str, options))
        payload = json.dumps(event).encode()
        request = HookRequest(Path.cwd(), self._variables, words, payload, "mod")
        if other := self._others.get(route):
            place = self._answering.find(request)
            return json.dumps(other(event, place)).encode(), HookAnswer("")
        answer = self._answering.answer(request)
        if route == "/moment":  # nobody waits: transcripts of sessions that ended are read
            answer = replace(
                answer, afterwards=partial(_both, answer.afterwards, self._tools.learn)
            )
        wait_ms = told.get("wait_ms")
        wait_s = (wait_ms if isinstance(wait_ms, int) else _WAIT_MS) / 1000
        if time.monotonic() - since > wait_s - _ON_THE_WAY_S:
            answer.take_back()
            return b"{}", HookAnswer("", failure=answer.failure, afterwards=answer.afterwards)
        return answer.text.encode() or b"{}", answer

    def _describe(self, event: Event, at: HookPlace) -> Event:
        if at.is_held_out:
            return {}
        tool, text = str(event.get("tool") or ""), str(event.get("description") or "")
        return self._tools.decide(tool, text, at.place, at.store).as_json()

    def _compact(self, event: Event, at: HookPlace) -> Event:
        if at.is_held_out:
            return {}
        waiting = self._tools.waiting(at.place, at.store)
        return self._compactions.compact(
            event, at.place, at.store, at.way_back, waiting=waiting, redact=at.options.redact
        ).as_json()

    def _due(self, event: Event, at: HookPlace) -> Event:
        if at.is_held_out:
            return {"seconds": None, "reason": "the session stays as it is, for comparison"}
        window = event.get("window")
        return self._compactions.moment(
            at.place, window if isinstance(window, int) else 0
        ).as_json()


def _line(event: Event, at: HookPlace) -> Event:
    del event
    figures = HookJournal(at.store).figures(at.place.agent, at.place.session)
    return {**figures, "line": line_of(figures)}


def _both(first: Callable[[], None], second: Callable[[], object]) -> None:
    first()
    second()


def line_of(figures: Mapping[str, Any]) -> str:
    """Return the figures that were kept as a line (empty: none were)."""
    match figures:
        case {"calls": int(calls), "billed": int() | float() as billed, "dollars": saved}:
            line = f"{many(calls, 'request')}, {money(billed)}"
            if not isinstance(saved, int | float):
                return line
            return f"{line}; " + (
                f"saved {money(saved)}" if saved >= 0 else f"cost {money(-saved)} more"
            )
        case {"calls": int(calls), "tokens": int(tokens)}:
            return f"{many(calls, 'request')}, {tokens:,} tokens shorter"
        case _:
            return ""


class _Request(BaseHTTPRequestHandler):
    """One request on one connection."""

    protocol_version = "HTTP/1.1"
    timeout = WAIT_S

    def __init__(self, connection: socket.socket, routes: Routes) -> None:
        self._routes = routes
        super().__init__(connection, ("", 0), cast("Any", None))

    def do_POST(self) -> None:
        """Answer."""
        since = time.monotonic()
        size = self.headers.get("content-length", "")
        is_short = size.isdecimal() and int(size) <= MOST_BYTES
        route = urlsplit(self.path).path  # behind a proxy some clients name the host, too
        # Before anything is refused: who still sends would hear nothing.
        body = self.rfile.read(int(size)) if is_short else b""
        if not self._routes.is_allowed(self.headers.get("authorization", "")):
            self._send(HTTPStatus.UNAUTHORIZED, b"{}")
        elif route not in ROUTES:
            self._send(HTTPStatus.NOT_FOUND, b"{}")
        elif not is_short:
            self._send(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, b"{}")
        else:
            self._answer(route, body, since)

    def _answer(self, route: str, body: bytes, since: float) -> None:
        answer = HookAnswer("")
        try:
            data, answer = self._routes.answer(route, body, since)
            if answer.failure:
                count_failure(answer.failure, ["mod"])
            status = HTTPStatus.OK
        except (ValueError, UsageError) as error:
            data, status = b"{}", HTTPStatus.BAD_REQUEST
            _count(error)
        except (WindlassError, OSError) as error:
            data, status = b"{}", HTTPStatus.INTERNAL_SERVER_ERROR
            _count(error)
        try:
            self._send(status, data)
        except OSError:  # nobody reads it: the agent shows the result whole
            answer.take_back()
        _finish(answer.afterwards)

    def _send(self, status: HTTPStatus, data: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.send_header("connection", "close")
        self.end_headers()
        self.wfile.write(data)
        self.wfile.flush()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        """Print nothing."""


def _finish(afterwards: Callable[[], None]) -> None:
    try:
        afterwards()
    except Exception as error:  # noqa: BLE001 - whatever it is, the agent goes on
        _count(error)


def _count(error: Exception) -> None:
    count_failure(redacted_text(f"{type(error).__name__}: {error}"), ["mod"])
