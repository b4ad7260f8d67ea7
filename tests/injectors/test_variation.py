"""Structural variation: the document's elements, from a seed, and off unless asked for."""

from __future__ import annotations

import pytest

from windlass.injectors.base import (
    LABELS,
    SEPARATORS,
    style_of,
)

MANY = [style_of(f"session {number}", "a", number % 9) for number in range(400)]


@pytest.mark.req("CE-44")
def test_four_separators() -> None:
    assert {one.strip("\n") for one in SEPARATORS} == {"", "---", "===", "***"}
    assert {one.separator for one in MANY} == set(SEPARATORS)


@pytest.mark.req("CE-46")
def test_three_labels() -> None:
    assert set(LABELS) == {"Status:", "Progress:", "Current state:"}
    assert {one.label for one in MANY} == set(LABELS)
