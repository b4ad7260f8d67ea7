"""The example of callouts and memory: what is marked, remembered and found again."""

from __future__ import annotations

import pytest
from examples.run_all import EXAMPLES

from tests.examples.conftest import Play, Played, original_input
from windlass.history.marks import find_callouts
from windlass.history.sqlite import SqliteStore

EXAMPLE = "memory_bank.json"


@pytest.fixture(scope="module")
def noted(play: Play) -> Played:
    return play(EXAMPLE)


@pytest.mark.req("AC-18")
def test_what_was_read_is_called_out_and_stays_whole(noted: Played) -> None:
    assert (noted.result.status, noted.result.error) == ("completed", None)
    with SqliteStore.open_existing(noted.store) as store:
        found = find_callouts(store.rows(noted.result.session_id))
    names = {(one.name, one.by) for one in found}
    assert names == {("time to live", "pattern")}
    text = (noted.root / "corpus" / "time-to-live.md").read_text(encoding="utf-8").strip()
    for call in (1, 2):
        results = [each for each in noted.saw("keep", call) if each["role"] == "tool"]
        assert text in str(results[0]["content"])


@pytest.mark.req("AC-28")
def test_what_was_remembered_is_found_from_a_clean_slate(noted: Played) -> None:
    lesson = EXAMPLES[EXAMPLE]["lesson"]
    first, *rest = noted.saw("use", 2)
    assert first == original_input(EXAMPLE)
    (result,) = [each for each in rest if each["role"] == "tool"]
    assert result["content"].startswith("memory 'lessons': 1 found.")
    assert result["content"].endswith(lesson)
