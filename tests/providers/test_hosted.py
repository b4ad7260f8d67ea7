"""Hosted providers against a real server on loopback that speaks each wire format."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import windlass
from tests.caching.requests import mark
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
    WIRES,
    anthropic_error,
    event,
    openai_delta,
    openai_stream,
)
from tests.providers.server import Answer, Server, serving, streamed, whole
from tests.support.providers_hosted import SECRET, VARIABLES, Hosted, hosted
from windlass.engine.events import Waiting
from windlass.errors import BadRequest, ContextTooLong, ProviderError, RateLimited
from windlass.messages import Text, ToolSpec, system, user
from windlass.providers._hosted import HostedProvider
from windlass.providers._http import HttpClient
from windlass.providers._pace import Limiter, Patience
from windlass.providers.base import RequestWait
from windlass.providers.catalog import Key, ProviderEntry, catalog
from windlass.settings.fields import ProviderSettings
from windlass.text.pictures import picture
from windlass.wire.base import Request, Usage

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


@pytest.mark.parametrize(
    ("model", "marked"),
    [("anthropic/claude-sonnet-4.5", True), ("openai/gpt-4o", False), ("x/y", False)],
)
async def test_marks_go_through_openrouter_to_vendors_that_want_them(
    model: str, marked: bool
) -> None:
    said = (system("Be brief. " * 900), user("What of the prices? " * 50))
    made = mark(None, f"openrouter/{model}", said, long=True)
    async with serving(EXCHANGES["openai"].streamed) as server:
        entry = catalog({"openrouter": ProviderSettings(base_url=server.url)})["openrouter"]
        provider = HostedProvider(entry, Key("OPENROUTER_API_KEY", SECRET), warn=lambda _: None)
        try:
            await provider.send(
                Request(
                    model,
                    said,
                    64,
                    breakpoints=made.places,
                    long_breakpoints=made.marks.long,
                ),
                lambda _: None,
            )
        finally:
            await provider.close()
        body = server.asked[-1].body
    found = [part["cache_control"] for one in body["messages"] for part in parts(one)]
    hour = {"type": "ephemeral", "ttl": "1h"}
    assert found == ([hour, {"type": "ephemeral"}] if marked else [])


def parts(message: dict[str, Any]) -> list[dict[str, Any]]:
    """The parts of a chat message that carry a mark."""
    content = message["content"]
    return [one for one in content if "cache_control" in one] if isinstance(content, list) else []


@pytest.mark.parametrize("wire", WIRES)
class TestEveryFormat:
    async def test_streams_its_text_and_reports_its_usage(self, wire: str) -> None:
        exchange = EXCHANGES[wire]
        async with hosted(wire, exchange.streamed) as own:
            reply = await own.ask()
        assert own.pieces == list(PIECES)
        assert reply.message.text == TEXT
        assert reply.finish == "stop"
        assert reply.usage == Usage(SENT, SAID, CACHED, exchange.written)
        assert reply.model == f"{wire}/{MODELS[wire]}"
        assert own.warned == []

    async def test_reads_a_whole_answer_where_streaming_is_switched_off(self, wire: str) -> None:
        exchange = EXCHANGES[wire]
        async with hosted(wire, exchange.plain, stream=False) as own:
            reply = await own.ask()
            asked = own.server.asked[0]
        assert own.pieces == [TEXT]
        assert reply.usage == Usage(SENT, SAID, CACHED, exchange.written)
        assert "stream" not in (asked.body or {})
        assert "stream" not in asked.path

    async def test_reads_a_whole_answer_of_a_server_that_does_not_stream(self, wire: str) -> None:
        async with hosted(wire, EXCHANGES[wire].plain) as own:
            reply = await own.ask()
        assert own.pieces == [TEXT]
        assert reply.message.text == TEXT

    @pytest.mark.parametrize("stream", [True, False])
    async def test_brings_tool_calls(self, wire: str, stream: bool) -> None:
        exchange = EXCHANGES[wire]
        answer = exchange.call_streamed if stream else exchange.call
        async with hosted(wire, answer, stream=stream) as own:
            reply = await own.ask(tools=(TOOL,))
        (call,) = reply.message.tool_calls
        assert (call.name, json.loads(call.arguments)) == CALL
        assert reply.finish == "tool_calls"
        assert own.pieces == []

    async def test_sends_the_key_in_its_header_and_nowhere_else(self, wire: str) -> None:
        async with hosted(wire, EXCHANGES[wire].streamed) as own:
            await own.ask()
            (asked,) = own.server.asked
        header = {"openai": "authorization", "anthropic": "x-api-key", "gemini": "x-goog-api-key"}
        assert asked.headers.pop(header[wire]).removeprefix("Bearer ") == SECRET
        assert SECRET not in json.dumps([asked.path, asked.headers, asked.body])
        assert asked.method == "POST"

    async def test_waits_as_long_as_it_is_told_and_tries_again(self, wire: str) -> None:
        refused = whole(RATE_LIMITED[wire], 429, retry_after="7")
        async with hosted(wire, refused, EXCHANGES[wire].streamed) as own:
            reply = await own.ask()
        assert own.slept == [7]
        assert reply.message.text == TEXT
        assert (reply.tries, reply.waited_s) == (2, 7)
        (wait,) = own.waited
        assert (wait.model, wait.seconds) == (f"{wire}/{MODELS[wire]}", 7)
        assert (wait.attempt, wait.tries) == (2, 5)
        assert wait.because.startswith(f"{wire} answered 429: ")
        assert own.pieces == list(PIECES)

    async def test_gives_up_when_it_stays_so(self, wire: str) -> None:
        async with hosted(wire, whole(RATE_LIMITED[wire], 429)) as own:
            with pytest.raises(RateLimited, match=rf"^{wire} answered 429: .* \(tried 5 times\)$"):
                await own.ask()
            assert len(own.server.asked) == 5
        assert own.slept == [0.5, 1, 2, 4]
        # Half a second is over before anybody has read of it.
        assert [(wait.seconds, wait.attempt) for wait in own.waited] == [(1, 3), (2, 4), (4, 5)]

    @pytest.mark.parametrize("status", [408, 500, 502, 503, 529])
    async def test_tries_again_what_is_the_servers_fault(self, wire: str, status: int) -> None:
        broken = Answer((b"<html>Bad Gateway</html>",), status, "text/html")
        async with hosted(wire, broken, EXCHANGES[wire].streamed) as own:
            assert (await own.ask()).message.text == TEXT
        assert own.slept == [0.5]

    async def test_an_overload_told_inside_the_stream_counts_as_one_before_it(
        self, wire: str
    ) -> None:
        exchange = EXCHANGES[wire]
        async with hosted(wire, exchange.overloaded_inside, exchange.streamed) as own:
            assert (await own.ask()).message.text == TEXT
        assert own.slept == [0.5]

    async def test_a_stream_cut_in_the_middle_is_not_sent_twice(self, wire: str) -> None:
        begun = EXCHANGES[wire].streamed.pieces[:4]
        for cut in (True, False):  # without, and with, a proper end of the body
            async with hosted(
                wire, streamed(begun[: 4 if wire != "gemini" else 1], cut=cut)
            ) as own:
                with pytest.raises(ProviderError, match="after a part of the answer was shown"):
                    await own.ask()
                assert len(own.server.asked) == 1
            assert own.pieces[:1] == [PIECES[0]]
            assert own.slept == []

    async def test_a_stream_cut_before_its_first_text_is(self, wire: str) -> None:
        exchange = EXCHANGES[wire]
        for cut in (streamed([], cut=True), streamed([b": wait\n\n"], cut=True), streamed([])):
            async with hosted(wire, cut, exchange.streamed) as own:
                assert (await own.ask()).message.text == TEXT
            assert own.pieces == list(PIECES)
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

    async def test_a_malformed_chunk_is_named(self, wire: str) -> None:
        async with hosted(wire, streamed([b'data: {"choices": [{]}\n\n'])) as own:
            with pytest.raises(ProviderError, match=r"not JSON: '\{\"choices\": \[\{\]\}'"):
                await own.ask()
            assert len(own.server.asked) == 1
        async with hosted(wire, streamed([b"data: [1]\n\n"])) as own:
            with pytest.raises(ProviderError, match=r"not an object: '\[1\]'"):
                await own.ask()

    async def test_an_answer_without_what_it_must_have_is_told(self, wire: str) -> None:
        async with hosted(wire, whole({"hello": "world"}), stream=False) as own:
            with pytest.raises(ProviderError, match="cannot be read: "):
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

    async def test_pictures_are_described_to_a_model_that_cannot_see(self, wire: str) -> None:
        shown = picture(PNG, name="chart.png")
        message = user(Text("Look:"), shown)
        for sees in (True, False):
            async with hosted(wire, EXCHANGES[wire].streamed, sees_pictures=sees) as own:
                await own.ask(message)
                body = json.dumps(own.server.asked[0].body)
            assert ("[Image: chart.png, 1x1]" in body) != sees
            assert ("iVBORw0KGgo" in body) == sees


class TestConnections:
    async def test_nobody_listens(self) -> None:
        async with hosted("openai", Answer()) as own:
            pass
        told = r"openai at http://127.0.0.1:\d+: nothing listens there \(tried 2 times\)"
        with pytest.raises(ProviderError, match=told):
            await own.ask()
        assert len(own.slept) == 1

    async def test_one_connection_serves_many_requests(self) -> None:
        async with hosted("openai", EXCHANGES["openai"].streamed) as own:
            replies = await asyncio.gather(*(own.ask() for _ in range(8)))
            assert {reply.message.text for reply in replies} == {TEXT}
            assert len(own.server.asked) == 8

    def test_a_provider_may_be_used_in_one_event_loop_after_the_other(self) -> None:
        async def once() -> str:
            async with serving(EXCHANGES["openai"].streamed) as server:
                own = Hosted(provider, server, "gpt-4o", [], [])
                assert isinstance(provider._client, HttpClient)
                object.__setattr__(provider._client._endpoint, "url", server.url)
                said = (await own.ask()).message.text
                await provider.close()
                return said

        entry = catalog({})["openai"]
        provider = HostedProvider(entry, Key("OPENAI_API_KEY", SECRET), warn=print)
        assert [asyncio.run(once()) for _ in range(2)] == [TEXT, TEXT]

    async def test_an_insufficient_quota_is_not_waited_for(self) -> None:
        quota = {"error": {"message": "You exceeded your quota", "code": "insufficient_quota"}}
        async with hosted("openai", whole(quota, 429)) as own:
            with pytest.raises(RateLimited):
                await own.ask()
            assert own.slept == []

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

    async def test_waiting_ones_turn_takes_nothing_from_the_patience(self) -> None:
        clock = 0.0

        async def sleep(seconds: float) -> None:
            nonlocal clock
            clock += seconds

        waited: list[RequestWait] = []
        refused = whole(RATE_LIMITED["openai"], 429)
        answer = EXCHANGES["openai"].streamed
        async with serving(answer, refused, answer) as server:
            entry = catalog({"openai": ProviderSettings(base_url=server.url)})["openai"]
            limiter = Limiter(None, 1, clock=lambda: clock, sleep=sleep)
            patience = Patience(total_s=30, sleep=sleep, random=lambda: 1, clock=lambda: clock)
            provider = HostedProvider(
                entry,
                Key("OPENAI_API_KEY", SECRET),
                warn=print,
                on_wait=waited.append,
                limiter=limiter,
                patience=patience,
            )
            own = Hosted(provider, server, "gpt-4o", [], [])
            first = await own.ask()
            assert (first.tries, first.waited_s) == (1, 0)
            second = await own.ask()
            assert second.message.text == TEXT
            assert second.tries == 2
            assert second.waited_s == pytest.approx(clock)
            assert len(server.asked) == 3
            turns = [wait for wait in waited if wait.because.startswith("the limits a minute")]
            assert (turns[0].model, turns[0].attempt) == ("openai/gpt-4o", 1)
            assert turns[0].seconds == pytest.approx(60)
            await provider.close()
        assert clock >= 60

    async def test_an_unreadable_picture_is_a_bad_request(self) -> None:
        lost = picture(PNG)
        lost = type(lost)(lost.sha256, lost.media_type)
        async with hosted("openai", EXCHANGES["openai"].streamed) as own:
            with pytest.raises(BadRequest, match="cannot be written for openai/gpt-4o"):
                await own.ask(user(lost))


class TestOwnServers:
    async def test_need_no_key_and_know_max_tokens(self) -> None:
        answer = EXCHANGES["openai"].streamed
        async with hosted("openai", answer, own="vllm", window=32_768) as own:
            await own.ask(model="org/some-model")
            (asked,) = own.server.asked
        assert "authorization" not in asked.headers
        assert asked.path == "/chat/completions"
        assert asked.body["max_tokens"] == 64
        assert "max_completion_tokens" not in asked.body
        assert asked.body["model"] == "org/some-model"
        assert own.warned == []

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

    async def test_a_cut_is_still_a_cut(self) -> None:
        begun = streamed([openai_delta({"content": "Pri"})])
        async with hosted("openai", begun, own="old", window=8_192) as own:
            with pytest.raises(ProviderError, match="before a finish_reason"):
                await own.ask()

    async def test_may_speak_the_other_formats(self) -> None:
        for wire in ("anthropic", "gemini"):
            async with hosted(wire, EXCHANGES[wire].streamed, own="proxy", window=8_192) as own:
                assert (await own.ask()).message.text == TEXT


class TestModels:
    @staticmethod
    def provider(
        name: str, said: ProviderSettings | None = None
    ) -> tuple[HostedProvider, list[str]]:
        warned: list[str] = []
        entry: ProviderEntry = catalog({name: said} if said else {})[name]
        return HostedProvider(entry, warn=warned.append), warned

    def test_window_counter_and_eyes_come_from_tables(self) -> None:
        provider, warned = self.provider("anthropic")
        info = provider.model("claude-sonnet-4-5")
        assert (info.name, info.window) == ("anthropic/claude-sonnet-4-5", 200_000)
        assert info.sees_pictures
        assert not info.system_anywhere
        assert not info.free
        assert not info.counter.exact
        assert warned == []
        assert self.provider("openai")[0].model("gpt-4o").system_anywhere

    def test_an_unknown_model_gets_a_small_window_and_one_warning(self) -> None:
        provider, warned = self.provider("openai")
        assert provider.model("gpt-99").window == 128_000
        provider.model("gpt-99")
        (warning,) = warned
        assert "'openai/gpt-99'" in warning
        assert "no prompt cache" in warning
        assert "128,000" in warning

    def test_settings_go_before_tables(self) -> None:
        said = ProviderSettings(window=1_000, sees_pictures=False)
        provider, warned = self.provider("openai", said)
        info = provider.model("gpt-4o")
        assert (info.window, info.sees_pictures, info.max_output_tokens) == (1_000, False, 250)
        assert warned == []


async def test_who_watches_a_run_is_told_of_a_wait_and_the_record_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    events: list[Any] = []
    refused = whole(RATE_LIMITED["openai"], 429, retry_after="1")
    async with serving(refused, EXCHANGES["openai"].streamed) as server:
        said = f'[providers.mine]\nbase_url = "{server.url}"\nwindow = 8192\n'
        (tmp_path / "windlass.toml").write_text(said)
        result = await windlass.run(
            {"cascade_id": "c", "phases": [{"name": "a", "instructions": "Do a."}]},
            model="mine/m",
            store=tmp_path / "store",
            on_event=events.append,
        )
    assert result.output == TEXT
    (wait,) = [event for event in events if isinstance(event, Waiting)]
    assert (wait.model, wait.seconds, wait.attempt, wait.tries) == ("mine/m", 1, 2, 5)
    (row,) = windlass.query_unified("node_type = 'agent'", store=tmp_path / "store")
    told = json.loads(row["metadata_json"])
    assert (told["tries"], told["waited_s"]) == (2, 1.0)


async def test_more_written_for_an_hour_than_written_is_cut() -> None:
    usage = {
        "input_tokens": 10,
        "output_tokens": 1,
        "cache_creation_input_tokens": 5,
        "cache_creation": {"ephemeral_1h_input_tokens": 5},
    }
    answer = {
        "type": "message",
        "content": [{"type": "text", "text": TEXT}],
        "stop_reason": "end_turn",
        "usage": usage,
    }
    async with hosted("anthropic", whole(answer), stream=False) as own:
        assert (await own.ask()).usage == Usage(15, 1, 0, 5, 5)
    lie = Usage(10, 1, 8, 5, 5)
    async with hosted("anthropic", whole(answer)) as own:
        assert own.provider._corrected(lie, "m") == Usage(10, 1, 8, 2, 2)
        assert own.provider._corrected(Usage(10, 1, 0, 5, 9), "m") == Usage(10, 1, 0, 5, 5)


async def test_anthropic_names_its_version() -> None:
    async with hosted("anthropic", EXCHANGES["anthropic"].streamed) as own:
        await own.ask()
        assert own.server.asked[0].headers["anthropic-version"] == "2023-06-01"
        assert own.server.asked[0].path == "/messages"


@asynccontextmanager
async def at_its_own_address(*script: Answer) -> AsyncIterator[tuple[HostedProvider, Server]]:
    """Anthropic's provider as it is without settings, but for where it is."""
    async with serving(*script) as server:
        entry = replace(catalog({})["anthropic"], base_url=server.url)
        provider = HostedProvider(entry, Key("ANTHROPIC_API_KEY", SECRET), warn=lambda _: None)
        yield provider, server
        await provider.close()


@pytest.mark.parametrize(
    ("model", "temperature", "version"),
    [
        ("claude-sonnet-4-5", None, "2026-10-21"),
        ("claude-sonnet-4-5", 0.2, "2023-06-01"),
        ("claude-opus-5-5", None, "2026-10-21"),
        ("claude-opus-5-5", 0.2, "2026-10-21"),
    ],
)
async def test_anthropics_newest_version_gets_nothing_that_it_refuses(
    model: str, temperature: float | None, version: str
) -> None:
    request = Request(model, (user("Go"),), 64, temperature=temperature)
    async with at_its_own_address(EXCHANGES["anthropic"].streamed) as (provider, server):
        await provider.send(request, lambda _: None)
    (asked,) = server.asked
    assert asked.headers["anthropic-version"] == version
    assert ("temperature" in asked.body) is (version == "2023-06-01")


async def test_an_error_after_text_is_told_as_one() -> None:
    stream = [
        *EXCHANGES["anthropic"].streamed.pieces[:4],
        event(anthropic_error("overloaded_error", "Overloaded"), "error"),
    ]
    async with hosted("anthropic", streamed(stream)) as own:
        with pytest.raises(ProviderError, match=r"answered 529: Overloaded .*was shown"):
            await own.ask()
        assert len(own.server.asked) == 1


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
