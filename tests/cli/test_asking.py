"""Questions on the command line: answers from files and flags, at the terminal, or a run waits."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import CommandLine
from tests.cli.terminal import read_terminal
from tests.engine.harness import call, calls, cascade, phase
from tests.support.engine_asking import ASKS, WHICH
from tests.tasks.making import atomic
from windlass.api.engine import run_sync
from windlass.messages import Message
from windlass.providers.scripted import Scripted
from windlass.wire.base import Request


def asks(request: Request) -> Message | str:
    """A reply that asks which city, then says what was answered."""
    last = request.messages[-1]
    if last.role == "tool":
        return f"It is {last.text}."
    if "Do a." in last.text:
        return calls(call("ask_human", json.dumps(WHICH)))
    return "ok"


@pytest.fixture
def asking(windlass: CommandLine) -> CommandLine:
    windlass.script = asks
    windlass.write("c.json", ASKS)
    inside = "<tools><tool>ask_human</tool></tools>"
    windlass.write("t.xml", atomic("a", inside, "Do a."))
    return windlass


RUN = ("run", "c.json", "-m", "local/m")


def test_a_run_without_an_answer_waits_and_says_how_to_give_one(asking: CommandLine) -> None:
    said = asking(*RUN, "--session", "s1")
    assert said.code == 3
    assert "the run is waiting: phase 'a' asks: Which city? (Bern, Basel)" in said.complaint
    assert "windlass run c.json --resume s1 --answer TEXT" in said.complaint
    assert asking("sessions", "--json").json[0]["status"] == "waiting"
    assert "Which city?" in asking("show", "s1").out
    said = asking("run", "--resume", "s1")
    assert (said.code, "windlass run --resume s1 --answer TEXT" in said.complaint) == (3, True)
    assert len(asking.requests) == 1
    said = asking("run", "--resume", "s1", "--answer", "Bern", "--json")
    assert (said.code, said.json["outputs"]) == (0, {"a": "It is Bern.", "b": "ok"})
    assert len(asking.requests) == 3
    said = asking("evaluate", "t.xml", "-m", "local/m", "--session", "t1")
    assert said.code == 3
    assert "windlass evaluate t.xml --resume t1 --answer TEXT" in said.complaint
    said = asking("evaluate", "--resume", "t1", "-m", "local/m", "--answer", "Bern", "--json")
    assert (said.code, said.json["output"]) == (0, "It is Bern.")


@pytest.mark.parametrize(
    "text",
    [
        '"Bern"\n',
        '["Bern"]',
        '{"Which city?": "Bern"}',
        '{"question": "Which city?", "answer": 1}\n',
    ],
)
def test_answers_come_from_a_file(asking: CommandLine, text: str) -> None:
    asking.write("answers.jsonl", text)
    said = asking(*RUN, "--answers", "answers.jsonl", "--json")
    assert (said.code, said.json["outputs"]["a"]) == (0, "It is Bern.")


def test_or_from_the_flag(asking: CommandLine) -> None:
    said = asking(*RUN, "--answer", "bern", "--json")
    assert (said.code, said.json["outputs"]["a"]) == (0, "It is Bern.")
    said = asking(*RUN, "--answer", "Paris")
    assert said.code == 3
    assert "'Paris' to 'Which city?' is none of its options" in said.complaint


@pytest.mark.parametrize("text", ["Bern", '"Bern"\n{', "[null]", '{"a": [1]}', None])
def test_a_file_that_holds_no_answers_is_one_sentence(
    asking: CommandLine, text: str | None
) -> None:
    if text is not None:
        asking.write("answers.jsonl", text)
    said = asking(*RUN, "--answers", "answers.jsonl")
    assert said.code == 2
    assert "answer" in said.complaint
    assert not asking.requests


MAIN = """
from tests.cli.test_asking import asks
from windlass.cli import main
import windlass_local as local
from windlass.providers.scripted import Scripted

local.LocalProvider = lambda: Scripted(asks)
main()
"""


def test_at_a_terminal_the_person_is_asked(tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text(json.dumps(ASKS))
    ours, theirs = pty.openpty()
    run = subprocess.Popen(
        [sys.executable, "-c", MAIN, *RUN],
        cwd=tmp_path,
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=theirs,
        env={
            **os.environ,
            "TERM": "xterm",
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "WINDLASS_STORE": str(tmp_path / "store"),
        },
    )
    os.close(theirs)
    drawn = read_terminal(ours, "> ")
    assert "a asks: Which city?" in drawn
    assert "1 Bern" in drawn
    os.write(ours, b"Paris\n")
    assert "is none of its options" in read_terminal(ours, "> ")
    os.write(ours, b"2\n")
    read_terminal(ours)
    out, _ = run.communicate(timeout=60)
    assert run.returncode == 0
    assert b"ok" in out
    os.close(ours)


def test_a_tool_that_may_have_run_makes_a_resumed_run_wait(windlass: CommandLine) -> None:
    def notes(request: Request) -> Message | str:
        last = request.messages[-1]
        return "done" if last.role == "tool" else calls(call("note_down", '{"text": "x"}'))

    windlass.script = notes
    own = """
        import asyncio
        from pathlib import Path


        def note_down(text: str) -> str:
            \"\"\"Note.

            Args:
                text: What.
            \"\"\"
            with Path("noted").open("a") as file:
                file.write(text)
            if not Path("on").exists():
                raise asyncio.CancelledError
            return "noted"
    """
    windlass.write("own_notes.py", textwrap.dedent(own))
    whole = cascade(phase("a", tackle=["note_down"])) | {"tools": ["own_notes:note_down"]}
    windlass.write("c.json", whole)
    with pytest.raises(asyncio.CancelledError):
        run_sync(
            "c.json", model="scripted/m", providers={"scripted": Scripted(notes)}, session_id="s1"
        )
    Path("on").touch()
    said = windlass("run", "c.json", "--resume", "s1", "-m", "local/m")
    assert said.code == 3
    assert "the run is waiting: " in said.complaint
    assert "note_down may have run when the session was broken off" in said.complaint
    assert "windlass run c.json --resume s1 --again note_down" in said.complaint
    assert Path("noted").read_text() == "x"
    said = windlass(
        "run", "c.json", "--resume", "s1", "-m", "local/m", "--again", "note_down", "--json"
    )
    assert (said.code, said.json["output"]) == (0, "done")
    assert Path("noted").read_text() == "xx"


@pytest.mark.parametrize(
    ("given", "second"),
    [
        (["--answers", "all.json"], "B"),
        (["--answers", "rest.json"], "B"),
        (["--answer", "A"], "A"),
        (["--answer", "B"], "B"),
    ],
)
@pytest.mark.parametrize("door", ["run", "evaluate"])
def test_answers_in_order_are_spent_one_for_each_question(
    windlass: CommandLine, given: list[str], second: str, door: str
) -> None:
    for name, answers in (("first", ["A"]), ("all", ["A", "B"]), ("rest", ["B"])):
        windlass.write(f"{name}.json", json.dumps(answers))
    file = "c.json" if door == "run" else "t.xml"
    windlass.write("c.json", cascade(phase("a", tackle=["ask_human"])))
    windlass.write("t.xml", atomic("a", "<tools><tool>ask_human</tool></tools>"))
    asked = [calls(call("ask_human", json.dumps({"question": q}))) for q in ("Q1?", "Q2?")]

    def script(request: Request) -> Any:
        told = [message.text for message in request.messages if message.role == "tool"]
        return [*asked, f"told {' and '.join(told)}"][len(told)]

    windlass.script = script
    said = windlass(door, file, "-m", "local/m", "--session", "s1", "--answers", "first.json")
    assert (said.code, "Q2?" in said.complaint) == (3, True)
    said = windlass(door, "--resume", "s1", "-m", "local/m", *given, "--output-only")
    assert (said.code, said.out) == (0, f"told A and {second}\n")


def test_several_answers_to_one_question_are_taken_in_order(windlass: CommandLine) -> None:
    windlass.write("c.json", cascade(phase("a", tackle=["ask_human"])))
    listed = [{"question": "More?", "answer": each} for each in ("yes", "no")]
    windlass.write("answers.json", json.dumps(listed))

    def script(request: Request) -> Any:
        told = [message.text for message in request.messages if message.role == "tool"]
        more = calls(call("ask_human", json.dumps({"question": "More?"})))
        return f"told {', '.join(told)}" if len(told) == 3 else more

    windlass.script = script
    said = windlass("run", "c.json", "-m", "local/m", "--answers", "answers.json", "--output-only")
    assert said.out == "told yes, no, no\n"
