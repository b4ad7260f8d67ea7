"""Everything that can be known to be wrong is said at once, each with its line."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cascade.making import (
    JSON,
    Toolbox,
    cascade,
    cascades,
    damaged,
    loaded,
    places,
)
from tests.support.cascade_check import checked_cascade, mistakes
from windlass.cascade.check import check
from windlass.cascade.load import from_python, load, parse
from windlass.errors import CascadeError

DATA = Path(__file__).parent / "data"
A, B, C = {"name": "a"}, {"name": "b"}, {"name": "c"}


def only(*phases: dict[str, Any], tools: Toolbox | None = None, **top: Any) -> str:
    (mistake,) = mistakes(*phases, tools=tools, **top)
    return mistake


def with_source(source: Any, **more: Any) -> str:
    """The one mistake of a second phase that takes from `source`."""
    return only(A, {**B, "context": {"from": [source]}, **more}, C)


class TestGolden:
    @pytest.mark.req("CI-25", "CI-33")
    @pytest.mark.parametrize("name", ["mistakes.json", "mistakes.yaml"])
    def test_a_file_full_of_mistakes(self, name: str) -> None:
        found = check(load(DATA / name), tools=Toolbox("create_chart", "run_sql"))
        told = "".join(f"{mistake}\n" for mistake in found).replace(f"{DATA}/", "")
        assert told == (DATA / f"{name}.txt").read_text(encoding="utf-8")


class TestSources:
    @pytest.mark.req("CI-33")
    def test_itself_is_refused(self) -> None:
        assert "a phase cannot take from itself" in with_source("b")

    @pytest.mark.req("CI-51")
    def test_a_parents_phase_is_not_known_here(self) -> None:
        assert mistakes(A, {**B, "context": {"from": ["parent.x"]}}, C) == []
        assert "'parent.' names no phase" in with_source("parent.")
        auto = {"mode": "auto", "anchors": {"from_phases": ["parent.x"]}}
        assert "only a source may be" in only(A, {**B, "context": auto})


class TestTemplates:
    @pytest.mark.parametrize(
        ("template", "told"),
        [
            ("{{ inptu.x }}", "a template cannot use 'inptu'; did you mean 'input'?"),
            ("{{ input.x ", "bad template: unexpected end of template"),
            ("{% if x %}", "bad template"),
            (
                "{{ input.x | uper }}",
                "bad template: there is no filter 'uper'; did you mean 'upper'?",
            ),
            ("{{ 1 is od }}", "bad template: there is no test 'od'"),
            ("{% include 'x' %}", "bad template: a template cannot take in other templates"),
            ("{{ " + "(" * 5000, "bad template"),
        ],
    )
    def test_wrong_templates(self, template: str, told: str) -> None:
        for key in ("instructions", "system"):
            assert f"phase 'a', {key}: {told}" in mistakes({**A, key: template})[0]

    @pytest.mark.req("CA-14")
    @pytest.mark.parametrize("form", ["outputs.{}", "outputs['{}']", "outputs.{}.tool_results.x"])
    def test_outputs_name_phases_that_come_before(self, form: str) -> None:
        def told(name: str) -> list[str]:
            text = f"{{{{ {form.format(name)} }}}}"
            return mistakes(A, {**B, "instructions": text}, C)

        assert told("a") == []
        assert "outputs.c: phase 'c' comes later" in told("c")[0]
        assert "outputs.b: the output of a phase is not known while it runs" in told("b")[0]
        assert "outputs.aa: there is no phase 'aa'; did you mean 'a'?" in told("aa")[0]

    def test_a_cascades_system_prompt_uses_no_output(self) -> None:
        assert "the system prompt of all phases can use no output" in only(
            A, system="{{ outputs.a }}"
        )

    def test_the_line_within_a_yaml_block_is_told(self) -> None:
        text = "cascade_id: c\nphases:\n- name: a\n  instructions: |\n    One.\n    {{ x }}\n"
        (mistake,) = check(parse(text, name="c", format="yaml"))
        assert mistake.line == 6

    @pytest.mark.req("CI-19")
    @pytest.mark.parametrize("key", ["if", "condition"])
    def test_conditions_are_templates_too(self, key: str) -> None:
        def told(condition: str) -> str:
            return with_source({"phase": "a", key: condition})

        assert f"context.from[0].{key}: bad template" in told("{{ state.x ")
        assert f"context.from[0].{key}: a template cannot use 'sate'" in told("{{ sate.x }}")
        assert "'state.x' is plain text and so always true" in told("state.x")


class TestTools:
    def test_a_registry_is_given_the_cascades_own_tools_first(self) -> None:
        phase = {**A, "tackle": ["of_module", "f", "bad.m:f"], "tool_choice": "f"}
        found = check(loaded(cascade(phase, tools=["m", "m:f", "bad"])), tools=Toolbox())
        assert [mistake.text for mistake in found] == [
            "phase 'a', tackle[2]: cannot import 'bad.m:f'",
            "tools[2]: cannot import 'bad:of_module'",
        ]

    @pytest.mark.parametrize(
        ("phase", "told"),
        [
            (
                {"tool_choice": "run_sql"},
                "'run_sql' is not in the tackle of this phase; known: auto",
            ),
            ({"tool_choice": "required"}, "'required' needs a tool to call"),
            ({"tool_choice": "run_sql", "tackle": "manifest"}, "may not be among the tools"),
        ],
    )
    def test_a_choice_that_cannot_be_followed(self, phase: dict[str, Any], told: str) -> None:
        said = only({**A, **phase})
        assert said.startswith("phase 'a', tool_choice: ")
        assert told in said

    def test_a_cascades_choice_needs_one_phase_that_can(self) -> None:
        assert mistakes({**A, "tackle": ["run_sql"]}, B, tool_choice="run_sql") == []
        assert only(A, B, tool_choice="run_sql").startswith(
            "tool_choice: no phase has the tool 'run_sql'"
        )


class TestSoundings:
    @pytest.mark.parametrize(
        ("soundings", "place", "told"),
        [
            ({"factor": 0}, "factor", "must be at least 1, not 0"),
            ({"factor": 1000}, "factor", "must be at most 32, not 1000"),
            ({"factor": 2.5}, "factor", "expected a whole number, not 2.5"),
            ({"max_parallel": 0}, "max_parallel", "must be at least 1, not 0"),
            ({"factor": 3, "evaluator_instructions": None}, "", "nothing says which attempt wins"),
            ({"pareto_frontier": {}}, "", "'pareto_frontier' is not part of Windlass: whoever"),
            (
                {"cost_aware_evaluation": {"cost_weight": -1}},
                "cost_aware_evaluation.cost_weight",
                "must be at least 0, not -1",
            ),
            ({"model_strategy": "randm"}, "model_strategy", "'randm' is not known here; did you"),
            ({"models": {"a/b": {"facto": 1}}}, "models.a/b", "unknown key 'facto'; did you mean"),
            ({"models": {"a/b": {"factor": 33}}}, "models.a/b.factor", "must be at most 32"),
            (
                {"evaluator": {"human": {}, "function": "f"}},
                "evaluator",
                "an evaluator is one of 'model', 'function', 'validator' and 'human'",
            ),
            ({"evaluator": {}}, "evaluator", "an evaluator is one of 'model', 'function'"),
            ({"evaluator": {"model": "a/b", "function": "f"}}, "evaluator", "an evaluator is one"),
            ({"evaluator": "my:"}, "evaluator", "'my:' is not a dotted path; "),
            (
                {"evaluator": {"validator": "v:"}},
                "evaluator.validator",
                "'v:' is not a dotted path",
            ),
            ({"validator": "v:"}, "validator", "'v:' is not a dotted path; "),
            (
                {"evaluator_instructions": "{{ x }}"},
                "evaluator_instructions",
                "a template cannot use",
            ),
            ({"reforge": {}}, "reforge", "'honing_prompt' is missing"),
            (
                {"reforge": {"honing_prompt": "h", "steps": 0}},
                "reforge.steps",
                "must be at least 1",
            ),
            (
                {"reforge": {"honing_prompt": "h", "threshold": "v:"}},
                "reforge.threshold",
                "'v:' is no",
            ),
            ({"mutate": "x"}, "mutate", "expected a list, not 'x'"),
        ],
    )
    def test_a_mistake_is_one_sentence(
        self, soundings: dict[str, Any], place: str, told: str
    ) -> None:
        sentence = only({**A, "soundings": {"evaluator_instructions": "Best.", **soundings}})
        where = f"phase 'a', soundings{'.' if place else ''}{place}: "
        assert sentence.startswith(where + told)
        assert "\n" not in sentence


class TestWhateverComes:
    @given(cascades())
    def test_valid_cascades_pass(self, data: dict[str, Any]) -> None:
        for form in ("json", "yaml"):
            assert check(loaded(data, form), tools=Toolbox()) == ()
        assert checked_cascade(data, tools=Toolbox()) == loaded(data).cascade

    @given(damaged())
    def test_damaged_cascades_are_refused_in_sentences_or_pass(self, data: dict[str, Any]) -> None:
        found = check(from_python(data), tools=Toolbox())
        assert len(set(found)) == len(found)
        assert all(len(mistake.text.splitlines()) == 1 for mistake in found)
        # No sentence of pydantic's own gets through.
        assert not any(re.search("Input|Value|String|should", mistake.text) for mistake in found)

    @given(
        st.dictionaries(
            st.text(max_size=5) | st.sampled_from(["cascade_id", "phases", "<yes>", "<list>"]), JSON
        )
    )
    def test_any_dict_is_refused_in_sentences(self, data: dict[str, Any]) -> None:
        with pytest.raises(CascadeError):
            checked_cascade(data)

    @given(cascades(), st.data())
    def test_a_mistake_of_form_does_not_hide_one_of_sense(
        self, data: dict[str, Any], draw: st.DataObject
    ) -> None:
        data = copy.deepcopy(data)
        data["phases"].append({"name": "zz", "instructions": "{{ nobody }}"})
        first = data["phases"][0]
        paths = [path for path in places(first) if path not in {("name",), ("instructions",)}]
        path = draw.draw(st.sampled_from([*paths, ("context_retention",)]))
        holder = first
        for step in path[:-1]:
            holder = holder[step]
        holder[path[-1]] = object
        told = [mistake.text for mistake in check(from_python(data), tools=Toolbox())]
        said = "phase 'zz', instructions: a template cannot use 'nobody'; known: attempt, call"
        assert any(text.startswith(said) for text in told)
