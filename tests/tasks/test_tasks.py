"""Task files: their tree, all mistakes with lines, the one inner form, what defaults came to."""

from __future__ import annotations

import pytest
from lxml import etree

from tests.tasks.making import (
    atomic,
    block,
    compiled,
    complaints,
    reduce,
    sequential,
)
from windlass.cascade.compile import compile_rule, rule_in_words
from windlass.cascade.model import Cascade, Phase
from windlass.cascade.rules import Rule, TaskContext
from windlass.tasks.compile import explain_defaults
from windlass.tasks.parse import relax_ng

ONE = "<input>x</input>"


class TestTree:
    @pytest.mark.req("ADR-50", "ADR-51")
    def test_tasks_nest_to_any_depth_and_have_paths(self) -> None:
        deep = sequential(
            atomic("a"),
            reduce(ONE, name="each", inner_type=' type="sequential"').replace(
                "<description>Do inner.</description>",
                f"<description>Do inner.</description><steps>{atomic('x')}{atomic()}</steps>",
            ),
            sequential(atomic("y"), name="last"),
        )
        task = compiled(deep).task
        assert [(one.path, one.kind) for one in task.walk()] == [
            ("task", "sequential"),
            ("a", "atomic"),
            ("each", "reduce"),
            ("each.inner", "sequential"),
            ("each.inner.x", "atomic"),
            ("each.inner.step_2", "atomic"),
            ("each.reduction", "atomic"),
            ("last", "sequential"),
            ("last.y", "atomic"),
        ]
        assert [one.description for one in task.walk()][:2] == ["Do all.", "Do a."]

    def test_tools_model_and_rules_are_those_of_phases(self) -> None:
        inside = """
            <model>scripted/small</model>
            <tools><tool>read_file</tool><tool>recall</tool></tools>
            <rules><max_turns>3</max_turns></rules>
            <output_schema>{"type": "object"}</output_schema>
            <temperature>0.5</temperature>"""
        (phase,) = compiled(atomic("a", inside)).cascade.phases
        assert phase.model == "scripted/small"
        assert phase.tackle == ("read_file", "recall")
        assert phase.rules.max_turns == 3
        assert phase.output_schema == {"type": "object"}
        assert phase.temperature == 0.5

    def test_what_an_enclosing_task_says_holds_for_those_in_it(self) -> None:
        said = "<model>scripted/large</model><system>Be brief.</system>"
        own = atomic("b", "<model>scripted/own</model>")
        phases = compiled(sequential(atomic("a"), own, inside=said)).cascade.phases
        assert [(one.model, one.system) for one in phases] == [
            ("scripted/large", "Be brief."),
            ("scripted/own", "Be brief."),
        ]


class TestMistakes:
    def test_all_are_told_at_once_with_their_lines(self) -> None:
        xml = (
            '<task type="sequential" colour="red">\n'
            "<description>{{ inpt }}</description>\n"
            "<inputs/>\n"
            "<steps>\n"
            '<task type="atomic" name="a"><description>{{ outputs.b }}</description></task>\n'
            '<task type="atomic" name="a">\n'
            "<tools><tool>read_fil</tool></tools>\n"
            "<temperature>hot</temperature></task>\n"
            "<phase/>\n"
            "</steps>\n"
            "</task>"
        )
        told = complaints(xml)
        assert [line.partition(":")[0] for line in told] == [
            "1",
            "2",
            "3",
            "5",
            "6",
            "6",
            "7",
            "8",
            "9",
        ]
        for part, line in zip(
            (
                "'colour'",
                "'inpt'",
                "<inputs> belongs to",
                "outputs.b",
                "needs a <description>",
                "already is a step 'a'",
                "no tool 'read_fil'; did you mean 'read_file'",
                "must be a number",
                "<steps> holds <task>",
            ),
            told,
            strict=True,
        ):
            assert part in line

    @pytest.mark.req("ADR-50")
    @pytest.mark.parametrize(
        ("xml", "told"),
        [
            ("<tasks/>", "expected <task"),
            ("<task><description>x</description></task>", "needs a type"),
            ('<task type="loop"><description>x</description></task>', "no type 'loop'"),
            ('<task type="atomic"/>', "needs a <description>"),
            ('<task type="sequential"><description>x</description></task>', "needs <steps>"),
            (
                '<task type="sequential"><description>x</description><steps/></task>',
                "at least one <task>",
            ),
            ('<task type="reduce"><description>x</description></task>', "needs an <inner_task>"),
            (reduce(ONE).replace("<input>x</input>", ""), "<inputs> is empty"),
            (reduce("<expression>1 +</expression>"), "<expression>:"),
            (reduce("<expression>foo.bar</expression>"), "an expression cannot use 'foo'"),
            (reduce("<url>x</url>"), "has no <url>"),
            (reduce(ONE, parallel=1).replace('"1"', '"many"'), "parallel must be"),
            (atomic("a.b"), "cannot be used"),
            (atomic("a", "words"), "text stands directly in <task>"),
            (atomic("a", "<output_schema>{</output_schema>"), "must hold JSON"),
            (atomic("a", "<rules><turns>3</turns></rules>"), "<rules> has no <turns>"),
            (atomic("a", "<memory><banks>x</banks></memory>"), "<memory> has no <banks>"),
        ],
    )
    def test_each_is_a_sentence_with_a_line(self, xml: str, told: str) -> None:
        found = complaints(xml)
        assert any(told in line for line in found), found
        assert all(line[0].isdigit() for line in found)


class TestOneInnerForm:
    @pytest.mark.req("ADR-51", "ADR-24")
    def test_a_block_and_a_context_become_the_same_kind_of_rule(self) -> None:
        program = compiled(sequential(atomic("a"), atomic("b", block("subset", "disabled"))))
        _, first, second = program.task.walk()
        rule = program.rule(second)
        assert rule == Rule("selective", carried=TaskContext("subset", "notes_only", fresh=False))
        assert program.rule(first).carried == TaskContext("full", "notes_only", fresh=True)
        phase = Phase(name="p", instructions="x", context={"from": []})  # type: ignore[arg-type]
        of_cascade = compile_rule(Cascade(cascade_id="c", phases=[phase]), phase)
        assert type(rule) is type(of_cascade)
        assert rule_in_words(rule) == (
            "sees only: what of its parent's context belongs to it; notes on each step before."
        )

    def test_windows_of_tasks_have_the_policies_of_phases(self) -> None:
        xml = atomic("a", '<intra_context>{"profile": "lean"}</intra_context>')
        program = compiled(xml)
        policy = program.rule(program.task).policy
        assert policy is not None
        assert policy.profile == "lean"
        on = compiled(atomic("a")).with_windows()
        assert on.rule(on.task).policy is not None


class TestDefaultsForPeople:
    @pytest.mark.req("ADR-31", "ADR-29")
    def test_what_was_applied_is_told_with_its_origin(self) -> None:
        xml = sequential(atomic("a"), inside="\n" + block("none", None, "true", "full_output"))
        told = str(explain_defaults(compiled(xml)))
        assert "sequential 'task' (line 1) sees only: what of memory" in told
        assert "inherit_context      none  (line 4)" in told
        assert "accumulation_format  full_output  (line 6)" in told
        assert "fresh_context        enabled  (default of sequential)" in told
        assert "atomic 'a' (line 9)" in told
        assert "inherit_context  full  (default of atomic)" in told


class TestSchema:
    GOOD = (
        atomic("a"),
        atomic("a", block("none", "disabled")),
        atomic("a", "<tools>manifest</tools><memory><bank>b</bank><folder>f</folder></memory>"),
        atomic("a", "<rules><max_turns>3</max_turns></rules><auto_context>true</auto_context>"),
        sequential(atomic("a"), reduce(ONE), inside=block("full", "enabled", "false")),
        reduce('<file split="lines">a</file><glob>*</glob>', inner=block(None, None), parallel=3),
    )
    BAD = (
        "<tasks/>",
        atomic("a", block("half", "enabled")),
        atomic("a", block(accumulate="true")),
        atomic("a", "<steps/>"),
        atomic("a.b"),
        sequential(),
        reduce(""),
        reduce(ONE, inside=block(how="notes_only")),
        sequential(atomic("a", "<auto_context>true</auto_context>")),
        atomic("a", "<temperature>hot</temperature>"),
    )

    @pytest.mark.req("ADR-1")
    @pytest.mark.parametrize("xml", GOOD + BAD)
    def test_it_takes_what_the_reader_takes(self, xml: str) -> None:
        schema = etree.RelaxNG(etree.fromstring(relax_ng().encode()))
        assert schema.validate(etree.fromstring(xml.encode())) is (complaints(xml) == [])
        assert (complaints(xml) == []) is (xml in self.GOOD)
