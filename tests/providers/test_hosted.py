"""Hosted providers against a real server on loopback that speaks each wire format."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.providers.exchanges import (
    EXCHANGES,
    PIECES,
    SAID,
    SENT,
    TEXT,
    WIRES,
    event,
    openai_stream,
)
from tests.providers.server import Answer, serving, streamed, whole
from tests.support.providers_hosted import SECRET, VARIABLES, Hosted, hosted
from windlass.errors import BadRequest, ContextTooLong, ProviderError
from windlass.messages import ToolSpec, user
from windlass.providers._hosted import HostedProvider
from windlass.providers._pace import Limiter
from windlass.providers.catalog import Key, catalog
from windlass.settings.fields import ProviderSettings
from windlass.text.pictures import picture
from windlass.wire.base import Usage

TOOL = ToolSpec(
    "read_file",
    "Read a file.",
    {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
)
PNG = (
    b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00"
    b"\x1f\x15\xc4\x89\x00\x00\x00\rIDATx\x9cc\xf8\xff\xff?\x00\x05\xfe\x02\xfe\xa75\x81\x84"
    b"\x00\x00\x00\x00IEND\xaeB`\x82"
)


def parts(message: dict[str, Any]) -> list[dict[str, Any]]:
    """The parts of a chat message that carry a mark."""
    content = message["content"]
    return [one for one in content if "cache_control" in one] if isinstance(content, list) else []


@pytest.mark.parametrize("wire", WIRES)
class TestEveryFormat:
    async def test_sends_the_key_in_its_header_and_nowhere_else(self, wire: str) -> None:
        async with hosted(wire, EXCHANGES[wire].streamed) as own:
            await own.ask()
            (asked,) = own.server.asked
        header = {"openai": "authorization", "anthropic": "x-api-key", "gemini": "x-goog-api-key"}
        assert asked.headers.pop(header[wire]).removeprefix("Bearer ") == SECRET
        assert SECRET not in json.dumps([asked.path, asked.headers, asked.body])
        assert asked.method == "POST"

    async def test_an_overload_told_inside_the_stream_counts_as_one_before_it(
        self, wire: str
    ) -> None:
        exchange = EXCHANGES[wire]
        async with hosted(wire, exchange.overloaded_inside, exchange.streamed) as own:
            assert (await own.ask()).message.text == TEXT
        assert own.slept == [0.5]

    async def test_a_stream_that_stands_still_runs_into_the_limit(self, wire: str) -> None:
        held = streamed([b": wait\n\n"], hang=True)
        async with hosted(wire, held, EXCHANGES[wire].streamed, read_timeout_s=0.05) as own:
            assert (await own.ask()).message.text == TEXT
        first = streamed(EXCHANGES[wire].streamed.pieces[:4], hang=True)
        if wire == "gemini":
            first = streamed(EXCHANGES[wire].streamed.pieces[:1], hang=True)
        async with hosted(wire, first, read_timeout_s=0.05) as own:
            with pytest.raises(ProviderError, match=r"nothing came for 0.05 s .*shown"):
                await own.ask()

    async def test_too_long_is_an_error_of_its_own(self, wire: str) -> None:
        async with hosted(wire, EXCHANGES[wire].too_long) as own:
            with pytest.raises(ContextTooLong, match=rf"^{wire} answered 400: .*tokens"):
                await own.ask()
            assert len(own.server.asked) == 1
        async with hosted(wire, Answer((b"Request Entity Too Large",), 413, "text/plain")) as own:
            with pytest.raises(ContextTooLong, match="answered 413: Request Entity Too Large"):
                await own.ask()

    async def test_refusals_name_the_variable_and_never_the_key(self, wire: str) -> None:
        echo = {"error": {"message": f"Incorrect API key provided: {SECRET}", "type": "x"}}
        for status in (400, 401, 402, 403, 404, 418, 422):
            async with hosted(wire, whole(echo, status)) as own:
                with pytest.raises(ProviderError) as refused:
                    await own.ask()
                assert len(own.server.asked) == 1
            assert isinstance(refused.value, BadRequest) == (status in (400, 404, 422))
            assert f"{wire} answered {status}: " in str(refused.value)
            assert (VARIABLES[wire] in str(refused.value)) == (status in (401, 403))
            chain: BaseException | None = refused.value
            while chain is not None:
                assert SECRET not in f"{chain!r} {chain}"
                chain = chain.__cause__ or chain.__context__

    async def test_a_redirect_is_not_followed(self, wire: str) -> None:
        moved = Answer((), 307, headers=(("location", "http://127.0.0.1:9/elsewhere"),))
        async with hosted(wire, moved) as own:
            with pytest.raises(ProviderError, match="redirects are not followed"):
                await own.ask()

    async def test_cancelling_closes_the_connection(self, wire: str) -> None:
        async with hosted(wire, streamed([b": wait\n\n"], hang=True)) as own:
            asking = asyncio.create_task(own.ask())
            await own.server.busy.wait()
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            async with asyncio.timeout(5):
                await own.server.idle.wait()


class TestConnections:
    async def test_nobody_listens(self) -> None:
        async with hosted("openai", Answer()) as own:
            pass
        told = r"openai at http://127.0.0.1:\d+: nothing listens there \(tried 2 times\)"
        with pytest.raises(ProviderError, match=told):
            await own.ask()
        assert len(own.slept) == 1

    async def test_limits_hold_for_parallel_work(self) -> None:
        clock = 0.0
        waits: list[float] = []

        async def sleep(seconds: float) -> None:
            nonlocal clock
            waits.append(seconds)
            clock += seconds

        async with serving(EXCHANGES["openai"].streamed) as server:
            entry = catalog({"openai": ProviderSettings(base_url=server.url)})["openai"]
            limiter = Limiter(2, None, clock=lambda: clock, sleep=sleep)
            provider = HostedProvider(
                entry, Key("OPENAI_API_KEY", SECRET), warn=print, limiter=limiter
            )
            own = Hosted(provider, server, "gpt-4o", [], [])
            await asyncio.gather(*(own.ask() for _ in range(5)))
            await provider.close()
        assert clock == 120

    async def test_an_unreadable_picture_is_a_bad_request(self) -> None:
        lost = picture(PNG)
        lost = type(lost)(lost.sha256, lost.media_type)
        async with hosted("openai", EXCHANGES["openai"].streamed) as own:
            with pytest.raises(BadRequest, match="cannot be written for openai/gpt-4o"):
                await own.ask(user(lost))


class TestOwnServers:
    async def test_that_report_no_usage_are_counted_here(self) -> None:
        deltas = [{"content": piece} for piece in PIECES]
        stream = openai_stream(deltas, "stop")
        without = streamed([*stream[:-2], stream[-1]])
        async with hosted("openai", without, own="old", window=8_192) as own:
            reply = await own.ask()
        assert reply.message.text == TEXT
        assert reply.usage.tokens_in > 5
        assert reply.usage.tokens_out > 5
        assert own.warned == ["old reports no usage; its tokens are counted here"]
        async with hosted("openai", without) as vendor:
            with pytest.raises(ProviderError, match="before the usage"):
                await vendor.ask()


async def test_a_prompt_that_is_blocked_is_a_reply_that_was_held_back() -> None:
    blocked = {
        "promptFeedback": {"blockReason": "SAFETY"},
        "usageMetadata": {"promptTokenCount": 5, "totalTokenCount": 5},
    }
    async with hosted("gemini", streamed([event(blocked)])) as own:
        reply = await own.ask()
    assert (reply.message.text, reply.finish, reply.usage.tokens_in) == ("", "filter", 5)


@pytest.mark.parametrize("wire", [wire for wire in WIRES if EXCHANGES[wire].lie])
async def test_a_lie_about_the_cache_is_cut_to_what_can_be_and_told_once(wire: str) -> None:
    lie = EXCHANGES[wire].lie
    assert lie is not None
    async with hosted(wire, lie, stream=False) as own:
        for _ in range(2):
            assert (await own.ask()).usage == Usage(SENT, SAID, SENT)
    assert len(own.warned) == 1
    assert "reported 2,001 cached" in own.warned[0]
