"""How older stores become today's, and what happens to newer and foreign ones."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.history.builders import LONG, a_session, start, take_parents
from windlass.errors import StoreError
from windlass.history.base import Batch, Outcome
from windlass.history.sqlite import SqliteStore, _connect
from windlass.history.sqlite import _schema as migrations
from windlass.history.sqlite._schema import COLUMNS_2, DROPPED_3, TABLES_1, VIEWS_1, VIEWS_3


def add_note(db: sqlite3.Connection) -> None:
    db.execute("ALTER TABLE sessions ADD COLUMN note TEXT NOT NULL DEFAULT 'none'")
    db.execute("CREATE TABLE notes (text)")


def fail_midway(db: sqlite3.Connection) -> None:
    add_note(db)
    db.execute("INSERT INTO no_such_table VALUES (1)")


@pytest.fixture
def old_store(open_store: Callable[[], SqliteStore]) -> Path:
    with open_store() as store:
        for batch in a_session():
            store.append(batch)
        return store.file


def opened(file: Path) -> sqlite3.Connection:
    return sqlite3.connect(file, isolation_level=None, timeout=10)


def test_a_step_keeps_the_data_and_runs_once(old_store: Path) -> None:
    db = opened(old_store)
    steps = (*migrations.STEPS, add_note)
    before = db.execute("SELECT * FROM log").fetchall()
    for _ in range(2):
        migrations.migrate(db, "here", steps)
    assert migrations.version(db) == len(steps)
    assert db.execute("SELECT session_id, note FROM sessions").fetchall() == [("s1", "none")]
    assert db.execute("SELECT * FROM log").fetchall() == before
    db.close()


def test_a_store_of_the_second_version_gets_reasons(
    old_store: Path, open_store: Callable[[], SqliteStore]
) -> None:
    db = opened(old_store)
    views = [statement for statement in VIEWS_1 if "VIEW lineage" in statement]
    views += [statement for statement in VIEWS_1 if "VIEW session_list" in statement]
    (table,) = (statement for statement in TABLES_1 if "TABLE outcomes" in statement)
    db.execute(f"CREATE TEMP TABLE kept AS SELECT {COLUMNS_2} FROM outcomes")
    for statement in (*DROPPED_3, "DROP TABLE outcomes", table, *views):
        db.execute(statement)
    db.execute("INSERT INTO outcomes SELECT * FROM kept")
    take_parents(db)
    db.execute("PRAGMA user_version = 2")
    db.close()
    with open_store() as store:
        before = store.outcomes("s1")
        assert [ended.reason for ended in before] == [None, None]
        assert list(store.verify()) == [], "the digests of older batches stand"
        now = [Outcome("incomplete", 9.0, reason="length"), Outcome("waiting", 10.0)]
        store.append(Batch("s1", outcomes=now))
        assert list(store.outcomes("s1")) == [*before, *now]
        assert list(store.verify()) == []


def test_a_store_of_the_third_version_gets_parents(
    old_store: Path, open_store: Callable[[], SqliteStore]
) -> None:
    db = opened(old_store)
    take_parents(db)
    db.execute("DROP VIEW session_list")
    db.execute(VIEWS_3[1])
    db.execute("PRAGMA user_version = 3")
    db.close()
    with open_store() as store:
        assert store.start("s1").parent_id is None
        assert list(store.verify()) == [], "the digests of older sessions stand"
        store.append(Batch("s2", start=replace(start(), parent_id="s1", parent_phase="a")))
        assert (store.start("s2").parent_id, store.start("s2").parent_phase) == ("s1", "a")
        assert list(store.verify()) == []
        assert store.query("SELECT session_id, parent_id FROM session_list ORDER BY 1") == [
            {"session_id": "s1", "parent_id": None},
            {"session_id": "s2", "parent_id": "s1"},
        ]


@pytest.fixture
def of_the_fourth_version(old_store: Path) -> Path:
    db = opened(old_store)
    db.execute("DROP VIEW unified_logs")
    db.execute(VIEWS_1[0])
    db.execute("PRAGMA user_version = 4")
    db.close()
    return old_store


def contents(db: sqlite3.Connection) -> list[str | None]:
    return [one for (one,) in db.execute("SELECT content_json FROM unified_logs")]


def test_a_store_of_the_fourth_version_opens_in_any_client_once_it_was_opened(
    of_the_fourth_version: Path, open_store: Callable[[], SqliteStore]
) -> None:
    db = opened(of_the_fourth_version)
    with pytest.raises(sqlite3.OperationalError, match="windlass_content"):
        contents(db)
    db.close()
    open_store().close()
    db = opened(of_the_fourth_version)
    assert '"What sold best?"' in contents(db)
    db.close()


def test_a_store_of_the_fourth_version_is_read_where_it_is_and_as_it_is(
    of_the_fourth_version: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_connect, "TemporaryDirectory", None)  # a copy would need one
    before = of_the_fourth_version.read_bytes()
    with SqliteStore.open_existing(of_the_fourth_version.parent, reading=True) as store:
        found = store.query("SELECT content_json FROM unified_logs ORDER BY LENGTH(content_json)")
        assert json.loads(found[-1]["content_json"]) == LONG
    assert of_the_fourth_version.read_bytes() == before


def test_a_copy_of_an_older_store_is_kept_until_it_is_upgraded(
    old_store: Path, open_store: Callable[[], SqliteStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    db = opened(old_store)
    take_parents(db)
    db.execute("DROP VIEW session_list")
    db.execute(VIEWS_3[1])
    db.execute("PRAGMA user_version = 3")
    rows = db.execute("SELECT * FROM sessions").fetchall()
    db.close()
    with monkeypatch.context() as broken:
        broken.setattr(migrations.migrate, "__defaults__", ((*migrations.STEPS[:3], fail_midway),))
        with pytest.raises(StoreError):
            open_store()
    (copy,) = old_store.parent.glob("windlass.sqlite.version-3.*")
    assert copy.stat().st_mode & 0o077 == 0
    kept = sqlite3.connect(copy)
    assert migrations.version(kept) == 3
    assert kept.execute("SELECT * FROM sessions").fetchall() == rows
    kept.close()
    open_store().close()
    assert not [*old_store.parent.glob("windlass.sqlite.version-*")]


def test_a_step_that_fails_leaves_the_store_as_it_was(old_store: Path) -> None:
    db = opened(old_store)
    schema = db.execute("SELECT sql FROM sqlite_master").fetchall()
    with pytest.raises(sqlite3.OperationalError):
        migrations.migrate(db, "here", (*migrations.STEPS, fail_midway))
    assert migrations.version(db) == len(migrations.STEPS)
    assert db.execute("SELECT sql FROM sqlite_master").fetchall() == schema
    db.close()


def test_a_newer_store_is_refused_in_one_sentence(
    old_store: Path, open_store: Callable[[], SqliteStore]
) -> None:
    db = opened(old_store)
    migrations.migrate(db, "here", (*migrations.STEPS, add_note))
    db.close()
    with pytest.raises(StoreError, match=r"newer Windlass.*update Windlass") as caught:
        open_store()
    assert "\n" not in str(caught.value)


def test_a_database_of_something_else_is_left_alone(tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.mkdir()
    db = opened(store / "windlass.sqlite")
    db.execute("CREATE TABLE mine (a)")
    with pytest.raises(StoreError, match="something else"):
        SqliteStore(store)
    assert db.execute("SELECT name FROM sqlite_master").fetchall() == [("mine",)]
    db.close()


def test_many_may_open_a_fresh_store_at_once(tmp_path: Path) -> None:
    failures: list[BaseException] = []
    gate = threading.Barrier(8)

    def enter() -> None:
        gate.wait()
        try:
            SqliteStore(tmp_path / "store").close()
        except StoreError as error:
            failures.append(error)

    threads = [threading.Thread(target=enter) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
