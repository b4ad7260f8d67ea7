"""Which texts belong to a task: what matches, what does not, and the bounds."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.memory.matching import WordIndex, matches

BANK = {
    1: "deploy days\nDeployments go out on Tuesdays and Thursdays, never on Fridays.",
    2: "style\nReports are in British English, with tables and without emojis.",
    3: "staging\nThe staging database is db-stage-2.internal, port 5433.",
    4: "customer\nAcme Corp is on the enterprise plan; their contact is Maria Lopez.",
    5: "flaky\ntest_checkout is flaky because of the payment sandbox; rerun it once.",
}


def match_texts(task: str, texts: Mapping[int, str], most: int | None = None) -> set[int]:
    """The numbers of the texts that belong to a task."""
    return set(matches(task, texts, texts.__getitem__, most))


@pytest.mark.req("ADR-26")
@pytest.mark.parametrize(
    ("task", "found"),
    [
        ("When do we deploy?", {1}),
        ("How should the report be written?", {2}),
        ("database port of staging", {3}),
        ("Who is the contact at Acme?", {4}),
        ("rerunning a flaky test", {5}),
        ("Acme", {4}),
        ("What is the capital of France?", set()),
        ("invoice totals", set()),
        ("the of and is", set()),
        ("", set()),
    ],
)
def test_a_task_finds_what_shares_its_words_and_nothing_else(task: str, found: set[int]) -> None:
    assert match_texts(task, BANK) == found


def test_one_word_of_many_is_not_enough_and_one_of_two_is() -> None:
    long = "Compare the enterprise offers of three vendors by price, latency, support and uptime"
    assert match_texts(long, BANK) == set()
    assert match_texts("enterprise plan", BANK) == {4}


def test_words_beside_the_task_lift_a_text_and_find_none_by_themselves() -> None:
    with WordIndex(BANK.__getitem__, BANK) as index:
        task = "Write the monthly bulletin about our biggest customer"
        assert index.match(task) == []
        beside = "Maria Lopez, the contact of Acme Corp, has the enterprise plan."
        assert index.match(task, beside=beside) == [4]
        assert index.match("Paint the fence", beside=beside) == []


def test_what_is_taken_out_is_found_no_more() -> None:
    with WordIndex(BANK.__getitem__) as index:
        number = index.add(1)
        index.add(2)
        index.remove(number)
        assert len(index) == 1
        assert index.match("deployments on Fridays") == []
        assert index.match("British English reports") == [2]


def test_where_too_many_match_those_that_hold_more_of_the_task_are_left() -> None:
    texts = {number: f"cache entry {number}" for number in range(60)}
    texts |= {100 + number: f"price entry {number}" for number in range(60)}
    texts |= {1_000 + number: f"cache price of entry {number}" for number in range(5)}
    assert len(match_texts("cache price", texts)) == 125
    assert match_texts("cache price", texts, most=50) == set(range(1_000, 1_005))
    assert len(match_texts("entry", texts, most=7)) == 7, "all hold the same of it"


def test_accents_case_and_endings_do_not_matter() -> None:
    assert match_texts("CAFÉS", {1: "the cafe at the corner"}) == {1}


@given(
    st.dictionaries(st.integers(0, 50), st.text(max_size=60), max_size=8),
    st.text(max_size=60),
    st.integers(1, 3),
)
def test_any_text_is_taken(texts: dict[int, str], task: str, most: int) -> None:
    found = match_texts(task, texts, most=most)
    assert found <= texts.keys()
    assert len(found) <= most
    assert found == match_texts(task, texts, most=most)
