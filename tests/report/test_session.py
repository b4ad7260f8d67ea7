"""`windlass report SESSION`: growth, contents of calls, savings and findings, all computed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from bench.scenarios.sessions import five_phases, refined_soundings

import windlass
from tests.engine.harness import House, call, calls, cascade, phase
from tests.support.report_costs import PRICED, Hosted
from windlass.caching.rates import money
from windlass.errors import UsageError
from windlass.history.sqlite import SqliteStore
from windlass.providers.scripted import Scripted
from windlass.report.contents import call_report
from windlass.report.prefix import prefix_of
from windlass.report.session_costs import SessionReport, session_report
from windlass.wire.base import Usage


def ran(folder: Path, make: Any = five_phases, **settings: Any) -> SessionReport:
    session = make()
    replies = iter(session.replies)
    result = windlass.run_sync(
        {**session.cascade, **settings},
        {"question": "How do prices of homes move?"},
        store=folder,
        tools=session.tools,
        providers={"scripted": Scripted(lambda _: next(replies), counts_as="gpt-4o")},
    )
    assert result.error is None
    with SqliteStore.open_existing(folder, busy_s=5.0) as store:
        return session_report(store, result.session_id, PRICED)


@pytest.fixture(scope="module")
def snowball(tmp_path_factory: pytest.TempPathFactory) -> SessionReport:
    return ran(tmp_path_factory.mktemp("snowball"))


@pytest.fixture(scope="module")
def windowed(tmp_path_factory: pytest.TempPathFactory) -> SessionReport:
    return ran(tmp_path_factory.mktemp("windowed"), auto_context={"inter_phase": False})


def near(mine: int, documented: int) -> bool:
    return abs(mine - documented) <= max(10, 0.01 * documented)


@pytest.mark.req("CA-25")
def test_the_growth_of_each_phase_is_the_documents(snowball: SessionReport) -> None:
    documented = {
        "discover_schema": ((345,), (71_545,), 71_200),
        "write_query": ((72_452,), (74_266,), 1_814),
        "analyze_results": ((74_622,), (), None),
        "create_initial_chart": ((75_739,), (80_371, 84_385, 89_945), 14_206),
        "say_summary_summarize": ((93_029,), (93_301,), 272),
    }
    assert [each.phase for each in snowball.growth] == list(documented)
    for each in snowball.growth:
        agent, follow_ups, delta = documented[each.phase]
        for mine, theirs in ((each.agent, agent), (each.follow_ups, follow_ups)):
            assert len(mine) == len(theirs)
            assert all(map(near, mine, theirs))
        assert each.delta == (None if delta is None else pytest.approx(delta, rel=0.03))


@pytest.mark.req("CA-26")
def test_the_dearest_calls_context_and_its_largest_messages(snowball: SessionReport) -> None:
    assert snowball.dearest is not None
    parts = {part.kind: part for part in snowball.dearest.parts}
    assert list(parts) == ["system", "tools", "user", "assistant", "tool results", "pictures"]
    assert parts["tool results"].tokens > 0.8 * sum(part.tokens for part in parts.values())
    assert parts["pictures"].messages == 2
    largest = snowball.dearest.messages[0]
    assert (largest.what, largest.phase) == ("the result of sql_search", "discover_schema")
    assert (largest.chars, largest.calls) == (221_143, 10)
    assert snowball.messages[0].message_id == largest.message_id


def test_what_messages_paid_is_the_bill(snowball: SessionReport) -> None:
    first = snowball.messages[0]
    total = snowball.costs.total.simulated_dollars or 0.0
    assert 0.6 * total < (first.dollars or 0.0) < total


def test_results_are_added_up_by_tool(snowball: SessionReport) -> None:
    dearest = snowball.tools[0]
    assert (dearest.tool, dearest.results) == ("sql_search", 2)
    both = [one for one in snowball.messages if one.what == "the result of sql_search"]
    assert dearest.dollars == pytest.approx(sum(one.dollars or 0.0 for one in both))
    assert dearest.calls == sum(one.calls for one in both)
    assert dearest.tokens_sent == sum(one.tokens_sent for one in both)
    costs = [one.dollars or 0.0 for one in snowball.tools]
    assert costs == sorted(costs, reverse=True)
    assert sum(costs) < (snowball.costs.total.simulated_dollars or 0.0)


@pytest.mark.req("CA-27")
def test_findings_tell_what_a_run_with_the_setting_costs(
    snowball: SessionReport, windowed: SessionReport, tmp_path: Path
) -> None:
    windows, minimal = snowball.findings
    assert (windows.setting, windows.dollars) == ("auto_context", snowball.costs.total.dollars)
    # What windows save is what a replay says, which also counts what is fetched again.
    really = windowed.costs.total.dollars or 0.0
    assert really < windows.would_be < 0.5 * (snowball.costs.total.dollars or 0.0)
    assert windows.would_be == pytest.approx(really, rel=0.15)
    # The next one says what it saves on top.
    assert (minimal.setting, minimal.dollars) == ("context_strategy: minimal", windows.would_be)
    phases = five_phases().cascade["phases"]
    for each in phases:
        each["context_strategy"] = "minimal"
    both = ran(tmp_path, phases=phases, auto_context={"inter_phase": False}).costs.total.dollars
    assert minimal.would_be == pytest.approx(both, rel=0.1)
    texts = [part.text for part in windows.parts]
    assert any(
        "the result of sql_search in discover_schema, 221,143 characters, was sent in 10 later"
        " calls: $1.62; with auto_context it would be $0.0" in text
        for text in texts
    ), texts


@pytest.mark.req("CA-27")
def test_what_would_save_most_is_told_first(snowball: SessionReport) -> None:
    saved = [finding.saved for finding in snowball.findings]
    assert len(set(saved)) > 1
    assert saved == sorted(saved, reverse=True)


@pytest.mark.req("CA-27")
def test_what_would_be_saved_adds_up(snowball: SessionReport, windowed: SessionReport) -> None:
    for report in (snowball, windowed):
        assert sum(one.saved for one in report.findings) < (report.costs.total.dollars or 0.0)
    (windows, _) = snowball.findings
    of_messages = sum(part.saved for part in windows.parts)
    assert 0.5 * windows.saved < of_messages <= windows.saved


@pytest.mark.req("CA-27")
@pytest.mark.parametrize("windows", [{"profile": "spec", "commit": "at_once"}, False])
async def test_windows_that_cost_more_than_they_saved_are_told(house: House, windows: Any) -> None:
    works = phase("a", tackle=["look"], rules={"max_turns": 40}, intra_context=windows)

    def look() -> str:
        """Look at what is there."""
        return "\n".join(f"line {number} of what was seen" for number in range(40))

    # To mask a short result, all the long text behind it is written to the cache again.
    says = [calls(call("look"), text=f"{number} thoughts. " * 2_000) for number in range(12)]
    ran = await house.run(cascade(works), {"a": [*says, "done"]}, tools=[look])
    report = session_report(ran.store, ran.session, PRICED)
    told = [finding for finding in report.findings if finding.setting == "auto_context: false"]
    if windows is False:
        assert told == []
        return
    (finding,) = told
    paid, everything = report.costs.total.dollars, report.costs.total.snowball_dollars
    assert finding.text == (
        f"windows cost more than they saved: the calls cost {money(paid)};"
        f" without auto_context it would be {money(everything)}"
    )
    assert finding.saved > 0


def test_with_windows_nothing_is_told_of_turning_them_on(windowed: SessionReport) -> None:
    assert all(finding.setting != "auto_context" for finding in windowed.findings)


def test_savings_add_up_to_the_difference_from_a_snowball(windowed: SessionReport) -> None:
    kinds = {saving.kind: saving for saving in windowed.savings}
    assert kinds["digest"].dollars > 1.5
    assert kinds["digest"].tokens > 800_000
    total = windowed.costs.total
    difference = (total.snowball_dollars or 0.0) - (total.simulated_dollars or 0.0)
    assert sum(each.dollars for each in windowed.savings) == pytest.approx(difference)
    tokens = sum(each.tokens for each in windowed.savings)
    assert tokens > 0.9 * (total.snowball - total.tokens_in)


def test_without_another_request_there_are_no_savings(snowball: SessionReport) -> None:
    assert snowball.savings == ()


@pytest.mark.req("CA-31")
def test_soundings_and_refinements_are_lines_of_their_own(tmp_path: Path) -> None:
    report = ran(tmp_path, refined_soundings)
    growth = {each.phase: each for each in report.growth}
    assert len(growth["draft, soundings"].agent) == 5
    assert len(growth["draft, reforge"].agent) == 2
    assert sum(len(each.agent) + len(each.follow_ups) for each in growth.values()) == (
        report.costs.total.calls
    )
    assert {each.phase for each in report.calls} >= {"draft, soundings", "draft, reforge"}
    # Each sounding is sent the pages that were read before them.
    read = next(each for each in report.messages if each.phase == "collect")
    assert read.calls > 5 * len(growth["draft, soundings"].agent)


async def test_what_all_soundings_are_sent_is_one_message(house: House) -> None:
    brought = {"context": {"from": [{"phase": "a", "include": ["output"]}]}}
    three = {"factor": 3, "evaluator_instructions": "best"}
    result = await house.run(
        cascade(phase("a", tackle=["look"]), phase("b", soundings=three, **brought)),
        {"a": [calls(call("look")), "found " * 400], "b": ["x", "y", "z", '{"winner": 0}']},
        {"x": 1},
        tools=[look],
    )
    report = session_report(result.store, result.session, PRICED)
    brought_in = [each for each in report.messages if each.phase == "b, soundings"]
    assert [each.calls for each in brought_in] == [3, 3, 3]  # input, output of a, instructions
    assert brought_in[0].tokens > 400
    tools = next(each for each in report.messages if each.what.startswith("definitions"))
    assert tools.calls == 2  # phase b has none
    assert [each.broken_by for each in prefix_of(result.store, result.session)] == [
        *("", ""),
        *["other tools: look"] * 3,
    ]


async def test_sub_cascades_are_counted_with_their_messages(house: House) -> None:
    child = cascade(phase("find", tackle=["look"]), cascade_id="logs")
    ref = house.folder / "logs.json"
    ref.write_text(json.dumps(child), encoding="utf-8")
    result = await house.run(
        cascade(phase("a", sub_cascades=[{"ref": str(ref)}])),
        {"find": [calls(call("look")), "found"]},
        tools=[look],
    )
    report = session_report(result.store, result.session, PRICED)
    assert any(each.phase == "a > logs > find" for each in report.growth)
    assert report.messages[0].what == "the result of look"
    assert report.messages[0].phase == "a > logs > find"


def look() -> str:
    """Look."""
    return "a line of a log\n" * 500


async def test_a_cache_that_did_not_hold_is_a_finding(house: House) -> None:
    usage = Usage(40_000, 100, 0, 0)
    result = await windlass.run(
        cascade(phase("a"), phase("b"), system="Be. " * 40_000),
        model="hosted/x",
        store=house.store,
        providers={"hosted": Hosted("openai/gpt-4o", lambda _: "word", usage)},
    )
    report = session_report(house.open_store(), result.session_id, PRICED)
    (finding,) = [each for each in report.findings if "--prefix" in each.setting]
    # 40,000 tokens at 2.5, of which the cache should have given all at 1.25
    assert finding.dollars == pytest.approx(0.1)
    assert finding.would_be == pytest.approx(0.05, rel=0.01)


async def test_one_call(house: House) -> None:
    ran = await house.run(
        cascade(phase("a", tackle=["look"])), {"a": [calls(call("look")), "done"]}, tools=[look]
    )
    report = call_report(ran.store, ran.session, 2, PRICED)
    parts = {part.kind: part.tokens for part in report.parts}
    assert parts["tool results"] > parts["user"] + parts["assistant"]
    assert report.messages[0].what == "the result of look"
    assert report.cost.node_type == "follow_up"
    with pytest.raises(UsageError, match=r"no call 7 that was answered; it has calls 1 to 2"):
        call_report(ran.store, ran.session, 7, PRICED)


async def test_a_model_without_a_price(house: House) -> None:
    result = await windlass.run(
        cascade(phase("a"), phase("b")),
        model="hosted/x",
        store=house.store,
        providers={"hosted": Hosted("nowhere/nothing", lambda _: "word")},
    )
    report = session_report(house.open_store(), result.session_id, PRICED)
    assert report.findings == ()
    assert report.dearest is not None
    assert report.dearest.cost.dollars is None
