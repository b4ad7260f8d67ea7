"""Task files: their tree, all mistakes with lines, the one inner form, what defaults came to."""

from __future__ import annotations

import pytest
from lxml import etree

from tests.tasks.making import (
    atomic,
    block,
    complaints,
    reduce,
    sequential,
)
from windlass.tasks.parse import relax_ng

ONE = "<input>x</input>"


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
