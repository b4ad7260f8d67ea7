"""What libraries, tools and processes of theirs print and log is no output of Windlass."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import CommandLine
from tests.engine.harness import cascade, phase

# A library as some are: it configures logging when it is imported, and says goodbye.
CHATTY = """
import atexit, logging, os, subprocess, sys, threading, warnings
logging.basicConfig(level=logging.DEBUG)
logging.getLogger("chatty").warning("LOUD at import")
print("LOUD hello")
atexit.register(lambda: (print("LOUD goodbye"), os.write(1, b"LOUD C"), os.write(2, b"LOUD C")))

def late():
    threading.main_thread().join()
    print("LOUD thread")
threading.Thread(target=late).start()

def work():
    print("LOUD print")
    print("LOUD complaint", file=sys.stderr)
    print("LOUD original", file=sys.__stdout__, flush=True)
    logging.getLogger("chatty.deep").warning("LOUD log")
    logging.lastResort.handle(logging.makeLogRecord({"msg": "LOUD last resort"}))
    warnings.warn("LOUD warning")
    os.write(1, b"LOUD C\\n")
    os.write(2, b"LOUD C\\n")
    subprocess.run(["sh", "-c", "echo LOUD child; echo LOUD child >&2"])
"""
TOOLS = """
import chatty

def search(text: str) -> str:
    "Search for a text."
    chatty.work()
    return "found " + text
"""
MAIN = """
from windlass.cli import main
from windlass.messages import Message, ToolCall
from windlass.providers import at_hand
import windlass_local as local
from windlass.providers.scripted import Scripted

def script(request):
    if any(message.role == "tool" for message in request.messages):
        return "all is said"
    return Message("assistant", tool_calls=(ToolCall("1", "search", '{"text": "it"}'),))

local.LocalProvider = lambda: Scripted(script)
main()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "chatty.py").write_text(CHATTY)
    (tmp_path / "my_tools.py").write_text(TOOLS)
    made = cascade(phase("a", tackle=["my_tools:search"]))
    (tmp_path / "c.json").write_text(json.dumps(made))
    return tmp_path


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command line in a process of its own: what C code prints is seen only there."""
    return subprocess.run(
        [sys.executable, "-c", MAIN, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def test_json_holds_nothing_else(folder: Path) -> None:
    done = run(folder, "run", "c.json", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["output"] == "all is said"
    assert done.stderr == ""


def test_nor_does_the_terminal_and_a_line_says_where_it_went(folder: Path) -> None:
    done = run(folder, "run", "c.json")
    assert done.returncode == 0, done.stderr
    assert "LOUD" not in done.stdout + done.stderr
    assert "all is said" in done.stdout
    assert "tool search: found it" in done.stderr
    named = re.search(r"note: what tools and libraries printed is in (\S+)", done.stderr)
    assert named
    kept = Path(named[1])
    said = kept.read_text()
    kept.unlink()
    for what in ("at import", "hello", "print", "complaint", "original", "log", "last resort"):
        assert f"LOUD {what}" in said
    assert "LOUD warning" in said
    assert "LOUD child" in said
    assert said.count("LOUD C\n") == 2


def test_where_nothing_else_prints_nothing_is_told(folder: Path) -> None:
    (folder / "chatty.py").write_text("def work(): pass")
    done = run(folder, "run", "c.json")
    assert done.returncode == 0, done.stderr
    assert "note:" not in done.stderr


def test_without_a_folder_for_files_it_is_lost_and_the_run_is_not(folder: Path) -> None:
    main = f"import tempfile\ntempfile.tempdir = {str(folder / 'none')!r}\n{MAIN}"
    done = subprocess.run(
        [sys.executable, "-c", main, "run", "c.json"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "LOUD" not in done.stdout + done.stderr
    assert "all is said" in done.stdout


def test_mistakes_are_told_on_the_terminal(folder: Path) -> None:
    done = run(folder, "run", "none.json")
    assert done.returncode == 2
    assert done.stdout == ""
    assert re.fullmatch(r"windlass: no such file: 'none.json'.*\n", done.stderr)


def test_so_are_mistakes_of_ours(folder: Path) -> None:
    broken = MAIN.replace("local.LocalProvider =", "at_hand.Providers.resolve = 3 #")
    done = subprocess.run(
        [sys.executable, "-c", broken, "run", "c.json"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "TypeError: 'int' object is not callable" in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a disk that is always full")
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_output_that_cannot_be_written_is_a_failure(folder: Path, options: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", MAIN, "config", *options],
            cwd=folder,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == "windlass: the output could not be written: No space left on device\n"


def test_streams_lead_where_they_did_afterwards(
    windlass: CommandLine, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (sys.stdout, sys.stderr)
    assert windlass("config").code == 0
    assert (sys.stdout, sys.stderr) == before
    sys.stdout.write("mine\n")
    assert capsys.readouterr().out == "mine\n"
