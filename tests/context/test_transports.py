"""Answers of wrapped clients reach their callers as they came, and are heard by any door."""

from __future__ import annotations

import asyncio
import base64
import json
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import anthropic
import openai
import pytest
from google import genai
from google.genai.errors import APIError

import windlass
from tests.context.doors import (
    ASYNC_DOORS,
    DOORS,
    ERRORS,
    REQUESTS,
    RESOURCES,
    STREAMED,
    USER,
    Listener,
    broken,
    new,
    new_async,
    scripted,
    through,
    vendors,
)
from tests.providers.exchanges import anthropic_event, event
from tests.providers.server import Answer, Server, streamed, whole
from windlass.context._transports import with_models, with_post

every_form = pytest.mark.parametrize("form", RESOURCES)
every_door = pytest.mark.parametrize("name", [*DOORS, *ASYNC_DOORS])


@every_form
@every_door
class TestDoors:
    def test_an_answer_is_what_it_was(
        self, name: str, form: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with vendors(monkeypatch):
            plain = through(name, form, lambda client: client)
        listener = Listener()
        with vendors(monkeypatch):
            heard = through(name, form, lambda client: with_post(client, listener))
            events = through("stream", form, lambda client: client)
        assert heard == plain
        assert listener.outcome is None
        whole = name in ("create", "create_async") or name.startswith(("raw_a", "streaming_"))
        count = 1 if whole or name == "raw" else len(events)
        assert len(listener.requests[0].answers) == count  # each is heard once

    def test_its_usage_is_counted(
        self, name: str, form: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        reports = []

        def wrapped(client: Any) -> Any:
            client = windlass.wrap(client)
            reports.append(client.windlass)
            return client

        with vendors(monkeypatch) as server:
            through(name, form, wrapped)
        ((call,),) = (report.calls for report in reports)
        assert call.usage.tokens_in == server.billed[0].tokens
        assert call.cost > 0


ERROR_EVENTS = {
    "anthropic": anthropic_event(
        "error", error={"type": "overloaded_error", "message": "Overloaded"}
    ),
    "openai": event({"error": {"message": "Overloaded", "code": 503}}),
    "responses": event({"type": "error", "message": "Overloaded", "sequence_number": 2}, "error"),
}
STREAMS = [name for name in (*DOORS, *ASYNC_DOORS) if "stream" in name and "response" not in name]
STREAMS += ["lines", "lines_async", "helper", "helper_async"]


@every_form
class TestFailures:
    @every_door
    def test_a_refusal_is_told_once_and_raised_as_ever(
        self, name: str, form: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        listener = Listener()
        refusal = whole({"type": "error", "error": {"message": "Too large."}}, 413)
        with scripted(monkeypatch, refusal) as server, pytest.raises(ERRORS) as raised:
            through(name, form, lambda client: with_post(client, listener))
        assert listener.outcome is raised.value
        assert len(server.asked) == 1
        assert "Too large." in str(raised.value)

    @every_door
    def test_so_is_a_server_that_is_not_there(
        self, name: str, form: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with scripted(monkeypatch, whole({})):
            pass
        listener = Listener()
        with pytest.raises(ERRORS) as raised:
            through(name, form, lambda client: with_post(client, listener), max_retries=0)
        assert listener.outcome is raised.value

    @pytest.mark.parametrize("name", STREAMS)
    def test_a_stream_that_breaks_off_is_told(
        self, name: str, form: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        listener = Listener()
        with scripted(monkeypatch, streamed(broken(form), cut=True)), pytest.raises(ERRORS):
            through(name, form, lambda client: with_post(client, listener))
        assert isinstance(listener.outcome, ERRORS)
        assert len(listener.requests[0].answers) >= 2

    @pytest.mark.parametrize("name", STREAMS)
    def test_an_error_among_the_events_is_told(
        self, name: str, form: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        listener = Listener()
        answer = streamed([*broken(form), ERROR_EVENTS[form]])
        with scripted(monkeypatch, answer), suppress(*ERRORS):
            through(name, form, lambda client: with_post(client, listener))
        assert "Overloaded" in str(listener.outcome)

    def test_a_call_that_is_cancelled_is_told(
        self, form: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        listener = Listener()

        async def ask(server: Server) -> None:
            async with new_async(form) as client:
                asked = RESOURCES[form](with_post(client, listener))
                task = asyncio.create_task(asked.create(**REQUESTS[form]))
                while not server.asked:  # noqa: ASYNC110 - the server has a loop of its own
                    await asyncio.sleep(0.01)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task

        with scripted(monkeypatch, Answer(hang=True)) as server:
            asyncio.run(ask(server))
        assert isinstance(listener.outcome, asyncio.CancelledError)


@every_form
class TestLeft:
    """Streams whose server says two events and then nothing more, which nobody waits for."""

    def test_events_come_at_once_and_leaving_is_told(
        self, form: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        listener = Listener()
        answer = streamed(broken(form), hang=True)
        with scripted(monkeypatch, answer), new(form) as client:
            asked = RESOURCES[form](with_post(client, listener))
            with asked.create(**REQUESTS[form], **STREAMED[form]) as events:
                assert next(iter(events))
                (request,) = listener.requests
                assert request.answers
                assert request.outcomes == []
            assert events.response.is_closed
            assert "left the answer" in str(listener.outcome)
            with asked.with_streaming_response.create(
                **REQUESTS[form], **STREAMED[form]
            ) as response:
                lines = response.iter_lines()
                assert next(lines)
                assert listener.requests[1].outcomes == []
            assert "left the answer" in str(listener.requests[1].outcome)

    def test_so_they_do_in_async_clients(self, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
        listener = Listener()

        async def ask() -> None:
            async with new_async(form) as client:
                asked = RESOURCES[form](with_post(client, listener))
                async with await asked.create(**REQUESTS[form], **STREAMED[form]) as events:
                    assert await anext(aiter(events))
                    assert listener.requests[0].outcomes == []
                assert events.response.is_closed

        with scripted(monkeypatch, streamed(broken(form), hang=True)):
            asyncio.run(ask())
        assert "left the answer" in str(listener.outcome)

    def test_a_response_that_nobody_reads_is_left(
        self, form: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        listener = Listener()
        with vendors(monkeypatch), new(form) as client:
            asked = RESOURCES[form](with_post(client, listener))
            with asked.with_streaming_response.create(**REQUESTS[form]) as response:
                assert response.status_code == 200
                assert listener.requests[0].outcomes == []
        assert "left the answer" in str(listener.outcome)

    def test_a_stream_that_is_left_behind_its_last_event_is_whole(
        self, form: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        listener = Listener()
        with vendors(monkeypatch), new(form) as client:
            asked = RESOURCES[form](with_post(client, listener))
            with asked.create(**REQUESTS[form], **STREAMED[form]) as events:
                for one in events:
                    told = json.loads(one.to_json())
                    reasons = [choice["finish_reason"] for choice in told.get("choices", [])]
                    if told.get("type") in ("message_stop", "response.completed") or any(reasons):
                        break
        assert listener.outcome is None

    def test_a_stream_that_is_dropped_is_closed(
        self, form: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        listener = Listener()
        with scripted(monkeypatch, streamed(broken(form), hang=True)), new(form) as client:
            asked = RESOURCES[form](with_post(client, listener))
            for _ in (
                asked.with_streaming_response.create(**REQUESTS[form], **STREAMED[form])
                .__enter__()
                .iter_lines()
            ):
                break
        assert "left the answer" in str(listener.outcome)


class TestRecord:
    def test_a_stream_that_says_no_usage_costs_nobody_knows_what(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with vendors(monkeypatch) as server, openai.OpenAI() as client:
            wrapped: Any = windlass.wrap(client)
            list(wrapped.chat.completions.create(**REQUESTS["openai"], stream=True))
            (call,) = wrapped.windlass.calls
            assert "stream_options" not in server.asked[0].body
        assert call.usage is None
        assert call.cost is None
        assert [text for text in call.assumed if "usage is not known" in text]

    def test_a_call_that_failed_says_so(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with (
            scripted(monkeypatch, whole({"error": {"message": "No."}}, 400)),
            openai.OpenAI() as client,
        ):
            wrapped: Any = windlass.wrap(client)
            with pytest.raises(openai.BadRequestError):
                wrapped.responses.create(**REQUESTS["responses"])
        (call,) = wrapped.windlass.calls
        assert "No." in call.failed

    def test_a_response_that_failed_is_an_answer_and_a_failure(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        failed: dict[str, Any] = {
            "id": "resp_1",
            "object": "response",
            "status": "failed",
            "output": [],
        }
        failed |= {"error": {"code": "server_error", "message": "It broke."}}
        listener = Listener()
        with scripted(monkeypatch, whole(failed)), openai.OpenAI() as client:
            asked = with_post(client, listener).responses
            assert asked.create(**REQUESTS["responses"]).status == "failed"
        assert "It broke." in str(listener.outcome)


CLAUDE = {"base_url": "{url}", "max_retries": 0}
DERIVED: dict[str, tuple[str, dict[str, Any]]] = {
    "AnthropicBedrock": ("anthropic", {**CLAUDE, "api_key": "k", "aws_region": "eu-west-1"}),
    "AnthropicVertex": (
        "anthropic",
        {**CLAUDE, "access_token": "t", "region": "europe-west1", "project_id": "p"},
    ),
    "AnthropicFoundry": ("anthropic", {**CLAUDE, "api_key": "k"}),
    "AzureOpenAI": (
        "openai",
        {"azure_endpoint": "{url}", "api_key": "k", "api_version": "2025-04-01-preview"},
    ),
}
REPLIES = {
    "anthropic": {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-5",
        "content": [{"type": "text", "text": "Look."}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 77, "output_tokens": 3},
    },
    "openai": {
        "id": "c_1",
        "object": "chat.completion",
        "created": 1,
        "model": "gpt-5",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Look."},
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 77, "completion_tokens": 3, "total_tokens": 80},
    },
}


@pytest.mark.parametrize("name", DERIVED)
class TestDerivedClients:
    """Clients of clouds, which rewrite the path of a request after it was posted."""

    def made(self, name: str, url: str, *, asynchronous: bool = False) -> Any:
        form, options = DERIVED[name]
        package: Any = anthropic if form == "anthropic" else openai
        kind = getattr(package, f"Async{name}" if asynchronous else name)
        given = {
            key: one.replace("{url}", url) if isinstance(one, str) else one
            for key, one in options.items()
        }
        return kind(**given)

    def test_they_are_heard(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        form = DERIVED[name][0]
        with (
            scripted(monkeypatch, whole(REPLIES[form])) as server,
            self.made(name, server.url) as client,
        ):
            wrapped: Any = windlass.wrap(client)
            asked = RESOURCES[form](wrapped)
            assert asked.create(**REQUESTS[form]).usage
            assert asked.with_raw_response.create(**REQUESTS[form]).parse().usage
            copied = RESOURCES[form](wrapped.with_options(timeout=9.0))
            assert copied.create(**REQUESTS[form]).usage
            if form == "anthropic":
                assert wrapped.beta.messages.create(**REQUESTS[form]).usage
            calls = wrapped.windlass.calls
            assert RESOURCES[form](client).create(**REQUESTS[form]).usage  # as it was
        assert len(server.asked) == len(calls) + 1 >= 4
        assert {call.usage.tokens_in for call in calls} == {77}

    def test_so_are_their_async_forms(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        form = DERIVED[name][0]

        async def ask(url: str) -> Any:
            async with self.made(name, url, asynchronous=True) as client:
                wrapped: Any = windlass.wrap(client)
                assert (await RESOURCES[form](wrapped).create(**REQUESTS[form])).usage
                return wrapped.windlass.calls

        with scripted(monkeypatch, whole(REPLIES[form])) as server:
            (call,) = asyncio.run(ask(server.url))
        assert call.usage.tokens_in == 77


def aws_event(told: dict[str, Any]) -> bytes:
    """An event as Bedrock streams it."""
    names = {":event-type": "chunk", ":content-type": "application/json", ":message-type": "event"}
    heads = b"".join(
        bytes([len(name)]) + name.encode() + b"\x07" + len(value).to_bytes(2) + value.encode()
        for name, value in names.items()
    )
    held = base64.b64encode(json.dumps(told).encode()).decode()
    body = json.dumps({"bytes": held}).encode()
    prelude = (len(heads) + len(body) + 16).to_bytes(4) + len(heads).to_bytes(4)
    told_so_far = prelude + zlib.crc32(prelude).to_bytes(4) + heads + body
    return told_so_far + zlib.crc32(told_so_far).to_bytes(4)


def test_a_stream_of_bedrock_is_heard_event_by_event(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("botocore", reason="reads the events of Bedrock")
    told = [json.loads(one.partition(b"data: ")[2]) for one in broken("anthropic")]
    answer = Answer(
        [aws_event(one) for one in [*told, {"type": "message_stop"}]],
        content_type="application/vnd.amazon.eventstream",
    )
    listener = Listener()
    with (
        scripted(monkeypatch, answer) as server,
        anthropic.AnthropicBedrock(base_url=server.url, api_key="k", aws_region="r") as client,
    ):
        made = with_post(client, listener)
        events = list(made.messages.create(**REQUESTS["anthropic"], stream=True))
        raw = made.messages.with_raw_response.create(**REQUESTS["anthropic"], stream=True)
        assert list(raw.parse()) == events
    assert [len(request.answers) for request in listener.requests] == [len(events)] * 2 == [4, 4]
    assert [request.outcome for request in listener.requests] == [None, None]


class TestClients:
    def test_raw_and_streamed_responses_of_the_whole_client_are_heard(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        listener = Listener()
        with vendors(monkeypatch), anthropic.Anthropic() as client:
            assert client.with_raw_response.messages  # made before
            made = with_post(client, listener)
            made.with_raw_response.messages.create(**REQUESTS["anthropic"])
            made.beta.messages.with_raw_response.create(**REQUESTS["anthropic"])
            made.with_options(timeout=5).with_raw_response.messages.create(**REQUESTS["anthropic"])
        assert [request.outcome for request in listener.requests] == [None] * 3

    def test_what_is_set_on_a_wrapped_client_holds(self, monkeypatch: pytest.MonkeyPatch) -> None:
        listener = Listener()
        with vendors(monkeypatch) as server, openai.OpenAI() as client:
            made = with_post(client, listener)
            made.api_key = "sk-another-0123456789"
            for one in (made, made.with_options(timeout=9.0), client):
                one.chat.completions.create(**REQUESTS["openai"])
            keys = [asked.headers["authorization"].split("-")[1] for asked in server.asked]
        assert keys == ["another", "another", "test"]
        assert [request.outcome for request in listener.requests] == [None] * 2

    def test_what_is_no_question_is_heard_by_nobody(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with vendors(monkeypatch) as server, anthropic.Anthropic() as client:
            wrapped: Any = windlass.wrap(client)
            one: Any = {"custom_id": "a", "params": REQUESTS["anthropic"]}
            for made in (client, wrapped):
                made.messages.batches.with_raw_response.create(requests=[one])
                made.messages.count_tokens(model="claude-sonnet-5", messages=[USER])
            assert wrapped.windlass.calls == []
            bodies = [asked.body for asked in server.asked]
        assert bodies[:2] == bodies[2:]


class TestGemini:
    @asynccontextmanager
    async def client(self) -> AsyncIterator[genai.Client]:
        client = genai.Client(http_options={"timeout": 9_000, "retry_options": {"attempts": 1}})
        try:
            yield client
        finally:
            client.close()
            await client.aio.aclose()

    async def test_answers_are_heard_to_their_end(self, monkeypatch: pytest.MonkeyPatch) -> None:
        listener = Listener()
        asked: Any = {"model": "gemini-2.5-flash", "contents": "Look."}
        with vendors(monkeypatch):
            async with self.client() as client:
                made = with_models(client, listener)
                made.models.generate_content(**asked)
                assert list(made.models.generate_content_stream(**asked))
                made.chats.create(model="gemini-2.5-flash").send_message("Look.")
                await made.aio.models.generate_content(**asked)
                events = await made.aio.models.generate_content_stream(**asked)
                assert [one async for one in events]
        assert [request.outcome for request in listener.requests] == [None] * 5
        assert all(request.answers[-1]["usageMetadata"] for request in listener.requests)

    async def test_what_fails_or_is_left_is_told(self, monkeypatch: pytest.MonkeyPatch) -> None:
        listener = Listener()
        asked: Any = {"model": "gemini-2.5-flash", "contents": "Look."}
        refusal = whole({"error": {"code": 400, "message": "No.", "status": "INVALID"}}, 400)
        part = {"candidates": [{"content": {"role": "model", "parts": [{"text": "Lo"}]}}]}
        pieces = streamed([event(part)] * 3)
        with scripted(monkeypatch, *[refusal] * 4, pieces):
            async with self.client() as client:
                made = with_models(client, listener)
                with pytest.raises(APIError):
                    made.models.generate_content(**asked)
                with pytest.raises(APIError):
                    list(made.models.generate_content_stream(**asked))
                with pytest.raises(APIError):
                    await made.aio.models.generate_content(**asked)
                events = await made.aio.models.generate_content_stream(**asked)
                with pytest.raises(APIError):
                    await anext(events)
                for one in made.models.generate_content_stream(**asked):
                    assert one.text == "Lo"
                    break
                events = await made.aio.models.generate_content_stream(**asked)
                assert await anext(events)
                await events.aclose()
                await asyncio.sleep(0.01)  # what it was made of is closed by the loop
        *refused, left, left_async = (request.outcome for request in listener.requests)
        assert all(isinstance(error, APIError) for error in refused)
        assert len(refused) == 4
        assert "left the answer" in str(left)
        assert "left the answer" in str(left_async)
