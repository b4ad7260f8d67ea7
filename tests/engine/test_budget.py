"""A run's budget in US dollars: it ends before the call that could pass it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import windlass
from tests.engine.harness import House, by_phase, cascade, phase
from tests.support.engine_budget import ENDLESS, MODEL, MOST_OUT, PRICES, SMALL, Priced, loops
from tests.support.engine_choosing import AT_ONCE, SEVEN, TOPICS, asks, pages
from tests.support.report_costs import Hosted
from tests.tasks.making import atomic, reduce, sequential
from windlass.engine.result import Result
from windlass.errors import UsageError
from windlass.history.base import NodeType
from windlass.history.sqlite import SqliteStore
from windlass.messages import Message
from windlass.wire.base import Reply, Request, Usage

IN, OUT = 0.001, 0.01


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current folder whose settings have the model's price."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "windlass.toml").write_text(PRICES)
    return tmp_path


async def run(folder: Path, provider: Priced, budget: float | None, made: Any = ENDLESS) -> Result:
    """Run a cascade with a budget."""
    return await windlass.run(
        made,
        model=MODEL,
        store=folder / "store",
        providers={"priced": provider},
        session_id="s1",
        budget=budget,
    )


async def test_a_run_ends_before_the_call_that_could_pass_it(folder: Path) -> None:
    provider = Priced(loops, SMALL)
    result = await run(folder, provider, 2.50)
    assert (result.status, result.reason, result.error) == ("incomplete", "money", None)
    assert result.output == "So far."
    assert result.cost == pytest.approx(0.2 * len(provider.requests))
    told = result.notes["budget"]
    assert told["spent"] == pytest.approx(result.cost)
    assert told["spent"] + told["next_call"] > 2.50
    assert told["next_call"] >= MOST_OUT * OUT
    # Not a call too early: the last that was sent fitted.
    assert told["spent"] - 0.2 + told["next_call"] <= 2.50 + 0.1
    assert 5 < len(provider.requests) < 13
    house = House(folder)
    store = house.open_store()
    replies = [
        r for r in store.rows("s1") if r.row.node_type in (NodeType.AGENT, NodeType.FOLLOW_UP)
    ]
    assert len(replies) == len(provider.requests), "nothing that was paid for is lost"
    endings = [(each.phase, each.status, each.reason) for each in store.outcomes("s1")]
    assert endings == [("a", "incomplete", "money"), (None, "incomplete", "money")]
    house.close()


@pytest.mark.parametrize("beside", [{"tier": "priority"}, {"tier": "flex fast"}])
async def test_what_a_tier_without_a_price_took_is_taken_from_it(
    folder: Path, beside: dict[str, str]
) -> None:
    """A budget is a bound also where the bill is not known."""
    usage = Usage(100_000, 1_000, **beside)  # type: ignore[arg-type]
    provider = Hosted("anthropic/claude-sonnet-4-5", loops, usage)
    result = await windlass.run(
        ENDLESS,
        model="hosted/x",
        store=folder / "store",
        providers={"hosted": provider},
        budget=2.0,
    )
    assert (result.status, result.reason, result.cost) == ("incomplete", "money", None)
    assert 1 < len(provider.requests) < 2.0 / 0.315 + 1


async def test_one_cent_more_or_less_decides(folder: Path) -> None:
    once = cascade(phase("a"), max_output_tokens=MOST_OUT)
    result = await run(folder, Priced(lambda _: "ok", SMALL), 0.40, once)
    assert result.reason == "money", "the reply alone may cost 50 cents"
    most = result.notes["budget"]["next_call"]
    for budget, sent in ((most - 0.0001, 0), (most + 0.0001, 1)):
        provider = Priced(lambda _: "ok", SMALL)
        await windlass.run(
            once, model=MODEL, store=folder / "store", providers={"priced": provider}, budget=budget
        )
        assert len(provider.requests) == sent


async def test_helpers_are_paid_out_of_it(folder: Path) -> None:
    selection = {"strategy": "llm", "selector_model": MODEL}
    made = cascade(
        *SEVEN,
        asks("last", "rivers"),
        auto_context={**AT_ONCE, "inter_phase": {"selection": selection}},
        max_output_tokens=MOST_OUT,
    )
    provider = Priced(by_phase(pages(*TOPICS)), Usage(1_000, 40))
    result = await run(folder, provider, 1_000.0, made)
    assert result.status == "completed"
    assert len(provider.requests) > len(SEVEN) + 1, "the chooser was asked, too"
    assert result.cost == pytest.approx(1.4 * len(provider.requests))
    # The chooser's money is gone: what is left is not enough for the call behind it.
    for sent in (3, 8):
        less = Priced(by_phase(pages(*TOPICS)), provider.usage)
        ended = await windlass.run(
            made,
            model=MODEL,
            store=folder / "store",
            providers={"priced": less},
            budget=1.4 * sent + 0.1,
        )
        assert ended.reason == "money"
        assert ended.cost == pytest.approx(1.4 * len(less.requests))
        assert len(less.requests) <= sent


async def test_without_a_price_the_sentence_says_how_to_give_one(folder: Path) -> None:
    (folder / "windlass.toml").write_text("")
    provider = Priced(loops, SMALL)
    with pytest.raises(UsageError, match=r'no known price.*\[prices\."priced/m"\]'):
        await run(folder, provider, 2.5)
    assert provider.requests == []
    assert not (folder / "store").exists()


@pytest.mark.req("CI-50")
async def test_a_budget_holds_for_sub_cascades_too(folder: Path) -> None:
    child = cascade(phase("in"), phase("more"), max_output_tokens=MOST_OUT)
    (folder / "child.json").write_text(json.dumps({**child, "cascade_id": "child"}))
    parent = cascade(
        phase("a"), phase("p", sub_cascades=[{"ref": "child.json"}]), max_output_tokens=MOST_OUT
    )
    provider = Priced(by_phase({}), SMALL)
    result = await run(folder, provider, 0.85, parent)
    assert (result.status, result.reason) == ("incomplete", "money")
    assert result.cost == pytest.approx(0.2 * len(provider.requests))
    assert result.notes["budget"]["spent"] == result.cost
    with SqliteStore.open_existing(folder / "store") as store:
        child_session, session = store.sessions()[:2]
        assert (child_session.parent_id, child_session.reason) == (session.session_id, "money")
        assert child_session.cost == pytest.approx(0.2 * (len(provider.requests) - 1))


@pytest.mark.parametrize("budget", [0.0, -1.0, float("nan"), float("inf")])
async def test_a_budget_is_an_amount(folder: Path, budget: float) -> None:
    with pytest.raises(UsageError, match="a number of US dollars above 0"):
        await run(folder, Priced(loops, SMALL), budget)


INPUTS = reduce('<file split="lines">lines.txt</file>', parallel=8)


async def evaluate(folder: Path, provider: Priced, xml: str, **options: Any) -> Result:
    """Run a task with the priced model."""
    (folder / "task.xml").write_text(xml)
    options |= {"model": MODEL, "store": folder / "store", "providers": {"priced": provider}}
    if "resume" in options:
        return await windlass.resume_task(options.pop("resume"), **options)
    return await windlass.evaluate(folder / "task.xml", **options)


async def test_calls_side_by_side_cannot_pass_it_together(folder: Path) -> None:
    provider = Priced(lambda _: "ok", Usage(100, MOST_OUT))
    task = atomic("x")
    whole = await evaluate(folder, provider, task, budget=1e6)
    a_call = whole.cost or 0.0
    (folder / "lines.txt").write_text("\n".join(f"line {number}" for number in range(300)))
    provider = Priced(lambda _: "ok", Usage(100, MOST_OUT))
    budget = 60 * a_call
    result = await evaluate(folder, provider, INPUTS, budget=budget, session_id="s1")
    assert (result.status, result.reason) == ("incomplete", "money")
    assert provider.most_running > 1
    assert result.cost is not None
    assert result.cost <= budget + 1e-9
    kept = result.notes["partialResults"]
    assert len(kept) == len(provider.requests) > 0
    resumed = Priced(lambda _: "ok", SMALL)
    again = await evaluate(folder, resumed, "", resume="s1", budget=1e6)
    assert again.status == "completed"
    assert len(resumed.requests) == 301 - len(kept), "what was paid for is not asked again"


async def test_steps_end_with_it_and_keep_what_is_done(folder: Path) -> None:
    provider = Priced(lambda _: "ok", Usage(100_000, 1))
    xml = sequential(*(atomic(name) for name in "abc"))
    result = await evaluate(folder, provider, xml, budget=100.3)
    assert (result.status, result.reason) == ("incomplete", "money")
    assert [each["step"] for each in result.notes["partialResults"]] == ["a"]


@pytest.mark.req("ADR-41")
@pytest.mark.parametrize(
    ("limit", "reason"),
    [
        ("<budget>0.9</budget>", "money"),
        ("<max_tokens>500</max_tokens>", "tokens"),
        ("<max_seconds>0.25</max_seconds>", "time"),
    ],
)
async def test_a_task_ends_at_a_limit_of_its_own(folder: Path, limit: str, reason: str) -> None:
    async def script(request: Request) -> Message | str:
        await asyncio.sleep(0.1)
        return loops(request) if "Do b." in str(request.messages) else "ok"

    rules = f"<tools><tool>set_state</tool></tools><rules><max_turns>9</max_turns>{limit}</rules>"
    xml = sequential(atomic("a"), atomic("b", rules), atomic("c"))
    provider = Priced(script, SMALL)
    result = await evaluate(folder, provider, xml, session_id="s1")
    assert (result.status, result.reason) == ("incomplete", reason)
    assert result.notes["budget"]["of"] == "task 'b'"
    assert [each["step"] for each in result.notes["partialResults"]] == ["a"]
    asked = [str(request.messages) for request in provider.requests]
    assert 2 <= len(asked) < 10, "as many calls as the limit lets through, fewer than its turns"
    assert not any("Do c." in each for each in asked)


@pytest.mark.req("CA-21", "CA-24")
async def test_what_each_call_took_can_be_asked_of_all_sessions(folder: Path) -> None:
    class Reports(Priced):
        async def send(self, request: Request, on_text: Any) -> Reply:
            answers = request.messages[-1].role == "tool"
            self.usage = Usage(60_000, 7, tokens_cached=50_000) if answers else Usage(90_000, 40)
            return await super().send(request, on_text)

    (folder / "windlass.toml").write_text(f"{PRICES}cache_read = 100.0\ncache_write = 1000.0\n")
    made = cascade(phase("a", tackle=["set_state"]), max_output_tokens=MOST_OUT)
    for name in ("one", "two"):
        replies = iter([loops, lambda _: "done"])
        provider = Reports(lambda request, replies=replies: next(replies)(request), SMALL)
        await windlass.run(
            made,
            model=MODEL,
            store=folder / "store",
            providers={"priced": provider},
            session_id=name,
        )
    asked = (
        "SELECT session_id, phase_name, node_type, model, tokens_in, tokens_out, tokens_cached,"
        " cost, content_json FROM unified_logs WHERE {} AND tokens_in > 50000 ORDER BY session_id"
    )
    with SqliteStore.open_existing(folder / "store") as store:
        agents = store.query(asked.format("node_type = 'agent'"))
        follow_ups = store.query(asked.format("node_type = 'follow_up'"))
    rest = ("agent", MODEL, 90_000, 40, 0, pytest.approx(90.4), '"So far."')
    assert [tuple(row.values()) for row in agents] == [
        (name, "a", *rest) for name in ("one", "two")
    ]
    rest = ("follow_up", MODEL, 60_000, 7, 50_000, pytest.approx(15.07), '"done"')
    assert [tuple(row.values()) for row in follow_ups] == [
        (name, "a", *rest) for name in ("one", "two")
    ]
