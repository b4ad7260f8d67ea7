"""The documents' scenarios have the documents' sizes, and a run is measured by what it sent."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable

import pytest
from bench.bench_scenarios import (
    BEFORE,
    LEAN,
    SHORT_RESULTS,
    VARIANTS,
    parsed,
    reports,
    table,
)
from bench.scenarios import content
from bench.scenarios.measure import Report, Variant, merged
from bench.scenarios.sessions import (
    PICTURE_BYTES,
    SESSIONS,
    Session,
    five_phases,
    five_soundings,
    loop,
    research,
)

from windlass.replays.pricing import VECTORS


class TestContent:
    @pytest.mark.parametrize(
        ("text", "characters"),
        [
            (content.schema(37_936), 37_936),
            (content.properties(221_143), 221_143),
            (content.rows(2_700), 2_700),
            (content.found(5_000, 1), 5_000),
            (content.page(5_000, 1), 5_000),
        ],
    )
    def test_has_the_size_that_was_asked_for(self, text: str, characters: int) -> None:
        assert len(text) == characters

    def test_is_the_same_each_time_and_another_for_another_seed(self) -> None:
        assert content.page(3_000, 1) == content.page(3_000, 1)
        assert content.page(3_000, 1) != content.page(3_000, 2)

    def test_records_are_json_with_identifiers(self) -> None:
        records = json.loads(content.properties(20_000))
        assert records[7]["property_id"] == "prop_00007"

    def test_runs_of_the_same_tests_share_lines_and_fail_ever_less(self) -> None:
        runs = [content.log(4_100, run, 10).split("\n") for run in (1, 2, 10)]
        assert len({len(run) for run in runs}) == 1
        assert [sum(" FAILED " in line for line in run) for run in runs] == [13, 12, 4]
        assert set(runs[0]) & set(runs[1]) >= {line for line in runs[0] if "PASSED" in line}

    def test_two_pictures_are_426k_characters_of_base64(self) -> None:
        both = [content.chart(PICTURE_BYTES, seed, "f.png") for seed in (1, 2)]
        encoded = sum(len(base64.b64encode(one.data or b"")) for one in both)
        assert encoded == pytest.approx(426_000, rel=0.01)
        assert (both[0].width, both[0].height) == (1_200, 800)


class TestSessions:
    @pytest.mark.parametrize("make", SESSIONS)
    def test_input_tokens_are_near_the_documented_ones(self, make: Callable[[], Session]) -> None:
        [before] = reports(make(), (), VECTORS[:1], "gpt-4o")
        if len(before.documented) > 1:
            assert before.tokens == pytest.approx(before.documented, rel=0.01)
        elif before.documented:
            assert before.total == pytest.approx(before.documented[0], rel=0.01)
        assert before.values == before.values_seen >= 10

    @pytest.mark.req("CA-1")
    def test_the_five_phases_are_shown_before_and_after(self) -> None:
        session = five_phases()
        assert len(session.cascade["phases"]) == 5
        on = Variant("auto_context", {"auto_context": {}})
        before, after = reports(session, (on,), VECTORS[:1], "gpt-4o")
        assert len(before.tokens) == len(after.tokens) == 11
        assert after.total < 0.6 * before.total
        assert len(after.missed) == after.values - after.values_seen < 0.1 * after.values
        told = table("five phases", [before, after])
        assert before.variant in told
        assert after.variant in told
        assert f"{before.total:,}" in told
        assert f"{after.total:,}" in told

    def test_what_a_phase_does_not_see_is_out_of_view(self) -> None:
        variant = Variant("minimal", phases={"context_strategy": "minimal"})
        before, after = reports(five_phases(), (variant,), VECTORS[:1], "gpt-4o")
        assert after.total < before.total / 5
        assert after.values_seen < after.values == before.values
        assert re.search(r"call 3: prop_\d+", "\n".join(after.missed))

    def test_each_vector_has_its_own_bill(self) -> None:
        told = list(reports(loop(), (), VECTORS, "gpt-4o"))
        assert [one.vector for one in told] == ["anthropic", "automatic", "none"]
        assert told[2].money == told[2].total > told[0].money > told[1].money
        assert "1.000" in table("loop", told)

    def test_a_variant_that_is_not_known_is_left_out_with_a_line(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        told = list(reports(loop(), (Variant("x", {"no_such_key": 1}),), VECTORS[:1], "gpt-4o"))
        assert [one.variant for one in told] == [BEFORE.name]
        assert "loop, x: left out" in capsys.readouterr().err


AUTO = next(one for one in VARIANTS if one.name == "auto")


def measured(
    make: Callable[[], Session], variant: Variant
) -> tuple[dict[str, Report], dict[str, float]]:
    """The reports of a variant by price vector, and its bills divided by the untouched ones."""
    told = list(reports(make(), (variant,), VECTORS, "gpt-4o"))
    before = {one.vector: one for one in told if one.variant == BEFORE.name}
    after = {one.vector: one for one in told if one.variant == variant.name}
    assert len(after) == len(before) == len(VECTORS)
    return after, {name: one.money / before[name].money for name, one in after.items()}


class TestDocumentedFigures:
    @pytest.mark.req("CA-4", "CA-29")
    def test_the_five_phases_cost_less_and_their_last_call_is_small(self) -> None:
        after, bills = measured(five_phases, AUTO)
        assert all(one.last <= 15_000 for one in after.values())
        assert bills["none"] <= 0.15
        assert bills["anthropic"] <= 0.35
        assert all(one.values_seen == one.values for one in after.values())

    @pytest.mark.req("AC-5")
    def test_the_15_turns_have_60k_tokens_and_are_never_dearer(self) -> None:
        after, bills = measured(research, AUTO)
        assert after["none"].total <= 60_000
        assert bills["none"] <= 0.40
        assert bills["anthropic"] <= 1.0
        assert bills["automatic"] <= 1.0
        for one in after.values():
            assert (one.values_seen, one.lines_seen) == (one.values, one.lines)

    @pytest.mark.req("AC-5")
    def test_the_15_turns_have_40k_tokens_where_results_are_cut(self) -> None:
        after, bills = measured(research, SHORT_RESULTS)
        assert after["none"].total <= 40_000
        assert bills["anthropic"] <= 1.0
        for one in after.values():
            assert (one.values_seen, one.lines_seen) == (one.values, one.lines)

    @pytest.mark.req("AC-6")
    def test_the_10_attempts_cost_less_with_all_that_was_needed_in_sight(self) -> None:
        after, bills = measured(loop, AUTO)
        assert after["none"].total <= 36_000
        assert bills["anthropic"] <= 0.75
        assert bills["automatic"] <= 0.75
        assert all(one.values_seen == one.values for one in after.values())

    @pytest.mark.req("AC-6")
    def test_the_10_attempts_cost_least_with_all_in_sight_under_the_lean_profile(self) -> None:
        after, bills = measured(loop, LEAN)
        assert after["none"].total <= 33_000
        assert bills["anthropic"] <= 0.75
        assert bills["automatic"] <= 0.75
        assert all(one.values_seen == one.values for one in after.values())

    @pytest.mark.req("AC-7")
    def test_the_5_soundings_cost_less_with_all_that_was_needed_in_sight(self) -> None:
        after, bills = measured(five_soundings, AUTO)
        assert after["none"].total <= 130_000
        assert all(one.total <= 206_000 for one in after.values())
        assert max(bills.values()) <= 0.65
        assert all(one.values_seen == one.values for one in after.values())


class TestVariants:
    def test_settings_are_laid_over_key_by_key(self) -> None:
        variant = parsed('v={"cascade": {"a": {"c": 2}}, "phases": {"rules": {"max_turns": 1}}}')
        cascade = {"a": {"b": 1}, "phases": [{"name": "p", "rules": {"max_attempts": 2}}]}
        assert variant.over(cascade) == {
            "a": {"b": 1, "c": 2},
            "phases": [{"name": "p", "rules": {"max_attempts": 2, "max_turns": 1}}],
        }

    def test_the_cascade_below_is_left_as_it_was(self) -> None:
        below = {"a": {"b": 1}}
        merged(below, {"a": {"b": 2}})
        assert below == {"a": {"b": 1}}
