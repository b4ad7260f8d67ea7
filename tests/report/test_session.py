"""`windlass report SESSION`: growth, contents of calls, savings and findings, all computed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from bench.scenarios.sessions import five_phases, refined_soundings

import windlass
from tests.engine.harness import House, call, calls, cascade, phase
from tests.support.report_costs import PRICED
from windlass.caching.rates import money
from windlass.errors import UsageError
from windlass.history.sqlite import SqliteStore
from windlass.providers.scripted import Scripted
from windlass.report.contents import call_report
from windlass.report.session_costs import SessionReport, session_report


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


def look() -> str:
    """Look."""
    return "a line of a log\n" * 500


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
