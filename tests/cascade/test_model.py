"""What a cascade may say, and how it is said in Python."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from pydantic import ValidationError

from tests.cascade.making import cascade
from windlass.cascade.model import Cascade, Phase, PhaseContext
from windlass.cascade.rules import ContextSource
from windlass.cascade.token_budget import MaxInputTokens


def phase(**more: Any) -> Phase:
    return Phase.model_validate({"name": "a", "instructions": "Do it.", **more})


class TestInPython:
    def test_cascades_are_made_of_lists_and_hold_tuples(self) -> None:
        made = Cascade(
            cascade_id="c",
            phases=[
                Phase(name="a", instructions="Do it.", tackle=["create_chart"]),
                Phase(
                    name="b",
                    instructions="Say it.",
                    context=PhaseContext(from_=[ContextSource(phase="a")]),
                ),
            ],
        )
        assert made.phases[0].tackle == ("create_chart",)
        assert made.phases[1].context == PhaseContext(from_=[ContextSource(phase="a")])

    def test_they_equal_the_same_cascade_out_of_a_file(self) -> None:
        made = Cascade(
            cascade_id="c",
            phases=[
                Phase(
                    name="a", instructions="Do it.", inject_from=[ContextSource(phase="previous")]
                )
            ],
        )
        assert made == Cascade.model_validate(cascade({"name": "a", "inject_from": ["previous"]}))

    def test_they_are_frozen(self) -> None:
        with pytest.raises(ValidationError):
            phase().name = "b"

    def test_an_editors_schema_key_is_ignored(self) -> None:
        data = cascade({"name": "a"})
        assert Cascade.model_validate({"$schema": "urn:x", **data}) == Cascade.model_validate(data)

    def test_what_is_written_can_be_read_again(self) -> None:
        data = cascade({"name": "a", "context": {"from": ["previous"]}, "max_input_tokens": 9})
        made = Cascade.model_validate(data)
        assert Cascade.model_validate(made.model_dump(by_alias=True)) == made

    def test_the_import_brings_neither_jinja_nor_yaml_nor_jsonschema(self) -> None:
        code = (
            "import sys, windlass.cascade.model;"
            "print([m for m in ('jinja2', 'yaml', 'jsonschema') if m in sys.modules])"
        )
        told = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        assert told.stdout.strip() == "[]"


class TestSources:
    @pytest.mark.req("CI-8")
    def test_a_bare_name_takes_images_and_output(self) -> None:
        long = {"phase": "a", "include": ["images", "output"]}
        context = PhaseContext.model_validate({"from": ["a"]})
        assert list(context.from_) == [ContextSource.model_validate(long)]

    @pytest.mark.req("CI-6", "CI-7")
    def test_names_and_objects_may_be_mixed(self) -> None:
        context = PhaseContext.model_validate({"from": ["a", {"phase": "b", "include": ["state"]}]})
        assert [source.phase for source in context.from_] == ["a", "b"]

    @pytest.mark.req("CI-14", "CI-15", "CI-16", "CI-18")
    def test_the_defaults_are_those_of_the_document(self) -> None:
        source = ContextSource(phase="a")
        assert (source.images_filter, source.images_count) == ("all", 1)
        assert (source.messages_filter, source.as_role) == ("all", "user")
        assert source.condition is None

    @pytest.mark.req("CI-14")
    @pytest.mark.parametrize("value", ["all", "last", "last_n"])
    def test_images_filter_takes(self, value: str) -> None:
        assert (
            ContextSource.model_validate({"phase": "a", "images_filter": value}).images_filter
            == value
        )

    @pytest.mark.req("CI-16", "CI-17")
    @pytest.mark.parametrize("key", ["messages_filter", "filter"])
    @pytest.mark.parametrize("value", ["all", "assistant_only", "last_turn"])
    def test_messages_filter_has_two_spellings(self, key: str, value: str) -> None:
        assert ContextSource.model_validate({"phase": "a", key: value}).messages_filter == value

    @pytest.mark.req("CI-19")
    @pytest.mark.parametrize("key", ["condition", "if"])
    def test_condition_has_two_spellings(self, key: str) -> None:
        assert ContextSource.model_validate({"phase": "a", key: "{{ state.x }}"}).condition

    def test_the_order_of_include_is_kept(self) -> None:
        source = ContextSource.model_validate(
            {"phase": "a", "include": ["state", "output", "images"]}
        )
        assert source.include == ("state", "output", "images")

    @pytest.mark.parametrize(
        "wrong",
        [
            {"include": []},
            {"include": ["images", "images"]},
            {"include": ["sound"]},
            {"images_count": 0},
            {"images_filter": "some"},
            {"as_role": "assistant"},
            {"filter": "all", "messages_filter": "all"},
            {"if": "{{ 1 }}", "condition": "{{ 1 }}"},
            {"colour": 1},
        ],
    )
    def test_refused(self, wrong: dict[str, Any]) -> None:
        with pytest.raises(ValidationError):
            ContextSource.model_validate({"phase": "a", **wrong})


class TestPhases:
    @pytest.mark.req("CI-20", "CI-22")
    def test_a_clean_slate_still_has_the_input(self) -> None:
        context = PhaseContext.model_validate({"from": []})
        assert context.from_ == ()
        assert context.include_input is True

    @pytest.mark.req("CI-42", "CI-43")
    @pytest.mark.parametrize("tackle", [("create_chart", "run_sql"), "manifest", ()])
    def test_tackle_is_a_list_or_manifest(self, tackle: Any) -> None:
        assert phase(tackle=tackle).tackle == tackle

    @pytest.mark.req("CI-44")
    def test_the_rules_of_the_document(self) -> None:
        rules = phase().rules
        assert (rules.max_turns, rules.max_attempts) == (20, 3)
        assert (rules.loop_until, rules.on_exhausted) == (None, "fail")

    def test_retention_and_position_by_default(self) -> None:
        assert (phase().context_retention, phase().position) == ("full", "start")

    def test_a_bare_number_of_input_tokens_is_the_limit(self) -> None:
        assert phase(max_input_tokens=9).max_input_tokens == MaxInputTokens(limit=9)
        assert MaxInputTokens(limit=9).on_exceed == "prune"

    @pytest.mark.parametrize(
        "wrong",
        [
            {"name": "../x"},
            {"name": ".hidden"},
            {"name": "a/b"},
            {"name": "a\n"},
            {"name": "x" * 101},
            {"instructions": ""},
            {"tackle": "all"},
            {"rules": {"max_turns": True}},
            {"rules": {"max_turns": "3"}},
            {"temperature": 2.1},
            {"temperature": float("nan")},
            {"context_ttl": {"images": 0}},
            {"context_ttl": {"sound": 1}},
            {"max_input_tokens": {"limit": 9, "warn": 0}},
            {"output_extraction": {"pattern": "(a)(b)", "store_as": "x"}},
            {"output_extraction": {"pattern": "a", "store_as": "x"}},
            {"output_extraction": {"pattern": "(", "store_as": "x"}},
            {"output_schema": {"type": "array"}},
            {"output_schema": {"type": "object", "properties": 3}},
            {"output_schema": {"type": "object", "$ref": "https://example.org/x"}},
            {"output_schema": {"type": "object", "default": float("inf")}},
            {"output_schema": {"type": "object", "default": {1, 2}}},
        ],
    )
    def test_refused(self, wrong: dict[str, Any]) -> None:
        with pytest.raises(ValidationError):
            phase(**wrong)

    @pytest.mark.req("CI-47")
    def test_an_extraction_has_one_group_whatever_else_is_bracketed(self) -> None:
        pattern = "(?:a|b)(?P<x>[[:alpha:]]+)"
        extraction = phase(
            output_extraction={"pattern": pattern, "store_as": "x"}
        ).output_extraction
        assert extraction is not None
        assert (extraction.required, extraction.format) == (False, "text")


class TestSettings:
    def made(self, *phases: dict[str, Any], **top: Any) -> Cascade:
        return Cascade.model_validate(cascade(*phases, **top))

    def test_the_phase_goes_before_its_cascade(self) -> None:
        made = self.made({"name": "a", "temperature": 0}, {"name": "b"}, temperature=1, model="x/y")
        assert [made.settings_for(each).temperature for each in made.phases] == [0, 1]
        assert made.settings_for(made.phases[0]).model == "x/y"

    def test_a_cascades_tool_choice_is_for_the_phases_that_have_the_tool(self) -> None:
        made = self.made(
            {"name": "a", "tackle": ["chart"]},
            {"name": "b"},
            {"name": "c", "tackle": ["m:chart"]},
            {"name": "d", "tackle": "manifest"},
            tool_choice="chart",
        )
        chosen = [made.settings_for(each).tool_choice for each in made.phases]
        assert chosen == ["chart", None, "chart", None]
