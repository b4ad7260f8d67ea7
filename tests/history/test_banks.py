"""Memory banks over every store: versions, deletion, expiry, and what else a bank is not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from tests.history.builders import a_session, row, start
from tests.memory.making import Clock, banks_of
from windlass.errors import UsageError
from windlass.history.base import BANK, Batch, NodeType, Row
from windlass.history.marks import CalloutMark, find_callouts, find_message
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
    @pytest.mark.req("AC-28")
    def test_what_is_remembered_is_there_when_the_store_is_opened_again(
        self, open_store: Callable[[], SqliteStore], clock: Clock
    ) -> None:
        with open_store() as store:
            kept = banks_of(store, clock).remember("notes", "Lamps sell best.", key="best", by="s1")
        assert (kept.reference, kept.by, kept.remembered) == ("notes/best@1", "s1", 1_000.0)
        with open_store() as store:
            assert banks_of(store, clock).memories("notes") == (kept,)
            assert banks_of(store, clock).names() == ("notes",)
            assert [one for one in store.verify() if one.severity == "damage"] == []

    def test_a_key_remembered_again_is_a_new_version_and_the_old_stays(
        self, banks: Banks, clock: Clock
    ) -> None:
        first = banks.remember("notes", "Lamps.", key="best")
        clock.now = 2_000.0
        second = banks.remember("notes", "Chairs.", key=" best ")
        assert (first.version, second.version) == (1, 2)
        assert banks.memories("notes") == (second,)
        assert banks.versions("notes", "best") == (first, second)

    def test_the_same_words_are_not_written_again(self, banks: Banks) -> None:
        first = banks.remember("notes", "Lamps.")
        assert banks.remember("notes", "Lamps.") == first
        assert first.key == user("Lamps.").content_hash
        later = banks.remember("notes", "Lamps.", expires=5_000.0)
        assert (later.key, later.version) == (first.key, 2)

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

    def test_banks_do_not_mix(self, banks: Banks) -> None:
        banks.remember("a", "one", key="k")
        banks.remember("b", "two", key="k")
        assert [one.text for one in banks.memories("a")] == ["one"]
        assert banks.names() == ("a", "b")
        assert banks.memories("never") == ()
        assert not banks.known("never")

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

    def test_two_writers_of_a_key_make_two_versions(
        self, open_store: Callable[[], SqliteStore], store: SqliteStore, clock: Clock
    ) -> None:
        here = banks_of(store, clock)
        with open_store() as other:
            there = banks_of(other, clock, "n")
            versions = [
                here.remember("notes", "a", key="k").version,
                there.remember("notes", "b", key="k").version,
                here.remember("notes", "c", key="k").version,
            ]
        assert versions == [1, 2, 3]
        assert [one.text for one in here.memories("notes")] == ["c"]

    def test_a_bank_that_another_began_in_between_is_no_failure(
        self,
        open_store: Callable[[], SqliteStore],
        store: SqliteStore,
        clock: Clock,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        here = banks_of(store, clock)
        with open_store() as other:
            banks_of(other, clock, "n").remember("notes", "first", key="a")
        monkeypatch.setattr(here, "known", lambda bank: False)
        assert here.remember("notes", "second", key="b").version == 1
        assert [one.text for one in here.memories("notes")] == ["first", "second"]

    def test_age_does_not_prune_a_bank_and_its_name_does(
        self, store: SqliteStore, banks: Banks
    ) -> None:
        for batch in a_session("old"):
            store.append(batch)
        banks.remember("notes", "Lamps.")
        gone = store.prune(older_than_s=10.0, now=1e9)
        assert gone.sessions == ("old",)
        assert len(banks.memories("notes")) == 1
        assert store.prune(session_id=BANK + "notes", now=1e9).sessions == (BANK + "notes",)
        assert banks.memories("notes") == ()
        assert banks.names() == ()


class TestCallouts:
    @pytest.mark.req("AC-18")
    def test_marks_are_rows_like_others_and_come_back_in_order(self, store: SqliteStore) -> None:
        said = [user("one"), user("two"), user("one")]
        store.append(Batch("s", start=start(), rows=[row(one) for one in said]))
        for number, (ref, name) in enumerate(
            [("two", "late"), ("one", "early"), ("two", "renamed")], start=1
        ):
            found = find_message(list(store.rows("s")), user(ref).content_hash)
            mark = CalloutMark(str(found.id), name, "user")
            told = Row(NodeType.DECISION, f"mark{number}", float(number), details=mark)
            store.append(Batch("s", rows=[told]))
        found_again = [
            (one.name, one.message_id, one.marked) for one in find_callouts(store.rows("s"))
        ]
        assert found_again == [
            ("renamed", f"{user('two').content_hash}-1", 3.0),
            ("early", f"{user('one').content_hash}-2", 2.0),
        ], "of equal messages the newest; by place in the session; by the newest name"
        assert [one for one in store.verify() if one.severity == "damage"] == []

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
