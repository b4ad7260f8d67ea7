"""What a template needs of its input: all that is certain, and never what is not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.cascade.needs import needs_of
from windlass.errors import ContextError
from windlass.text.templates import render

NAMES = ("a", "b", "c")


@pytest.mark.parametrize(
    ("template", "names"),
    [
        ("Read {{ input.a }} and {{ input['b'] }}.", "ab"),
        ("{{ input.a.deep.er }}", "a"),
        ("{{ input.a[0] }}{{ input.b | upper }}{{ input.c ~ 'x' }}", "abc"),
        ("{{ input.a | default('x') }}{{ input.b | d('x', true) }}", ""),
        ("{{ input.a.deep | default('x') }}", "a"),
        ("{{ input.get('a') }}{{ input.get('b', 1) }}", ""),
        ("{% if input.a is defined %}{{ input.a }}{% endif %}", ""),
        ("{% if input.a is not defined %}x{% else %}{{ input.a }}{% endif %}", ""),
        ("{% if input.a %}{{ input.b }}{% endif %}", "a"),
        ("{% if state.x %}{{ input.a }}{% elif state.y %}{{ input.a }}{% endif %}", ""),
        ("{% if state.x %}{{ input.a }}{% else %}{{ input.a }}{{ input.b }}{% endif %}", ""),
        ("{{ input.a if input.a is defined else 'x' }}", ""),
        ("{{ input.a if 'a' in input else 'x' }}", ""),
        ("{{ 'a' in input and input.a }}", ""),
        ("{% for key in input %}{{ input[key] }}{% endfor %}", ""),
        ("{% for key, value in input.items() %}{{ value }}{% endfor %}", ""),
        ("{% for one in input.a %}{{ one }}{{ input.b }}{% endfor %}", "a"),
        ("{% set f = input.a %}{{ f }}", "a"),
        ("{% set f = input.a %}{{ f | default('x') }}", ""),
        ("{% set i = input %}{{ i.a }}", "a"),
        ("{% set input = state %}{{ input.a }}", ""),
        ("{% with i = state %}{{ input.a }}{% endwith %}", "a"),
        ("{% set f = input.a %}{% if state.x %}{% set f = 'x' %}{% endif %}{{ f }}", ""),
        ("{% filter upper %}{{ input.a }}{% endfilter %}", "a"),
        ("{% macro m() %}{{ input.a }}{% endmacro %}", ""),
        ("{% set x %}{{ input.a }}{% endset %}", "a"),
        ("{{ input.a | map('upper') | list }}{% set x = input.b | map('upper') %}", "a"),
        ("{{ input.a is string }}{{ input.b in ['x'] }}", ""),
        ("{{ input.a == 1 }}{{ input.b + 1 }}{{ -input.c }}", "abc"),
        ("{# {{ input.a }} #}{% raw %}{{ input.b }}{% endraw %}", ""),
        ("{% for i in range(input.a) %}{% endfor %}", ""),
        ("{{ input | tojson }}{{ input.keys() | list }}", ""),
        ("plain", ""),
    ],
)
def test_what_is_certain_is_needed(template: str, names: str) -> None:
    assert "".join(sorted(need.name for need in needs_of(template))) == names


def test_the_line_is_that_of_the_first_use() -> None:
    (need,) = needs_of("one\n{{ input.a\n}}\n{{ input.a }}")
    assert (need.name, need.line) == ("a", 2)


names = st.sampled_from(NAMES)
_access = st.one_of(
    names.map("input.{}".format),
    names.map("input['{}']".format),
    names.map("input.get('{}')".format),
    names.map("input.{}.upper()".format),
    st.sampled_from(["x", "y", "state.s", "'t'", "1", "input"]),
)


def _grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    def joined(form: str, count: int) -> st.SearchStrategy[str]:
        return st.tuples(*[inner] * count).map(lambda parts: form.format(*parts))

    ones = [
        "({}) | default('z')", "({}) | upper", "({}) | list", "({}) | length", "({}) is defined",
        "({}) is none", "({}) is string", "not ({})", "[{}]", "[{}] | first", "({}) | tojson",
        "({}) | map('upper')", "({}) | select | list", "({}) | unique | join", "({}) | string",
        "range({})", "({}) | pprint", "({}) | items | list", "({}) | first", "({})[0]", "({}).k",
        "({}) | replace('a', 'b')", "({}) | int", "({}) | d",
    ]  # fmt: skip
    twos = [
        "({}) and ({})", "({}) or ({})", "({}) == ({})", "({}) in ({})", "({}) ~ ({})",
        "({}) + ({})", "({}) % ({})", "({}) if ({}) else 'e'", "'i' if ({}) else ({})",
        "({}) | default({})", "({}) < ({})", "({}, {})", "({})[{}]", "({}) not in ({})",
    ]  # fmt: skip
    return st.one_of(*(joined(form, 1) for form in ones), *(joined(form, 2) for form in twos))


expressions = st.recursive(_access, _grown, max_leaves=5)


def _nested(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    forms = [
        "{{% if {0} %}}{1}{{% else %}}{2}{{% endif %}}",
        "{{% if {0} %}}{1}{{% elif {3} %}}{2}{{% endif %}}",
        "{{% if {0} %}}{1}{{% elif {3} %}}{2}{{% else %}}{1}{{% endif %}}",
        "{{% for x in {0} %}}{1}{{% else %}}{2}{{% endfor %}}",
        "{{% set x = {0} %}}{1}{2}",
        "{{% set x, y = {0} %}}{1}{2}",
        "{{% set x %}}{1}{{% endset %}}{2}",
        "{{% set input = {0} %}}{1}",
        "{{% with y = {0} %}}{1}{{% endwith %}}{2}",
        "{{% filter upper %}}{1}{{% endfilter %}}{2}",
        "{{% macro x() %}}{1}{{% endmacro %}}{2}",
        "{{% macro x() %}}{1}{{% endmacro %}}{{{{ x() }}}}",
        "{{% block b %}}{1}{{% endblock %}}",
        "{1}{2}",
    ]
    parts = st.tuples(st.sampled_from(forms), expressions, inner, inner, expressions)
    return parts.map(lambda got: got[0].format(*got[1:]))


templates = st.recursive(expressions.map("{{{{ {} }}}}".format), _nested, max_leaves=4)
values: st.SearchStrategy[object] = st.one_of(
    st.sampled_from(["text", "", 0, 2, None, True]),
    st.just(["x"]),
    st.just({"k": "v"}),
    st.just([]),
)


@given(templates, st.dictionaries(names, values), st.booleans())
def test_a_need_that_is_missing_always_fails(
    template: str, given_input: dict[str, object], condition: bool
) -> None:
    try:
        needed = {need.name for need in needs_of(template)}
    except ContextError:
        return
    for name in needed:
        without = {key: value for key, value in given_input.items() if key != name}
        with pytest.raises(ContextError):
            render(
                template,
                input=without,
                state={"s": "x"},
                outputs={},
                where="t",
                missing_state_is_false=condition,
            )
