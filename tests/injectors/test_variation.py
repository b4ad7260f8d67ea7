"""Structural variation: the document's elements, from a seed, and off unless asked for."""

from __future__ import annotations

import pytest

from windlass.injectors.base import (
    LABELS,
    LISTINGS,
    PLAIN,
    PROGRESS,
    SEPARATORS,
    Style,
    style_of,
)

MANY = [style_of(f"session {number}", "a", number % 9) for number in range(400)]


@pytest.mark.req("CE-43")
def test_four_forms_of_progress() -> None:
    told = {Style(form).progress_text(3, 5) for form in PROGRESS}
    assert told == {
        "Progress: 3/5 steps completed",
        "Progress: 60%",
        "Progress: [######----]",
        "Progress: step 3 of 5 done",
    }
    assert {one.progress for one in MANY} == set(PROGRESS)


@pytest.mark.req("CE-44")
def test_four_separators() -> None:
    assert {one.strip("\n") for one in SEPARATORS} == {"", "---", "===", "***"}
    assert {one.separator for one in MANY} == set(SEPARATORS)


@pytest.mark.req("CE-45")
def test_three_forms_of_lists() -> None:
    assert [Style(listing=form).listed(["x"])[0] for form in LISTINGS] == ["- x", "1. x", "    x"]
    assert {one.listing for one in MANY} == set(LISTINGS)


@pytest.mark.req("CE-46")
def test_three_labels() -> None:
    assert set(LABELS) == {"Status:", "Progress:", "Current state:"}
    assert {one.label for one in MANY} == set(LABELS)


@pytest.mark.req("CE-43", "CE-44", "CE-45", "CE-46")
def test_the_same_session_phase_and_turn_give_the_same() -> None:
    assert style_of("s", "a", 3) == style_of("s", "a", 3)
    assert len({style_of("s", "a", turn) for turn in range(40)}) > 10
    assert Style() == PLAIN
