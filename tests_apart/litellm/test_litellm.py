"""litellm against a server on loopback that speaks what litellm speaks to its providers."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.caching.requests import mark
from tests.providers.exchanges import (
    CACHED,
    CALL,
    EXCHANGES,
    PIECES,
    RATE_LIMITED,
    SAID,
    SENT,
    TEXT,
    anthropic_event,
    anthropic_stream,
)
from tests.providers.server import Answer, Server, serving, streamed, whole
from tests.providers.test_hosted import PNG, TOOL

import windlass
from windlass.caching.rates import rate
from windlass.errors import BadRequest, ContextTooLong, ProviderError, RateLimited, UsageError
from windlass.messages import Message, Text, system, user
from windlass.providers._pace import Patience
from windlass.providers.at_hand import Providers
from windlass.providers.catalog import Key, catalog
from windlass.providers.litellm import LiteLLMProvider
from windlass.settings.fields import ProviderSettings
from windlass.text.pictures import picture
from windlass.wire.base import Reply, Request, Usage

SECRET = "sk-proj-VERY-secret-0123456789"
MODELS = {
    "openai/gpt-4o": "openai",
    "groq/llama-3.3-70b-versatile": "openai",
    "anthropic/claude-sonnet-4-5": "anthropic",
}
KEYS = ("OPENAI_API_KEY", "GROQ_API_KEY", "ANTHROPIC_API_KEY")


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in KEYS:
        monkeypatch.setenv(name, SECRET)


@dataclass
class Asker:
    """A provider, the server it talks to, and what both did."""

    provider: LiteLLMProvider
    server: Server
    model: str
    slept: list[float]
    warned: list[str]
    pieces: list[str] = field(default_factory=list)

    async def ask(self, *messages: Message, **more: Any) -> Reply:
        said = messages or (system("Be brief."), user("What of the prices?"))
        request = Request(self.model, said, **{"max_output_tokens": 64, **more})
        return await self.provider.send(request, self.pieces.append)


@asynccontextmanager
async def asking(model: str, *script: Answer, **said: Any) -> AsyncIterator[Asker]:
    slept: list[float] = []
    warned: list[str] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    async with serving(*script) as server:
        settings = ProviderSettings(base_url=server.url, **{"window": 100_000, **said})
        provider = LiteLLMProvider(
            catalog({"litellm": settings})["litellm"],
            Key(),
            warn=warned.append,
            patience=Patience(sleep=sleep, random=lambda: 1.0),
        )
        try:
            yield Asker(provider, server, model, slept, warned)
        finally:
            await provider.close()
            await provider.close()  # twice is once


@pytest.mark.parametrize(("model", "wire"), MODELS.items())
class TestEveryProvider:
    async def test_streams_its_text_and_reports_its_usage(self, model: str, wire: str) -> None:
        exchange = EXCHANGES[wire]
        async with asking(model, exchange.streamed) as own:
            reply = await own.ask()
        assert own.pieces == list(PIECES)
        assert (reply.message.text, reply.finish) == (TEXT, "stop")
        assert reply.message.parts == (Text(TEXT),)
        assert reply.usage == Usage(SENT, SAID, CACHED, exchange.written)
        assert reply.model == f"litellm/{model}"
        assert own.warned == []

    async def test_reads_a_whole_answer_where_streaming_is_switched_off(
        self, model: str, wire: str
    ) -> None:
        exchange = EXCHANGES[wire]
        async with asking(model, exchange.plain, stream=False) as own:
            reply = await own.ask()
            (asked,) = own.server.asked
        assert own.pieces == [TEXT]
        assert reply.usage == Usage(SENT, SAID, CACHED, exchange.written)
        assert not asked.body.get("stream")
        assert asked.body["max_tokens"] == 64

    @pytest.mark.parametrize("stream", [True, False])
    async def test_brings_tool_calls(self, model: str, wire: str, stream: bool) -> None:
        exchange = EXCHANGES[wire]
        answer = exchange.call_streamed if stream else exchange.call
        async with asking(model, answer, stream=stream) as own:
            reply = await own.ask(tools=(TOOL,))
        (call,) = reply.message.tool_calls
        assert (call.name, json.loads(call.arguments)) == CALL
        assert reply.finish == "tool_calls"
        assert own.pieces == []

    async def test_waits_as_long_as_it_is_told_and_tries_again(self, model: str, wire: str) -> None:
        refused = whole(RATE_LIMITED[wire], 429, retry_after="7")
        async with asking(model, refused, EXCHANGES[wire].streamed) as own:
            assert (await own.ask()).message.text == TEXT
            assert len(own.server.asked) == 2
        assert own.slept == [7]

    async def test_gives_up_when_it_stays_so(self, model: str, wire: str) -> None:
        vendor = model.partition("/")[0]
        async with asking(model, whole(RATE_LIMITED[wire], 429)) as own:
            with pytest.raises(RateLimited, match=rf"^litellm/{vendor} answered 429: .*5 times"):
                await own.ask()
            assert len(own.server.asked) == 5

    @pytest.mark.parametrize("status", [500, 503, 529])
    async def test_tries_again_what_is_the_servers_fault(
        self, model: str, wire: str, status: int
    ) -> None:
        broken = Answer((b"<html>Bad Gateway</html>",), status, "text/html")
        async with asking(model, broken, EXCHANGES[wire].streamed) as own:
            assert (await own.ask()).message.text == TEXT
        assert own.slept == [0.5]

    async def test_an_overload_told_inside_the_stream_counts_as_one_before_it(
        self, model: str, wire: str
    ) -> None:
        exchange = EXCHANGES[wire]
        async with asking(model, exchange.overloaded_inside, exchange.streamed) as own:
            assert (await own.ask()).message.text == TEXT
        assert own.slept == [0.5]

    async def test_a_stream_cut_in_the_middle_is_not_taken_as_whole_nor_sent_twice(
        self, model: str, wire: str
    ) -> None:
        begun = EXCHANGES[wire].streamed.pieces[:4]
        for cut in (True, False):  # without, and with, a proper end of the body
            async with asking(model, streamed(begun, cut=cut)) as own:
                with pytest.raises(ProviderError, match="after a part of the answer was shown"):
                    await own.ask()
                assert len(own.server.asked) == 1

    async def test_a_stream_cut_before_its_first_text_is(self, model: str, wire: str) -> None:
        exchange = EXCHANGES[wire]
        for cut in (streamed([], cut=True), streamed([])):
            async with asking(model, cut, exchange.streamed) as own:
                assert (await own.ask()).message.text == TEXT
            assert own.pieces == list(PIECES)
            assert own.slept == [0.5]

    async def test_silence_runs_into_the_limit(self, model: str, wire: str) -> None:
        exchange = EXCHANGES[wire]
        held = streamed([b": wait\n\n"], hang=True)
        async with asking(model, held, exchange.streamed, read_timeout_s=0.2) as own:
            assert (await own.ask()).message.text == TEXT
        first = streamed(exchange.streamed.pieces[:4], hang=True)
        async with asking(model, first, read_timeout_s=0.2) as own:
            with pytest.raises(ProviderError, match=r"nothing came for 0.2 s .*shown"):
                await own.ask()

    async def test_a_malformed_chunk_is_no_answer(self, model: str, wire: str) -> None:
        async with asking(model, streamed([b'data: {"choices": [{]}\n\n'])) as own:
            with pytest.raises(ProviderError, match=r"broke off|in the middle"):
                await own.ask()

    async def test_too_long_is_an_error_of_its_own_with_its_numbers(
        self, model: str, wire: str
    ) -> None:
        async with asking(model, EXCHANGES[wire].too_long) as own:
            with pytest.raises(ContextTooLong, match=r"answered 400: .*tokens") as refused:
                await own.ask()
            assert len(own.server.asked) == 1
        assert refused.value.limit in (128_000, 200_000)

    async def test_refusals_never_hold_the_key(self, model: str, wire: str) -> None:
        echo = {"error": {"message": f"Incorrect API key provided: {SECRET}", "type": "x"}}
        variable = model.partition("/")[0].upper() + "_API_KEY"
        for status in (400, 401, 403, 404, 422):
            async with asking(model, whole(echo, status)) as own:
                with pytest.raises(ProviderError) as refused:
                    await own.ask()
                assert len(own.server.asked) == 1
            assert isinstance(refused.value, BadRequest) == (status in (400, 404, 422))
            assert (variable in str(refused.value)) == (status in (401, 403))
            chain: BaseException | None = refused.value
            while chain is not None:
                assert SECRET not in f"{chain!r} {chain}"
                chain = chain.__cause__ or chain.__context__

    async def test_cancelling_closes_the_connection(self, model: str, wire: str) -> None:
        async with asking(model, streamed([b": wait\n\n"], hang=True)) as own:
            asked = asyncio.create_task(own.ask())
            await own.server.busy.wait()
            asked.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asked
            async with asyncio.timeout(5):
                await own.server.idle.wait()

    async def test_pictures_are_described_to_a_model_that_cannot_see(
        self, model: str, wire: str
    ) -> None:
        message = user(Text("Look:"), picture(PNG, name="chart.png"))
        for sees in (True, False):
            async with asking(model, EXCHANGES[wire].streamed, sees_pictures=sees) as own:
                await own.ask(message)
                body = json.dumps(own.server.asked[0].body)
            assert ("[Image: chart.png, 1x1]" in body) != sees
            assert ("iVBORw0KGgo" in body) == sees

    async def test_says_nothing_of_its_own(
        self,
        model: str,
        wire: str,
        capfd: pytest.CaptureFixture[str],
    ) -> None:
        async with asking(model, whole({"error": {"message": "no"}}, 400)) as own:
            with pytest.raises(BadRequest):
                await own.ask()
        await asyncio.sleep(0.05)
        told = capfd.readouterr()
        assert told.out + told.err == ""
        # What it logs goes to the handlers of the program, where it has some.
        for name in ("LiteLLM", "LiteLLM Router"):
            logger = logging.getLogger(name)
            assert logger.level == logging.NOTSET
            assert logger.propagate
            assert {type(handler) for handler in logger.handlers} <= {logging.NullHandler}


async def test_nobody_listens() -> None:
    async with asking("openai/gpt-4o", Answer()) as own:
        pass
    with pytest.raises(
        ProviderError, match=r"litellm/openai at .*: nothing listens there \(tried 2"
    ):
        await own.ask()
    assert len(own.slept) == 1


async def test_an_insufficient_quota_is_not_waited_for() -> None:
    quota = {"error": {"message": "You exceeded your quota", "code": "insufficient_quota"}}
    async with asking("openai/gpt-4o", whole(quota, 429)) as own:
        with pytest.raises(RateLimited):
            await own.ask()
        assert own.slept == []


async def test_what_a_model_does_not_take_is_told_and_not_dropped() -> None:
    async with asking("openai/gpt-4o", EXCHANGES["openai"].streamed) as own:
        with pytest.raises(BadRequest, match=r"was not asked: .*reasoning_effort") as refused:
            await own.ask(reasoning_effort="low")
        assert "drop_params" not in str(refused.value)
        assert own.server.asked == []


async def test_closing_one_leaves_the_connections_of_another() -> None:
    async with asking("openai/gpt-4o", EXCHANGES["openai"].streamed) as own:
        await own.ask()
        async with asking("openai/gpt-4o", EXCHANGES["openai"].streamed) as other:
            await other.ask()
        replies = await asyncio.gather(*(own.ask() for _ in range(4)))
    assert {reply.message.text for reply in replies} == {TEXT}


async def test_what_a_model_thought_comes_whole_and_goes_back() -> None:
    thinking = anthropic_stream(
        {"type": "thinking", "thinking": "", "signature": ""},
        [
            {"type": "thinking_delta", "thinking": "Look "},
            {"type": "thinking_delta", "thinking": "first."},
            {"type": "signature_delta", "signature": "c2lnbmVk"},
        ],
        "end_turn",
    )
    said = [
        anthropic_event("content_block_start", index=1, content_block={"type": "text", "text": ""}),
        anthropic_event("content_block_delta", index=1, delta={"type": "text_delta", "text": TEXT}),
        anthropic_event("content_block_stop", index=1),
    ]
    answer = streamed([*thinking[:-2], *said, *thinking[-2:]])
    async with asking("anthropic/claude-sonnet-4-5", answer) as own:
        first = await own.ask(reasoning_effort="low", max_output_tokens=4_000)
        await own.ask(
            user("What?"),
            first.message,
            user("And then?"),
            reasoning_effort="low",
            max_output_tokens=4_000,
        )
        sent = own.server.asked[1].body["messages"][1]["content"]
    assert own.pieces == [TEXT, TEXT]
    assert sent[0] == {"type": "thinking", "thinking": "Look first.", "signature": "c2lnbmVk"}


HOUR = {"type": "ephemeral", "ttl": "1h"}
MINUTES = {"type": "ephemeral"}


class TestMarks:
    """Where a route leads to a vendor that wants marks in a prompt, they arrive there."""

    SAID = (system("Be brief. " * 900), user("What of the prices? " * 50))

    async def sent(self, model: str, wire: str, *, long: bool = False) -> Any:
        made = mark(None, f"litellm/{model}", self.SAID, long=long)
        async with asking(model, EXCHANGES[wire].streamed) as own:
            await own.ask(*self.SAID, breakpoints=made.places, long_breakpoints=made.marks.long)
            return own.server.asked[-1].body

    @pytest.mark.parametrize("long", [False, True])
    async def test_a_claude_gets_them(self, long: bool) -> None:
        body = await self.sent("anthropic/claude-sonnet-4-5", "anthropic", long=long)
        assert body["system"][-1]["cache_control"] == (HOUR if long else MINUTES)
        assert body["messages"][-1]["content"][-1]["cache_control"] == MINUTES

    async def test_a_claude_behind_openrouter_gets_them(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("OPENROUTER_API_KEY", SECRET)
        body = await self.sent("openrouter/anthropic/claude-sonnet-4.5", "openai", long=True)
        marks = [one["content"][-1].get("cache_control") for one in body["messages"]]
        assert marks == [HOUR, MINUTES]

    @pytest.mark.parametrize("model", ["openai/gpt-4o", "groq/llama-3.3-70b-versatile"])
    async def test_others_get_none(self, model: str) -> None:
        told = json.dumps(await self.sent(model, "openai"))
        assert "cache_control" not in told
        assert "prompt_cache_breakpoint" not in told

    async def test_a_newer_gpt_gets_its_own(self) -> None:
        body = await self.sent("openai/gpt-5.6", "openai")
        explicit = {"mode": "explicit"}
        marks = [one["content"][-1]["prompt_cache_breakpoint"] for one in body["messages"]]
        assert marks == [explicit, explicit]
        assert body["prompt_cache_options"] == explicit


class TestModels:
    def test_a_missing_key_is_told_before_anything_is_sent(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("GROQ_API_KEY")
        for name, variable in (
            ("litellm/groq/llama-3.3-70b-versatile", "GROQ_API_KEY"),
            ("litellm/bedrock/anthropic.claude-3-5-sonnet-20240620-v1:0", "AWS_ACCESS_KEY_ID and"),
        ):
            with pytest.raises(UsageError, match=f"set the variables? {variable}"):
                Providers({}).resolve(name)
            unsent = Providers({}, warn=print, keys=None)
            assert unsent.resolve(name)[1].name == name
        monkeypatch.setenv("AWS_PROFILE", "work")
        assert Providers({}).resolve(name)[1].sees_pictures

    def test_a_key_of_the_settings_is_named_by_its_variable(self) -> None:
        settings = ProviderSettings(key="MINE")
        assert catalog({"litellm": settings})["litellm"].keys == ("MINE",)

    def test_an_unknown_provider_is_told(self) -> None:
        with pytest.raises(UsageError, match="litellm knows no provider of that name"):
            Providers({}).resolve("litellm/nosuch/model")

    def test_windows_eyes_and_prices_come_from_tables(self) -> None:
        _, info = Providers({}).resolve("litellm/anthropic/claude-sonnet-4-5")
        assert (info.window, info.sees_pictures, info.free) == (200_000, True, False)
        assert rate(info.name) is not None
        _, listed = Providers({}, keys=None).resolve("litellm/mistral/mistral-small-latest")
        assert listed.window > 1_000


async def test_a_run_leaves_no_key_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    cascade = {"cascade_id": "c", "phases": [{"name": "a", "instructions": "Do a."}]}
    async with serving(EXCHANGES["openai"].streamed) as server:
        (tmp_path / "windlass.toml").write_text(f'[providers.litellm]\nbase_url = "{server.url}"')
        store = tmp_path / "s"
        model = "litellm/openai/gpt-4o"
        result = await windlass.run(cascade, model=model, store=store, trust=True)
        (asked,) = server.asked
    assert (result.status, result.output) == ("completed", TEXT)
    assert result.cost is not None
    assert result.cost > 0
    assert asked.headers["authorization"] == f"Bearer {SECRET}"
    kept = b"".join(path.read_bytes() for path in store.rglob("*") if path.is_file())
    assert SECRET.encode() not in kept
