"""Full disks, locks, folders that may not be written: one sentence, and nothing recorded."""

from __future__ import annotations

import errno
import os
import sqlite3
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
from windlass.history.sqlite import SqliteKeeper
from windlass.messages import tool, user


def one_sentence(error: StoreError, store: Path) -> str:
    text = str(error)
    assert "\n" not in text
    assert str(store) in text
    return text


def refuse_writes(monkeypatch: pytest.MonkeyPatch, code: int, after: int = 0) -> None:
    """Let the system fail `os.write` with this code, after so many writes that succeed."""
    real = os.write
    left = [after]

    def write(handle: int, data: bytes) -> int:
        if left[0] == 0:
            raise OSError(code, os.strerror(code))
        left[0] -= 1
        return real(handle, data)

    monkeypatch.setattr(os, "write", write)


class TestAFullDisk:
    def test_of_the_database(self, keeper: SqliteKeeper) -> None:
        for batch in a_session():
            keeper.append(batch)
        before = keeper.query("SELECT * FROM unified_logs")
        (pages,) = keeper._db.execute("PRAGMA page_count").fetchone()
        keeper._db.execute(f"PRAGMA max_page_count = {pages + 3}")
        rows = [row(user(f"{at} " + "x" * 3_000)) for at in range(50)]
        with pytest.raises(StoreError, match="no space is left") as caught:
            keeper.append(Batch("s1", rows=rows))
        one_sentence(caught.value, keeper.folder)
        assert keeper.query("SELECT * FROM unified_logs") == before
        keeper._db.execute("PRAGMA max_page_count = 100000")
        keeper.append(Batch("s1", rows=rows))
        assert len(list(keeper.rows("s1"))) == len(before) + 50
        assert list(keeper.verify()) == []

    @pytest.mark.parametrize("after", [0, 1, 2])
    def test_of_the_blobs(
        self, keeper: SqliteKeeper, monkeypatch: pytest.MonkeyPatch, after: int
    ) -> None:
        keeper.append(Batch("s", start=start(), rows=[row(user("a"))]))
        rows = [row(tool("c", f"{at} {LONG}")) for at in range(3)]
        with monkeypatch.context() as patch:
            refuse_writes(patch, errno.ENOSPC, after)
            with pytest.raises(StoreError, match="no space is left") as caught:
                keeper.append(Batch("s", rows=rows))
        one_sentence(caught.value, keeper.folder)
        assert len(list(keeper.rows("s"))) == 1
        assert not list(keeper.folder.rglob("*.tmp"))
        keeper.append(Batch("s", rows=rows))
        assert list(keeper.verify()) == []

    def test_while_a_picture_gets_its_name(
        self, keeper: SqliteKeeper, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        keeper.append(Batch("s", start=start()))

        def fail(*_: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(os, "link", fail)
            with pytest.raises(StoreError, match="no space is left"):
                keeper.append(Batch("s", rows=[picture_row(png())]))
        assert list(keeper.rows("s")) == []
        assert keeper.picture_names("s", "chart") == []
        keeper.append(Batch("s", rows=[picture_row(png())]))
        assert list(keeper.verify()) == []


class TestALockedStore:
    def test_is_waited_for_and_then_told(self, keeper: SqliteKeeper) -> None:
        keeper.append(Batch("s", start=start()))
        holder = sqlite3.connect(keeper.file, isolation_level=None)
        holder.execute("BEGIN EXCLUSIVE")
        with SqliteKeeper(keeper.folder, busy_s=0.05) as impatient:
            with pytest.raises(StoreError, match="is locked by another program") as caught:
                impatient.append(Batch("s", rows=[row(user("a"))]))
            one_sentence(caught.value, keeper.folder)
            holder.execute("ROLLBACK")
            holder.close()
            assert list(impatient.rows("s")) == []
            impatient.append(Batch("s", rows=[row(user("a"))]))
        assert len(list(keeper.rows("s"))) == 1

    def test_in_the_middle_of_being_made(self, tmp_path: Path) -> None:
        holder = sqlite3.connect(tmp_path / "windlass.sqlite", isolation_level=None)
        holder.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreError, match="is locked by another program"):
            SqliteKeeper(tmp_path, busy_s=0.05)
        holder.close()


class TestFolders:
    def test_without_a_store_are_refused_where_one_is_expected(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="there is no store in") as caught:
            SqliteKeeper.open_existing(tmp_path / "none")
        assert "--store" in str(caught.value)
        assert not (tmp_path / "none").exists()

    def test_that_are_files_are_refused(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("x")
        with pytest.raises(StoreError) as caught:
            SqliteKeeper(tmp_path / "file")
        one_sentence(caught.value, tmp_path)

    @pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="needs to become another user")
    def test_that_may_not_be_written_are_refused(self) -> None:
        script = (
            "import os, sys; from pathlib import Path\n"
            "from windlass.errors import StoreError\n"
            "from windlass.history.sqlite import SqliteKeeper\n"
            "os.setuid(65534)\n"
            "try: SqliteKeeper(Path(sys.argv[1]))\n"
            "except StoreError as error: print(error)\n"
        )
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            folder.chmod(0o755)
            SqliteKeeper(folder / "made").close()
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
        self, keeper: SqliteKeeper, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(*_: object) -> None:
            raise OSError(errno.EPERM, "Operation not permitted")

        monkeypatch.setattr(os, "link", refuse)
        keeper.append(Batch("s", start=start(), rows=[picture_row(png())]))
        ((sha, path),) = keeper.picture_names("s", "chart")
        assert path.read_bytes() == png()
        assert not path.samefile(keeper.folder / "blobs" / sha[:2] / sha)
        assert list(keeper.verify()) == []


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
        self, keeper: SqliteKeeper, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        keeper.append(Batch("s", start=start()))

        def interrupt(*_: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(Blobs, "link", interrupt)
            with pytest.raises(KeyboardInterrupt):
                keeper.append(Batch("s", rows=[picture_row(png())]))
        assert list(keeper.rows("s")) == []
        keeper.append(Batch("s", rows=[picture_row(png())]))
        assert list(keeper.verify()) == []


def test_reading_one_message_does_not_read_the_others(
    open_keeper: Callable[[], SqliteKeeper], monkeypatch: pytest.MonkeyPatch
) -> None:
    said = [tool("c", f"{at} {LONG}") for at in range(5)]
    with open_keeper() as keeper:
        keeper.append(Batch("s", start=start(), rows=[row(one) for one in said]))
        opened: list[str] = []
        real = Blobs.read

        def read(self: Blobs, sha256: str, *, check: bool = True) -> bytes:
            opened.append(sha256)
            return real(self, sha256, check=check)

        monkeypatch.setattr(Blobs, "read", read)
        assert keeper.message(said[3].key) == said[3]
        keeper.query("SELECT content_hash, content_chars FROM unified_logs")
        keeper.query("SELECT cascade_id, avg(tokens_in) FROM unified_logs GROUP BY cascade_id")
        keeper.sessions()
        assert opened == [said[3].key]
