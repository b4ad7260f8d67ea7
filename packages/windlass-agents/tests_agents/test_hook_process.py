"""The short process that an agent starts, and the one that stays: real processes of a user."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.support.hooks_events import after, bash, listing, log, output

import windlass
from windlass_agents import client, server
from windlass_agents.handler import HookAnswer, HookHandler, HookRequest
from windlass_agents.hook_journal import HookJournal

SOURCE = str(Path(windlass.__file__).parents[1])
MOST_S = 60.0
"""What a test waits at most for a process, on a machine that does other things."""

pytestmark = pytest.mark.skipif(os.name == "nt", reason="processes are ended by signals")


class Home:
    """A user with a home and a project of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.project = folder / "project"
        self.project.mkdir()
        self.state = folder / "state"
        self.variables = {
            "HOME": str(folder / "home"),
            "XDG_STATE_HOME": str(self.state),
            "TMPDIR": str(folder / "tmp"),
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": SOURCE,
            "WINDLASS_HOOK_IDLE_S": "60",
        }

    @property
    def own(self) -> Path:
        return self.state / "windlass"

    def start(self, *arguments: str, **streams: Any) -> subprocess.Popen[bytes]:
        words = [sys.executable, "-m", "windlass", "hook", "run", *(arguments or ("claude-code",))]
        pipe = subprocess.PIPE
        streams = {"stdin": pipe, "stdout": pipe, "stderr": pipe, **streams}
        return subprocess.Popen(words, cwd=self.project, env=self.variables, **streams)

    def run(self, payload: Any, *arguments: str) -> bytes:
        """What is printed for an event; nothing is said besides, and the exit code is 0."""
        process = self.start(*arguments)
        data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        out, errors = process.communicate(data, timeout=MOST_S)
        assert errors == b""
        assert process.returncode == 0
        return out

    def warm(self) -> int:
        """Have the process that stays ready, however long that takes; its number."""
        until = time.monotonic() + MOST_S
        while not json.loads(self.run({"session": "warm", "text": log()}, "plain") or b"{}"):
            assert time.monotonic() < until
        self.failures_file.unlink(missing_ok=True)
        (process,) = self.servers()
        return process

    @property
    def failures_file(self) -> Path:
        return self.own / client.FAILURES

    def failures(self) -> list[str]:
        """What failed, and of which agent."""
        if not self.failures_file.exists():
            return []
        lines = self.failures_file.read_text(encoding="utf-8").splitlines()
        return [line.partition("\t")[2] for line in lines]

    def servers(self) -> list[int]:
        """The processes that stay, of this home."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0")
                is_own = b"windlass_agents.server" in words
                if is_own and (folder / "cwd").readlink().is_relative_to(self.folder):
                    found.append(int(folder.name))
            except OSError:
                continue
        return found

    def end(self) -> None:
        for process in self.servers():
            os.kill(process, signal.SIGKILL)
        wait_until(lambda: not self.servers())


def wait_until(holds: Callable[[], object]) -> None:
    until = time.monotonic() + MOST_S
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.fixture
def home() -> Iterator[Home]:
    if not Path("/proc/self/cmdline").exists():
        pytest.skip("processes are found in /proc")
    # Not pytest's own folder: its path may be too long for a socket.
    with tempfile.TemporaryDirectory() as folder:
        made = Home(Path(folder))
        try:
            yield made
        finally:
            made.end()


def shortened(out: bytes) -> str:
    """The text of an answer that shortens a result of Bash."""
    text = str(output(json.loads(out))["stdout"])
    assert len(text) < len(log()) / 2
    return text


# ---- as it should be ------------------------------------------------------------------


def test_an_event_is_answered_and_what_was_seen_is_remembered(home: Home) -> None:
    process = home.warm()
    assert shortened(home.run(after(bash(log()), "c1")))
    assert output(json.loads(home.run(after(bash(log()), "c2"))))["stdout"].startswith("[Same as")
    assert home.run(after(bash("done"), "c3")) == b""
    assert home.servers() == [process]
    lines = list(
        HookJournal(home.project / ".windlass").lines("claude-code", after("")["session_id"])
    )
    assert [line.outcome for line in lines][-3:] == ["shortened", "shortened", "whole"]


def test_the_first_event_after_a_cold_start_is_answered(home: Home) -> None:
    assert shortened(home.run(after(bash(log()), "c1")))
    assert home.failures() == []


def test_a_session_that_begins_starts_the_process(home: Home) -> None:
    home.run({"session_id": "s", "hook_event_name": "SessionStart", "source": "startup"})
    assert len(home.servers()) == 1
    began = time.monotonic()
    assert shortened(home.run(after(bash(log()), "c1")))
    assert time.monotonic() - began < client.WAIT_S + 1


def test_what_starts_the_process_starts_one(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in home.variables.items():
        monkeypatch.setenv(name, value)
    client.start()
    wait_until(lambda: list(home.own.glob("hook-*.socket")))
    client.start()
    assert len(home.servers()) == 1
    assert shortened(home.run(after(bash(log()), "c1")))


@pytest.mark.parametrize("name", ["plain", "opencode"])
def test_who_is_answered_in_json_always_is(home: Home, name: str) -> None:
    process = home.warm()
    for payload in (b"", b"{}", b"junk", b"x" * (client.MOST_BYTES + 1)):
        assert home.run(payload, name) == b"{}"
    assert home.run({"session": "s", "moment": "paused"}, name) == b"{}"
    assert home.run({"session": "s", "text": log()}, name, "--holdout", "many") == b"{}"
    os.kill(process, signal.SIGSTOP)
    try:
        assert home.run({"session": "s", "text": log()}, name) == b"{}"
    finally:
        os.kill(process, signal.SIGCONT)
    assert home.run(b"", "claude-code") == b""


def test_the_plain_contract_is_answered_in_json(home: Home) -> None:
    home.warm()
    told = {"session": "s", "tool": "bash", "text": log()}
    assert json.loads(home.run(told, "plain"))["text"].startswith("2026-01-01")
    assert json.loads(home.run({**told, "text": "done"}, "plain")) == {}


def test_the_folder_and_the_socket_are_the_users_alone(home: Home) -> None:
    home.warm()
    (path,) = home.own.glob("hook-*.socket")
    assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0
    assert stat.S_IMODE(home.own.stat().st_mode) == 0o700


def test_ten_that_come_at_once_start_one_process(home: Home) -> None:
    processes = [home.start() for _ in range(10)]
    for at, process in enumerate(processes):
        assert process.stdin is not None
        told = after(bash(log()), f"c{at}", session_id=f"s{at}")
        process.stdin.write(json.dumps(told).encode())
        process.stdin.close()
        process.stdin = None
    ended = [process.communicate(timeout=MOST_S) for process in processes]
    assert [errors for _, errors in ended] == [b""] * 10
    assert [process.returncode for process in processes] == [0] * 10
    failed = len(home.failures())
    home.warm()
    answers = [out for out, _ in ended if out]
    assert len(answers) + failed == 10
    assert all(shortened(out) for out in answers)


def test_the_process_ends_when_nobody_asks(home: Home) -> None:
    home.variables["WINDLASS_HOOK_IDLE_S"] = "0.5"
    first = home.warm()
    wait_until(lambda: not home.servers())
    assert not list(home.own.glob("hook-*.socket"))
    assert home.warm() != first


def test_a_path_too_long_for_a_socket_is_no_trouble(home: Home) -> None:
    home.state = home.state / ("x" * 120)
    home.variables["XDG_STATE_HOME"] = str(home.state)
    home.variables["WINDLASS_HOOK_IDLE_S"] = "0.5"
    assert home.warm()
    assert not list(home.own.glob("*.socket"))
    wait_until(lambda: not home.servers())
    Path(f"{client.address(str(home.own))}.lock").unlink()  # which does not lie in this home


# ---- as it should not be --------------------------------------------------------------


def test_after_a_killed_process_another_begins(home: Home) -> None:
    first = home.warm()
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: not home.servers())
    assert list(home.own.glob("hook-*.socket"))  # which leads nowhere now
    assert home.warm() != first


def test_after_its_socket_was_removed_the_process_makes_room(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = home.warm()
    (path,) = home.own.glob("hook-*.socket")
    path.unlink()
    wait_until(lambda: first not in home.servers())
    assert home.warm() != first


def test_a_process_that_hangs_costs_two_seconds_and_nothing_else(home: Home) -> None:
    process = home.warm()
    os.kill(process, signal.SIGSTOP)
    try:
        began = time.monotonic()
        assert home.run(after(bash(log()), "c2")) == b""
        assert client.WAIT_S - 0.1 < time.monotonic() - began < MOST_S / 2
        assert home.failures()[-1].startswith("claude-code\tTimeoutError")
    finally:
        os.kill(process, signal.SIGCONT)
    # The model saw that result whole: nothing refers to its short form.
    assert shortened(home.run(after(bash(log()), "c3")))


WRONG: tuple[tuple[Any, tuple[str, ...], str], ...] = (
    (b"", ("claude-code",), "claude-code\tJSONDecodeError"),
    (b"{}", ("claude-code",), "claude-code\tValueError: no hook_event_name"),
    (after(bash("x")), ("no-such-agent",), "no-such-agent\tUsageError"),
    (after(bash("x")), ("claude-code", "--holdout", "many"), "claude-code\tUsageError"),
)


def test_what_is_wrong_is_counted_once_and_printed_nowhere(home: Home) -> None:
    home.warm()
    for payload, arguments, failure in WRONG:
        assert home.run(payload, *arguments) == b""
        (line,) = home.failures()
        assert line.startswith(failure)
        home.failures_file.unlink()


def test_an_event_of_50_mb_stays_and_is_counted(home: Home) -> None:
    began = time.monotonic()
    assert home.run(after(bash("x" * 50_000_000))) == b""
    assert time.monotonic() - began < MOST_S / 2
    assert home.failures() == ["claude-code\tan event of more than 8,000,000 bytes"]
    assert not home.servers()


def test_a_reader_that_went_away_is_no_failure_of_the_process(home: Home) -> None:
    home.warm()
    reading, writing = os.pipe()
    os.close(reading)
    process = home.start(stdout=writing)
    os.close(writing)
    _, errors = process.communicate(json.dumps(after(bash(log()), "c2")).encode(), timeout=MOST_S)
    assert errors == b""
    assert process.returncode == 0
    assert home.failures()[-1].startswith("claude-code\tBrokenPipeError")


def test_without_a_folder_of_ones_own_nothing_is_printed(home: Home) -> None:
    for name in ("state", "tmp"):
        (home.folder / name).write_text("a file", encoding="utf-8")
    assert home.run(after(bash(log()))) == b""
    assert not home.servers()


def test_a_state_folder_that_is_a_file_is_replaced_by_a_temporary_one(home: Home) -> None:
    home.state.write_text("a file", encoding="utf-8")
    home.state = home.folder / "tmp"
    assert home.warm()
    assert [one.name for one in home.state.iterdir()] == [f"windlass-{os.getuid()}"]


def test_a_folder_that_others_may_write_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    shared = tmp_path / "state" / "windlass"
    shared.mkdir(parents=True)
    shared.chmod(0o777)
    assert client.own_folder() == str(tmp_path / "tmp" / f"windlass-{os.getuid()}")
    linked = tmp_path / "tmp" / f"windlass-{os.getuid()}"
    linked.rmdir()
    linked.symlink_to(tmp_path)
    with pytest.raises(OSError, match="no folder"):
        client.own_folder()


def test_failures_are_lines_however_long_and_not_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    client.count_failure("broken\nat é " + "x" * 10_000, ["plain"])
    client.count_failure("again", [])
    path = tmp_path / "windlass" / client.FAILURES
    first, second = path.read_text(encoding="utf-8").splitlines()
    assert first.split("\t")[1:] == ["plain", ("broken at é " + "x" * 10_000)[:400]]
    assert second.split("\t")[1:] == ["", "again"]
    with path.open("ab") as file:
        file.write(b"x" * 1_000_000)
    size = path.stat().st_size
    client.count_failure("once more", [])
    assert path.stat().st_size == size


# ---- by loopback, where there are no sockets with a path --------------------------------


@pytest.fixture
def loopback(home: Home) -> Home:
    """A home whose Python knows no sockets with a path, as on Windows."""
    patched = home.folder / "patched"
    patched.mkdir()
    (patched / "sitecustomize.py").write_text(
        "import _socket, socket\ndel _socket.AF_UNIX, socket.AF_UNIX\n"
    )
    home.variables["PYTHONPATH"] = f"{patched}{os.pathsep}{SOURCE}"
    return home


def test_by_loopback_an_event_is_answered(loopback: Home) -> None:
    loopback.warm()
    assert shortened(loopback.run(after(bash(log()))))
    (path,) = loopback.own.glob("hook-*.port")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not list(loopback.own.glob("*.socket"))


def test_by_loopback_nobody_is_answered_without_the_token(loopback: Home) -> None:
    loopback.warm()
    (path,) = loopback.own.glob("hook-*.port")
    port, token = path.read_bytes().split()
    words = b"\0".join([str(loopback.project).encode(), b"", b"claude-code"])
    request = len(words).to_bytes(4) + words + json.dumps(after(bash(log()), "c2")).encode()

    def answer(begin: bytes) -> bytes:
        with socket.create_connection(("127.0.0.1", int(port)), timeout=MOST_S) as connection:
            told = b""
            with suppress(OSError):  # it did not even read all
                connection.sendall(begin + request)
                connection.shutdown(socket.SHUT_WR)
                while piece := connection.recv(1 << 16):
                    told += piece
            return told

    assert answer(b"0" * len(token)) == b""
    assert answer(token)[4:].startswith(b'{"hookSpecificOutput"')


# ---- in this process ------------------------------------------------------------------


@pytest.mark.parametrize("answer", [b"", b"\0\0", b"\0\0\0\x09{}", b"\0\0\0\x01{}"])
def test_half_an_answer_is_none(home: Home, monkeypatch: pytest.MonkeyPatch, answer: bytes) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(home.state))
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"{client.address(client.own_folder())}.socket")
    listener.listen()

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            while connection.recv(1 << 16):
                pass
            connection.sendall(answer)

    thread = threading.Thread(target=serve)
    thread.start()
    with listener, pytest.raises(ConnectionError, match="ends early"):
        client.ask(["plain"], b"{}", time.monotonic() + MOST_S)
    thread.join()


@pytest.mark.parametrize("is_late", [False, True])
def test_what_is_not_waited_for_is_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_late: bool
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    ours, theirs = socket.socketpair()
    words = b"\0".join([str(tmp_path).encode(), b"", b"claude-code"])
    theirs.sendall(len(words).to_bytes(4) + words + json.dumps(after(bash(listing()))).encode())
    theirs.shutdown(socket.SHUT_WR)
    taken_back: list[bool] = []

    def answer(_: object, request: HookRequest) -> HookAnswer:
        assert request.folder == tmp_path
        theirs.close()
        return HookAnswer("short", lambda: taken_back.append(True))

    monkeypatch.setattr(HookHandler, "answer", answer)
    if not is_late:
        theirs.close()
    with socket.socket(socket.AF_UNIX) as listener:
        server._Server(HookHandler(time.time), listener, b"", lambda: True)._answer(ours)
    # Who gave up before is not answered at all; who gives up meanwhile did not get the answer.
    assert taken_back == [True] * is_late
