"""`context: {mode: auto}` and `auto_context.inter_phase` in a cascade, and what they come to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.cascade.making import cascade, loaded
from windlass.cascade.check import check
from windlass.cascade.compile import compile_rule, explain_defaults
from windlass.cascade.layers import selector_models
from windlass.cascade.published_schema import json_schema
from windlass.cascade.rules import Anchors, Choosing, Rule
from windlass.settings.settings import Settings

A: dict[str, Any] = {"name": "a", "instructions": "Do a."}
B: dict[str, Any] = {"name": "b", "instructions": "Do b."}
C: dict[str, Any] = {"name": "c", "instructions": "Do c."}

SELECTION: dict[str, Any] = {
    "strategy": "heuristic",
    "max_tokens": 900,
    "max_messages": 7,
    "recency_weight": 0.3,
    "keyword_weight": 0.4,
    "callout_weight": 0.3,
    "similarity_threshold": 0.7,
    "selector_model": "google/gemini-2.5-flash-lite",
}


def settings(**values: Any) -> Settings:
    environ = {f"WINDLASS_{name.upper()}": str(value) for name, value in values.items()}
    return Settings.read({}, environ, Path())


def rules(*phases: dict[str, Any], told: Settings | None = None, **top: Any) -> list[Rule]:
    made = loaded(cascade(*phases, **top)).cascade
    assert not check(loaded(cascade(*phases, **top)))
    return [compile_rule(made, phase, told) for phase in made.phases]


def chosen(rule: Rule) -> Choosing:
    assert rule.mode == "auto"
    assert rule.choosing is not None
    return rule.choosing


def mistakes(*phases: dict[str, Any], **top: Any) -> list[str]:
    return [one.text for one in check(loaded(cascade(*phases, **top)))]


def auto(**context: Any) -> dict[str, Any]:
    return {**B, "context": {"mode": "auto", **context}}


class TestDefaults:
    @pytest.mark.req("AC-53", "AC-54", "AC-55", "AC-65", "AC-68")
    def test_are_the_documents_and_mode_is_explicit_until_it_is_written(self) -> None:
        _, explicit = rules(A, {**B, "context": {"from": ["a"]}})
        assert (explicit.mode, explicit.choosing) == ("selective", None)
        _, rule = rules(A, auto())
        assert chosen(rule).anchors == Anchors(
            window=3, from_phases=("previous",), include=("output", "callouts", "input")
        )

    @pytest.mark.req("AC-56", "AC-57", "AC-58", "AC-60")
    def test_hybrid_within_30_000_tokens_and_50_messages(self) -> None:
        _, rule = rules(A, auto())
        options = chosen(rule).selection
        assert (options.strategy, options.max_tokens, options.max_messages) == (
            ("hybrid", 30_000, 50)
        )
        weights = options.weights
        assert weights.keyword + weights.recency + weights.callout == pytest.approx(1)

    @pytest.mark.req("AC-59", "AC-88")
    def test_no_model_is_named_so_none_is_asked(self) -> None:
        _, rule = rules(A, auto(selection={"strategy": "llm"}))
        assert chosen(rule).selector is None
        made = loaded(cascade(A, auto())).cascade
        assert selector_models(made) == []

    @pytest.mark.req("AC-59", "AC-61", "AC-68")
    def test_every_documented_option_is_taken(self) -> None:
        anchors = {"window": 5, "from_phases": ["a"], "include": ["errors", "output"]}
        _, rule = rules(A, auto(anchors=anchors, selection=SELECTION))
        made = chosen(rule)
        assert made.anchors == Anchors(window=5, from_phases=("a",), include=("errors", "output"))
        assert made.selector == SELECTION["selector_model"]
        for name, value in SELECTION.items():
            if name != "selector_model":
                assert getattr(made.selection, name) == value
        assert selector_models(
            loaded(cascade(A, auto(selection={**SELECTION, "strategy": "llm"}))).cascade
        )


class TestInterPhase:
    @pytest.mark.req("AC-62", "AC-63")
    def test_sets_the_mode_for_phases_after_the_first_that_say_nothing(self) -> None:
        told = rules(
            A,
            B,
            {**C, "context": {"from": ["a"]}},
            {**C, "name": "d", "inject_from": ["a"]},
            {**C, "name": "e", "context_strategy": "minimal"},
            {**C, "name": "f"},
            auto_context={},
        )
        assert [rule.mode for rule in told] == [
            *("snowball", "auto", "selective", "snowball", "selective", "auto")
        ]

    @pytest.mark.req("AC-62")
    @pytest.mark.parametrize(
        ("said", "mode"),
        [
            (True, "auto"),
            ({"inter_phase": {"enabled": False}}, "snowball"),
            ({"inter_phase": False}, "snowball"),
            (False, "snowball"),
        ],
    )
    def test_can_be_left_out(self, said: Any, mode: str) -> None:
        assert rules(A, B, auto_context=said)[1].mode == mode

    @pytest.mark.req("AC-56", "AC-63", "AC-66")
    def test_a_phase_goes_before_it_key_by_key(self) -> None:
        inter = {
            "strategy": "semantic",
            "selector_model": "local/x",
            "anchors": {"window": 2, "include": ["output"]},
            "selection": {"max_tokens": 4_000, "max_messages": 9},
        }
        own = auto(anchors={"window": 1}, selection={"max_tokens": 500}, **{"from": ["a"]})
        told = rules(A, own, C, auto_context={"inter_phase": inter})
        made, other = chosen(told[1]), chosen(told[2])
        assert (made.anchors.window, made.anchors.include) == (1, ("output",))
        assert (made.selection.max_tokens, made.selection.max_messages) == (500, 9)
        assert (made.selection.strategy, made.selector) == ("semantic", "local/x")
        assert other.selection.max_tokens == 4_000
        assert [source.phase for source in told[1].sources] == ["a"]

    @pytest.mark.req("AC-59")
    def test_a_helper_model_is_that_of_all_phases(self) -> None:
        told = rules(A, B, auto_context={"helper_model": "local/x", "commit": "at_once"})
        assert (chosen(told[1]).selector, chosen(told[1]).at_once) == ("local/x", True)

    @pytest.mark.req("AC-100")
    def test_the_flags_switch_off_for_everybody_and_never_on(self) -> None:
        off = settings(auto_context_inter_phase_enabled="false")
        _, asked, implied = rules(A, auto(), C, told=off, auto_context={})
        for rule in (asked, implied):
            assert (rule.mode, rule.choosing) == ("snowball", None)
            assert rule.not_choosing == "auto_context_inter_phase_enabled"
        silent = settings(auto_context_llm_selection_enabled="false")
        _, rule = rules(A, auto(selection=SELECTION), told=silent)
        assert chosen(rule).no_model
        on = settings(auto_context_inter_phase_enabled="true")
        assert rules(A, B, told=on)[1].mode == "snowball"

    def test_passthrough_sends_everything(self) -> None:
        _, rule = rules(A, auto(), told=settings(passthrough="1"))
        assert (rule.mode, rule.not_choosing) == ("snowball", "passthrough")


class TestMistakes:
    @pytest.mark.parametrize(
        ("context", "says"),
        [
            ({"anchors": {"from_phases": ["nobody"]}}, "there is no phase 'nobody'"),
            ({"anchors": {"from_phases": ["c"]}}, "phase 'c' comes later"),
            ({"anchors": {"include": ["outputs"]}}, "did you mean 'output'?"),
            ({"anchors": {"window": -1}}, "must be at least 0"),
            ({"selection": {"strategy": "best"}}, "expected one of"),
            ({"selection": {"max_tokens": 0}}, "must be at least 1"),
            ({"selection": {"keyword_weight": -1}}, "must be at least 0"),
            (
                {
                    "selection": dict.fromkeys(
                        ("keyword_weight", "recency_weight", "callout_weight"), 0
                    )
                },
                "are all 0: nothing is left to choose by",
            ),
            ({"selection": {"similarity_threshold": "near"}}, "is neither a share"),
            ({"selection": {"max_token": 3}}, "did you mean 'max_tokens'?"),
            ({"exclude": ["nobody"]}, "there is no phase 'nobody'"),
        ],
    )
    def test_are_told_in_a_sentence(self, context: dict[str, Any], says: str) -> None:
        (told,) = mistakes(A, auto(**context), C)
        assert says in told
        assert "\n" not in told

    def test_options_of_choosing_need_the_mode(self) -> None:
        (told,) = mistakes(A, {**B, "context": {"from": ["a"], "anchors": {"window": 1}}})
        assert "applies only with context.mode 'auto'" in told

    def test_of_the_whole_cascade(self) -> None:
        inter = {"anchors": {"from_phases": ["nobody"]}}
        (told,) = mistakes(A, B, auto_context={"inter_phase": inter})
        assert "auto_context.inter_phase.anchors.from_phases[0]" in told

    def test_weights_that_are_0_only_together(self) -> None:
        inter = {"selection": {"keyword_weight": 0, "recency_weight": 0}}
        own = auto(selection={"callout_weight": 0, "recency_weight": 0, "keyword_weight": 1})
        assert mistakes(A, own, auto_context={"inter_phase": inter}) == []
        own = auto(selection={"callout_weight": 0})
        (told,) = mistakes(A, own, auto_context={"inter_phase": inter})
        assert "together with auto_context all weights are 0" in told


class TestWhatPeopleSee:
    @pytest.mark.req("AC-63", "AC-103")
    def test_the_schema_knows_it(self) -> None:
        valid = Draft202012Validator(json_schema()).is_valid
        assert valid(cascade(A, auto(selection=SELECTION), auto_context={"inter_phase": {}}))
        assert not valid(cascade(A, auto(selection={"strategy": "best"})))
        assert not valid(cascade(A, B, auto_context={"inter_phase": {"anchor": {}}}))

    @pytest.mark.req("AC-63")
    def test_each_option_is_listed_with_who_chose_it(self) -> None:
        inter = {"strategy": "semantic", "selection": {"max_tokens": 4_000}}
        made = loaded(cascade(A, auto(anchors={"window": 1}), auto_context={"inter_phase": inter}))
        explained = explain_defaults(made.cascade)[1]
        told = {one.name: (one.value, one.origin) for one in explained.settings}
        assert told["context.mode"] == ("auto", "written")
        assert told["context.anchors.window"] == (1, "context")
        assert told["context.anchors.include"][1] == "default"
        assert told["context.selection.max_tokens"] == (4_000, "auto_context.inter_phase")
        assert told["context.selection.strategy"] == ("semantic", "auto_context.inter_phase")
        assert explained.words.startswith("chooses by semantic what it sees")

    @pytest.mark.req("AC-100")
    def test_and_who_switched_it_off(self) -> None:
        off = settings(auto_context_inter_phase_enabled="false")
        made = loaded(cascade(A, B, auto_context={})).cascade
        told = {one.name: one for one in explain_defaults(made, off)[1].settings}
        assert "auto_context_inter_phase_enabled is False" in told["context.mode"].origin
