"""The server on loopback caches, bills and refuses as the vendors do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.providers.model_server import ModelServer, model_server
from tests.providers.tariffs import Counts, bill
from tests.providers.thinking_server import Say
from windlass.caching.rates import cost

LONG, TEXT = "You read logs. " * 600, "Read the log. " * 600
TOOL = {"name": "look", "description": "Look.", "input_schema": {"type": "object"}}
FIVE, HOUR = {"type": "ephemeral"}, {"type": "ephemeral", "ttl": "1h"}


def block(text: str, mark: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"type": "text", "text": text, **({"cache_control": mark} if mark else {})}


@pytest.fixture
def server() -> Iterator[ModelServer]:
    def script(_: Any) -> Say:
        return Say("One.", thinking=())

    with model_server(script) as served:
        yield served


def ask(server: ModelServer, path: str = "/v1/messages", version: str = "", **body: Any) -> Any:
    headers = {"anthropic-version": version}
    with httpx.Client() as client:
        return client.post(server.url + path, json=body, headers=headers).json()


def claude(server: ModelServer, *messages: Any, model: str = "claude-sonnet-5", **more: Any) -> Any:
    turns = [
        one if isinstance(one, dict) else {"role": ("user", "assistant")[at % 2], "content": one}
        for at, one in enumerate(messages)
    ]
    return ask(server, model=model, max_tokens=100, messages=turns, **more)


def counts(server: ModelServer) -> list[tuple[int, int, int]]:
    """Of each call the tokens read, and those written for five minutes and for an hour."""
    told = [one.counts for one in server.billed]
    return [(one.read, one.written, one.written_long) for one in told]


class TestAnthropic:
    @pytest.mark.parametrize(
        ("body", "told"),
        [
            ({"system": [block("a", FIVE)] * 5}, "A maximum of 4 blocks"),
            ({"system": [block("a", FIVE)] * 4, "cache_control": FIVE}, "A maximum of 4 blocks"),
            ({"system": [block("a", FIVE), block("b", HOUR)]}, "must not come after"),
            ({"tools": [{**TOOL, "cache_control": FIVE}], "cache_control": HOUR}, "not come after"),
            ({"system": [block("a", {**FIVE, "ttl": "2h"})]}, "cache_control.ttl"),
            ({"system": [block("a", {"type": "for ever"})]}, "cache_control.type"),
        ],
    )
    def test_marks_that_it_refuses(
        self, server: ModelServer, body: dict[str, Any], told: str
    ) -> None:
        assert told in claude(server, "Go.", **body)["error"]["message"]
        assert len(server.refused) == 1
        assert server.billed == []

    def test_what_stands_at_the_wrong_place_is_refused(self, server: ModelServer) -> None:
        use = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}
        result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "seen"}
        wrong = [
            ("Go.", "I say:"),  # a prefill
            ("Go.", [use], "And?"),
            ([result],),
        ]
        for messages in wrong:
            assert claude(server, *messages, tools=[TOOL])["type"] == "error"
        assert claude(server, "Go.", "I say:", model="claude-sonnet-4-5")["type"] == "message"
        again = {"role": "user", "content": "Now."}
        assert claude(server, "Go.", again, tools=[TOOL])["type"] == "message"
        assert claude(server, "Go.", [use], [result], again, tools=[TOOL])["type"] == "message"

    def test_it_pauses_at_a_search_and_takes_no_user_behind_it(self) -> None:
        search = {"type": "web_search_20250305", "name": "web_search"}
        pauses = Say("I search.", searches=[("web_search", {"query": "tide"})], thinking=())
        with model_server(lambda body: pauses if len(body["messages"]) < 2 else Say("Low.")) as at:
            paused = claude(at, "When?", tools=[search])
            assert paused["stop_reason"] == "pause_turn"
            said = claude(at, "When?", paused["content"], tools=[search])
            assert [one["type"] for one in said["content"]][:1] == ["web_search_tool_result"]
            refused = claude(at, "When?", paused["content"], "Well?", tools=[search])
            assert "`web_search` tool use with id" in refused["error"]["message"]
            both = [{"role": "assistant", "content": one["content"]} for one in (paused, said)]
            last = {"role": "user", "content": "And then?"}
            assert claude(at, "When?", *both, last, tools=[search])["type"] == "message"


class TestBills:
    @pytest.mark.parametrize(
        ("model", "counts", "dollars"),
        [
            ("claude-sonnet-4-5", Counts(39_000, written=39_000), 0.14625),
            ("claude-sonnet-4-5", Counts(39_000, read=39_000), 0.0117),
            ("claude-sonnet-5-5", Counts(10_000, read=10_000), 0.001),
            ("claude-sonnet-5-5", Counts(10_000, written_long=10_000), 0.04),
            ("claude-haiku-5-5", Counts(200_000), 0.1),
            ("gpt-5", Counts(10_000, read=10_000), 0.00125),
            ("gpt-5.6", Counts(10_000, written=10_000), 0.05),
            ("gemini-2.5-flash", Counts(10_000), 0.003),
        ],
    )
    def test_they_are_the_vendors(self, model: str, counts: Counts, dollars: float) -> None:
        assert bill(model, counts) == pytest.approx(dollars)

    @pytest.mark.parametrize(
        "name",
        [
            *(f"anthropic/claude-{one}" for one in ("fable-5-2", "mythos-5-1", "haiku-5-5")),
            *(f"anthropic/claude-{one}" for one in ("opus-5-5", "opus-5", "opus-4-7")),
            *(f"anthropic/claude-{one}" for one in ("sonnet-5-5", "sonnet-5", "sonnet-4-5")),
            *(f"openai/{one}" for one in ("gpt-5", "gpt-5.6", "gpt-6-sol", "gpt-6.1-sol")),
            *("anthropic/claude-haiku-4-5", "openai/gpt-4o", "gemini/gemini-4-argon"),
            *("gemini/gemini-2.5-flash", "gemini/gemini-2.5-pro"),
        ],
    )
    @pytest.mark.parametrize("tokens", [20_000, 290_000])
    def test_they_agree_with_the_table_of_prices(self, name: str, tokens: int) -> None:
        writes = "claude" in name or name.startswith(("openai/gpt-5.6", "openai/gpt-6"))
        written, long = (4_000 if writes else 0), (2_000 if "claude" in name else 0)
        told = cost(name, tokens, 0, 9_000, written + long, tokens_written_long=long)
        billed = bill(name.partition("/")[2], Counts(tokens, 9_000, written, long))
        assert billed == pytest.approx(told)


def openai(server: ModelServer, *texts: Any, model: str = "gpt-5", **more: Any) -> Any:
    messages = [
        one if isinstance(one, dict) else {"role": ("user", "assistant")[at % 2], "content": one}
        for at, one in enumerate(texts)
    ]
    return ask(server, "/v1/chat/completions", model=model, messages=messages, **more)
