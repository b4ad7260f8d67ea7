"""`windlass chat`: lines and replies, what a person may ask of the session, and Ctrl-C."""

from __future__ import annotations

import io
import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import CommandLine, Said
from tests.cli.terminal import read_terminal
from tests.engine.harness import cascade, phase


@pytest.fixture
def talking(windlass: CommandLine) -> Any:
    """Chats on a command line, handed its lines."""
    windlass.script = lambda request: f"re: {request.messages[-1].text}"
    windlass.write("c.json", cascade(phase("a")))

    def talk(lines: str, *arguments: str) -> Said:
        windlass.patch.setattr(sys, "stdin", io.StringIO(lines))
        return windlass("chat", *arguments)

    return talk


M = ("-m", "local/m")


def test_a_model_alone_answers_line_by_line(talking: Any, windlass: CommandLine) -> None:
    said = talking("Hello\n\nBye {{ now }}\n", *M)
    assert said.code == 0
    assert said.out == "re: Hello\nre: Bye {{ now }}\n"
    texts = [message.text for message in windlass.requests[-1].messages]
    assert texts == ["Hello", "re: Hello", "Bye {{ now }}"]
    assert "windlass chat --session" in said.err
    shown = windlass("show", "latest")
    assert shown.code == 0
    assert "go on with it: windlass chat --session " in shown.out
    assert "Hello" in windlass("sessions").out, "a session is known by its first words"
    assert shown.out.count("chat") >= 2
    assert windlass("report", "latest").code == 0
    assert windlass("explain", "latest", "2").code == 0


@pytest.mark.parametrize("where", ["file", "variable"])
def test_without_a_flag_the_configured_model_answers(
    talking: Any, windlass: CommandLine, where: str
) -> None:
    if where == "file":
        windlass.write("windlass.toml", 'model = "local/m"')
    else:
        windlass.patch.setenv("WINDLASS_MODEL", "local/m")
    said = talking("Hello\n")
    assert (said.code, said.out) == (0, "re: Hello\n")


def test_a_cascade_runs_first_and_a_session_is_gone_on_with(
    talking: Any, windlass: CommandLine
) -> None:
    said = talking("Why?\n", "c.json", *M)
    assert said.out == "re: Do a.\nre: Why?\n"
    said = talking("And?\n/cost\n/show 3\n/show\n", "--session", "latest", *M)
    assert said.code == 0
    assert said.out.startswith("re: And?\n")
    assert "all phases" in said.out
    assert "Why?" in said.out
    texts = [message.text for message in windlass.requests[-1].messages]
    assert texts == ["Do a.", "re: Do a.", "Why?", "re: Why?", "And?"]
    assert len(windlass("sessions", "--json").json) == 1


def test_what_is_wrong_is_one_sentence_and_the_session_goes_on(talking: Any) -> None:
    said = talking("/cost\n/shwo\n/show x\nHello\n/show x\n/show 9\n/exit\nmore\n", *M)
    assert said.code == 0
    assert "nothing has been said yet" in said.err
    assert "there is no '/shwo'; did you mean '/show'?" in said.err
    assert "/show takes the number of a call, from 1, not 'x'" in said.err
    assert said.out == "re: Hello\n"
    assert "Traceback" not in said.err


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("c.json", "--session", "s1"),
        ("-i", "x=1", *M),
        ("none.json", *M),
        ("--session", "none", *M),
        ("-m", "nobody/m"),
    ],
)
def test_a_mistake_ends_it_before_it_begins(talking: Any, arguments: tuple[str, ...]) -> None:
    said = talking("Hello\n", *arguments)
    assert said.code == 2
    assert said.complaint
    assert said.out == ""


MAIN = """
from windlass.cli import main
import windlass_local as local
from windlass.providers.scripted import Scripted

async def answer(request):
    import asyncio
    text = request.messages[-1].text
    if text == "slowly":
        await asyncio.sleep(60)
    return "re: " + text

local.LocalProvider = lambda: Scripted(answer)
main()
"""


def test_ctrl_c_ends_the_reply_and_not_the_session(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    chat = subprocess.Popen(
        [sys.executable, "-c", MAIN, "chat", *M],
        cwd=tmp_path,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "dumb", "WINDLASS_STORE": str(tmp_path / "store")},
    )
    os.close(theirs)
    read_terminal(ours, "> ")
    os.write(ours, b"Hello\n")
    assert "re: Hello" in read_terminal(ours, "re: Hello\r\n> ")
    os.write(ours, b"slowly\n")
    read_terminal(ours, "slowly")
    for _ in range(4):  # more than the two signals that end a run
        read_until_busy(tmp_path)
        chat.send_signal(signal.SIGINT)
        assert "the reply was ended" in read_terminal(ours, "> ")
        os.write(ours, b"slowly\n")
        read_terminal(ours, "slowly")
    read_until_busy(tmp_path)
    chat.send_signal(signal.SIGINT)
    read_terminal(ours, "> ")
    chat.send_signal(signal.SIGINT)
    assert "/exit" in read_terminal(ours, "> ")
    os.write(ours, b"Bye\n")
    assert "re: Bye" in read_terminal(ours, "re: Bye\r\n> ")
    os.write(ours, b"/exit\n")
    read_terminal(ours)
    assert chat.wait(timeout=30) == 0
    os.close(ours)


def read_until_busy(folder: Path) -> None:
    """Wait until a message is being answered: it stands in the record without a reply."""
    import time

    from windlass.history.sqlite import SqliteStore

    until = time.monotonic() + 30
    while time.monotonic() < until:
        with SqliteStore.open_existing(folder / "store") as store:
            (session,) = store.sessions()
            rows = [stored.row for stored in store.rows(session.session_id)]
        said = [row for row in rows if row.message is not None]
        if said and said[-1].message is not None and said[-1].message.text == "slowly":
            time.sleep(0.3)
            return
        time.sleep(0.05)
    raise AssertionError(json.dumps([str(row.node_type) for row in rows]))
