"""`wrap`: the official clients, whose loops stay as they are, against servers that bill them."""

from __future__ import annotations

import asyncio
import copy
import gc
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import anthropic
import openai
import pytest
from google import genai
from google.genai import types

import windlass
from tests.context import loops
from tests.context.loops import LOOPS, claude_request
from tests.providers.model_server import ModelServer, log, model_server, reads_logs
from windlass.errors import UsageError

CLIENTS: dict[str, Callable[[], Any]] = {
    "anthropic": anthropic.Anthropic,
    "openai": openai.OpenAI,
    "responses": openai.OpenAI,
    "gemini": genai.Client,
}
ASYNC: dict[str, Callable[[], Any]] = {
    **CLIENTS,
    "anthropic": anthropic.AsyncAnthropic,
    "openai": openai.AsyncOpenAI,
    "responses": openai.AsyncOpenAI,
}
LEAN = {"profile": "lean", "commit": "at_once"}
"""A policy that shortens as soon as it can."""


@pytest.fixture
def new() -> Iterator[Callable[..., Any]]:
    """Makes clients, which are closed in the end."""
    made: list[Any] = []

    def client(form: str, **options: Any) -> Any:
        made.append(CLIENTS[form](**options))
        return made[-1]

    yield client
    for one in made:
        one.close()


@asynccontextmanager
async def new_async(form: str, policy: Any = "default") -> AsyncIterator[tuple[Any, Any]]:
    """An async client that is wrapped, and its report; it is closed in the end."""
    client = ASYNC[form]()
    wrapped = windlass.wrap(client, policy)
    try:
        yield wrapped.aio if form == "gemini" else wrapped, wrapped.windlass
    finally:
        if form == "gemini":
            client.close()
            await client.aio.aclose()
        else:
            await client.close()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    with model_server(reads_logs(6)) as served:
        served.lead(monkeypatch)
        yield served


def ask(form: str, client: Any, listed: list[Any], *, stream: bool = False) -> Any:
    """One request of a client."""
    more: dict[str, Any] = {"stream": True} if stream else {}
    if form == "anthropic":
        return client.messages.create(**claude_request(listed), **more)
    if form == "openai":
        more |= {"stream_options": {"include_usage": True}} if stream else {}
        return client.chat.completions.create(
            model="gpt-5", messages=listed, tools=loops.CHAT_TOOLS, **more
        )
    if form == "responses":
        about = {"model": "gpt-5", "instructions": loops.SYSTEM, "tools": loops.FLAT_TOOLS}
        return client.responses.create(input=listed, **about, **more)
    models = client.models
    ask = models.generate_content_stream if stream else models.generate_content
    return ask(model="gemini-2.5-flash", contents=listed, config=loops.gemini_config())


def history(form: str, turns: int, task: str = loops.TASK) -> list[Any]:
    """A list of messages with so many logs read, as its loop has it."""
    if form == "gemini":
        listed: list[Any] = [{"role": "user", "parts": [{"text": task}]}]
    else:
        listed = [{"role": "user", "content": task}]
    for at in range(turns):
        ident, text, given = f"call_{at}", log(at), f'{{"number": {at}}}'
        if form == "anthropic":
            use = {"type": "tool_use", "id": ident, "name": "read_log", "input": {"number": at}}
            result = {"type": "tool_result", "tool_use_id": ident, "content": text}
            pair = [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
        elif form == "openai":
            function = {"name": "read_log", "arguments": given}
            call = {"id": ident, "type": "function", "function": function}
            pair = [
                {"role": "assistant", "tool_calls": [call]},
                {"role": "tool", "tool_call_id": ident, "content": text},
            ]
        elif form == "responses":
            about = {"call_id": ident, "name": "read_log", "arguments": given}
            pair = [
                {"type": "function_call", **about},
                {"type": "function_call_output", "call_id": ident, "output": text},
            ]
        else:
            call = {"id": ident, "name": "read_log", "args": {"number": at}}
            answer = {"id": ident, "name": "read_log", "response": {"output": text}}
            pair = [
                {"role": "model", "parts": [{"functionCall": call}]},
                {"role": "user", "parts": [{"functionResponse": answer}]},
            ]
        listed += pair
    return listed


def bodies(server: ModelServer) -> list[Any]:
    return [asked.body for asked in server.asked]


def bare(value: Any) -> Any:
    """JSON without cache marks."""
    if isinstance(value, list):
        return [bare(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {key: bare(one) for key, one in value.items() if key != "cache_control"}


class TestLoops:
    @pytest.mark.parametrize("form", LOOPS)
    def test_a_loop_as_it_was_is_billed_less(
        self, form: str, monkeypatch: pytest.MonkeyPatch, new: Callable[..., Any]
    ) -> None:
        def run(wrapped: Callable[[Any], Any], **more: Any) -> tuple[ModelServer, Any, list[Any]]:
            with model_server(reads_logs(12)) as served:
                served.lead(monkeypatch)
                client = wrapped(new(form))
                said = LOOPS[form](client, **more)
            return served, client, said

        marked = {"marked": True} if form == "anthropic" else {}
        everything, _, said = run(lambda client: client, **marked)
        windows, client, said_to_wrapped = run(windlass.wrap)
        assert everything.refused == windows.refused == []
        assert len(everything.billed) == len(windows.billed) == 13
        assert windows.bill < 0.9 * everything.bill
        assert len(said) == len(said_to_wrapped)  # the loop's own list is complete
        report = client.windlass
        assert len(report.calls) == 13
        assert {call.thread for call in report.calls} == {1}
        assert not report.passed
        used = [call.usage for call in report.calls]
        assert [one.tokens_in for one in used] == [one.tokens for one in windows.billed]
        assert [one.tokens_cached for one in used] == [one.read for one in windows.billed]
        assert report.cost == pytest.approx(sum(call.cost for call in report.calls))
        assert report.cost > 0
        assert report.saved_tokens > 10_000
        assert str(report).startswith("13 calls in 1 conversation: ")

    def test_a_model_that_binds_its_thinking_refuses_nothing(
        self, server: ModelServer, new: Callable[..., Any]
    ) -> None:
        client = windlass.wrap(new("anthropic"), {"profile": "lean", "commit": "at_once"})
        loops.claude(client, model="claude-opus-5-5")
        assert server.refused == []
        assert len(server.billed) == 7

    def test_thinking_that_is_refused_goes_once_more_without_any(
        self, server: ModelServer, new: Callable[..., Any]
    ) -> None:
        """Here that of a conversation that began with another system prompt, and no wrapper."""
        plain = new("anthropic", max_retries=0)
        request = claude_request([{"role": "user", "content": loops.TASK}], "claude-opus-5-5")
        answer = plain.messages.create(**request)
        results = loops.claude_results(answer.content)
        request["messages"] += [
            {"role": "assistant", "content": answer.content},
            {"role": "user", "content": results},
        ]
        request["system"] = "Another one."
        client = windlass.wrap(plain)
        answer = client.messages.create(**request)
        assert answer.content[-1].type == "tool_use"
        (refusal,) = server.refused
        assert "bound to a different conversation" in refusal
        first, second, third = ("thinking" in str(body["messages"]) for body in bodies(server))
        assert (first, second, third) == (False, True, False)
        assert client.windlass.calls[0].usage.tokens_in == server.billed[-1].tokens
        request["messages"] += [
            {"role": "assistant", "content": answer.content},
            {"role": "user", "content": loops.claude_results(answer.content)},
        ]
        client.messages.create(**request)
        assert len(server.refused) == 1
        assert "thinking" in str(bodies(server)[-1]["messages"])  # that of the second answer

    @pytest.mark.parametrize("form", LOOPS)
    def test_async_clients_send_the_same(
        self, form: str, server: ModelServer, new: Callable[..., Any]
    ) -> None:
        async def asked() -> Any:
            async with new_async(form, LEAN) as (client, report):
                for turns in (2, 4):
                    await ask(form, client, history(form, turns))
            return report

        report = asyncio.run(asked())
        client = windlass.wrap(new(form), LEAN)
        for turns in (2, 4):
            ask(form, client, history(form, turns))
        sent = bodies(server)
        assert sent[:2] == sent[2:]
        assert [call.usage.tokens_in for call in report.calls] == [
            one.tokens for one in server.billed[:2]
        ]
        assert report.saved_tokens == client.windlass.saved_tokens > 0


class TestStreams:
    @pytest.mark.parametrize("form", LOOPS)
    def test_a_streamed_answer_is_told_as_it_comes(
        self, form: str, server: ModelServer, new: Callable[..., Any]
    ) -> None:
        plain, wrapped = new(form), windlass.wrap(new(form), LEAN)
        expected = [type(event) for event in ask(form, plain, history(form, 3), stream=True)]
        assert [
            type(event) for event in ask(form, wrapped, history(form, 3), stream=True)
        ] == expected
        (call,) = wrapped.windlass.calls
        assert call.usage.tokens_in == server.billed[1].tokens < server.billed[0].tokens

    @pytest.mark.parametrize("form", LOOPS)
    def test_so_is_an_async_one(self, form: str, server: ModelServer) -> None:
        async def asked() -> tuple[int, Any]:
            async with new_async(form, LEAN) as (client, report):
                answer = await ask(form, client, history(form, 3), stream=True)
                return len([one async for one in answer]), report

        events, report = asyncio.run(asked())
        assert events
        assert report.calls[0].usage.tokens_in == server.billed[0].tokens

    def test_helpers_of_the_clients_stream_windows(
        self, server: ModelServer, new: Callable[..., Any]
    ) -> None:
        client = windlass.wrap(new("anthropic"), LEAN)
        request = claude_request(history("anthropic", 3))
        with client.messages.stream(**request) as stream:
            assert "".join(stream.text_stream) == "Next is log 3."
            assert stream.get_final_message().stop_reason == "tool_use"
        other = windlass.wrap(new("openai"), LEAN)
        with other.responses.stream(model="gpt-5", input=history("responses", 3)) as events:
            assert events.get_final_response().output_text
        for one in (client.windlass, other.windlass):
            assert one.saved_tokens > 0
            assert one.calls[0].usage is not None

    def test_a_stream_that_is_left_early_is_closed(
        self, server: ModelServer, new: Callable[..., Any]
    ) -> None:
        client = windlass.wrap(new("openai"))
        with ask("openai", client, history("openai", 1), stream=True) as stream:
            next(iter(stream))
        assert stream.response.is_closed
        assert client.windlass.calls[0].usage is None  # it said none so far


class TestThreads:
    def test_conversations_are_told_apart(
        self, server: ModelServer, new: Callable[..., Any]
    ) -> None:
        client = windlass.wrap(new("anthropic"), LEAN)
        for turns in (1, 2, 3):
            for task in ("Read one.", "Read the other."):
                ask("anthropic", client, history("anthropic", turns, task))
        assert [call.thread for call in client.windlass.calls] == [1, 2] * 3
        alone = windlass.wrap(new("anthropic"), LEAN)
        for turns in (1, 2, 3):
            ask("anthropic", alone, history("anthropic", turns, "Read one."))
        assert bodies(server)[:6:2] == bodies(server)[6:]

    def test_a_thread_that_parts_goes_on_from_the_common_beginning(
        self, server: ModelServer, new: Callable[..., Any]
    ) -> None:
        """What was sent of it is sent again, byte by byte, though counts came in between."""
        client = windlass.wrap(new("openai"), LEAN, max_input_tokens=6_000)
        for turns in (1, 2, 3, 4):
            ask("openai", client, history("openai", turns))
        rewound = [*history("openai", 3), {"role": "user", "content": "Look again."}]
        ask("openai", client, rewound)
        ask("openai", client, history("openai", 5))
        assert [call.thread for call in client.windlass.calls] == [1, 1, 1, 1, 2, 1]
        sent = [body["messages"] for body in bodies(server)]
        assert sent[4][: len(sent[2])] == sent[2]
        assert sent[4][len(sent[2]) :] == [rewound[-1]]

    def test_the_same_again_is_the_same_again(
        self, server: ModelServer, new: Callable[..., Any]
    ) -> None:
        client = windlass.wrap(new("anthropic"))
        for _ in range(2):
            ask("anthropic", client, history("anthropic", 2))
        first, second = ({**body, "messages": bare(body["messages"])} for body in bodies(server))
        assert first == second
        assert [call.thread for call in client.windlass.calls] == [1, 1]

    def test_a_mark_that_moves_makes_no_new_thread(
        self, server: ModelServer, new: Callable[..., Any]
    ) -> None:
        client = windlass.wrap(new("anthropic"))
        loops.claude(client, marked=True)
        assert {call.thread for call in client.windlass.calls} == {1}
        assert server.refused == []
        assert all(1 <= str(body).count("cache_control") <= 4 for body in bodies(server))

    def test_what_the_provider_counts_is_planned_by(
        self, server: ModelServer, new: Callable[..., Any]
    ) -> None:
        client = windlass.wrap(new("openai"))
        for turns in range(1, 6):
            server.forget()
            ask("openai", client, history("openai", turns))
        told = [call.assumed for call in client.windlass.calls]
        assert any("planned as cold" in text for texts in told for text in texts)


class TestRequests:
    @pytest.mark.parametrize("form", LOOPS)
    def test_tools_and_all_else_of_a_request_stay(
        self, form: str, server: ModelServer, new: Callable[..., Any]
    ) -> None:
        ask(form, new(form), history(form, 1))
        ask(form, windlass.wrap(new(form)), history(form, 1))
        plain, windowed = bodies(server)
        for body in (plain, windowed):
            for key in ("messages", "input", "contents", "prompt_cache_key", "system"):
                body.pop(key, None)
            for tool in body["tools"]:
                tool.pop("cache_control", None)
        assert windowed == plain

    def test_tools_of_the_provider_and_late_system_messages_stay(
        self, server: ModelServer, new: Callable[..., Any]
    ) -> None:
        client = windlass.wrap(new("anthropic"))
        search = {"type": "web_search_20260209", "name": "web_search", "max_uses": 2}
        request = claude_request(history("anthropic", 1))
        request["tools"] = [*request["tools"], search]
        late = {"role": "system", "content": "Be brief from here on."}
        request["messages"] = [*request["messages"], late, {"role": "user", "content": "Go on."}]
        client.messages.create(**request)
        (body,) = bodies(server)
        bare = {key: one for key, one in body["tools"][1].items() if key != "cache_control"}
        assert bare == search
        assert body["messages"][-2]["role"] == "system"

    @pytest.mark.parametrize(
        ("more", "why"),
        [
            ({"previous_response_id": "resp_1"}, "its earlier messages lie with the provider"),
            ({"input": [{"role": "nobody", "content": "x"}]}, "role"),
            ({"tools": [{"type": "function"}]}, "a tool is an object"),
        ],
    )
    def test_what_cannot_be_read_is_sent_as_it_is(
        self, more: dict[str, Any], why: str, server: ModelServer, new: Callable[..., Any]
    ) -> None:
        request: dict[str, Any] = {"model": "gpt-5", "input": history("responses", 1), **more}
        for client in (new("openai"), wrapped := windlass.wrap(new("openai"))):
            with suppress(openai.BadRequestError):
                client.responses.create(**request)
        plain, passed = bodies(server)
        assert passed == plain
        report: Any = getattr(wrapped, "windlass")  # noqa: B009 - its class does not name it
        (call,) = report.calls
        ((told, count),) = report.passed.items()
        assert call.passed_because == told
        assert why in told
        assert count == 1
        assert f"1 passed on as they were: {told}" in str(report)

    def test_marks_of_a_kind_that_is_not_known_are_left_to_their_author(
        self, server: ModelServer, new: Callable[..., Any]
    ) -> None:
        text = {"type": "text", "text": "Read.", "cache_control": {"type": "ephemeral"}}
        request = {"model": "acme/model-1", "messages": [{"role": "user", "content": [text]}]}
        prices = windlass.Prices(read=0.1, write=1, minimum=1_024, step=1, ttl_s=300)
        client = windlass.wrap(new("openai"), prices=prices)
        client.chat.completions.create(**request)
        assert bodies(server) == [request]
        assert not client.windlass.passed

    def test_an_error_of_the_provider_is_raised_as_ever(
        self, server: ModelServer, new: Callable[..., Any]
    ) -> None:
        client = windlass.wrap(new("anthropic", max_retries=0))
        request = {**claude_request(history("anthropic", 1)), "tool_choice": {"type": "any"}}
        with pytest.raises(anthropic.BadRequestError, match="tool_choice"):
            client.messages.create(**request)
        assert client.windlass.calls[0].usage is None

    def test_a_usage_that_makes_no_sense_stops_nothing_and_is_told(
        self, server: ModelServer, new: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("windlass.context.wrap.usage_of", lambda _: {"input": "many"})
        client = windlass.wrap(new("anthropic"))
        ask("anthropic", client, history("anthropic", 1))
        (call,) = client.windlass.calls
        assert call.usage is None
        assert [each for each in call.assumed if "its usage cannot be read" in each]


class TestClients:
    def test_the_rest_of_a_client_is_as_it_was(
        self, server: ModelServer, new: Callable[..., Any]
    ) -> None:
        plain = new("anthropic")
        assert plain.messages is not None  # made before
        client = windlass.wrap(plain)
        assert type(client) is type(plain)
        assert client.messages is not plain.messages
        assert not hasattr(plain, "windlass")
        ask("anthropic", plain, history("anthropic", 1))
        assert client.windlass.calls == []
        counted = client.messages.count_tokens(
            model="claude-opus-5", messages=history("anthropic", 1)
        )
        assert counted.input_tokens > 0
        assert [one.id for one in windlass.wrap(new("openai")).models.list()] == ["a-model"]

    def test_copies_with_options_and_betas_are_wrapped_too(
        self, server: ModelServer, new: Callable[..., Any]
    ) -> None:
        client = windlass.wrap(new("anthropic"), LEAN)
        quick = client.with_options(timeout=5.0, max_retries=0)
        assert quick.timeout == 5.0
        ask("anthropic", quick, history("anthropic", 2))
        request = claude_request(history("anthropic", 4))
        client.beta.messages.create(**request, betas=["a-beta"])
        raw = client.messages.with_raw_response.create(**claude_request(history("anthropic", 5)))
        assert raw.parse().content
        assert [call.thread for call in client.windlass.calls] == [1, 1, 1]
        assert quick.windlass is client.windlass
        assert client.windlass.saved_tokens > 0

    def test_a_gemini_client_lives_as_long_as_its_wrapped_one(
        self, server: ModelServer, new: Callable[..., Any]
    ) -> None:
        client = windlass.wrap(new("gemini"), LEAN)
        assert isinstance(client, CLIENTS["gemini"])  # type: ignore[arg-type]
        gc.collect()
        chat = client.chats.create(model="gemini-2.5-flash", config=loops.gemini_config())
        (call,) = chat.send_message(loops.TASK).function_calls
        result = types.FunctionResponse(id=call.id, name=call.name, response={"output": log(0)})
        chat.send_message([types.Part(function_response=result)])
        assert [call.messages for call in client.windlass.calls] == [1, 3]
        plain = new("gemini")
        wrapped: Any = windlass.wrap(plain)
        del wrapped
        gc.collect()
        assert ask("gemini", plain, history("gemini", 1)).candidates
        assert client.aio.models is not plain.aio.models

    def test_a_copy_of_the_list_is_not_written_into(
        self, server: ModelServer, new: Callable[..., Any]
    ) -> None:
        client = windlass.wrap(new("anthropic"), LEAN)
        given = history("anthropic", 4)
        before = copy.deepcopy(given)
        ask("anthropic", client, given)
        assert given == before

    def test_the_loops_own_recall_is_answered(
        self, server: ModelServer, new: Callable[..., Any]
    ) -> None:
        schema = {"type": "object", "properties": {"ref": {"type": "string"}}, "required": ["ref"]}
        request = claude_request(history("anthropic", 5))
        client = windlass.wrap(new("anthropic"), LEAN)
        assert "no conversation so far" in client.windlass.recall("result_12345678")
        client.messages.create(**request)
        recall = {"name": "recall", "description": "An original.", "input_schema": schema}
        request["tools"] = [*request["tools"], recall]
        client.messages.create(**request)
        without, offered = bodies(server)
        assert len(offered["tools"]) == 2
        shown = str(offered["messages"])
        reference = shown[shown.index("result_") :][:15]
        assert client.windlass.recall(reference) in {log(at) for at in range(5)}
        assert "names no message here" in client.windlass.recall("result_00000000")
        assert len(without["tools"]) == 1

    @pytest.mark.parametrize("client", ["anthropic", object(), None])
    def test_what_is_no_client_is_refused_in_a_sentence(self, client: Any) -> None:
        with pytest.raises(UsageError, match="wrap takes a client of anthropic, openai or google"):
            windlass.wrap(client)

    def test_so_is_one_that_is_wrapped_and_a_wrong_policy(
        self, server: ModelServer, new: Callable[..., Any]
    ) -> None:
        with pytest.raises(UsageError, match="wrapped already"):
            windlass.wrap(windlass.wrap(new("openai")))
        with pytest.raises(UsageError, match="profile"):
            windlass.wrap(new("openai"), {"profile": "thin"})

    def test_wrapping_imports_no_client(self) -> None:
        told = "import sys, windlass; windlass.wrap; print(*sys.modules)"
        done = subprocess.run(
            [sys.executable, "-c", told], capture_output=True, text=True, check=True, timeout=60
        )
        assert {"anthropic", "openai", "google.genai"}.isdisjoint(done.stdout.split())
        assert "windlass.context.wrap" in done.stdout
