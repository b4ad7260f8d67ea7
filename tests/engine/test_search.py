"""A provider's search of the web in a run: who is named, what is sent, recorded and paid."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.engine.harness import House, call, calls, cascade, phase
from tests.providers.exchanges import SAID, SENT
from tests.providers.searches import FAILED_INSIDE, FOUND, QUERY, REFUSED, routed
from tests.providers.server import Answer, Server, serving
from windlass.caching.rates import cost
from windlass.engine.events import SessionStarted
from windlass.errors import UsageError
from windlass.history.base import NodeType, Row
from windlass.history.row_details import json_of
from windlass.report.costs import session_cost
from windlass.settings.trust import trust
from windlass.tools.base import ToolContext

pytestmark = pytest.mark.req("CI-53")

MODEL = "anthropic/claude-sonnet-4-5"
SEARCHES = call("web_search", f'{{"query": "{QUERY}"}}')
ONE = cascade(phase("a", tackle=["web_search"]), phase("b"))


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch, house: House) -> None:
    monkeypatch.chdir(house.folder)
    monkeypatch.setenv("NO_PROXY", "*")
    for name in ("ANTHROPIC", "OPENROUTER", "GEMINI", "GOOGLE", "OPENAI"):
        monkeypatch.delenv(f"{name}_API_KEY", raising=False)


@asynccontextmanager
async def web(
    house: House,
    monkeypatch: pytest.MonkeyPatch,
    *script: Answer,
    model: str = MODEL,
    more: str = "",
) -> AsyncIterator[Server]:
    """A provider that searches, on loopback, as the settings of the folder name it."""
    name = model.partition("/")[0]
    async with serving(*script) as server:
        (house.folder / "windlass.toml").write_text(
            f'search_model = "{model}"\n[providers.{name}]\nbase_url = "{server.url}"\n{more}',
            encoding="utf-8",
        )
        monkeypatch.setenv(f"{name.upper()}_API_KEY", "sk-test-0123456789")
        trust(house.folder)
        yield server


def tool_rows(ran: Any) -> list[Row]:
    return [stored.row for stored in ran.rows(NodeType.TOOL_RESULT)]


async def test_is_named_sent_recorded_and_paid(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with web(house, monkeypatch, FOUND["anthropic"]) as server:
        ran = await house.run(ONE, {"a": [calls(SEARCHES), "done"]})
    assert ran.result.error is None
    # It is named before anything is sent, and sees the query alone.
    (started,) = [event for event in ran.events if isinstance(event, SessionStarted)]
    assert started.models == ("scripted/x", MODEL)
    (asked,) = server.asked
    assert QUERY in str(asked.body["messages"])
    assert "Do a." not in str(asked.body)
    # What it found is what the phase's model sees.
    seen = ran.request("a", 2).messages[-1]
    assert seen.text.startswith(f"Search of the web by {MODEL}: 2 pages")
    # What it took is in the record, and counted.
    (row,) = tool_rows(ran)
    price = cost(MODEL, SENT, SAID, 1_500, 300)
    assert price is not None
    assert (row.model, row.tokens_in, row.tokens_out) == (MODEL, SENT, SAID)
    assert json_of(row)["searches"] == 2
    assert row.cost == pytest.approx(price + 0.02)
    calls_alone = sum(view.tokens_in for name in "ab" for view in ran.views(name))
    assert ran.result.usage.tokens_in == calls_alone + SENT
    assert ran.result.cost == pytest.approx(price + 0.02)
    (listed,) = ran.store.sessions()
    assert listed.tokens_in == ran.result.usage.tokens_in
    assert listed.calls == 3
    told = session_cost(ran.store, ran.session, MODEL)
    paid = next(line for line in told.phases if line.phase == "a, searches of the web")
    assert (paid.calls, paid.tokens_in) == (0, SENT)
    assert paid.dollars == pytest.approx(price + 0.02)
    assert told.total.tokens_in == ran.result.usage.tokens_in
    assert ran.has_no_damage()


async def test_the_price_that_a_provider_tells_is_the_price(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = "openrouter/openai/gpt-5.5"
    async with web(house, monkeypatch, routed(0.0123, 1), model=model) as server:
        ran = await house.run(ONE, {"a": [calls(SEARCHES), "done"]})
    assert server.asked[0].body["tools"][0]["type"] == "openrouter:web_search"
    assert server.asked[0].body["model"] == "openai/gpt-5.5"
    assert tool_rows(ran)[0].cost == ran.result.cost == 0.0123


async def test_a_search_without_a_price_makes_the_sum_unknown(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = 'wire = "openai"\n'
    model = "mine/m"
    async with web(house, monkeypatch, FOUND["openai"], model=model, more=more):
        ran = await house.run(ONE, {"a": [calls(SEARCHES), "done"]})
    assert ran.result.error is None
    assert tool_rows(ran)[0].cost is ran.result.cost is None
    own = f'{more}[prices."mine/m"]\ninput = 0\noutput = 0\nsearch = 0.5\n'
    async with web(house, monkeypatch, FOUND["openai"], model=model, more=own):
        ran = await house.run(ONE, {"a": [calls(SEARCHES), "done"]})
    assert ran.result.cost == 0.5


async def test_a_failure_is_a_result_and_what_it_took_is_paid(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with web(house, monkeypatch, REFUSED["anthropic"], FAILED_INSIDE):
        ran = await house.run(ONE, {"a": [calls(SEARCHES), calls(SEARCHES), "went on"]})
    assert ran.result.outputs["a"] == "went on"
    refused, failed = tool_rows(ran)
    assert (json_of(refused)["error"], json_of(failed)["error"]) == (True, True)
    assert (refused.tokens_in, refused.model) == (None, None)
    assert (failed.tokens_in, json_of(failed)["searches"]) == (SENT, 1)
    assert refused.message is not None
    assert "Web search is not enabled" in refused.message.text


async def test_the_folder_is_searched_too(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    (house.folder / "texts").mkdir()
    (house.folder / "texts" / "a.md").write_text("# Tokens\nA written token has a price.")
    async with web(house, monkeypatch, FOUND["anthropic"]):
        ran = await house.run(
            ONE, {"a": [calls(SEARCHES), "done"]}, search_folder=house.folder / "texts"
        )
    text = ran.request("a", 2).messages[-1].text
    assert text.index("1. Tokens") < text.index("Search of the web by")


class TestWhereNoPhaseSearches:
    async def test_nobody_is_named_and_no_key_is_needed(
        self, house: House, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("WINDLASS_SEARCH_MODEL", MODEL)
        seen: list[object] = []

        def look(context: ToolContext) -> str:
            """Look whether a search is there."""
            seen.append(context.search)
            return "looked"

        ran = await house.run(
            cascade(phase("a", tackle=["look"])), {"a": [calls(call("look")), "x"]}, tools=[look]
        )
        assert ran.result.error is None
        (started,) = [event for event in ran.events if isinstance(event, SessionStarted)]
        assert started.models == ("scripted/x",)
        assert seen == [None]
        lines = session_cost(ran.store, ran.session, MODEL).phases
        assert [(line.phase, line.searches) for line in lines] == [("a", 0)]


@pytest.mark.parametrize(
    ("model", "told"),
    [
        (MODEL, "needs a key: set the variable ANTHROPIC_API_KEY"),
        ("scripted/x", "search_model 'scripted/x' cannot search the web"),
        ("nobody/x", "there is no provider 'nobody'"),
        ("gpt", "names no provider"),
    ],
)
async def test_a_model_that_cannot_is_told_before_the_session(
    house: House, monkeypatch: pytest.MonkeyPatch, model: str, told: str
) -> None:
    monkeypatch.setenv("WINDLASS_SEARCH_MODEL", model)
    with pytest.raises(UsageError, match=told):
        await house.run(ONE)
    assert not house.store.exists()


async def test_a_run_that_is_stopped_stops_the_search(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with web(house, monkeypatch, Answer(hang=True)) as server:
        work = house.run(ONE, {"a": [calls(SEARCHES)]}, session_id="s")
        running = asyncio.create_task(work)
        await asyncio.wait_for(server.busy.wait(), 30)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await asyncio.wait_for(server.idle.wait(), 30)
    (row,) = [s for s in house.open_store().rows("s") if s.row.node_type == NodeType.TOOL_RESULT]
    assert row.row.message is not None
    assert "interrupted" in row.row.message.text
