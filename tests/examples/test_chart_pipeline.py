"""Example 1, the main job: which phase sees the chart, and what that saves."""

from __future__ import annotations

import json

import pytest

import windlass
from tests.examples.conftest import (
    Play,
    Played,
    images_from,
    is_call,
    original_input,
    output_with_result,
    user,
)
from windlass.api.opening import open_store
from windlass.engine.events import CallStarted, Validated
from windlass.report.costs import session_cost
from windlass.settings.settings import Settings
from windlass.text.tokens import FamilyCounter

NAME = "chart_analysis_pipeline.json"
FORECAST = ["2015-08: 19637", "2015-09: 17263", "2015-10: 17144"]
REPORT = "reports/sales_report.md"
ANSWERS = {
    "generate_forecast": [json.dumps({"forecast": FORECAST})],
    "final_report": [json.dumps({"file": REPORT})],
}
INPUT = original_input(NAME)


@pytest.fixture(scope="module")
def run(play: Play) -> Played:
    return play(NAME, ANSWERS)


@pytest.mark.req("CI-36", "CI-52")
def test_it_draws_a_chart_and_writes_a_report(run: Played) -> None:
    assert (run.result.status, run.result.error) == ("completed", None)
    assert list(run.requests) == [
        "generate_chart",
        "validate_chart",
        "process_inventory",
        "generate_forecast",
        "final_report",
    ]
    chart = run.picture("generate_chart")
    assert chart.name == "image_0.png"
    assert chart.read_bytes().startswith(b"\x89PNG")
    assert (run.root / REPORT).read_text() == (
        f"Homes sold a month (chart: homes-sold-a-month.png). Forecast: {', '.join(FORECAST)}."
    )


def test_each_tool_gave_a_real_result(run: Played) -> None:
    drawn = run.saw("generate_chart", 2)[-1]
    assert drawn["content"][0]["text"].startswith("Drew the line chart 'Homes sold a month'")
    assert drawn["content"][1]["type"] == "image_url"
    asked = run.saw("process_inventory", 2)[-1]
    assert asked["content"].startswith("city | listings | months_of_inventory\nGarland | 276 | 1.6")
    expected = run.saw("generate_forecast", 2)[-1]
    assert all(line in expected["content"] for line in FORECAST)
    written = run.saw("final_report", 2)[-1]
    assert written["content"].startswith(f"wrote {REPORT}")


@pytest.mark.req("CI-2", "CI-6", "CI-8", "CI-10", "CI-11", "CI-52")
def test_validate_chart_sees_the_chart_and_what_was_said_of_it(run: Played) -> None:
    assert run.saw("validate_chart") == [
        INPUT,
        images_from("generate_chart", run.picture("generate_chart")),
        output_with_result(run, "generate_chart", "Said in generate_chart."),
        user("Verify this chart is accurate and readable. Say in one sentence what it shows."),
    ]


@pytest.mark.req("CI-20", "CI-22", "CI-52")
@pytest.mark.parametrize("phase", ["process_inventory", "generate_forecast"])
def test_the_phases_between_see_the_input_and_nothing_else(run: Played, phase: str) -> None:
    first, second = run.saw(phase), run.saw(phase, 2)
    assert first == [INPUT, run.asked(phase)]
    assert run.asked(phase)["content"].startswith(("Analyze inventory", "Create a sales forecast"))
    assert second[:2] == first
    assert [message["role"] for message in second[2:]] == ["assistant", "tool"]


@pytest.mark.req("CI-3", "CI-4", "CI-7", "CI-52")
def test_final_report_takes_picture_validation_and_forecast_in_this_order(run: Played) -> None:
    forecast = json.dumps({"forecast": FORECAST})
    first = run.saw("final_report")
    assert first == [
        INPUT,
        images_from("generate_chart", run.picture("generate_chart")),
        user("[Output from validate_chart]:\nSaid in validate_chart."),
        output_with_result(run, "generate_forecast", forecast),
        run.asked("final_report"),
    ]
    second = run.saw("final_report", 2)
    assert second[:5] == first
    assert is_call(second[5], "write_file")


@pytest.mark.req("CI-59")
def test_what_the_picture_would_have_cost_is_told_everywhere(run: Played) -> None:
    counter = FamilyCounter("gpt-4o")
    picture = counter.message(run.requests["generate_chart"][1].messages[-1])
    assert picture > 425  # what 800x500 pixels alone cost there
    between = ("process_inventory", "generate_forecast")
    watched = [
        event.snowball_tokens - event.tokens
        for event in run.events
        if isinstance(event, CallStarted) and event.phase in between
    ]
    rows = windlass.query_unified(
        "phase_name IN (?, ?) AND model IS NOT NULL", between, store=run.store
    )
    assert [row["tokens_saved"] for row in rows] == watched
    assert min(watched) > picture

    store = open_store(Settings.read({"store": run.store}, {}, run.root), existing=True)
    try:
        costs = session_cost(store, run.result.session_id, "anthropic/claude-sonnet-4-5")
    finally:
        store.close()
    assert costs.total.snowball - costs.total.tokens_in == run.result.saved
    told = {line.phase: line for line in costs.phases}
    for name, saved in zip(between, (sum(watched[:2]), sum(watched[2:])), strict=True):
        line = told[name]
        assert line.snowball - line.tokens_in == saved
        assert line.dollars is not None
        assert line.snowball_dollars is not None
        assert line.dollars < line.snowball_dollars


def test_a_report_that_is_not_there_is_refused_once_and_then_written(play: Play) -> None:
    missing, there = ({"file": name} for name in ("reports/other.md", REPORT))
    run = play(NAME, {**ANSWERS, "final_report": [json.dumps(missing), json.dumps(there)]})
    assert run.result.status == "completed"
    verdicts = [event for event in run.events if isinstance(event, Validated)]
    refused, accepted = (each for each in verdicts if each.phase == "final_report")
    assert (refused.valid, accepted.valid) == (False, True)
    assert refused.reason == "There is no file 'reports/other.md': write it with write_file."
    assert refused.reason in run.saw("final_report", 3)[-1]["content"]


def test_a_report_without_the_forecast_is_never_accepted(play: Play) -> None:
    elsewhere = {"generate_forecast": [json.dumps({"forecast": ["2015-08: 1"] * 3})]}
    run = play(NAME, ANSWERS | elsewhere)
    assert run.result.status == "incomplete"
    verdicts = [event for event in run.events if isinstance(event, Validated)]
    assert [each.reason for each in verdicts if each.phase == "final_report"] == [
        f"{REPORT!r} must hold '2015-08: 1'."
    ] * 2
