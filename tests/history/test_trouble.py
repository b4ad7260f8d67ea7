"""Full disks, locks, folders that may not be written: one sentence, and nothing recorded."""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.history.builders import LONG, a_session, picture_row, png, row, start
from windlass.errors import StoreError, UsageError
from windlass.history.base import Batch
from windlass.history.blobs import Blobs
from windlass.history.sqlite import SqliteStore
from windlass.messages import tool, user


def one_sentence(error: StoreError, store: Path) -> str:
    text = str(error)
    assert "\n" not in text
    assert str(store) in text
    return text


def refuse_writes(monkeypatch: pytest.MonkeyPatch, code: int, after: int = 0) -> None:
    """Let the system fail a file with this code as it is written out, after so many that succeed.

    It may tell of a full disk as late as that.
    """
    real = os.fsync
    left = [after]

    def sync(handle: int) -> None:
        if left[0] == 0:
            raise OSError(code, os.strerror(code))
        left[0] -= stat.S_ISREG(os.fstat(handle).st_mode)
        real(handle)

    monkeypatch.setattr(os, "fsync", sync)


class TestAFullDisk:
    def test_of_the_database(self, store: SqliteStore) -> None:
        for batch in a_session():
            store.append(batch)
        before = store.query("SELECT * FROM unified_logs")
        (pages,) = store._db.execute("PRAGMA page_count").fetchone()
        store._db.execute(f"PRAGMA max_page_count = {pages + 3}")
        rows = [row(user(f"{at} " + "x" * 3_000)) for at in range(50)]
        with pytest.raises(StoreError, match="no space is left") as caught:
            store.append(Batch("s1", rows=rows))
        one_sentence(caught.value, store.folder)
        assert store.query("SELECT * FROM unified_logs") == before
        store._db.execute("PRAGMA max_page_count = 100000")
        store.append(Batch("s1", rows=rows))
        assert len(list(store.rows("s1"))) == len(before) + 50
        assert list(store.verify()) == []

    @pytest.mark.parametrize("after", [0, 1, 2])
    def test_of_the_blobs(
        self, store: SqliteStore, monkeypatch: pytest.MonkeyPatch, after: int
    ) -> None:
        store.append(Batch("s", start=start(), rows=[row(user("a"))]))
        rows = [row(tool("c", f"{at} {LONG}")) for at in range(3)]
        with monkeypatch.context() as patch:
            refuse_writes(patch, errno.ENOSPC, after)
            with pytest.raises(StoreError, match="no space is left") as caught:
                store.append(Batch("s", rows=rows))
        one_sentence(caught.value, store.folder)
        assert len(list(store.rows("s"))) == 1
        assert not list(store.folder.rglob("*.tmp"))
        store.append(Batch("s", rows=rows))
        assert list(store.verify()) == []

    def test_while_a_picture_gets_its_name(
        self, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store.append(Batch("s", start=start()))

        def fail(*_: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(os, "link", fail)
            with pytest.raises(StoreError, match="no space is left"):
                store.append(Batch("s", rows=[picture_row(png())]))
        assert list(store.rows("s")) == []
        assert store.picture_names("s", "chart") == []
        store.append(Batch("s", rows=[picture_row(png())]))
        assert list(store.verify()) == []


class TestALockedStore:
    def test_is_waited_for_and_then_told(self, store: SqliteStore) -> None:
        store.append(Batch("s", start=start()))
        holder = sqlite3.connect(store.file, isolation_level=None)
        holder.execute("BEGIN EXCLUSIVE")
        with SqliteStore(store.folder, busy_s=0.05) as impatient:
            with pytest.raises(StoreError, match="is locked by another program") as caught:
                impatient.append(Batch("s", rows=[row(user("a"))]))
            one_sentence(caught.value, store.folder)
            holder.execute("ROLLBACK")
            holder.close()
            assert list(impatient.rows("s")) == []
            impatient.append(Batch("s", rows=[row(user("a"))]))
        assert len(list(store.rows("s"))) == 1

    def test_in_the_middle_of_being_made(self, tmp_path: Path) -> None:
        holder = sqlite3.connect(tmp_path / "windlass.sqlite", isolation_level=None)
        holder.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreError, match="is locked by another program"):
            SqliteStore(tmp_path, busy_s=0.05)
        holder.close()


class TestFolders:
    def test_without_a_store_are_refused_where_one_is_expected(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="there is no store in") as caught:
            SqliteStore.open_existing(tmp_path / "none")
        assert "--store" in str(caught.value)
        assert not (tmp_path / "none").exists()

    def test_that_are_files_are_refused(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("x")
        with pytest.raises(UsageError, match="cannot be made") as caught:
            SqliteStore(tmp_path / "file")
        assert "verify" not in str(caught.value)

    @pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="needs to become another user")
    def test_that_may_not_be_written_are_refused(self) -> None:
        script = (
            "import os, sys; from pathlib import Path\n"
            "from windlass.errors import StoreError\n"
            "from windlass.history.sqlite import SqliteStore\n"
            "os.setuid(65534)\n"
            "try: SqliteStore(Path(sys.argv[1]))\n"
            "except StoreError as error: print(error)\n"
        )
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            folder.chmod(0o755)
            SqliteStore(folder / "made").close()
            for store in (folder / "made", folder / "new"):
                done = subprocess.run(
                    [sys.executable, "-c", script, str(store)],
                    capture_output=True,
                    text=True,
                    check=True,
                )
                assert str(folder) in done.stdout
                assert "may not be written" in done.stdout or "cannot be opened" in done.stdout
                assert "--store" in done.stdout

    def test_without_hard_links_get_copies(
        self, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(*_: object) -> None:
            raise OSError(errno.EPERM, "Operation not permitted")

        monkeypatch.setattr(os, "link", refuse)
        store.append(Batch("s", start=start(), rows=[picture_row(png())]))
        ((sha, path),) = store.picture_names("s", "chart")
        assert path.read_bytes() == png()
        assert not path.samefile(store.folder / "blobs" / sha[:2] / sha)
        assert list(store.verify()) == []


class TestBlobs:
    def test_cut_short_by_others_are_written_again(self, tmp_path: Path) -> None:
        blobs = Blobs(tmp_path)
        sha = "aa" + "0" * 62
        blobs.write({sha: b"whole"})
        blobs.path(sha).chmod(0o644)
        blobs.path(sha).write_bytes(b"who")
        blobs.write({sha: b"whole"})
        assert blobs.read(sha, check=False) == b"whole"

    def test_unfinished_ones_are_not_listed_and_removed_when_old(self, tmp_path: Path) -> None:
        blobs = Blobs(tmp_path)
        sha = "aa" + "0" * 62
        blobs.write({sha: b"whole"})
        rest = tmp_path / "aa" / ".half.tmp"
        rest.write_bytes(b"ha")
        assert list(blobs.list()) == [sha]
        blobs.remove_unfinished(rest.stat().st_mtime)
        assert rest.exists()
        blobs.remove_unfinished(rest.stat().st_mtime + 1)
        assert not rest.exists()

    def test_a_ctrl_c_in_the_middle_of_an_append_leaves_nothing(
        self, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store.append(Batch("s", start=start()))

        def interrupt(*_: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(Blobs, "link", interrupt)
            with pytest.raises(KeyboardInterrupt):
                store.append(Batch("s", rows=[picture_row(png())]))
        assert list(store.rows("s")) == []
        store.append(Batch("s", rows=[picture_row(png())]))
        assert list(store.verify()) == []


def test_reading_one_message_does_not_read_the_others(
    open_store: Callable[[], SqliteStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    said = [tool("c", f"{at} {LONG}") for at in range(5)]
    with open_store() as store:
        store.append(Batch("s", start=start(), rows=[row(one) for one in said]))
        opened: list[str] = []
        real = Blobs.read

        def read(self: Blobs, sha256: str, *, check: bool = True) -> bytes:
            opened.append(sha256)
            return real(self, sha256, check=check)

        monkeypatch.setattr(Blobs, "read", read)
        assert store.message(said[3].key) == said[3]
        store.query("SELECT content_hash, content_chars FROM unified_logs")
        store.query("SELECT cascade_id, avg(tokens_in) FROM unified_logs GROUP BY cascade_id")
        store.sessions()
        assert opened == [said[3].key]
