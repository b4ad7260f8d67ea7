"""`web_search` where a provider searches the web: what is shown, and who searched."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from windlass.errors import ProviderError, WindlassError
from windlass.messages import ToolCall
from windlass.tools.base import Spent, ToolContext, ToolOutput, WebSearch
from windlass.tools.registry import builtin
from windlass.tools.runner import run_tool
from windlass.wire.base import Usage
from windlass.wire.web_search import SearchReply, WebPage

pytestmark = pytest.mark.req("CI-53")

MODEL = "anthropic/claude-sonnet-4-5"
USED = Usage(900, 40, searches=1)
PAGES = [WebPage(f"WebPage {at}", f"https://example.org/{at}", "said " * at) for at in range(1, 10)]


def of_web(
    pages: Sequence[WebPage] = (),
    text: str = "",
    *,
    failure: str = "",
    error: Exception | None = None,
) -> WebSearch:
    """A search that finds these pages."""

    async def find(query: str, most: int) -> SearchReply:
        if error is not None:
            raise error
        return SearchReply(text, tuple(pages), USED, failure=failure)

    return WebSearch(MODEL, find)


@pytest.fixture
def folder(root: Path) -> Path:
    made = root / "texts"
    made.mkdir()
    (made / "cache.md").write_text("# Caches\nA cache keeps what was said.")
    return made


async def ask(context: ToolContext, query: str = "cache", **more: object) -> ToolOutput:
    given = ToolCall("c", "web_search", json.dumps({"query": query, **more}))
    return await run_tool(builtin().get("web_search"), given, context)


async def test_the_first_line_says_who_searched(context: ToolContext) -> None:
    search = of_web([PAGES[0], replace(PAGES[1], title="", excerpt="")], "It is said.")
    output = await ask(replace(context, search=search))
    assert output.text == (
        "Search of the web by anthropic/claude-sonnet-4-5: 2 pages for 'cache'.\n\n"
        "It is said.\n\n"
        "1. WebPage 1 (https://example.org/1)\nsaid \n\n"
        "2. https://example.org/2 (https://example.org/2)"
    )
    assert (output.error, output.spent) == (False, Spent(MODEL, USED))


async def test_shows_as_many_pages_as_were_asked_for(context: ToolContext) -> None:
    with_web = replace(context, search=of_web(PAGES))
    assert "6. " not in (await ask(with_web)).text
    assert "2. " not in (await ask(with_web, max_results=1)).text


async def test_a_long_excerpt_is_cut(context: ToolContext) -> None:
    long = replace(PAGES[0], excerpt="x" * 2_000)
    assert (await ask(replace(context, search=of_web([long])))).text.endswith("x" * 400 + "…")


async def test_no_page_is_told_apart_from_what_the_model_knows(context: ToolContext) -> None:
    output = await ask(replace(context, search=of_web(text="I believe so.")))
    assert "no page was found for 'cache'.\n\nWhat the model said without one:" in output.text
    assert not output.error
    assert output.spent is not None
    silent = await ask(replace(context, search=of_web()))
    assert silent.text.endswith("no page was found for 'cache'.")


async def test_both_are_searched_the_folder_first(context: ToolContext, folder: Path) -> None:
    both = replace(context, search_folder=folder, search=of_web(PAGES[:1]))
    output = await ask(both)
    first, local, _, web, *_ = output.text.split("\n\n")
    assert first == f"Two searches: of the local folder, and of the web by {MODEL}."
    assert local.startswith("Search of the local folder 'texts' (1 documents), not of the web")
    assert web.startswith(f"Search of the web by {MODEL}: 1 pages")
    assert output.spent is not None


@pytest.mark.parametrize(
    ("search", "told"),
    [
        (of_web(error=ProviderError("anthropic answered 500: broken")), "answered 500: broken"),
        (of_web(failure="too_many_requests"), "failed: too_many_requests"),
    ],
)
async def test_a_failure_is_a_result(
    context: ToolContext, folder: Path, search: WebSearch, told: str
) -> None:
    alone = await ask(replace(context, search=search))
    assert alone.error
    assert alone.text.startswith(f"Search of the web by {MODEL} failed: ")
    assert told in alone.text
    both = await ask(replace(context, search_folder=folder, search=search))
    assert not both.error  # the folder was searched
    assert "Caches" in both.text
    assert told in both.text


async def test_a_folder_that_is_gone_does_not_keep_the_web_from_answering(
    context: ToolContext, folder: Path
) -> None:
    gone = replace(context, search_folder=folder / "no", search=of_web(PAGES[:1]))
    output = await ask(gone)
    assert not output.error
    assert "does not exist" in output.text
    assert "WebPage 1" in output.text


@pytest.mark.parametrize("query", [" ", '"'])
async def test_an_empty_query_is_not_sent(context: ToolContext, query: str) -> None:
    never = of_web(error=WindlassError("sent"))
    output = await ask(replace(context, search=never), query)
    assert "give some words" in output.text


async def test_without_any_says_how_to_set_one(context: ToolContext) -> None:
    output = await ask(context)
    assert output.error
    assert "search_folder" in output.text
    assert "search_model" in output.text
