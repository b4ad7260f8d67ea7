"""The doors by which callers of `anthropic` and `openai` read answers, and who hears of them."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import anthropic
import httpx
import httpx2
import openai
import pytest

from tests.context import loops
from tests.providers.exchanges import anthropic_event, event
from tests.providers.model_server import ModelServer, lead_clients, model_server, reads_logs
from tests.providers.server import Answer, Server
from tests.providers.thinking_server import in_thread

USER: Any = {"role": "user", "content": loops.TASK}
REQUESTS: dict[str, dict[str, Any]] = {
    "anthropic": loops.claude_request([USER], "claude-sonnet-5"),
    "openai": {"model": "gpt-5", "messages": [USER], "tools": loops.CHAT_TOOLS},
    "responses": {"model": "gpt-5", "input": [USER], "tools": loops.FLAT_TOOLS},
}
STREAMED: dict[str, dict[str, Any]] = {
    "anthropic": {"stream": True},
    "openai": {"stream": True, "stream_options": {"include_usage": True}},
    "responses": {"stream": True},
}
RESOURCES: dict[str, Callable[[Any], Any]] = {
    "anthropic": lambda client: client.messages,
    "openai": lambda client: client.chat.completions,
    "responses": lambda client: client.responses,
}
ERRORS = (anthropic.AnthropicError, openai.OpenAIError, httpx.HTTPError, httpx2.HTTPError)


@dataclass
class Heard:
    """A request that notes all that it hears."""

    answers: list[Any] = field(default_factory=list[Any])
    outcomes: list[BaseException | None] = field(default_factory=list[BaseException | None])

    def hear(self, answer: Any) -> None:
        self.answers.append(answer)

    def again(self, error: Exception) -> dict[str, Any]:
        raise error

    def ended(self) -> None:
        self.outcomes.append(None)

    def failed(self, error: BaseException) -> None:
        self.outcomes.append(error)

    @property
    def outcome(self) -> BaseException | None:
        (outcome,) = self.outcomes
        return outcome


@dataclass
class Listener:
    """Sends every request as it is, and has every one heard."""

    requests: list[Heard] = field(default_factory=list[Heard])
    report: object = "a report"

    def asked(self, path: str, body: Any) -> tuple[Any, Heard | None]:
        if not isinstance(body, dict) or path.endswith("count_tokens"):
            return body, None
        self.requests.append(Heard())
        return body, self.requests[-1]

    @property
    def outcome(self) -> BaseException | None:
        (request,) = self.requests
        return request.outcome


# Each door gives what its caller gets, so that two clients can be compared.

DOORS: dict[str, Callable[[Any, dict[str, Any], dict[str, Any]], Any]] = {}
ASYNC_DOORS: dict[str, Callable[[Any, dict[str, Any], dict[str, Any]], Any]] = {}


def door(answer: Callable[[Any, dict[str, Any], dict[str, Any]], Any]) -> None:
    doors = ASYNC_DOORS if asyncio.iscoroutinefunction(answer) else DOORS
    doors[answer.__name__] = answer


def for_helper(
    request: dict[str, Any], more: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Without `stream`, and without tools, which some helpers want to be strict."""
    given = {key: one for key, one in request.items() if key != "tools"}
    return given, {key: one for key, one in more.items() if key != "stream"}


@door
def create(asked: Any, request: dict[str, Any], more: dict[str, Any]) -> Any:
    return asked.create(**request).to_json()


@door
def raw(asked: Any, request: dict[str, Any], more: dict[str, Any]) -> Any:
    answer = asked.with_raw_response.create(**request)
    assert answer.parse() is answer.parse()
    return answer.headers["content-type"], answer.http_response.content, answer.parse().to_json()


@door
def streaming_response(asked: Any, request: dict[str, Any], more: dict[str, Any]) -> Any:
    with asked.with_streaming_response.create(**request) as answer:
        return answer.parse().to_json()


@door
def streaming_response_read(asked: Any, request: dict[str, Any], more: dict[str, Any]) -> Any:
    with asked.with_streaming_response.create(**request) as answer:
        told = answer.read(), answer.text(), answer.json()
        pickle.dumps(answer.http_response)
        return told


@door
def streaming_response_in_pieces(asked: Any, request: dict[str, Any], more: dict[str, Any]) -> Any:
    with asked.with_streaming_response.create(**request) as answer:
        return b"".join(answer.iter_bytes(7))


@door
def streaming_response_as_sent(asked: Any, request: dict[str, Any], more: dict[str, Any]) -> Any:
    with asked.with_streaming_response.create(**request) as answer:
        return b"".join(answer.http_response.iter_raw())


@door
def stream(asked: Any, request: dict[str, Any], more: dict[str, Any]) -> Any:
    return [one.to_json() for one in asked.create(**request, **more)]


@door
def raw_stream(asked: Any, request: dict[str, Any], more: dict[str, Any]) -> Any:
    answer = asked.with_raw_response.create(**request, **more)
    return [one.to_json() for one in answer.parse()]


@door
def raw_stream_read(asked: Any, request: dict[str, Any], more: dict[str, Any]) -> Any:
    return asked.with_raw_response.create(**request, **more).http_response.read()


@door
def lines(asked: Any, request: dict[str, Any], more: dict[str, Any]) -> Any:
    with asked.with_streaming_response.create(**request, **more) as answer:
        return list(answer.iter_lines())


@door
def streamed_twice(asked: Any, request: dict[str, Any], more: dict[str, Any]) -> Any:
    with asked.with_streaming_response.create(**request, **more) as answer:
        return [one.to_json() for one in answer.parse()]


@door
def helper(asked: Any, request: dict[str, Any], more: dict[str, Any]) -> Any:
    request, more = for_helper(request, more)
    with asked.stream(**request, **more) as events:
        return [getattr(one, "type", "") for one in events]


@door
async def create_async(asked: Any, request: dict[str, Any], more: dict[str, Any]) -> Any:
    return (await asked.create(**request)).to_json()


@door
async def raw_async(asked: Any, request: dict[str, Any], more: dict[str, Any]) -> Any:
    answer = await asked.with_raw_response.create(**request)
    return answer.http_response.content


@door
async def streaming_response_async(
    asked: Any, request: dict[str, Any], more: dict[str, Any]
) -> Any:
    async with asked.with_streaming_response.create(**request) as answer:
        return await answer.json()


@door
async def stream_async(asked: Any, request: dict[str, Any], more: dict[str, Any]) -> Any:
    return [one.to_json() async for one in await asked.create(**request, **more)]


@door
async def lines_async(asked: Any, request: dict[str, Any], more: dict[str, Any]) -> Any:
    async with asked.with_streaming_response.create(**request, **more) as answer:
        return [line async for line in answer.iter_lines()]


@door
async def helper_async(asked: Any, request: dict[str, Any], more: dict[str, Any]) -> Any:
    request, more = for_helper(request, more)
    async with asked.stream(**request, **more) as events:
        return [getattr(one, "type", "") async for one in events]


@contextmanager
def vendors(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    with model_server(reads_logs(3)) as server:
        server.lead(monkeypatch)
        yield server


@contextmanager
def scripted(monkeypatch: pytest.MonkeyPatch, *answers: Answer) -> Iterator[Server]:
    """A server with these answers, where all clients lead."""
    with in_thread(Server(list(answers))) as server:
        lead_clients(monkeypatch, server.url)
        yield server


def new(form: str, **options: Any) -> Any:
    return (anthropic.Anthropic if form == "anthropic" else openai.OpenAI)(**options)


def new_async(form: str, **options: Any) -> Any:
    return (anthropic.AsyncAnthropic if form == "anthropic" else openai.AsyncOpenAI)(**options)


def through(name: str, form: str, wrap: Callable[[Any], Any], **options: Any) -> Any:
    """What a door's caller gets of a client."""
    if name in DOORS:
        with new(form, **options) as client:
            asked = RESOURCES[form](wrap(client))
            return DOORS[name](asked, REQUESTS[form], STREAMED[form])

    async def ask() -> Any:
        async with new_async(form, **options) as client:
            asked = RESOURCES[form](wrap(client))
            return await ASYNC_DOORS[name](asked, REQUESTS[form], STREAMED[form])

    return asyncio.run(ask())


def broken(form: str) -> list[bytes]:
    """The events of an answer that is not at its end."""
    if form == "anthropic":
        usage = {"input_tokens": 9, "output_tokens": 1}
        about: dict[str, Any] = {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "content": [],
        }
        begun = {**about, "model": "claude-sonnet-5", "stop_reason": None, "usage": usage}
        said = {"type": "text_delta", "text": "Look"}
        return [
            anthropic_event("message_start", message=begun),
            anthropic_event(
                "content_block_start", index=0, content_block={"type": "text", "text": ""}
            ),
            anthropic_event("content_block_delta", index=0, delta=said),
        ]
    if form == "openai":
        about = {"id": "c_1", "object": "chat.completion.chunk", "created": 1, "model": "gpt-5"}
        choice = {"index": 0, "delta": {"content": "Look"}, "finish_reason": None}
        return [event({**about, "choices": [choice]})] * 2
    about = {"id": "resp_1", "object": "response", "model": "gpt-5", "output": [], "tools": []}
    names = ("response.created", "response.in_progress")
    return [
        event({"type": name, "sequence_number": at, "response": about}, name)
        for at, name in enumerate(names)
    ]
