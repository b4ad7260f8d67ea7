"""Links in a store's way, and outputs named over inputs, stores and the work of others."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sqlite3
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import CommandLine, Said, ran
from tests.cli.conftest import windlass as command_line_fixture
from tests.engine.harness import cascade, phase
from tests.history.builders import take_parents
from tests.replays.making import session_file
from windlass.errors import StoreError
from windlass.history.blobs import Blobs
from windlass.history.sqlite._schema import VIEWS_3
from windlass.safety.own_files import open_own

__all__ = ["ran"]

windlass = command_line_fixture

pytestmark = pytest.mark.skipif(os.name == "nt", reason="links are POSIX's here")

PRECIOUS = b"what somebody wrote\n"
LONG = "word " * 20_000


@pytest.fixture
def victim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of somebody's, elsewhere."""
    file = tmp_path_factory.mktemp("elsewhere") / "precious.txt"
    file.write_bytes(PRECIOUS)
    return file


def soft(link: Path, target: Path) -> None:
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(target)


def hard(link: Path, target: Path) -> None:
    link.parent.mkdir(parents=True, exist_ok=True)
    link.hardlink_to(target)


def store_of(line: CommandLine) -> Path:
    return line.folder / ".windlass"


def run_again(line: CommandLine, session: str = "s9") -> Said:
    line.script = lambda _: LONG
    return line("run", "two.json", "--session", session, "-i", "x=1")


def refused(said: Said, name: str) -> str:
    """The sentence that refuses, which names the file."""
    assert said.code in (1, 2), said.out
    assert name in said.complaint
    return said.complaint


class TestLinksInAStore:
    @pytest.mark.parametrize("link", [soft, hard])
    def test_as_the_mark_of_a_session_that_runs(
        self, ran: CommandLine, victim: Path, link: Callable[[Path, Path], None]
    ) -> None:
        link(store_of(ran) / "running" / "s9", victim)
        said = run_again(ran)
        assert "link" in refused(said, "running/s9")
        assert victim.read_bytes() == PRECIOUS

    def test_as_the_mark_and_leading_nowhere(self, ran: CommandLine, victim: Path) -> None:
        soft(store_of(ran) / "running" / "s9", victim.with_name("new"))
        refused(run_again(ran), "running/s9")
        assert not victim.with_name("new").exists()

    def test_a_pipe_as_the_mark_holds_nobody_up(self, ran: CommandLine) -> None:
        (store_of(ran) / "running").mkdir(exist_ok=True)
        os.mkfifo(store_of(ran) / "running" / "s9")
        assert "not a regular file" in refused(run_again(ran), "running/s9")

    def test_as_the_folder_of_marks(self, ran: CommandLine, victim: Path) -> None:
        shutil.rmtree(store_of(ran) / "running", ignore_errors=True)
        soft(store_of(ran) / "running", victim.parent)
        refused(run_again(ran), "running")
        assert list(victim.parent.iterdir()) == [victim]

    @pytest.mark.parametrize("name", ["", "-wal", "-shm", "-journal"])
    def test_as_the_database_or_its_logs(self, ran: CommandLine, victim: Path, name: str) -> None:
        file = store_of(ran) / f"windlass.sqlite{name}"
        file.unlink(missing_ok=True)
        soft(file, victim.with_name("new"))
        refused(run_again(ran), file.name)
        if name:  # where there is a database, to look is to write its logs
            refused(ran("sessions"), file.name)
        assert list(victim.parent.iterdir()) == [victim]

    def test_as_another_name_of_the_database(self, ran: CommandLine, victim: Path) -> None:
        copy = victim.with_name("backup.sqlite")
        copy.hardlink_to(store_of(ran) / "windlass.sqlite")
        before = copy.read_bytes()
        assert "another name" in refused(run_again(ran), "windlass.sqlite")
        assert copy.read_bytes() == before

    def test_as_folders_of_blobs(self, ran: CommandLine, victim: Path) -> None:
        for number in range(256):
            if not (folder := store_of(ran) / "blobs" / f"{number:02x}").exists():
                soft(folder, victim.parent)
        said = run_again(ran)
        assert said.code != 0
        assert "is a link" in said.err + said.out
        assert list(victim.parent.iterdir()) == [victim]

    def test_as_the_folder_of_all_blobs(self, ran: CommandLine, victim: Path) -> None:
        shutil.rmtree(store_of(ran) / "blobs", ignore_errors=True)
        soft(store_of(ran) / "blobs", victim.parent)
        assert run_again(ran).code != 0
        assert list(victim.parent.iterdir()) == [victim]

    def test_nothing_behind_them_is_removed_or_closed(self, ran: CommandLine, victim: Path) -> None:
        """`prune` takes what no session names: but not what a link makes look like that."""
        store = store_of(ran)
        for name in ("blobs/ee", "images/s1"):
            assert not (store / name).exists()
        shutil.rmtree(store / "storage", ignore_errors=True)
        kept = [victim.parent / name for name in ("eel.txt", "a/image_0.png", "r.json")]
        for file in kept:
            file.parent.mkdir(exist_ok=True)
            file.write_bytes(PRECIOUS)
        victim.parent.chmod(0o755)
        for name in ("blobs/ee", "images/s1", "storage/tool_results"):
            soft(store / name, victim.parent)
        soft(store / "images" / "s2", victim.with_name("empty"))
        (victim.with_name("empty") / "of nobody").mkdir(parents=True)
        said = ran("prune", "--older-than", "0s")
        assert (said.code, "removed 1 session" in said.out) == (0, True), said.err
        assert [file.read_bytes() for file in kept] == [PRECIOUS] * 3
        assert (victim.with_name("empty") / "of nobody").is_dir()

    def test_of_folders_do_not_change_who_may_read_them(
        self, ran: CommandLine, victim: Path
    ) -> None:
        victim.parent.chmod(0o755)
        victim.chmod(0o644)
        shutil.rmtree(store_of(ran) / "images", ignore_errors=True)
        soft(store_of(ran) / "images", victim.parent)
        assert ran("sessions").code == 0
        assert stat.S_IMODE(victim.parent.stat().st_mode) == 0o755

    def test_beside_an_older_database(self, ran: CommandLine, victim: Path) -> None:
        """A copy is kept while a store is upgraded; its name was to be guessed."""
        file = store_of(ran) / "windlass.sqlite"
        db = sqlite3.connect(file, isolation_level=None)
        take_parents(db)
        db.execute("DROP VIEW session_list")
        db.execute(VIEWS_3[1])
        db.execute("PRAGMA user_version = 3")
        db.close()
        victim.write_bytes(b"")  # which SQLite takes for an empty database
        soft(file.with_name(f"windlass.sqlite.version-3.{os.getpid()}"), victim)
        assert ran("sessions").code == 0
        assert victim.read_bytes() == b""

    def test_a_name_that_leads_out_of_the_store(self, tmp_path: Path, victim: Path) -> None:
        """What a record calls a picture is no path that may lead anywhere."""
        blobs = Blobs(tmp_path / "blobs")
        name = "00" * 32
        blobs.write({name: b"x"})
        for way in ("../precious.txt", f"images/../../{victim.name}", str(victim)):
            with pytest.raises(StoreError, match="does not lie in the store"):
                blobs.link(name, tmp_path / "store", way)
        assert victim.read_bytes() == PRECIOUS

    def test_that_comes_between_look_and_opening(
        self, tmp_path: Path, victim: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("windlass.safety.own_files.refuse_shared", lambda *_: None)
        soft(tmp_path / "a", victim)
        hard(tmp_path / "b", victim)
        with pytest.raises(OSError, match=os.strerror(errno.ELOOP)):
            open_own(tmp_path / "a")
        with pytest.raises(StoreError, match="another name"):
            open_own(tmp_path / "b")

    def test_as_the_folder_of_the_store_is_the_users_to_name(
        self, windlass: CommandLine, victim: Path
    ) -> None:
        soft(store_of(windlass), victim.parent)
        windlass.write("two.json", cascade(phase("a")))
        said = windlass("run", "two.json")
        assert said.code == 1
        assert "is a link, and nobody named it as the store" in said.complaint
        assert not (victim.parent / "windlass.sqlite").exists()
        assert windlass("run", "two.json", "--store", ".windlass").code == 0
        assert (victim.parent / "windlass.sqlite").is_file()


class TestLinksOfTheUsersFiles:
    def test_as_the_list_of_trusted_folders(
        self, windlass: CommandLine, victim: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("XDG_CONFIG_HOME", str(windlass.folder / "user"))
        marks = windlass.folder / "user" / "windlass" / "trusted.json"
        soft(marks, victim)
        assert windlass("trust", ".").code == 0
        assert victim.read_bytes() == PRECIOUS
        assert json.loads(marks.read_text()) == [str(windlass.folder)]
        assert stat.S_IMODE(marks.lstat().st_mode) == 0o600

    @pytest.mark.parametrize("link", [soft, hard])
    def test_as_results_of_a_batch(
        self, windlass: CommandLine, victim: Path, link: Callable[[Path, Path], None]
    ) -> None:
        victim.write_bytes(b"")
        windlass.write("ask.json", cascade(phase("a")))
        windlass.write("rows.jsonl", '{"n": 1}\n')
        link(windlass.folder / "out.jsonl", victim)
        said = windlass("batch", "ask.json", "rows.jsonl", "--out", "out.jsonl", "--resume")
        assert (said.code, "link" in refused(said, "out.jsonl")) == (2, True)
        assert victim.read_bytes() == b""


# ---- outputs ------------------------------------------------------------------------


@pytest.fixture
def recorded(ran: CommandLine) -> CommandLine:
    """The folder of `ran`, with recordings `logs/s.jsonl` and `s.jsonl`, and a policy."""
    (ran.folder / "logs").mkdir()
    session_file(ran.folder / "logs" / "s.jsonl")
    session_file(ran.folder / "s.jsonl")
    ran.write("policy.json", cascade(phase("a"), auto_context=True))
    ran.write("notes.txt", PRECIOUS.decode())
    return ran


WRITERS = {
    "replay": ("replay", "s.jsonl", "--html"),
    "report": ("report", "s1", "--html"),
    "report of a store": ("report", "--html"),
    "export": ("export", "s1", "--out"),
    "tune": ("tune", "logs", "--out"),
}


class TestOutputs:
    @pytest.mark.parametrize("force", [(), ("--force",)])
    @pytest.mark.parametrize(
        ("command", "name"),
        [
            (("replay", "s.jsonl", "--html"), "s.jsonl"),
            (("replay", "s.jsonl", "--html"), "hard.jsonl"),
            (("replay", "s.jsonl", "--html"), "soft.jsonl"),
            (("replay", "logs", "--html"), "logs/s.jsonl"),
            (("replay", "s.jsonl", "--policy", "policy.json", "--html"), "policy.json"),
            (("tune", "logs", "--out"), "logs/s.jsonl"),
            (("tune", "logs/s.jsonl", "--out"), "logs/../logs/s.jsonl"),
        ],
    )
    def test_are_never_what_is_read(
        self, recorded: CommandLine, command: tuple[str, ...], name: str, force: tuple[str, ...]
    ) -> None:
        hard(recorded.folder / "hard.jsonl", recorded.folder / "s.jsonl")
        soft(recorded.folder / "soft.jsonl", recorded.folder / "s.jsonl")
        before = (recorded.folder / name).read_bytes()
        said = recorded(*command, name, *force)
        assert (said.code, "is what is read" in refused(said, name)) == (2, True)
        assert (recorded.folder / name).read_bytes() == before

    @pytest.mark.parametrize("force", [(), ("--force",)])
    @pytest.mark.parametrize("command", WRITERS.values(), ids=WRITERS)
    def test_are_never_in_a_store(
        self, recorded: CommandLine, command: tuple[str, ...], force: tuple[str, ...]
    ) -> None:
        shutil.copytree(store_of(recorded), recorded.folder / "hist")
        soft(recorded.folder / "link.html", store_of(recorded) / "windlass.sqlite")
        hard(recorded.folder / "hard.html", recorded.folder / "hist" / "windlass.sqlite")
        database = (store_of(recorded) / "windlass.sqlite").read_bytes()
        for name in (
            ".windlass/windlass.sqlite",
            ".windlass/new.html",
            ".windlass/blobs/new.html",
            "hist/windlass.sqlite",
            "hist/windlass.sqlite-wal",
            "hist/running/s1",
            "link.html",
            "hard.html",
        ):
            said = recorded(*command, name, *force)
            assert (said.code, "lies in a store" in refused(said, name)) == (2, True)
        assert not (store_of(recorded) / "new.html").exists()
        assert (store_of(recorded) / "windlass.sqlite").read_bytes() == database

    def test_may_lie_beside_a_store_that_has_no_folder_of_its_own(
        self, windlass: CommandLine
    ) -> None:
        windlass.write("two.json", cascade(phase("a")))
        assert windlass("run", "two.json", "--store", ".").code == 0
        assert windlass("report", "--store", ".", "--html", "page.html").code == 0
        assert windlass("report", "--store", ".", "--html", "images/page.html").code == 2

    @pytest.mark.parametrize("command", ["batch", "compare"])
    def test_of_many_rows_are_neither(self, recorded: CommandLine, command: str) -> None:
        recorded.write("rows.jsonl", '{"n": 1}\n')
        more = () if command == "batch" else ("--policy", "full", "--policy", "default")
        for name, told in (
            (".windlass/out.jsonl", "lies in a store"),
            ("rows.jsonl", "is what is read"),
            ("policy.json", "is what is read"),
        ):
            for resume in ((), ("--resume",)):
                words = (command, "policy.json", "rows.jsonl", *more, "--out", name, *resume)
                said = recorded(*words)
                assert (said.code, told in refused(said, name)) == (2, True)
        assert not (store_of(recorded) / "out.jsonl").exists()
        assert (recorded.folder / "rows.jsonl").read_text() == '{"n": 1}\n'

    @pytest.mark.parametrize("command", WRITERS.values(), ids=WRITERS)
    def test_replace_what_others_wrote_by_force_alone(
        self, recorded: CommandLine, command: tuple[str, ...]
    ) -> None:
        said = recorded(*command, "notes.txt")
        assert (said.code, "--force" in refused(said, "notes.txt")) == (2, True)
        assert (recorded.folder / "notes.txt").read_bytes() == PRECIOUS
        if command[0] != "tune":  # which needs many recordings
            assert recorded(*command, "notes.txt", "--force").code == 0
            assert (recorded.folder / "notes.txt").read_bytes() != PRECIOUS

    @pytest.mark.parametrize(
        "command", [*list(WRITERS.values())[:3], ("export", "s1", "--as", "html", "--out")]
    )
    def test_replace_what_windlass_wrote_and_what_is_empty(
        self, recorded: CommandLine, command: tuple[str, ...]
    ) -> None:
        (recorded.folder / "page.html").touch(0o640)
        for _ in range(2):
            assert recorded(*command, "page.html").code == 0
        page = recorded.folder / "page.html"
        assert page.read_text().startswith("<!doctype html>\n<!-- written by Windlass -->\n")
        assert stat.S_IMODE(page.stat().st_mode) == 0o640

    def test_replace_links_by_force_and_never_what_they_lead_to(
        self, recorded: CommandLine, victim: Path
    ) -> None:
        page = recorded.folder / "page.html"
        soft(page, victim)
        said = recorded("report", "--html", "page.html")
        assert (said.code, "is a link" in refused(said, "page.html")) == (2, True)
        assert recorded("report", "--html", "page.html", "--force").code == 0
        assert not page.is_symlink()
        assert victim.read_bytes() == PRECIOUS

    def test_go_to_pipes_and_devices_as_they_are(self, recorded: CommandLine) -> None:
        before = Path(os.devnull).stat().st_mode
        assert recorded("report", "--html", os.devnull).code == 0
        assert Path(os.devnull).stat().st_mode == before

    def test_that_fail_midway_leave_what_was_there(
        self, recorded: CommandLine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def half(_: object) -> Iterator[str]:
            yield "<!doctype html>" + "x" * 200_000
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        assert recorded("replay", "s.jsonl", "--html", "page.html").code == 0
        page = recorded.folder / "page.html"
        before, names = page.read_bytes(), sorted(recorded.folder.iterdir())
        monkeypatch.setattr("windlass.report.page.replay_page", half)
        said = recorded("replay", "s.jsonl", "--html", "page.html")
        assert (said.code, os.strerror(errno.ENOSPC) in refused(said, "page.html")) == (2, True)
        assert page.read_bytes() == before
        assert sorted(recorded.folder.iterdir()) == names

    def test_of_an_export_are_what_it_prints(self, recorded: CommandLine) -> None:
        for form in ("openai", "anthropic", "markdown", "jsonl", "html"):
            said = recorded("export", "s1", "--as", form, "--out", f"export.{form}")
            assert (said.code, said.out) == (0, f"written: export.{form}\n")
            printed = recorded("export", "s1", "--as", form).out
            assert (recorded.folder / f"export.{form}").read_text(encoding="utf-8") == printed
        told = recorded("export", "s1", "--out", "s.md", "--json").json
        assert told == {"as": "markdown", "file": "s.md"}
