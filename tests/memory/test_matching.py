"""Which texts belong to a task: what matches, what does not, and the bounds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from windlass.memory.matching import WordIndex, match_texts

BANK = {
    1: "deploy days\nDeployments go out on Tuesdays and Thursdays, never on Fridays.",
    2: "style\nReports are in British English, with tables and without emojis.",
    3: "staging\nThe staging database is db-stage-2.internal, port 5433.",
    4: "customer\nAcme Corp is on the enterprise plan; their contact is Maria Lopez.",
    5: "flaky\ntest_checkout is flaky because of the payment sandbox; rerun it once.",
}


def test_what_is_taken_out_is_found_no_more() -> None:
    with WordIndex() as index:
        index.add(1, BANK[1])
        index.add(2, BANK[2])
        index.remove(1, BANK[1])
        assert len(index) == 1
        assert index.match("deployments on Fridays") == set()
        assert index.match("British English reports") == {2}


def test_where_too_many_match_those_that_hold_more_of_the_task_are_left() -> None:
    texts = {number: f"cache entry {number}" for number in range(60)}
    texts |= {100 + number: f"price entry {number}" for number in range(60)}
    texts |= {1_000 + number: f"cache price of entry {number}" for number in range(5)}
    assert len(match_texts("cache price", texts)) == 125
    assert match_texts("cache price", texts, most=50) == set(range(1_000, 1_005))
    assert len(match_texts("entry", texts, most=7)) == 7, "all hold the same of it"


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
