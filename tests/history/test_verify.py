"""`verify` on sound stores, and on stores damaged on purpose, one kind of damage a test."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.history.builders import LONG, a_session, png, seen
from windlass.errors import StoreError
from windlass.history.base import Discrepancy
from windlass.history.sqlite import SqliteStore, verify_store
from windlass.messages import ToolCall, tool

ASKED = ToolCall("call_1", "run_sql", '{"sql": "select 1"}')
RESULT = tool(ASKED, LONG, name="run_sql")


@pytest.fixture
def store_folder(open_store: Callable[[], SqliteStore]) -> Path:
    """The folder of a closed store with two sessions in it and a stored result."""
    with open_store() as store:
        for name in ("s1", "s2"):
            for batch in a_session(name, shade=len(name)):
                store.append(batch)
        store.store_tool_result("s1", "r1", RESULT.key)
        assert list(store.verify()) == []
        return store.folder


def change(store_folder: Path, *statements: str) -> None:
    """Plain SQL by somebody who knows nothing of Windlass."""
    db = sqlite3.connect(store_folder / "windlass.sqlite")
    for statement in statements:
        assert db.execute(statement).rowcount != 0, statement
    db.commit()
    db.close()


def told(store_folder: Path) -> str:
    """All damage that is found, as one text."""
    found = list(verify_store(store_folder))
    assert all(isinstance(finding, Discrepancy) for finding in found)
    return "\n".join(
        f"{finding.where}: {finding.what}" for finding in found if finding.severity == "damage"
    )


def blob(store_folder: Path, sha: str) -> Path:
    return store_folder / "blobs" / sha[:2] / sha


def test_a_sound_store_has_no_findings(store_folder: Path) -> None:
    assert list(verify_store(store_folder)) == []


class TestTheDatabase:
    def test_missing(self, store_folder: Path) -> None:
        (store_folder / "windlass.sqlite").unlink()
        assert "windlass.sqlite: is missing" in told(store_folder)

    def test_pages_of_garbage(self, store_folder: Path) -> None:
        file = store_folder / "windlass.sqlite"
        data = bytearray(file.read_bytes())
        for page in range(2, len(data) // 4096, 3):
            data[page * 4096 : page * 4096 + 4096] = b"\xa5" * 4096
        file.write_bytes(data)
        assert "windlass.sqlite" in told(store_folder)

    @pytest.mark.parametrize(
        "data", [b"", b"garbage" * 2_000, b"SQLite format 3\0" + b"\1" * 5_000]
    )
    def test_that_is_none(self, store_folder: Path, data: bytes) -> None:
        (store_folder / "windlass.sqlite").write_bytes(data)
        assert "windlass.sqlite" in told(store_folder)

    def test_cut_short(self, store_folder: Path) -> None:
        file = store_folder / "windlass.sqlite"
        file.write_bytes(file.read_bytes()[: 4096 * 5 + 100])
        assert "windlass.sqlite" in told(store_folder)

    def test_that_cannot_be_opened_says_to_run_verify(self, store_folder: Path) -> None:
        (store_folder / "windlass.sqlite").write_bytes(b"garbage" * 2_000)
        with pytest.raises(StoreError, match=r"is damaged.*run `windlass verify`"):
            SqliteStore(store_folder)


class TestBlobs:
    @pytest.mark.req("CI-36")
    def test_changed(self, store_folder: Path) -> None:
        path = blob(store_folder, RESULT.key)
        path.chmod(0o644)
        path.write_bytes(path.read_bytes().replace(b"abc", b"xyz", 1))
        found = told(store_folder)
        assert f"blob {RESULT.key}: holds other bytes than its name says" in found
        assert "storage/tool_results/r1.json: holds other bytes" in found

    def test_cut_short(self, store_folder: Path) -> None:
        path = blob(store_folder, seen(png(2)).sha256)
        path.chmod(0o644)
        path.write_bytes(path.read_bytes()[:20])
        assert f"blob {path.name}: holds other bytes than its name says" in told(store_folder)

    def test_missing(self, store_folder: Path) -> None:
        blob(store_folder, RESULT.key).unlink()
        assert f"blob {RESULT.key}: is missing" in told(store_folder)

    def test_that_nothing_names_are_only_notes(self, store_folder: Path) -> None:
        sha = hashlib.sha256(b"orphan").hexdigest()
        blob(store_folder, sha).parent.mkdir(exist_ok=True)
        blob(store_folder, sha).write_bytes(b"orphan")
        assert list(verify_store(store_folder)) == [
            Discrepancy(f"blob {sha}", "is named by nothing", "note")
        ]

    def test_are_read_with_a_check(self, store_folder: Path) -> None:
        for sha in (RESULT.key, seen(png(2)).sha256):
            path = blob(store_folder, sha)
            path.chmod(0o644)
            path.write_bytes(path.read_bytes().replace(b"a", b"b"))
        with SqliteStore(store_folder) as store:
            with pytest.raises(StoreError, match=r"has been changed.*windlass verify"):
                store.message(RESULT.key)
            with pytest.raises(StoreError, match=r"has been changed.*windlass verify"):
                store.picture(seen(png(2)).sha256)
            blob(store_folder, RESULT.key).unlink()
            with pytest.raises(StoreError, match=r"is missing.*windlass verify"):
                list(store.rows("s1"))


class TestVisibleNames:
    @pytest.mark.req("CI-36")
    def test_missing(self, store_folder: Path) -> None:
        (store_folder / "images/s1/chart/image_0.png").unlink()
        (store_folder / "storage/tool_results/r1.json").unlink()
        found = told(store_folder)
        assert "images/s1/chart/image_0.png: is missing" in found
        assert "storage/tool_results/r1.json: is missing" in found

    @pytest.mark.req("CI-36")
    def test_with_other_bytes(self, store_folder: Path) -> None:
        path = store_folder / "images/s1/chart/image_0.png"
        path.unlink()
        path.write_bytes(b"other")
        assert "images/s1/chart/image_0.png: holds other bytes than blob" in told(store_folder)

    def test_that_are_copies_are_fine(self, store_folder: Path) -> None:
        path = store_folder / "images/s1/chart/image_0.png"
        data = path.read_bytes()
        path.unlink()
        path.write_bytes(data)
        assert list(verify_store(store_folder)) == []

    def test_that_nothing_names_are_only_notes(self, store_folder: Path) -> None:
        (store_folder / "images/s1/chart/image_9.png").write_bytes(b"x")
        assert told(store_folder) == ""
        assert [finding.where for finding in verify_store(store_folder)] == [
            "images/s1/chart/image_9.png"
        ]

    def test_forgotten_by_the_record(self, store_folder: Path) -> None:
        change(store_folder, "DELETE FROM images WHERE session_no = 1")
        assert "session 's1', row 5: its pictures are not those listed in images" in told(
            store_folder
        )


class TestRowsChangedByPlainSql:
    @pytest.mark.parametrize(
        ("statement", "expected"),
        [
            (
                "UPDATE bodies SET body = replace(body, 'sold', 'sank') WHERE body LIKE '%sold%'",
                "its text is not what its key is the hash of",
            ),
            ("UPDATE bodies SET role = 'user' WHERE role = 'tool'", "its role, length"),
            (
                "UPDATE log SET cost = 0.02 WHERE session_no = 1 AND seq = 3",
                "session 's1', batch 2 (rows 3 to 3): is not what was appended",
            ),
            (
                "UPDATE log SET occurrence = 2 WHERE session_no = 2 AND seq = 2",
                "session 's2', row 2: is counted as occurrence 2",
            ),
            (
                "DELETE FROM log WHERE session_no = 1 AND seq = 2",
                "session 's1': row 2 is missing",
            ),
            (
                "DELETE FROM log WHERE session_no = 1 AND seq = 6",
                "session 's1', batch 4: is not what was appended",
            ),
            (
                "DELETE FROM log WHERE session_no = 1 AND seq = 6",
                "session 's1', outcome 1: its output, row",
            ),
            ("DELETE FROM bodies WHERE key IN (SELECT key FROM log WHERE seq = 2)", "is missing"),
            (
                "DELETE FROM batches WHERE session_no = 1 AND number = 2",
                "session 's1', batch 2 (rows 3 to 3): is missing from batches",
            ),
            ("UPDATE sessions SET model = 'gpt' WHERE session_no = 2", "session 's2', batch 1"),
            ("UPDATE state SET value_json = '7'", "batch 3 (rows 4 to 5): is not what was"),
            ("UPDATE outcomes SET status = 'failed' WHERE phase IS NULL", "batch 4"),
            (
                "UPDATE outcomes SET status = 'incomplete', reason = 'turns' WHERE phase IS NULL",
                "batch 4",
            ),
            (
                "UPDATE calls SET request_hash = 'f00' WHERE number = 1",
                "session 's1', call 1: its request_hash is not that of its window and tools",
            ),
            (
                "UPDATE calls SET window_json = replace(window_json, '-1', '-3') WHERE number = 1",
                "-3', which is not in the session",
            ),
            (
                "UPDATE calls SET window_json = '[[0, 9]]' WHERE number = 2",
                "the window of call 2 does not hold together",
            ),
            ("UPDATE calls SET window_json = '{' WHERE number = 2", "does not hold together"),
            ("UPDATE calls SET base = NULL WHERE number = 2", "does not hold together"),
            ("DELETE FROM calls WHERE number = 1", "does not hold together"),
            ("UPDATE tool_lists SET tools_json = '[]'", "are not what their key is the hash of"),
            ("DELETE FROM tool_lists", "refers to something in tool_lists that is not there"),
            (
                "UPDATE edits SET message_id = 'beef-1' WHERE session_no = 1",
                "session 's1', edit 1: is of 'beef-1', which is not in the session",
            ),
            (
                "DELETE FROM bodies WHERE key IN (SELECT replacement FROM edits)",
                "refers to something in bodies that is not there",
            ),
            ("DELETE FROM made_bodies", "which made_bodies does not list"),
            ("DELETE FROM body_pictures", "its pictures are not those in body_pictures"),
            ("UPDATE log SET key = 'nonsense' WHERE seq = 2", "its message nonsense is missing"),
            ("UPDATE bodies SET body = x'ff' WHERE body LIKE '%sold%'", "its text is not"),
            ("UPDATE log SET session_no = 77 WHERE session_no = 2", "refers to something in sess"),
        ],
    )
    def test_are_named(self, store_folder: Path, statement: str, expected: str) -> None:
        change(store_folder, statement)
        assert expected in told(store_folder)
