"""One blob that is missing or changed hides one message, and storing it again heals it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import windlass as library
from tests.cli.conftest import CommandLine, windlass
from tests.engine.harness import call, calls, cascade, phase
from tests.history.builders import a_session, row, start
from windlass.errors import StoreError
from windlass.history.base import Batch
from windlass.history.migrating import migrate
from windlass.history.sqlite import SqliteStore, verify_store
from windlass.messages import Message, assistant

__all__ = ["windlass"]

LONG = "The pump in hall 7 failed. " * 400
MEMORY = "deploy on Mondays " * 400


def remove(path: Path) -> None:
    path.unlink()


def change(path: Path) -> None:
    path.chmod(0o600)
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)


def cut(path: Path) -> None:
    path.chmod(0o600)
    path.write_bytes(path.read_bytes()[:50])


def wipe(path: Path) -> None:
    path.chmod(0o600)
    path.write_bytes(bytes(path.stat().st_size))


DAMAGES = pytest.mark.parametrize("damage", [remove, change, cut])


@pytest.fixture
def ran(windlass: CommandLine) -> CommandLine:
    windlass.write(
        "c.json",
        cascade(phase("a", tackle=["remember"], memory="notes"), phase("b", memory="notes")),
    )
    said: Iterator[Message | str] = iter(
        [
            calls(call("remember", json.dumps({"text": MEMORY, "bank": "notes", "key": "k"}))),
            LONG,
            "short",
        ]
    )
    windlass.script = lambda _: next(said, "more")
    done = windlass("run", "c.json", "--session", "s1")
    assert done.code == 0, done.err
    windlass.script = lambda _: LONG
    return windlass


def blob_of(line: CommandLine, words: str) -> Path:
    """The file of the message that begins with these words."""
    told = b'"content":"' + words.encode()
    blobs = (line.folder / ".windlass" / "blobs").rglob("*")
    (path,) = [path for path in blobs if path.is_file() and told in path.read_bytes()]
    return path


def damages(folder: Path) -> list[str]:
    return [f"{one.where}: {one.what}" for one in verify_store(folder) if one.severity == "damage"]


class TestLooking:
    @DAMAGES
    def test_every_command_goes_on_and_names_it(
        self, ran: CommandLine, damage: Callable[[Path], None]
    ) -> None:
        blob = blob_of(ran, "The pump")
        damage(blob)
        for arguments in (
            ("show", "s1"),
            ("show", "s1", "--call", "2"),
            ("show", "s1", "--call", "3", "--full"),
            ("show", "s1", "--json"),
            ("explain", "s1", "3"),
            ("report", "s1"),
            ("report", "s1", "--prefix"),
            ("callout", "s1", "remember", "x"),
            ("cards", "s1"),
            ("cards", "s1", "--make"),
            ("migrate", ".windlass", "other"),
        ):
            said = ran(*arguments)
            assert said.code == 0, (arguments, said.err)
            assert blob.name in said.err, arguments
        assert ran("sessions").code == 0
        shown = ran("show", "s1", "--call", "3").out
        assert f"[message {blob.name[:16]} cannot be read: its file {blob.name}" in shown
        assert "Do b." in shown
        said = ran("query", "SELECT content_json FROM unified_logs", "--json")
        assert said.code == 0
        assert sum(f"message {blob.name[:16]} cannot" in str(row) for row in said.json) == 1
        rows = library.query_unified("session_id = 's1'", store=ran.folder / ".windlass")
        assert len(rows) > 5
        assert ran("verify").code == 1
        assert blob.name in ran("verify").out

    @DAMAGES
    def test_a_memory(self, ran: CommandLine, damage: Callable[[Path], None]) -> None:
        blob = blob_of(ran, "deploy")
        damage(blob)
        for arguments in (
            ("memory", "list"),
            ("memory", "list", "notes"),
            ("memory", "show", "notes", "k"),
            ("memory", "match", "deploy", "--bank", "notes"),
            ("memory", "forget", "notes", "k"),
        ):
            said = ran(*arguments)
            assert said.code == 0, (arguments, said.err)
            assert blob.name in said.err, arguments

    @DAMAGES
    def test_a_copy_has_the_same_damage_and_nothing_else(
        self, ran: CommandLine, damage: Callable[[Path], None]
    ) -> None:
        blob = blob_of(ran, "The pump")
        sound = blob.read_bytes()
        damage(blob)
        assert ran("migrate", ".windlass", "other").code == 0
        assert ran("migrate", ".windlass", "other").code == 0  # again, it copies nothing
        assert damages(ran.folder / "other") == [f"blob {blob.name}: is missing"]
        with SqliteStore(ran.folder / ".windlass") as store:
            store.blobs.write({blob.name: sound})
        assert ran("migrate", ".windlass", "healed").code == 0
        assert damages(ran.folder / "healed") == []


class TestHealing:
    @DAMAGES
    def test_the_same_content_stored_again(
        self, ran: CommandLine, damage: Callable[[Path], None]
    ) -> None:
        blob = blob_of(ran, "The pump")
        damage(blob)
        assert damages(ran.folder / ".windlass")
        ran.write("d.json", cascade(phase("c")))
        assert ran("run", "d.json", "--session", "s2").code == 0
        assert damages(ran.folder / ".windlass") == []
        assert "cannot be read" not in ran("show", "s1", "--call", "3").out

    def test_also_by_a_store_that_wrote_it_before(self, tmp_path: Path) -> None:
        def keep(session: str) -> None:
            store.append(Batch(session, start=start(), rows=[row(assistant(LONG))]))

        with SqliteStore(tmp_path) as store:
            keep("s1")
            blob = tmp_path / "blobs" / assistant(LONG).key[:2] / assistant(LONG).key
            change(blob)
            keep("s2")
            assert damages(tmp_path) == []
            with store._use() as db:
                db.execute("UPDATE bodies SET chars = 3")
            keep("s3")
            assert damages(tmp_path) == []


class TestPictures:
    @pytest.fixture
    def store_folder(self, tmp_path: Path) -> Path:
        with SqliteStore(tmp_path / "store") as store:
            for batch in a_session("s1"):
                store.append(batch)
        return tmp_path / "store"

    def _picture(self, store_folder: Path) -> Path:
        return next(
            path
            for path in (store_folder / "blobs").glob("??/*")
            if path.read_bytes()[:4] == b"\x89PNG"
        )

    @pytest.mark.parametrize("damage", [remove, cut, wipe])
    def test_are_healed_with_their_visible_names(
        self, store_folder: Path, damage: Callable[[Path], None]
    ) -> None:
        damage(self._picture(store_folder))
        assert damages(store_folder)
        with SqliteStore(store_folder) as store:
            for batch in a_session("s2"):
                store.append(batch)
        assert damages(store_folder) == []

    @pytest.mark.parametrize("damage", [remove, cut, wipe])
    def test_that_are_lost_stop_no_migration(
        self, store_folder: Path, tmp_path: Path, damage: Callable[[Path], None]
    ) -> None:
        name = self._picture(store_folder).name
        damage(self._picture(store_folder))
        with SqliteStore(store_folder) as source, SqliteStore(tmp_path / "other") as target:
            told: list[str] = []
            (copied,) = migrate(source, target, on_lost=told.append)
        assert copied.rows > 3
        assert any(name in one for one in told)
        assert all(name in one for one in damages(tmp_path / "other"))


class TestRuns:
    @DAMAGES
    def test_do_not_go_on_with_it_unsaid(
        self, ran: CommandLine, damage: Callable[[Path], None]
    ) -> None:
        damage(blob_of(ran, "deploy"))
        ran.write("e.json", cascade(phase("c", tackle=["search_memory"], memory="notes")))
        said: Iterator[Message | str] = iter(
            [calls(call("search_memory", '{"query": "deploy", "bank": "notes"}')), "x"]
        )
        ran.script = lambda _: next(said)
        done = ran("run", "e.json", "--session", "s3")
        told = done.out + done.err + str(ran("show", "s3", "--full", "--call", "1").out)
        assert "the store is damaged" in told or "cannot be read" in told
        assert "Mondays" not in told

    @DAMAGES
    def test_a_store_raises_unless_marks_are_wanted(
        self, ran: CommandLine, damage: Callable[[Path], None]
    ) -> None:
        blob = blob_of(ran, "The pump")
        damage(blob)
        told: list[str] = []
        with SqliteStore(ran.folder / ".windlass") as store:
            with pytest.raises(StoreError, match=blob.name):
                list(store.rows("s1"))
            store.mark_lost(told.append)
            rows = list(store.rows("s1"))
            rows = list(store.rows("s1"))
        (one,) = [each for each in rows if each.key == blob.name]
        assert one.row.message is not None
        assert (one.row.message.role, one.row.message.key) == ("assistant", blob.name)
        assert len(told) == 1
