"""From what a phase says of its context to a rule."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from tests.cascade.making import cascade, cascades
from windlass.cascade.compile import compile_rule, explain_defaults, rule_in_words
from windlass.cascade.model import Cascade
from windlass.cascade.rules import Budget, PhaseSource, Rule
from windlass.window.expire import Expiry


def rule(*phases: dict[str, Any]) -> Rule:
    """The rule of the last phase."""
    made = Cascade.model_validate(cascade(*phases))
    return compile_rule(made, made.phases[-1])


def reached(word: str, **context: Any) -> list[str]:
    last = {"name": "d", "context": {"from": [word], **context}}
    return [
        source.phase for source in rule({"name": "a"}, {"name": "b"}, {"name": "c"}, last).sources
    ]


A, B = {"name": "a"}, {"name": "b"}


class TestModes:
    def test_a_phase_that_says_nothing_is_a_snowball(self) -> None:
        assert rule(A, B) == Rule("snowball")

    @pytest.mark.req("CI-2", "CI-20", "CI-22")
    def test_context_makes_it_selective_without_a_flag(self) -> None:
        assert rule(A, {**B, "context": {}}) == Rule("selective", include_input=True)
        assert rule(A, {**B, "context": {"from": []}}) == Rule("selective", include_input=True)
        assert not rule(A, {**B, "context": {"include_input": False}}).include_input

    def test_sources_keep_their_order_and_know_their_place(self) -> None:
        sources = rule(A, B, {"name": "c", "context": {"from": ["b", "a", "b"]}}).sources
        assert [source.phase for source in sources] == ["b", "a", "b"]
        assert sources[2].place == "phases[2].context.from[2]"

    @pytest.mark.req("CI-23")
    def test_inject_from_takes_every_option_of_a_source(self) -> None:
        options = {
            "include": ["messages", "images"],
            "images_filter": "last_n",
            "images_count": 2,
            "filter": "last_turn",
            "as_role": "system",
            "if": "{{ state.x }}",
        }
        made = rule(A, {**B, "inject_from": [{"phase": "a", **options}], "position": "end"})
        assert made == Rule(
            "snowball",
            (
                PhaseSource(
                    phase="a",
                    include=("messages", "images"),
                    images_filter="last_n",
                    images_count=2,
                    messages_filter="last_turn",
                    as_role="system",
                    condition="{{ state.x }}",
                    place="phases[1].inject_from[0]",
                ),
            ),
            position="end",
        )

    def test_retention_ttl_and_budget_go_with_every_mode(self) -> None:
        common = {
            "context_retention": "output_only",
            "context_ttl": {"images": 2, "user": None},
            "max_input_tokens": {"limit": 9, "warn": 0.5, "on_exceed": "fail"},
        }
        modes: list[dict[str, Any]] = [{}, {"context": {}}, {"inject_from": ["a"]}]
        for said in (*modes, {"context_strategy": "fresh"}):
            made = rule(A, {**B, **common, **said})
            assert made.output_only
            assert made.expiry == Expiry(images=2)
            assert made.budget == Budget(9, 0.5, "fail")


class TestStrategies:
    @pytest.mark.req("CA-9")
    def test_fresh_is_a_clean_slate_with_the_input(self) -> None:
        strategy = rule(A, {**B, "context_strategy": "fresh"})
        assert strategy == rule(A, {**B, "context": {"from": []}})

    @pytest.mark.req("CA-10")
    def test_minimal_is_the_last_output_only(self) -> None:
        source = PhaseSource(phase="b", include=("output",), place="phases[2].context_strategy")
        made = rule(A, B, {"name": "c", "context_strategy": "minimal"})
        assert made == Rule("selective", (source,), include_input=False)
        assert rule({**A, "context_strategy": "minimal"}).sources == ()

    @pytest.mark.req("CA-11")
    def test_full_is_the_snowball(self) -> None:
        assert rule(A, {**B, "context_strategy": "full"}) == rule(A, B)

    @pytest.mark.req("CA-12")
    def test_sliding_keeps_the_newest_within_the_limit_or_the_windows_share(self) -> None:
        made = rule(A, {**B, "context_strategy": "sliding"})
        assert made == Rule("snowball", sliding=True, newest_within=None)
        limited = rule(A, {**B, "context_strategy": "sliding", "max_input_tokens": 9})
        assert (limited.sliding, limited.newest_within) == (True, 9)

    @pytest.mark.req("CA-6")
    def test_recent_carries_the_last_turns_over_the_boundary(self) -> None:
        made = rule(A, {**B, "context_strategy": "recent"})
        assert made == Rule("snowball", newest_turns=2)
        assert rule(A, {**B, "context_strategy": "recent", "turns": 5}).newest_turns == 5
        assert rule_in_words(made) == "sees the last 2 turns of all that was said before."


class TestReaches:
    def test_words_stand_for_phases_before_this_one(self) -> None:
        assert reached("all") == ["a", "b", "c"]
        assert reached("first") == ["a"]
        assert reached("previous") == ["c"]

    def test_nothing_comes_before_the_first_phase(self) -> None:
        for word in ("all", "first", "previous"):
            assert rule({**A, "context": {"from": [word]}}).sources == ()

    @pytest.mark.req("AC-67")
    def test_exclude_takes_phases_out_of_the_words(self) -> None:
        assert reached("all", exclude=["b"]) == ["a", "c"]
        assert reached("first", exclude=["a"]) == ["b"]
        assert reached("previous", exclude=["c", "b"]) == ["a"]
        assert reached("previous", exclude=["a", "b", "c"]) == []

    @given(cascades())
    def test_every_source_is_an_earlier_phase(self, data: dict[str, Any]) -> None:
        made = Cascade.model_validate(data)
        names = [phase.name for phase in made.phases]
        for index, phase in enumerate(made.phases):
            compiled = compile_rule(made, phase)
            assert {source.phase for source in compiled.sources} <= set(names[:index])
            assert rule_in_words(compiled)


class TestExplaining:
    def made(self) -> Cascade:
        return Cascade.model_validate(
            cascade(
                {"name": "a", "rules": {"max_turns": 5}},
                {"name": "b", "context_strategy": "minimal", "context_retention": "output_only"},
                {"name": "c", "context_strategy": "sliding"},
                model="local/x",
            )
        )

    @pytest.mark.req("CA-12")
    def test_every_setting_has_a_value_and_an_origin(self) -> None:
        first, second, _ = explain_defaults(self.made())
        settings = {setting.name: setting for setting in first.settings}
        assert settings["rules.max_turns"].origin == "written"
        assert settings["rules.max_attempts"].origin == "default"
        assert settings["rules.max_attempts"].value == 3
        assert settings["model"].origin == "written, for the whole cascade"
        assert second.rule == compile_rule(self.made(), self.made().phases[1])
        origins = {setting.name: setting.origin for setting in second.settings}
        assert origins["context"] == "shorthand: context_strategy minimal"

    @pytest.mark.req("CA-12")
    def test_as_text_it_says_what_each_phase_sees(self) -> None:
        text = str(explain_defaults(self.made()))
        assert "phase 'a' sees all that was said before." in text
        assert "phase 'b' sees only: output of 'a'. Later phases see its output only." in text
        assert (
            "phase 'c' sees the newest whole turns of all that was said before, within 60%" in text
        )

    @given(cascades())
    def test_it_can_explain_every_cascade(self, data: dict[str, Any]) -> None:
        explained = explain_defaults(Cascade.model_validate(data))
        assert [entry.phase for entry in explained] == [phase["name"] for phase in data["phases"]]
        assert str(explained)
