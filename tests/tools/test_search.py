"""`web_search` where a provider searches the web: what is shown, and who searched."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from windlass.errors import ProviderError
from windlass.messages import ToolCall
from windlass.tools.base import ToolContext, ToolOutput, WebSearch
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


async def test_no_page_is_told_apart_from_what_the_model_knows(context: ToolContext) -> None:
    output = await ask(replace(context, search=of_web(text="I believe so.")))
    assert "no page was found for 'cache'.\n\nWhat the model said without one:" in output.text
    assert not output.error
    assert output.spent is not None
    silent = await ask(replace(context, search=of_web()))
    assert silent.text.endswith("no page was found for 'cache'.")


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


async def test_without_any_says_how_to_set_one(context: ToolContext) -> None:
    output = await ask(context)
    assert output.error
    assert "search_folder" in output.text
    assert "search_model" in output.text
