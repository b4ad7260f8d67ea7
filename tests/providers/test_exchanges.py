"""The official clients read the same answers: what the tests here serve has the real form."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.providers.exchanges import (
    CACHED,
    CALL,
    EXCHANGES,
    MODELS,
    PIECES,
    RATE_LIMITED,
    SAID,
    SENT,
    TEXT,
    WRITTEN,
)
from tests.providers.server import Answer, serving, whole

KEY = "no-key-at-all"
NAME, ARGUMENTS = CALL


class TestOpenAI:
    ASK: dict[str, Any] = {  # noqa: RUF012 - read only
        "model": MODELS["openai"],
        "messages": [{"role": "user", "content": "What of the prices?"}],
    }

    @staticmethod
    @asynccontextmanager
    async def client(answer: Answer) -> AsyncIterator[Any]:
        import openai

        async with serving(answer) as server:
            client = openai.AsyncOpenAI(base_url=server.url, api_key=KEY, max_retries=0)
            async with client:
                yield client

    async def test_plain(self) -> None:
        async with self.client(EXCHANGES["openai"].plain) as client:
            answer = await client.chat.completions.create(**self.ASK)
        assert answer.choices[0].message.content == TEXT
        assert answer.usage.prompt_tokens == SENT
        assert answer.usage.prompt_tokens_details.cached_tokens == CACHED

    async def test_streamed(self) -> None:
        pieces: list[str] = []
        usage = None
        async with self.client(EXCHANGES["openai"].streamed) as client:
            async for chunk in await client.chat.completions.create(**self.ASK, stream=True):
                pieces += [c.delta.content for c in chunk.choices if c.delta.content]
                usage = chunk.usage or usage
        assert pieces == list(PIECES)
        assert usage is not None
        assert (usage.prompt_tokens, usage.completion_tokens) == (SENT, SAID)

    async def test_calls(self) -> None:
        async with self.client(EXCHANGES["openai"].call) as client:
            answer = await client.chat.completions.create(**self.ASK)
        (call,) = answer.choices[0].message.tool_calls
        assert call.function.name == NAME
        async with self.client(EXCHANGES["openai"].call_streamed) as client:
            stream = client.chat.completions.stream(**self.ASK)
            async with stream as events:
                final = await events.get_final_completion()
        (streamed_call,) = final.choices[0].message.tool_calls
        assert streamed_call.function.arguments == call.function.arguments

    async def test_errors(self) -> None:
        import openai

        async with self.client(EXCHANGES["openai"].too_long) as client:
            with pytest.raises(openai.BadRequestError) as refused:
                await client.chat.completions.create(**self.ASK)
        assert refused.value.code == "context_length_exceeded"
        async with self.client(whole(RATE_LIMITED["openai"], 429)) as client:
            with pytest.raises(openai.RateLimitError):
                await client.chat.completions.create(**self.ASK)
        async with self.client(EXCHANGES["openai"].overloaded_inside) as client:
            with pytest.raises(openai.APIError, match="had an error"):
                async for _ in await client.chat.completions.create(**self.ASK, stream=True):
                    pass


class TestAnthropic:
    ASK: dict[str, Any] = {  # noqa: RUF012 - read only
        "model": MODELS["anthropic"],
        "max_tokens": 64,
        "messages": [{"role": "user", "content": "What of the prices?"}],
    }

    @staticmethod
    @asynccontextmanager
    async def client(answer: Answer) -> AsyncIterator[Any]:
        import anthropic

        async with serving(answer) as server:
            client = anthropic.AsyncAnthropic(base_url=server.url, api_key=KEY, max_retries=0)
            async with client:
                yield client

    async def test_plain(self) -> None:
        async with self.client(EXCHANGES["anthropic"].plain) as client:
            answer = await client.messages.create(**self.ASK)
        assert answer.content[0].text == TEXT
        usage = answer.usage
        assert usage.cache_read_input_tokens == CACHED
        assert usage.cache_creation_input_tokens == WRITTEN
        assert usage.input_tokens + CACHED + WRITTEN == SENT

    async def test_streamed(self) -> None:
        async with (
            self.client(EXCHANGES["anthropic"].streamed) as client,
            client.messages.stream(**self.ASK) as stream,
        ):
            pieces = [piece async for piece in stream.text_stream]
            final = await stream.get_final_message()
        assert pieces == list(PIECES)
        assert final.usage.output_tokens == SAID
        assert final.stop_reason == "end_turn"

    async def test_calls(self) -> None:
        async with self.client(EXCHANGES["anthropic"].call) as client:
            answer = await client.messages.create(**self.ASK)
        async with (
            self.client(EXCHANGES["anthropic"].call_streamed) as client,
            client.messages.stream(**self.ASK) as stream,
        ):
            final = await stream.get_final_message()
        for (use,) in (answer.content, final.content):
            assert (use.name, use.input) == (NAME, ARGUMENTS)

    async def test_errors(self) -> None:
        import anthropic

        async with self.client(EXCHANGES["anthropic"].too_long) as client:
            with pytest.raises(anthropic.BadRequestError, match="prompt is too long"):
                await client.messages.create(**self.ASK)
        async with self.client(whole(RATE_LIMITED["anthropic"], 429)) as client:
            with pytest.raises(anthropic.RateLimitError):
                await client.messages.create(**self.ASK)
        async with self.client(EXCHANGES["anthropic"].overloaded_inside) as client:
            with pytest.raises(anthropic.APIError, match="Overloaded"):
                async for _ in await client.messages.create(**self.ASK, stream=True):
                    pass


class TestGemini:
    ASK: dict[str, Any] = {  # noqa: RUF012 - read only
        "model": MODELS["gemini"],
        "contents": "What of the prices?",
    }

    @staticmethod
    @asynccontextmanager
    async def client(answer: Answer) -> AsyncIterator[Any]:
        from google import genai

        async with serving(answer) as server:
            options = genai.types.HttpOptions(base_url=server.url)
            client = genai.Client(api_key=KEY, http_options=options)
            try:
                yield client.aio.models
            finally:
                await client.aio.aclose()
                client.close()

    async def test_plain(self) -> None:
        async with self.client(EXCHANGES["gemini"].plain) as models:
            answer = await models.generate_content(**self.ASK)
        assert answer.text == TEXT
        assert answer.usage_metadata.prompt_token_count == SENT
        assert answer.usage_metadata.cached_content_token_count == CACHED

    async def test_streamed(self) -> None:
        async with self.client(EXCHANGES["gemini"].streamed) as models:
            chunks = [chunk async for chunk in await models.generate_content_stream(**self.ASK)]
        assert [chunk.text for chunk in chunks] == list(PIECES)
        assert chunks[-1].usage_metadata.candidates_token_count == SAID

    async def test_calls(self) -> None:
        async with self.client(EXCHANGES["gemini"].call) as models:
            answer = await models.generate_content(**self.ASK)
        (call,) = answer.function_calls
        assert (call.name, call.args) == (NAME, ARGUMENTS)

    async def test_errors(self) -> None:
        from google.genai.errors import ClientError

        async with self.client(EXCHANGES["gemini"].too_long) as models:
            with pytest.raises(ClientError, match="exceeds the maximum number of tokens"):
                await models.generate_content(**self.ASK)
        async with self.client(whole(RATE_LIMITED["gemini"], 429)) as models:
            with pytest.raises(ClientError) as refused:
                await models.generate_content(**self.ASK)
        assert refused.value.code == 429
