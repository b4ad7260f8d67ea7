"""A model that plays plans, behind the messages API of Anthropic.

It refuses what the provider refuses: requests of a wrong form, and signed thinking before which
anything changed. Its usage is what a prompt cache does with the requests as they came: an entry is
written at each mark, and found from each mark up to twenty blocks back.
"""

from __future__ import annotations

import hashlib
import json
import re
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, TypeAlias

from tests.validators.anthropic import problems
from tests.validators.thinking import Thinking

from windlass.text.tokens import FamilyCounter

MODEL = "claude-opus-5-5"
"""A model that checks what stands before its thinking."""
_COUNTER = FamilyCounter(f"anthropic/{MODEL}")
_PLAN = re.compile(r"\bplan:(\w+)")
REFERENCE = re.compile(r"result_[0-9a-f]{8}")
LATEST = "THE-LATEST-REFERENCE"
"""In the arguments of a planned call: the last reference that stands in the results so far."""
RUNNING = "THE-COMMAND-THAT-RUNS"
"""An argument of a planned call: the number of the command that a result said last to run still."""
_RUNNING = re.compile(r"running with session ID (\d+)")
_LOOKBACK = 20

Call: TypeAlias = tuple[str, Mapping[str, Any]]
"""The name of a tool and its arguments."""
Plan: TypeAlias = Sequence[Sequence[Call]]
"""The calls of each answer; after the last of them comes a text."""


@dataclass(frozen=True)
class Usage:
    """Tokens of a request and its answer as the provider counts them."""

    cache_read_input_tokens: int
    cache_creation_input_tokens: int
    input_tokens: int
    output_tokens: int


@dataclass(frozen=True)
class Exchange:
    """A request that came, and what it was answered with."""

    headers: Mapping[str, str]
    body: Mapping[str, Any]
    refused: str = ""
    dropped: Sequence[str] = ()
    """The places of signed blocks that the model does not read, where the client allows that."""
    answer: Sequence[Mapping[str, Any]] = ()
    usage: Usage = field(default_factory=lambda: Usage(0, 0, 0, 0))
    time: float = field(default_factory=time.monotonic)

    @property
    def thread(self) -> tuple[str, str]:
        """The session and its subagent, as the client names them."""
        agent = self.headers.get("x-claude-code-agent-id", "")
        session = self.headers.get("x-claude-code-session-id")
        return session or self.headers.get("x-session-id", ""), agent

    @property
    def plans(self) -> list[str]:
        """The plans that the user named, in order."""
        return [
            name
            for message in self.body["messages"]
            if message["role"] == "user"
            for block in blocks(message["content"])
            if block.get("type") == "text"
            for name in _PLAN.findall(block["text"])
        ]

    @property
    def calls_tools(self) -> bool:
        """Whether it is a step of the agent, and no title or the like."""
        return bool(self.body.get("tools"))

    @property
    def said(self) -> list[Any]:
        """The conversation in the request."""
        return list(self.body["messages"])

    @property
    def signatures(self) -> list[str]:
        """The signatures of the thinking in the request."""
        return [
            block["signature"]
            for message in self.said
            for block in blocks(message["content"])
            if block["type"] == "thinking"
        ]

    @property
    def results(self) -> dict[str, str]:
        """The text of each tool result in the request, by the id of its call."""
        return {
            block["tool_use_id"]: _text(block.get("content"))
            for message in self.body["messages"]
            for block in blocks(message["content"])
            if block.get("type") == "tool_result"
        }


def blocks(content: Any) -> list[dict[str, Any]]:
    """The blocks of a message's content, each without its cache mark."""
    given = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
    return [{key: each for key, each in block.items() if key != "cache_control"} for block in given]


def without_billing_line(body: Mapping[str, Any]) -> dict[str, Any]:
    """A request without the line that Claude Code puts before its system prompt.

    It differs from request to request, and the provider takes it away before anything else.
    """
    system = body.get("system")
    if isinstance(system, list):
        kept = [one for one in system if not one["text"].startswith("x-anthropic-billing-header")]
        return {**body, "system": kept}
    return dict(body)


def _text(content: Any) -> str:
    return "\n".join(str(block.get("text", "")) for block in blocks(content))


@dataclass
class ModelServer:
    """What one account sees of the provider.

    Args:
        plans: Each by its name. The last words of the user that say `plan:NAME` choose one.
    """

    path: ClassVar[str] = "/v1/messages"
    plans: Mapping[str, Plan]
    forgiven: str = "-"
    """How the sentences begin about what is wrong and is let through."""
    exchanges: list[Exchange] = field(default_factory=list)
    port: int = 0
    _thinking: Thinking = field(default_factory=Thinking)
    _cached: set[str] = field(default_factory=set)
    _turns: dict[tuple[str, ...], int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def running(self) -> Iterator[ModelServer]:
        """Listen on loopback, on a port of the system's choice."""
        server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        server.daemon_threads = True
        self.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield self
        finally:
            server.shutdown()
            thread.join()
            server.server_close()

    def forget(self) -> None:
        """Let the life of all that is cached end."""
        with self._lock:
            self._cached.clear()

    def answer(self, headers: Mapping[str, str], body: Mapping[str, Any]) -> Exchange:
        """Take in a request."""
        with self._lock:
            exchange = self._take(headers, body)
            self.exchanges.append(exchange)
        return exchange

    def events(self, exchange: Exchange) -> Iterator[dict[str, Any]]:
        """The answer, event by event."""
        return _events(exchange)

    def whole(self, exchange: Exchange) -> dict[str, Any]:
        """The answer in one piece."""
        return _message(exchange)

    def _take(self, headers: Mapping[str, str], body: Mapping[str, Any]) -> Exchange:
        body, beta = without_billing_line(body), headers.get("anthropic-beta", "")
        read = self._thinking.read(body, beta)
        wrong = [one for one in problems(body) if not one.startswith(self.forgiven)]
        refused = "; ".join(wrong) or read.error or ""
        exchange = Exchange(headers, body, refused, read.dropped)
        if refused:
            return exchange
        answer = self.next_answer(exchange)
        self._thinking.note(body, answer, beta)
        return replace(exchange, answer=answer, usage=self._usage(body, answer))

    def next_answer(self, exchange: Exchange) -> list[dict[str, Any]]:
        """What the plan says next: thinking, and calls or a text."""
        said = exchange.plans
        if not said or not exchange.calls_tools:  # a title
            return [{"type": "text", "text": "A short title."}]
        key = *exchange.thread, said[-1], str(len(said))
        turn = self._turns[key] = self._turns.get(key, -1) + 1
        name = hashlib.sha256("/".join((*key, str(turn))).encode()).hexdigest()[:20]
        plan = self.plans[said[-1]]
        thinking = {"type": "thinking", "thinking": f"Step {turn}.", "signature": f"sig{name}"}
        if turn >= len(plan):
            return [thinking, {"type": "text", "text": f"Done with {said[-1]}."}]
        return [
            thinking,
            *(
                {
                    "type": "tool_use",
                    "id": f"toolu_{name}{at}",
                    "name": tool,
                    "input": _with_latest(given, exchange),
                }
                for at, (tool, given) in enumerate(plan[turn])
            ),
        ]

    def _usage(self, body: Mapping[str, Any], answer: Sequence[Mapping[str, Any]]) -> Usage:
        sums, digests, marks = [0], [hashlib.sha256(str(body["model"]).encode()).hexdigest()], []
        for block in _in_order(body):
            bare = {key: each for key, each in block.items() if key != "cache_control"}
            if "cache_control" in block:
                marks.append(len(digests))
            written = json.dumps(bare, sort_keys=True)
            digests.append(hashlib.sha256((digests[-1] + written).encode()).hexdigest())
            sums.append(sums[-1] + tokens(bare))
        found = (
            at
            for mark in reversed(marks)
            for at in range(mark, max(0, mark - _LOOKBACK), -1)
            if digests[at] in self._cached
        )
        read = sums[next(found, 0)]
        kept = max(read, sums[marks[-1]] if marks else 0)
        self._cached.update(digests[mark] for mark in marks)
        output = sum(tokens(block) for block in answer)
        return Usage(read, kept - read, sums[-1] - kept, output)


def _with_latest(given: Mapping[str, Any], exchange: Exchange) -> dict[str, Any]:
    """Planned arguments with what the model would have read: a reference, a command that runs."""
    said = "\n".join(exchange.results.values())
    found, running = REFERENCE.findall(said) or [LATEST], _RUNNING.findall(said)
    return {
        name: int(running[-1])
        if value == RUNNING
        else value.replace(LATEST, found[-1])
        if isinstance(value, str)
        else value
        for name, value in given.items()
    }


def tokens(value: Any, counter: FamilyCounter = _COUNTER) -> int:
    """The tokens of what a block says: its texts and keys, not how JSON writes them."""
    if isinstance(value, Mapping):
        return sum(tokens(key, counter) + tokens(each, counter) for key, each in value.items())
    if isinstance(value, list):
        return sum(tokens(each, counter) for each in value)
    return counter.text(str(value))


def _in_order(body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Tools, system prompt and blocks of messages as a cache has them, each with its mark.

    A tool that waits stands where a search found it, and not in front.
    """
    tools = body.get("tools") or ()
    waiting = {tool["name"]: tool for tool in tools if tool.get("defer_loading")}
    yield from (tool for tool in tools if tool["name"] not in waiting)
    system = body.get("system") or []
    yield from [{"type": "text", "text": system}] if isinstance(system, str) else system
    for message in body["messages"]:
        content = message["content"]
        given = [{"type": "text", "text": content}] if isinstance(content, str) else content
        yield from ({"role": message["role"], **_loaded(block, waiting)} for block in given)


def _loaded(block: Mapping[str, Any], waiting: Mapping[str, Any]) -> dict[str, Any]:
    """A block with the definitions in the place of references to tools."""
    content = block.get("content")
    if block.get("type") != "tool_result" or not isinstance(content, list):
        return dict(block)
    loaded = [waiting.get(str(one.get("tool_name")), one) for one in content]
    return {**block, "content": loaded}


def _events(exchange: Exchange) -> Iterator[dict[str, Any]]:
    message = _message(exchange)
    usage = message["usage"]
    yield {
        "type": "message_start",
        "message": {**message, "content": [], "stop_reason": None, "usage": {**usage}},
    }
    for at, block in enumerate(exchange.answer):
        match block["type"]:
            case "thinking":
                empty: dict[str, Any] = {"type": "thinking", "thinking": "", "signature": ""}
                deltas = [
                    {"type": "thinking_delta", "thinking": block["thinking"]},
                    {"type": "signature_delta", "signature": block["signature"]},
                ]
            case "text":
                empty = {"type": "text", "text": ""}
                deltas = [{"type": "text_delta", "text": block["text"]}]
            case _:
                empty = {**block, "input": {}}
                given = json.dumps(block["input"])
                deltas = [{"type": "input_json_delta", "partial_json": given}]
        yield {"type": "content_block_start", "index": at, "content_block": empty}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": at, "delta": delta}
        yield {"type": "content_block_stop", "index": at}
    ended = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": ended, "usage": usage}
    yield {"type": "message_stop"}


def _message(exchange: Exchange) -> dict[str, Any]:
    calls = any(block["type"] == "tool_use" for block in exchange.answer)
    name = hashlib.sha256(json.dumps([*exchange.answer]).encode()).hexdigest()[:20]
    return {
        "id": f"msg_{name}",
        "type": "message",
        "role": "assistant",
        "model": exchange.body["model"],
        "content": list(exchange.answer),
        "stop_reason": "tool_use" if calls else "end_turn",
        "stop_sequence": None,
        "usage": dict(vars(exchange.usage)),
    }


def _handler(model: ModelServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 60

        def setup(self) -> None:
            super().setup()
            self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name there
            """Nothing is printed."""

        def do_HEAD(self) -> None:
            self._send(200, "application/json", b"")

        def do_GET(self) -> None:
            self.do_HEAD()

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            if not self.path.startswith(model.path):
                self._send(404, "application/json", b"{}")
                return
            headers = {name.lower(): value for name, value in self.headers.items()}
            exchange = model.answer(headers, body)
            if exchange.refused:
                error = {"type": "invalid_request_error", "message": exchange.refused}
                self._send_json(400, {"type": "error", "error": error})
            elif body.get("stream"):
                events = [
                    f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"
                    for event in model.events(exchange)
                ]
                self._send(200, "text/event-stream", "".join(events).encode())
            else:
                self._send_json(200, model.whole(exchange))

        def _send_json(self, status: int, value: Mapping[str, Any]) -> None:
            self._send(status, "application/json", json.dumps(value).encode())

        def _send(self, status: int, kind: str, data: bytes) -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("request-id", f"req_{len(model.exchanges):04}")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    return Handler
