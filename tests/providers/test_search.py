"""Searches of the web by each provider: what is asked, what is read, what fails."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.providers.exchanges import MODELS, RATE_LIMITED, SAID, SENT, WIRES
from tests.providers.searches import (
    FAILED_INSIDE,
    FIRST,
    FOUND,
    NOTHING,
    PAUSED,
    QUERY,
    REFUSED,
    SAYS,
    SECOND,
    routed,
)
from tests.providers.server import Answer, streamed, whole
from tests.support.providers_hosted import SECRET, hosted
from windlass.errors import BadRequest, ProviderError
from windlass.providers.base import Searching
from windlass.wire.web_search import SearchReply, with_search
from windlass_local import LocalProvider

ASKED: dict[str, dict[str, Any]] = {
    "anthropic": {
        "tools": [{"type": "web_search_20250305", "name": "web_search", "max_uses": 3}],
    },
    "gemini": {"tools": [{"google_search": {}}]},
    "openai": {"web_search_options": {}},
}


async def found(wire: str, *script: Answer, own: str = "") -> SearchReply:
    async with hosted(wire, *script, own=own) as made:
        return await made.provider.search(made.model, QUERY, 5)


@pytest.mark.parametrize("wire", WIRES)
class TestEveryFormat:
    async def test_asks_for_the_providers_own_search(self, wire: str) -> None:
        async with hosted(wire, FOUND[wire]) as own:
            await own.provider.search(own.model, QUERY, 5)
            (asked,) = own.server.asked
        assert ASKED[wire].items() <= asked.body.items()
        assert QUERY in str(asked.body)
        assert "stream" not in asked.body
        assert SECRET not in str(asked.body)

    async def test_reads_what_is_said_the_pages_and_the_usage(self, wire: str) -> None:
        read = await found(wire, FOUND[wire])
        quotes = wire != "gemini"
        first = FIRST if quotes else replace(FIRST, excerpt="")
        assert read.pages == (first, SECOND)  # what is cited stands first
        assert read.text.endswith(SAYS)
        assert (read.usage.tokens_in, read.usage.tokens_out) == (SENT, SAID)
        assert read.usage.searches == {"anthropic": 2, "openai": 1, "gemini": 2}[wire]
        assert (read.dollars, read.failure) == (None, "")

    async def test_says_when_no_page_was_found(self, wire: str) -> None:
        read = await found(wire, NOTHING[wire])
        assert (read.pages, read.text, read.failure) == ((), SAYS, "")

    async def test_a_refusal_is_the_providers(self, wire: str) -> None:
        with pytest.raises(BadRequest, match=rf"^{wire} answered 400: .*(not|Grounding)"):
            await found(wire, REFUSED[wire])

    async def test_is_tried_again(self, wire: str) -> None:
        async with hosted(wire, whole(RATE_LIMITED[wire], 429), FOUND[wire]) as own:
            read = await own.provider.search(own.model, QUERY, 5)
            assert len(own.server.asked) == 2
        assert read.pages
        assert own.slept == [0.5]

    @pytest.mark.parametrize(
        "answer", [whole({"choices": 7}), whole([]), Answer((b"{",)), streamed([])]
    )
    async def test_what_cannot_be_read_is_told(self, wire: str, answer: Answer) -> None:
        with pytest.raises(ProviderError, match=rf"^{wire} (sent|answered)"):
            await found(wire, answer)


class TestAnthropic:
    async def test_an_error_of_the_search_is_the_failure(self) -> None:
        read = await found("anthropic", FAILED_INSIDE)
        assert (read.failure, read.pages, read.usage.searches) == ("too_many_requests", (), 1)

    async def test_a_turn_that_paused_has_found_what_it_has_found(self) -> None:
        read = await found("anthropic", PAUSED)
        assert (read.pages, read.text) == ((SECOND,), "")

    async def test_a_search_that_paused_goes_on(self) -> None:
        async with hosted("anthropic", PAUSED, FOUND["anthropic"]) as own:
            read = await own.provider.search(own.model, QUERY, 5)
            first, second = (one.body["messages"] for one in own.server.asked)
        assert second[:-1] == first
        assert second[-1]["role"] == "assistant"
        assert second[-1]["content"][-1]["type"] == "web_search_tool_result"
        assert read.pages == (SECOND, FIRST)
        assert read.text.endswith(SAYS)
        assert (read.usage.tokens_in, read.usage.searches) == (2 * SENT, 3)

    async def test_text_is_joined_where_a_citation_cut_it(self) -> None:
        read = await found("anthropic", FOUND["anthropic"])
        assert read.text == f"I'll look for it.\n\n{SAYS}"


class TestOpenRouter:
    def test_is_asked_by_its_own_tool(self) -> None:
        body = with_search("openai", "openrouter", {"model": "m"}, 7)
        tool = {"type": "openrouter:web_search", "parameters": {"max_results": 7}}
        assert body == {"model": "m", "tools": [tool]}

    async def test_tells_the_price(self) -> None:
        read = await found("openai", routed(0.0123, 2))
        assert (read.dollars, read.usage.searches) == (0.0123, 2)


async def test_a_server_of_ones_own_is_asked_in_its_format() -> None:
    read = await found("openai", FOUND["openai"], own="mine")
    assert read.pages == (FIRST, SECOND)


def test_the_local_model_cannot_search() -> None:
    assert not isinstance(LocalProvider(), Searching)
    assert set(MODELS) == set(FOUND)
