"""Memory banks over every store: versions, deletion, expiry, and what else a bank is not."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.history.builders import row, start
from tests.memory.making import Clock, banks_of
from windlass.errors import UsageError
from windlass.history.base import Batch
from windlass.history.marks import find_message
from windlass.history.sqlite import SqliteStore
from windlass.memory.banks import Banks
from windlass.messages import user


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def banks(store: SqliteStore, clock: Clock) -> Banks:
    return banks_of(store, clock)


class TestBanks:
    def test_what_was_forgotten_is_found_no_more_and_stays_readable(self, banks: Banks) -> None:
        banks.remember("notes", "Lamps.", key="best")
        kept = banks.remember("notes", "Alice", key="who")
        assert banks.forget("notes", "best").text == "Lamps."
        assert banks.memories("notes") == (kept,)
        (version,) = banks.versions("notes", "best")
        assert (version.text, version.forgotten) == ("Lamps.", True)
        again = banks.remember("notes", "Lamps.", key="best")
        assert (again.version, again.forgotten) == (2, False)
        assert [one.forgotten for one in banks.versions("notes", "best")] == [True, False]

    def test_what_expires_does_so_by_the_clock_that_is_handed_in(
        self, banks: Banks, clock: Clock
    ) -> None:
        old = banks.remember("notes", "Ever.", key="price")
        new = banks.remember("notes", "This week.", key="price", expires=1_500.0)
        clock.now = 1_499.9
        assert banks.memories("notes") == (new,)
        clock.now = 1_500.0
        assert banks.memories("notes") == (), "an older version does not come back"
        assert banks.versions("notes", "price") == (old, new)
        with pytest.raises(UsageError, match="expired already"):
            banks.remember("notes", "Gone.", expires=1_500.0)

    def test_mistakes_are_told_with_what_is_known(self, banks: Banks) -> None:
        banks.remember("notes", "Lamps.", key="best")
        with pytest.raises(UsageError, match="did you mean 'best'"):
            banks.forget("notes", "bets")
        with pytest.raises(UsageError, match="there is no bank 'nots'; did you mean 'notes'"):
            banks.forget("nots", "best")
        with pytest.raises(UsageError, match="the text is empty"):
            banks.remember("notes", " \n")
        with pytest.raises(UsageError, match="at most 20,000 characters, not 20,001"):
            banks.remember("notes", "x" * 20_001)
        with pytest.raises(UsageError, match="at most 200 characters, not 201"):
            banks.remember("notes", "x", key="k" * 201)


class TestCallouts:
    @pytest.mark.req("AC-84")
    def test_the_beginning_of_a_hash_must_be_of_one_message_only(self, store: SqliteStore) -> None:
        said = [user(str(number)) for number in range(2_000)]
        store.append(Batch("s", start=start(), rows=[row(one) for one in said]))
        rows = list(store.rows("s"))
        whole = said[7].content_hash
        assert find_message(rows, whole[:12]).row.message == said[7]
        assert find_message(rows, f"result_{whole}").row.message == said[7]
        assert find_message(rows, f"{whole}-1").row.message == said[7]
        for ref in (whole[:3], "zzzz", "", f"{whole}-2"):
            with pytest.raises(UsageError, match="no message of this session"):
                find_message(rows, ref)
        beginnings = Counter(one.content_hash[:4] for one in said)
        (shared, times), *_ = beginnings.most_common(1)
        assert times == 2, "2,000 messages and 65,536 beginnings: two of them meet"
        with pytest.raises(UsageError, match="is the beginning of 2 messages"):
            find_message(rows, shared)
