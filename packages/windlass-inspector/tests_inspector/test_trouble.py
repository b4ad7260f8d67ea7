"""Stores that are damaged, locked, missing; ports in use; a package that is not there."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from starlette.testclient import TestClient
from tests.cli.conftest import CommandLine
from tests.cli.conftest import windlass as windlass_fixture

from tests_inspector.conftest import Pages, signed_in
from windlass.errors import StoreError, UsageError
from windlass.history.sqlite import SqliteStore
from windlass.settings.settings import Settings
from windlass_inspector import serving

windlass = windlass_fixture


@pytest.fixture
def copied(folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder, tmp_path / "store"))


def test_a_message_that_is_lost_is_told_and_the_page_reads(copied: Path) -> None:
    with sqlite3.connect(copied / "windlass.sqlite") as db:
        db.execute("UPDATE bodies SET body = '{}' WHERE role = 'tool' AND body IS NOT NULL")
    db.close()
    with SqliteStore.open_existing(copied, reading=True) as store:
        page = signed_in(store).read("/session/whole")
    assert "The store has lost" in page.text
    assert "windlass verify" in page.text


def test_a_store_that_is_damaged_is_one_sentence(copied: Path) -> None:
    with SqliteStore.open_existing(copied, reading=True) as store:
        pages = signed_in(store)
        with (copied / "windlass.sqlite").open("r+b") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(4096)
            file.write(b"\xff" * (size - 4096))
        page = pages.read("/session/whole", 503)
    assert re.search(r"the store '[^']*' is damaged \(.*\): run `windlass verify`", page.text)


def test_a_store_that_is_locked_is_one_sentence(copied: Path) -> None:
    db = sqlite3.connect(copied / "windlass.sqlite", isolation_level=None)
    db.execute("PRAGMA locking_mode = EXCLUSIVE")
    db.execute("BEGIN EXCLUSIVE")
    with pytest.raises(StoreError, match="is locked by another program"):
        SqliteStore.open_existing(copied, reading=True, busy_s=0.05)
    db.close()


def test_a_store_that_may_not_be_written_is_shown(copied: Path) -> None:
    for path in (*copied.rglob("*"), copied):
        path.chmod(path.stat().st_mode & ~0o222)
    try:
        with SqliteStore.open_existing(copied, reading=True) as store:
            pages = signed_in(store)
            assert "Do work." in pages.read("/").text
            assert "report id_north_77" in pages.read("/?q=id_north").text
    finally:
        copied.chmod(0o700)
        for path in copied.rglob("*"):
            path.chmod(0o700)


def test_a_mistake_of_ours_is_a_page(pages: Pages, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("windlass.report.inspected.InspectedSession.explain", broken)
    client = TestClient(
        pages.client.app,
        base_url=str(pages.client.base_url),
        cookies=dict(pages.client.cookies),
        raise_server_exceptions=False,
    )
    answer = client.get(f"{pages.root}/session/long/call/1")
    assert answer.status_code == 500
    assert "ZeroDivisionError" in answer.text
    assert "default-src" in answer.headers["content-security-policy"]


class TestTheCommand:
    def test_needs_a_store(self, windlass: CommandLine) -> None:
        said = windlass("serve", "--no-open", "--store", "nothing")
        assert said.code == 2
        assert "there is no store" in said.complaint

    def test_needs_a_port_that_is_free(self, windlass: CommandLine, folder: Path) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = str(taken.getsockname()[1])
            said = windlass("serve", "--no-open", "--store", str(folder), "--port", port)
        assert said.code == 2
        assert f"port {port} is in use" in said.complaint

    @pytest.mark.parametrize("port", ["65536", "-1"])
    def test_needs_a_port_that_there_is(
        self, windlass: CommandLine, folder: Path, port: str
    ) -> None:
        said = windlass("serve", "--no-open", "--store", str(folder), f"--port={port}")
        assert said.code == 2
        assert "a number from 0 to 65535" in said.complaint

    @pytest.mark.parametrize("token", ["short", "has spaces in it", "slash/and&more=yes"])
    def test_needs_a_token_that_an_address_holds(
        self, windlass: CommandLine, folder: Path, token: str
    ) -> None:
        said = windlass("serve", "--no-open", "--store", str(folder), "--token", token)
        assert said.code == 2
        assert "--token must be 8 or more letters" in said.complaint

    @pytest.mark.parametrize("package", ["starlette", "uvicorn"])
    def test_needs_its_extra(
        self, package: str, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, package, None)
        monkeypatch.setitem(sys.modules, f"{package}.applications", None)
        settings = Settings.read({"store": str(folder)})
        with pytest.raises(UsageError, match=r"pip install 'windlass\[serve\]'"):
            serving.serve(settings, session=None, port=0, token=None, on_ready=print)

    def test_needs_a_session_that_there_is(self, windlass: CommandLine, folder: Path) -> None:
        said = windlass("serve", "nobody", "--no-open", "--store", str(folder), "--port", "0")
        assert said.code == 2
        assert "'nobody'" in said.complaint

    @pytest.mark.parametrize(("words", "path"), [((), "/"), (("whol",), "/session/whole")])
    def test_prints_the_address_answers_and_ends(
        self, folder: Path, words: tuple[str, ...], path: str
    ) -> None:
        command = [sys.executable, "-m", "windlass", "serve", *words, "--no-open", "--port", "0"]
        with subprocess.Popen(
            [*command, "--store", str(folder)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as served:
            assert served.stdout is not None
            line = served.stdout.readline()
            found = re.fullmatch(
                rf"the inspector: (http://127\.0\.0\.1:\d+){path}\?token=([\w-]{{20,}})\n", line
            )
            assert found, line
            with httpx.Client(base_url=found[1], timeout=30) as client:
                assert client.get(path).status_code == 403
                answer = client.get(path, params={"token": found[2]})
                assert answer.status_code == 303
                page = answer.headers["location"]
                assert re.fullmatch(rf"/\w{{40}}{path}", page)
                assert "Do work." in client.get(page).text
                assert "server" not in client.get(page).headers
                assert client.get(path).status_code == 403
            served.send_signal(signal.SIGINT)
            out, err = served.communicate(timeout=30)
        assert "Traceback" not in out + err
        assert served.returncode == 130
