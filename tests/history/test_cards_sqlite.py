"""Cards in a SQLite store: older stores get the table, and lost cards are named."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from tests.history.builders import a_session, row, start, take_parents
from tests.support.history_cards_kept import SAID, card
from windlass.history.base import Batch, Discrepancy
from windlass.history.sqlite import SqliteStore, verify_store


@pytest.mark.req("AC-10")
def test_a_store_of_the_first_version_gets_the_table(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    with SqliteStore(folder) as store:
        for batch in a_session():
            store.append(batch)
        file = store.file
    db = sqlite3.connect(file, isolation_level=None)
    db.execute("DROP VIEW context_cards")
    db.execute("DROP TABLE cards")
    take_parents(db)
    db.execute("PRAGMA user_version = 1")
    assert [one for one in verify_store(folder) if one.severity == "damage"] == []
    db.close()
    with SqliteStore(folder) as store:
        waiting = store.without_cards("s1")
        assert waiting
        first = waiting[0]
        assert first.id is not None
        assert first.row.message is not None
        store.put_cards("s1", [card(first.id, content_hash=first.row.message.content_hash)])
        assert [one.id for one in store.cards("s1")] == [first.id]
        assert list(store.verify()) == []


def test_a_card_of_no_message_is_a_note(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "store") as store:
        (id_,) = store.append(Batch("s", start=start(), rows=[row(SAID[0])]))
        assert id_ is not None
        store.put_cards("s", [card(id_), card(f"{'0' * 16}-1")])
        lost = f"session number 1, card {'0' * 16}-1"
        told = "is of no message, or its vector of no model"
        assert list(store.verify()) == [Discrepancy(lost, told, "note")]
        db = sqlite3.connect(store.file)
        db.execute("UPDATE cards SET embedding = x'010203' WHERE message_id = ?", (id_,))
        db.commit()
        db.close()
        assert "has a vector that cannot be read" in [one.what for one in store.verify()]
        (read,) = store.cards("s")
        assert read.embedding == ()


def test_cards_do_not_weaken_what_an_append_promises(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "store") as store:
        (id_,) = store.append(Batch("s", start=start(), rows=[row(SAID[0])]))
        assert id_ is not None
        store.put_cards("s", [card(id_)])
        with pytest.raises(Exception, match="no session"):
            store.put_cards("other", [card(id_)])
        (level,) = store._db.execute("PRAGMA synchronous").fetchone()
        assert level == 2, "FULL again"
