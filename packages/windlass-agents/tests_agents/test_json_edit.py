"""A JSON text changed in one place keeps every other character."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from windlass_agents._json_edit import with_element, with_member, without

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(max_size=4), VALUES, max_size=4)
STYLES = st.sampled_from(
    [
        {},
        {"indent": 2},
        {"indent": 4},
        {"indent": "\t"},
        {"separators": (",", ":")},
        {"indent": 2, "ensure_ascii": False},
        {"separators": (" ,  ", " :\r\n ")},
    ]
)
ENDS = st.sampled_from(["", "\n", " \n\n"])


@given(OBJECTS, STYLES, ENDS, VALUES)
def test_a_member_that_is_added_and_taken_away_leaves_no_trace(
    before: dict[str, Any], style: dict[str, Any], end: str, value: Any
) -> None:
    before.pop("hooks", None)
    text = end + json.dumps(before, **style) + end
    added = with_member(text, (), "hooks", value)
    assert json.loads(added) == {**before, "hooks": value}
    assert without(added, ("hooks",)) == text


@given(OBJECTS, STYLES, ENDS, st.lists(VALUES, max_size=3), VALUES)
def test_an_element_that_is_added_and_taken_away_leaves_no_trace(
    before: dict[str, Any], style: dict[str, Any], end: str, listed: list[Any], value: Any
) -> None:
    whole = {**before, "hooks": {"After": listed}}
    text = end + json.dumps(whole, **style) + end
    added = with_element(text, ("hooks", "After"), value)
    assert json.loads(added) == {**whole, "hooks": {"After": [*listed, value]}}
    assert without(added, ("hooks", "After", len(listed))) == text


@given(OBJECTS.filter(len), STYLES, st.data())
def test_any_member_can_be_taken_away(
    before: dict[str, Any], style: dict[str, Any], data: st.DataObject
) -> None:
    key = data.draw(st.sampled_from(sorted(before)))
    left = without(json.dumps(before, **style), (key,))
    assert json.loads(left) == {name: one for name, one in before.items() if name != key}
