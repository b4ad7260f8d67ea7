"""Templates see input, state and outputs, and can do no harm."""

from __future__ import annotations

import resource
import time
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cascade.making import JSON
from windlass.errors import ContextError
from windlass.text.lookups import NameUse, find_names
from windlass.text.templates import (
    PhaseOutput,
    TemplateError,
    holds,
    is_constant,
    is_true,
    render,
)

RESULTS = {"result_0123456789abcdef": "a,b\n1,2", "run_sql": "latest"}


def output(text: str = "All is well.") -> PhaseOutput:
    return PhaseOutput(
        text=lambda: text,
        state=lambda: {"score": 3},
        images=lambda: ["image_0.png"],
        result=RESULTS.__getitem__,
        known_results=lambda: list(RESULTS),
    )


def rendered(
    template: str,
    *,
    given: Any = None,
    state: Mapping[str, Any] | None = None,
    outputs: Mapping[str, Any] | None = None,
) -> str:
    return render(
        template,
        input={"data": "sales.csv", "items": [1, 2]} if given is None else given,
        state=state or {},
        outputs={"load": output()} if outputs is None else outputs,
        where="c.json:3, phase 'a', instructions",
    )


def fault(template: str, **values: Any) -> str:
    with pytest.raises(ContextError) as raised:
        rendered(template, **values)
    return str(raised.value)


class TestRendering:
    @pytest.mark.req("CI-40")
    def test_input_and_state(self) -> None:
        assert rendered("{{ input.data }} {{ state.x }}", state={"x": 5}) == "sales.csv 5"

    def test_keys_go_before_the_methods_of_a_mapping(self) -> None:
        assert rendered("{{ input.items }} {{ state.keys }}", state={"keys": "k"}) == "[1, 2] k"
        assert rendered("{% for k, v in state.items() %}{{ k }}{% endfor %}", state={"a": 1}) == "a"

    def test_objects_and_lists_read_as_json(self) -> None:
        given = {"a": [True, None, "é<"]}
        assert rendered("{{ input }} {{ input.a }}", given=given) == (
            '{"a": [true, null, "é<"]} [true, null, "é<"]'
        )
        assert rendered("{{ input.a | tojson }}", given=given) == '[true, null, "é<"]'
        assert rendered("{{ input | tojson(indent=1) }}", given={"a": 1}) == '{\n "a": 1\n}'

    def test_text_is_never_escaped_or_trimmed(self) -> None:
        assert rendered("{{ input.a }}\n", given={"a": "<b> & 'c'"}) == "<b> & 'c'\n"

    @given(JSON)
    def test_the_same_values_give_the_same_text(self, value: Any) -> None:
        template = "{{ input.x | tojson }}{{ input.x }}"
        assert rendered(template, given={"x": value}) == rendered(template, given={"x": value})

    @given(st.text("{}%# inputsae.|()[]'\n1*", max_size=30))
    def test_any_text_renders_or_says_what_is_wrong(self, template: str) -> None:
        try:
            rendered(template)
        except ContextError as error:
            assert "c.json:3, phase 'a', instructions" in str(error)  # noqa: PT017  # may pass


class TestOutputs:
    @pytest.mark.req("CA-14")
    def test_an_output_prints_its_text_and_offers_the_rest(self) -> None:
        assert (
            rendered("{{ outputs.load }}|{{ outputs['load'].text }}") == "All is well.|All is well."
        )
        assert (
            rendered("{{ outputs.load.state.score }} {{ outputs.load.state }}") == '3 {"score": 3}'
        )
        assert rendered("{{ outputs.load.images }}") == '["image_0.png"]'
        assert rendered("{{ outputs.load.tool_results.result_0123456789abcdef }}") == "a,b\n1,2"
        assert rendered("{{ outputs.load.tool_results['run_sql'] }}") == "latest"

    def test_it_behaves_as_its_text(self) -> None:
        assert rendered("{{ outputs.load | upper }}") == "ALL IS WELL."
        assert rendered("{{ outputs.load[:3] }}{{ outputs.load | length }}") == "All12"
        assert rendered("{{ 'well' in outputs.load }} {{ outputs.load == 'x' }}") == "True False"
        assert rendered("{{ outputs.load.split()[0] ~ outputs.load }}") == "AllAll is well."
        assert rendered("{{ 'a' + outputs.load + 'b' }}") == "aAll is well.b"
        assert rendered("{{ [outputs.load] | tojson }}") == '["All is well."]'
        assert rendered("{% if outputs.load %}y{% endif %}", outputs={"load": output("")}) == ""
        assert hash(output()) == hash("All is well.")
        assert output() == output()

    def test_nothing_is_fetched_before_it_is_asked_for(self) -> None:
        asked: list[str] = []

        def text() -> str:
            asked.append("text")
            return "x"

        lazy = PhaseOutput(text)
        assert rendered("{{ outputs.a.images }}", outputs={"a": lazy}) == "[]"
        assert asked == []
        assert rendered("{{ outputs.a }}{{ outputs.a }}", outputs={"a": lazy}) == "xx"
        assert asked == ["text"]

    def test_an_unknown_result_names_the_known(self) -> None:
        told = fault("{{ outputs.load.tool_results.result_0123456789abcdee }}")
        assert "there is no 'result_0123456789abcdee' here; did you mean" in told
        assert "run_sql" in told

    def test_an_unknown_part_names_the_known(self) -> None:
        told = fault("{{ outputs.load.sate }}")
        assert (
            "there is no 'sate' here; did you mean 'state'? known: images, json, soundings, state,"
            in told
        )


class TestFaults:
    def test_a_missing_key_names_place_and_known_keys(self) -> None:
        told = fault("First.\n{{ input.dta }}")
        assert told == (
            "c.json:3, phase 'a', instructions: line 2 of the template: there is no 'dta' here;"
            " did you mean 'data'? known: data, items; in: '{{ input.dta }}'"
        )

    def test_an_unknown_name_names_the_three(self) -> None:
        assert "there is no 'x'; known: input, outputs, state" in fault("{{ x }}")

    @pytest.mark.parametrize(
        "template",
        [
            "{{ 1 / 0 }}",
            "{{ input + 1 }}",
            "{{ [][3].x }}",
            "{{ input | tojson(indent='a', b=1) }}",
        ],
    )
    def test_what_an_expression_raises_is_told(self, template: str) -> None:
        assert "c.json:3, phase 'a', instructions" in fault(template)

    def test_a_template_that_cannot_be_read(self) -> None:
        assert "line 1 of the template: unexpected" in fault("{{ input.x ")
        with pytest.raises(TemplateError) as raised:
            find_names("a\n{% if %}")
        assert raised.value.line == 2


class TestHarm:
    @pytest.mark.parametrize(
        "template",
        [
            "{{ ''.__class__.__mro__ }}",
            "{{ input.__class__.__init__.__globals__ }}",
            "{{ outputs.load._fetch }}",
            "{{ outputs.load.__init__.__globals__ }}",
            "{{ input.update({'a': 1}) }}",
            "{{ input['items'].append(3) }}",
            "{% include '/etc/passwd' %}",
            "{% import 'os' as os %}",
            "{{ range(10000000) | list }}",
            "{{ 'x' * 10000000 }}",
            "{{ 9 ** 99999999 }}",
            "{% for i in range(9999) %}{{ 'x' * 9999 }}{% endfor %}",
            "{{ lipsum() }}",
            "{{ [1, 2] | random }}",
        ],
    )
    def test_is_refused(self, template: str) -> None:
        given: dict[str, Any] = {"items": [1]}
        fault(template, given=given)
        assert given == {"items": [1]}


BIG = "x" * 3_000_000
NS = "{% set ns = namespace(x='x', l=[1]) %}"
ZEROS = [0] * 1_500
BOMBS = [
    "{{ 'x'.ljust(2000000000) }}",
    "{{ 'x'.rjust(2000000000) }}",
    "{{ 'x'.center(2000000000) }}",
    "{{ '1'.zfill(2000000000) }}",
    "{{ 'x'|attr('ljust')(2000000000) }}",
    "{{ '\t'.expandtabs(2000000000) }}",
    "{{ 'x'|center(2000000000) }}",
    "{{ 'x'|indent(2000000000, true) }}",
    "{{ input.lines|indent(3000000) }}",
    "{{ 'x'|format }}{{ '%2000000000d' % 1 }}",
    "{{ '%.2000000000f' % 1 }}",
    "{{ '%*d' % (2000000000, 1) }}",
    "{{ '%2000000000d'|format(1) }}",
    "{{ '{:2000000000}'.format(1) }}",
    "{{ '{:{}}'.format(1, 2000000000) }}",
    "{{ '{x:>2000000000}'.format_map({'x': 1}) }}",
    "{{ '{0}{0}{0}{0}'.format(input.big) }}",
    "{{ '%(x)s%(x)s' % {'x': input.big} }}",
    "{{ input.big ~ input.big }}",
    "{{ input.big + input.big }}",
    "{{ [input.big, input.big]|join }}",
    "{{ 'x'.join([input.big, input.big]) }}",
    "{{ input.big.join(['a', 'b', 'c']) }}",
    "{{ input.big|replace('x', 'xx') }}",
    "{{ input.big.replace('x', 'xx') }}",
    "{{ input.big.replace('', 'xx') }}",
    "{{ [input.big] * 1000 }}",
    "{{ ([input.big] * 1000)|string|length }}",
    "{{ ([input.big] * 1000)|tojson|length }}",
    "{{ ([input.big] * 1000)|upper|length }}",
    "{{ '%s' % ([input.big] * 1000) }}",
    "{{ ([input.big] * 1000)|center(5)|length }}",
    "{{ ([input.big] * 1000)|indent|length }}",
    "{{ ([input.big] * 1000)|replace('a', 'b')|length }}",
    "{{ 'x'|replace([input.big] * 1000, 'y') }}",
    "{{ 'x'.replace([input.big] * 1000, 'y') }}",
    "{{ ([input.big] * 1000)|striptags|length }}",
    "{{ ([input.big] * 1000)|wordwrap|length }}",
    "{{ ([input.big] * 1000)|format }}",
    "{{ ['a', 'b']|join([input.big] * 1000) }}",
    "{{ (input.big,) * 1000 }}",
    "{{ {'a': [input.big] * 1000}.values() }}",
    "{{ ('%s' % {'a': [input.big] * 1000}.items())|length }}",
    "{{ input[[input.big] * 1000] }}",
    "{{ ('a' ~ [input.big] * 1000)|length }}",
    "{{ [1]|tojson(2000000000) }}",
    "{{ [[1] * 100000] * 100000 }}",
    "{{ 2 ** 100000000 }}",
    "{{ (1).to_bytes(2000000000, 'big') }}",
    "{{ 'x'.translate({120: input.big}) }}",
    "{{ 'x'.encode().ljust(2000000000) }}",
    "{{ range(3)|batch(2000000000, 'x')|list }}",
    "{{ range(3)|slice(2000000000)|list|length }}",
    "{{ ([[1] * 3000000] * 1000)|sum(start=[])|length }}",
    "{{ input.lines|wordwrap(1, wrapstring=input.big) }}",
    NS + "{% for i in range(99) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ ns.x|length }}",
    NS + "{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor %}{{ ns.x|length }}",
    NS + "{% for i in range(99) %}{% set ns.l = ns.l + ns.l %}{% endfor %}{{ ns.l|length }}",
    NS + "{% for i in range(99) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l }}",
    NS + "{% for i in range(9999) %}{% set ns.l = ns.l + [input.big ~ i] %}{% endfor %}",
    "{% set x %}{% for i in range(9999) %}{{ input.big }}{% endfor %}{% endset %}{{ x|length }}",
    "{% macro m() %}{% for i in range(9999) %}{{ input.big }}{% endfor %}{% endmacro %}{{ m()|e }}",
    "{% filter length %}{% for i in range(9999) %}{{ input.big }}{% endfor %}{% endfilter %}",
    "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
    "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(40) }}",
    f"{{% for i in {ZEROS} %}}{{% for j in {ZEROS} %}}{{% endfor %}}{{% endfor %}}",
    "{% set x %}{% for i in range(99999) %}" + "x" * 9999 + "{% endfor %}{% endset %}",
    "{% set x %}{% for i in range(99999) %}{{ 'x'|center(9999) }}{% endfor %}{% endset %}",
]


class TestBombs:
    @pytest.mark.parametrize("template", BOMBS)
    def test_no_template_makes_more_than_the_limit(self, template: str) -> None:
        """Not even on its way: what is made would be far more than the process may have."""
        lines = "x\n" * 10_000
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with pytest.raises(ContextError):
            rendered(template, given={"big": BIG, "lines": lines})
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1_000_000  # in kB

    @pytest.mark.parametrize(
        ("template", "text"),
        [
            ("{{ 'ab'.ljust(5) ~ '|' }}", "ab   |"),
            ("{{ '7'.zfill(3) }}", "007"),
            ("{{ '%-5s|%05.2f|%d%%' % ('a', 1.5, 3) }}", "a    |01.50|3%"),
            ("{{ '%s and %s'|format('a', 2) }}", "a and 2"),
            ("{{ '{:>4}|{a!r}|{b[0]}'.format(7, a='x', b=[1]) }}", "   7|'x'|1"),
            ("{{ 'a,b'.split(',')|join('-') }}", "a-b"),
            ("{{ [{'n': 1}, {'n': 2}]|join(', ', attribute='n') }}", "1, 2"),
            ("{{ 'a\nb'|indent(2) }}", "a\n  b"),
            ("{{ 'aXbX'|replace('X', '--', 1) }}", "a--bX"),
            ("{{ 'aXbX'.replace('X', '--') }}", "a--b--"),
            ("{{ 'aXbX'|replace('X', '-', count=1) }}", "a-bX"),
            ("{{ 'a\n\nb'|indent(width=1, first=true) }}", " a\n\n b"),
            ("{{ [1]|replace(1, 22) ~ 7|center(3) }}", "[22] 7 "),
            ("{% set n = namespace(a=1) %}{% set n.a = 2 %}{{ n.a }}{{ n }}", "2<Namespace>"),
            ("{{ [3, 1, 2]|sort|map('string')|join }}", "123"),
            ("{{ [1, 2, 3]|sum }}", "6"),
            ("{{ [[1, 2], [3]]|map('length')|list }}", "[2, 1]"),
            ("{{ range(5)|batch(2, 0)|list }}", "[[0, 1], [2, 3], [4, 0]]"),
            ("{% for x in [1, 2] %}{{ loop.index }}/{{ loop.length }} {% endfor %}", "1/2 2/2 "),
            ("{% for x in [1, 2]|map('string') %}{{ x }}{% endfor %}", "12"),
            ("{% for x in [] %}{% else %}none{% endfor %}", "none"),
            ("{% set x %}a{{ 1 }}{% endset %}{{ x * 2 }}", "a1a1"),
            ("{% macro m(x) %}<{{ x }}>{% endmacro %}{{ m(1) }}{{ m('b') }}", "<1><b>"),
            ("{{ '<b>x</b><!-- y --> z'|striptags }}", "x z"),
            ("{{ 'aa bb cc'|wordwrap(5) }}", "aa bb\ncc"),
            ("{{ {'a': 1}|tojson(2) }}", '{\n  "a": 1\n}'),
            ("{{ 'a' ~ 1 ~ [2] ~ none }}", "a1[2]None"),
            ("{{ {'b': 1, 'a': 2}|dictsort }}", '[["a", 2], ["b", 1]]'),
        ],
    )
    def test_what_people_write_stays_as_it_was(self, template: str, text: str) -> None:
        assert rendered(template) == text

    def test_striptags_and_wordwrap_take_a_time_that_grows_with_the_text(self) -> None:
        began = time.process_time()
        rendered("{{ input.a|striptags|length }}", given={"a": "<!---->" * 300_000})
        rendered("{{ input.a|wordwrap(80)|length }}", given={"a": "-" * 1_000_000})
        assert time.process_time() - began < 20


class TestConditions:
    @pytest.mark.req("CI-19")
    @pytest.mark.parametrize("text", ["", " ", "false", "False", " NO\n", "0", "none", "None"])
    def test_false(self, text: str) -> None:
        assert not is_true(text)

    @pytest.mark.req("CI-19")
    @pytest.mark.parametrize("text", ["true", "1", "yes", "00", "0.0", "null", "x"])
    def test_everything_else_is_true(self, text: str) -> None:
        assert is_true(text)

    @pytest.mark.req("CI-19")
    def test_they_are_rendered_with_input_state_and_outputs(self) -> None:
        def told(condition: str, **state: Any) -> bool:
            return holds(
                condition, input={"n": 3}, state=state, outputs={"a": output("")}, where="c.json:3"
            )

        assert told("{{ state.wanted }}", wanted=True)
        assert not told("{{ state.wanted }}", wanted=False)
        assert told("{{ input.n > 2 }}")
        assert not told("{{ outputs.a }}")
        assert told("{% if input.n %}yes{% endif %}")

    @pytest.mark.req("CI-19")
    def test_a_state_key_that_was_never_set_is_false_but_a_wrong_name_fails(self) -> None:
        def told(condition: str) -> bool:
            return holds(condition, input={}, state={"a": 1}, outputs={}, where="c.json:3, if")

        assert not told("{{ state.wanted }}")
        assert not told("{{ state.wanted.deeply }}")
        assert not told("{% if state.wanted %}x{% endif %}")
        assert told("{{ state.a and not state.b }}")
        for wrong in ("{{ input.wanted }}", "{{ sate.a }}", "{{ 1 / 0 }}"):
            with pytest.raises(ContextError, match=r"c\.json:3, if: "):
                told(wrong)


class TestNames:
    def test_what_a_template_uses_with_lines(self) -> None:
        text = "{{ input.x }}\n{{ outputs.a.text }} {{ outputs['b c'] }}\n"
        text += "{{ y }}{% set z = 1 %}{{ z }}"
        assert find_names(text) == [
            NameUse("input", 1),
            NameUse("outputs", 2),
            NameUse("a", 2, of="outputs"),
            NameUse("b c", 2, of="outputs"),
            NameUse("y", 3),
        ]

    def test_methods_of_outputs_are_no_phases(self) -> None:
        assert find_names("{% for n, o in outputs.items() %}{{ n }}{% endfor %}") == [
            NameUse("outputs", 1)
        ]

    def test_loops_and_globals_are_known(self) -> None:
        assert find_names("{% for i in range(3) %}{{ i }}{{ loop.index }}{% endfor %}") == []

    @pytest.mark.parametrize(
        ("text", "constant"), [("plain", True), ("{{ 1 }}", False), ("", True)]
    )
    def test_constant_templates(self, text: str, constant: bool) -> None:
        assert is_constant(text) is constant
