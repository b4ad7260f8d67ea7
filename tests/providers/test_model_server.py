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
    def test_each_mark_writes_for_the_time_that_it_asks_for(self, server: ModelServer) -> None:
        system = [block(LONG, HOUR)]
        usage = claude(server, [block(TEXT, FIVE)], system=system)["usage"]
        made = usage["cache_creation"]
        assert made["ephemeral_1h_input_tokens"] > 2_000 < made["ephemeral_5m_input_tokens"]
        assert usage["cache_creation_input_tokens"] == sum(made.values())
        server.clock.wait(301)
        claude(server, [block(TEXT, FIVE)], system=system)
        server.clock.wait(3_601)
        claude(server, [block(TEXT, FIVE)], system=system)
        (_, five, hour), *later = counts(server)
        assert later == [(hour, five, 0), (0, five, hour)]

    def test_a_use_makes_an_entry_live_on(self, server: ModelServer) -> None:
        for _ in range(3):
            claude(server, [block(TEXT, FIVE)])
            server.clock.wait(200)
        (_, written, _), *later = counts(server)
        assert later == [(written, 0, 0)] * 2

    @pytest.mark.parametrize(
        ("model", "least"),
        [
            ("claude-sonnet-5-5", 512),
            ("claude-sonnet-5", 1_024),
            ("claude-sonnet-4-5", 1_024),
            ("claude-haiku-4-5", 4_096),
            ("team-sonnet", 1_024),
        ],
    )
    def test_a_prefix_is_kept_from_the_models_minimum_on(
        self, server: ModelServer, model: str, least: int
    ) -> None:
        for tokens in (least - 30, least):
            claude(server, [block("abcd" * tokens, FIVE)], model=model)
        (_, short, _), (_, long, _) = counts(server)
        assert short == 0
        assert least <= long < least + 30

    def test_what_other_conversations_wrote_is_read(self, server: ModelServer) -> None:
        for text in ("One?", "Two?"):
            claude(server, text, system=[block(LONG, FIVE)], tools=[TOOL])
        (_, written, _), second = counts(server)
        assert second == (written, 0, 0)
        claude(server, "Two?", system=[block(LONG, FIVE)], tools=[{**TOOL, "name": "see"}])
        assert counts(server)[-1][0] == 0

    def test_a_mark_of_the_whole_request_stands_at_its_end(self, server: ModelServer) -> None:
        claude(server, TEXT, cache_control=FIVE)
        claude(server, TEXT, "Yes.", "Go on.", cache_control=FIVE)
        (_, first, _), (read, second, _) = counts(server)
        assert read == first > second > 0

    def test_an_entry_is_found_within_twenty_blocks(self, server: ModelServer) -> None:
        claude(server, [block(TEXT, FIVE)])
        for more in (20, 19):
            claude(server, [block(TEXT), *[block("More.")] * (more - 1), block("End.", FIVE)])
        (_, written, _), far, near = counts(server)
        assert (far[0], near[0]) == (0, written)

    def test_a_picture_begins_the_messages_anew_and_leaves_the_system_prompt(
        self, server: ModelServer
    ) -> None:
        source = {"type": "base64", "media_type": "image/png", "data": "aGVsbG8="}
        for last in ([], [{"type": "image", "source": source}]):
            claude(server, [block(TEXT, FIVE), *last], system=[block(LONG, FIVE)])
        (_, all_of_it, _), (read, written, _) = counts(server)
        assert read + written == all_of_it
        assert written > 2_000 < read

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

    def test_a_mark_of_the_whole_request_and_another_at_its_end(self, server: ModelServer) -> None:
        refused = claude(server, [block("Go.", HOUR)], cache_control=FIVE)
        assert "Top-level cache_control has ttl='5m'" in refused["error"]["message"]
        assert claude(server, [block("Go.", FIVE)], cache_control=FIVE)["content"]

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

    def test_its_newest_version_takes_less(self, server: ModelServer) -> None:
        for version, kind in (("2023-06-01", "message"), ("2026-10-21", "error")):
            asked: dict[str, Any] = {
                "max_tokens": 9,
                "messages": [{"role": "user", "content": "Go."}],
                "top_p": 1,
            }
            assert ask(server, version=version, model="claude-opus-4-5", **asked)["type"] == kind


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


class TestPrefixes:
    def test_the_longest_common_beginning_is_read_in_steps(self, server: ModelServer) -> None:
        openai(server, TEXT)
        usage = openai(server, TEXT, "Yes.", "Go on.")["usage"]
        read = usage["prompt_tokens_details"]["cached_tokens"]
        assert read % 128 == 0
        assert usage["prompt_tokens"] - 300 < read < usage["prompt_tokens"]
        openai(server, TEXT[:3_000])
        server.clock.wait(301)
        openai(server, TEXT)
        assert [read for read, *_ in counts(server)[2:]] == [0, 0]

    def test_another_key_leads_to_another_machine(self, server: ModelServer) -> None:
        for key in ("a", "b", "a"):
            openai(server, TEXT, prompt_cache_key=key)
        first, second, third = (read for read, *_ in counts(server))
        assert (first, second) == (0, 0)
        assert third > 2_000

    def test_gemini_reads_from_its_minimum_on(self, server: ModelServer) -> None:
        for text in (TEXT[:7_000], TEXT, TEXT):
            contents = [{"role": "user", "parts": [{"text": text}]}]
            path = "/v1beta/models/gemini-2.5-flash:generateContent"
            ask(server, path, contents=contents)
        assert [read > 2_048 for read, *_ in counts(server)] == [False, False, True]


MARK = {"prompt_cache_breakpoint": {"mode": "explicit"}}
EXPLICIT = {"prompt_cache_options": {"mode": "explicit"}}


class TestBreakpoints:
    def test_the_newest_message_is_written_and_read_by_the_next(self, server: ModelServer) -> None:
        openai(server, TEXT, model="gpt-6-sol")
        usage = openai(server, TEXT, "Yes.", "Go on.", model="gpt-6-sol")["usage"]
        (_, first, _), (read, second, _) = counts(server)
        assert read == first > 2_000
        assert usage["prompt_tokens_details"] == {
            "cached_tokens": read,
            "cache_write_tokens": second,
        }
        assert 0 < second < 50

    def test_another_newest_message_finds_nothing_without_a_mark(self, server: ModelServer) -> None:
        system = {"role": "system", "content": [{"type": "text", "text": LONG}]}
        for text in ("One?", "Two?"):
            openai(server, system, {"role": "user", "content": text}, model="gpt-6-sol")
        assert [read for read, *_ in counts(server)] == [0, 0]
        system["content"][0] |= MARK  # type: ignore[index,operator]
        for text in ("One?", "Two?"):
            user = {"role": "user", "content": text}
            openai(server, system, user, model="gpt-6-sol", **EXPLICIT)
        (*_, (_, written, _), last) = counts(server)
        assert last == (written, 0, 0)

    def test_without_marks_the_explicit_mode_caches_nothing(self, server: ModelServer) -> None:
        for _ in range(2):
            openai(server, TEXT, model="gpt-6-sol", **EXPLICIT)
        assert counts(server) == [(0, 0, 0)] * 2

    @pytest.mark.parametrize(
        ("part", "more", "told"),
        [
            (MARK, {}, "prompt_cache_breakpoint"),
            ({}, EXPLICIT, "prompt_cache_options"),
            ({"cache_control": FIVE}, {}, "cache_control"),
        ],
    )
    def test_older_models_know_none(
        self, server: ModelServer, part: Any, more: Any, told: str
    ) -> None:
        parts = [{"type": "text", "text": TEXT, **part}]
        assert (
            told in openai(server, {"role": "user", "content": parts}, **more)["error"]["message"]
        )

    def test_a_text_is_the_same_as_one_part_of_it(self, server: ModelServer) -> None:
        openai(server, TEXT, model="gpt-6-sol")
        parts = [{"type": "text", "text": TEXT}]
        openai(server, {"role": "user", "content": parts}, model="gpt-6-sol")
        (_, written, _), again = counts(server)
        assert again == (written, 0, 0)
