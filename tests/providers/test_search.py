"""Searches of the web by each provider: what is asked, what is read, what fails."""

from __future__ import annotations

import pytest

from tests.providers.exchanges import MODELS, WIRES
from tests.providers.searches import (
    FAILED_INSIDE,
    FOUND,
    NOTHING,
    PAUSED,
    QUERY,
    SAYS,
    SECOND,
)
from tests.providers.server import Answer, streamed, whole
from tests.support.providers_hosted import hosted
from windlass.errors import ProviderError
from windlass.providers.base import Searching
from windlass.wire.web_search import SearchReply, with_search
from windlass_local import LocalProvider


async def found(wire: str, *script: Answer, own: str = "") -> SearchReply:
    async with hosted(wire, *script, own=own) as made:
        return await made.provider.search(made.model, QUERY, 5)


@pytest.mark.parametrize("wire", WIRES)
class TestEveryFormat:
    async def test_says_when_no_page_was_found(self, wire: str) -> None:
        read = await found(wire, NOTHING[wire])
        assert (read.pages, read.text, read.failure) == ((), SAYS, "")

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


class TestOpenRouter:
    def test_is_asked_by_its_own_tool(self) -> None:
        body = with_search("openai", "openrouter", {"model": "m"}, 7)
        tool = {"type": "openrouter:web_search", "parameters": {"max_results": 7}}
        assert body == {"model": "m", "tools": [tool]}


def test_the_local_model_cannot_search() -> None:
    assert not isinstance(LocalProvider(), Searching)
    assert set(MODELS) == set(FOUND)
