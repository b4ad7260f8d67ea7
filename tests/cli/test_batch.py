"""`windlass batch`: what it prints, how it ends, and the line that goes on."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import CommandLine, Said
from tests.cli.terminal import read_terminal
from tests.engine.harness import cascade, phase
from tests.support.engine_budget import SMALL, Priced
from windlass.cli.many_runs import _duration_text
from windlass.wire.base import Request

PRICES = '[prices."local/m"]\ninput = 1000.0\noutput = 10000.0\n'


@pytest.fixture
def rows(windlass: CommandLine) -> CommandLine:
    """A cascade, and five rows of input."""
    windlass.write("ask.json", cascade(phase("a", instructions="Say {{ input.n }}.")))
    windlass.write("in.csv", "n\n" + "".join(f"{n}\n" for n in range(1, 6)))
    windlass.script = lambda request: f"said {_row(request)}"
    return windlass


def _row(request: Request) -> int:
    found = re.search(r"Say (\d+)", request.messages[0].text)
    assert found
    return int(found[1])


def batch(line: CommandLine, *more: str) -> Said:
    return line("batch", "ask.json", "in.csv", "--out", "r.jsonl", *more)


def resuming(said: Said) -> list[str]:
    """The line that goes on, as it is told."""
    _, told, command = said.complaint.partition(": windlass batch ")
    assert told, said.complaint
    return ["batch", *shlex.split(command)]


def test_it_tells_how_far_it_is_and_what_came_of_it(rows: CommandLine) -> None:
    said = batch(rows, "--workers", "2")
    assert said.code == 0
    assert "5 of 5 rows completed, $0, " in said.out
    assert said.out.endswith("results: r.jsonl\n")
    assert "cascade test; models that will see content: local/" in said.err
    first, *_, last = re.findall(r"\d of 5 rows.*", said.err)
    assert re.fullmatch(r"1 of 5 rows, [\d,.]+ a (second|minute), \$0 so far, \d+ \S+ left", first)
    assert re.fullmatch(r"5 of 5 rows, [\d,.]+ a (second|minute), \$0 so far", last)
    lines = [json.loads(line) for line in Path("r.jsonl").read_text().splitlines()]
    assert sorted(line["output"] for line in lines) == [f"said {n}" for n in range(1, 6)]


def test_what_failed_is_named_and_run_again_by_the_line_it_gives(rows: CommandLine) -> None:
    good = rows.script

    def script(request: Request) -> str:
        if _row(request) in (2, 5):
            raise ValueError(f"broke at {_row(request)}")
        return str(good(request))

    rows.script = script
    said = batch(rows, "--workers", "2", "--auto")
    assert said.code == 3
    assert "of 5 rows 2 failed; run the 2 that are left: windlass batch" in said.complaint
    assert "row 2 (in.csv:3) failed: " in said.err
    assert "broke at 2" in said.err
    table = [line.split() for line in said.out.splitlines() if "in.csv:" in line]
    assert [line[:3] for line in table] == [
        ["2", "in.csv:3", "failed"],
        ["5", "in.csv:6", "failed"],
    ]
    rows.script = good
    again = resuming(said)
    assert "--auto" in again
    sent = len(rows.requests)
    said = rows(*again)
    assert (said.code, len(rows.requests) - sent) == (0, 2)
    assert "5 rows, 3 of them answered before" in said.err
    assert "5 of 5 rows completed" in said.out


def test_json_alone(rows: CommandLine) -> None:
    said = batch(rows, "--json", "--max-runs", "3")
    assert said.code == 3
    assert (said.json["completed"], said.json["again"], said.json["reason"]) == (3, 2, "runs")
    assert said.err.count("\n") == 1


def test_a_limit_of_money_gives_the_line_that_allows_as_much_again(rows: CommandLine) -> None:
    rows.write("windlass.toml", PRICES)
    rows.write(
        "ask.json", cascade(phase("a", instructions="Say {{ input.n }}."), max_output_tokens=1)
    )
    model = Priced(lambda _: "x", SMALL, "local/m")
    rows.patch.setattr("windlass_local.LocalProvider", lambda: model)
    said = batch(rows, "-m", "local/m", "--max-cost", "0.5", "--workers", "1")
    assert said.code == 3
    assert "of 5 rows 3 not started (the next run could have cost more than" in said.complaint
    again = resuming(said)
    assert again[again.index("--max-cost") + 1] == "0.9"
    assert rows(*again).code == 3
    said = rows(*resuming(rows(*again)))
    assert said.code == 0
    assert "$1.00" in said.out


def test_a_limit_of_tokens_does_too(rows: CommandLine) -> None:
    said = batch(rows, "--max-tokens", "1", "--workers", "1", "--trust")
    assert said.code == 3
    assert "of 5 rows 4 not started (the next run could have used more than" in said.complaint
    while said.code:
        again = resuming(said)
        assert int(again[again.index("--max-tokens") + 1]) > 1
        assert "--trust" in again
        again[again.index("--max-tokens") + 1] = "1000"
        said = rows(*again)
    assert "5 of 5 rows completed" in said.out


def test_an_interruption_keeps_what_is_answered_and_gives_the_line(rows: CommandLine) -> None:
    good = rows.script

    def script(request: Request) -> str:
        if _row(request) == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return str(good(request))

    rows.script = script
    said = batch(rows, "--workers", "1")
    assert said.code == 130
    rows.script = good
    sent = len(rows.requests)
    again = resuming(said)
    said = rows(*again)
    assert said.code == 0
    assert len(rows.requests) - sent <= 3


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("ask.json", "bad.csv", "--out", "r.jsonl"), "bad.csv:1: column 'n' is missing"),
        (("ask.json", "in.csv", "--out", "old.jsonl"), "old.jsonl: this file exists already"),
        (
            ("ask.json", "in.csv", "--out", "old.jsonl", "--resume"),
            "old.jsonl:1: this is not the result",
        ),
        (("none.json", "in.csv", "--out", "r.jsonl"), "none.json"),
        (("ask.json", "in.csv", "--out", "r.jsonl", "--max-cost", "0"), "max_cost 0.0 must be"),
        (("ask.json", "in.csv", "--out", "r.jsonl", "--budget", "-1"), "budget -1.0 must be"),
    ],
)
def test_a_mistake_is_one_sentence(
    rows: CommandLine, arguments: tuple[str, ...], told: str
) -> None:
    rows.write("bad.csv", "m\n1\n")
    rows.write("old.jsonl", "mine\n")
    said = rows("batch", *arguments)
    assert said.code == 2
    assert told in said.complaint
    assert rows.requests == []
    assert not Path("r.jsonl").exists()
    assert Path("old.jsonl").read_text() == "mine\n"


@pytest.mark.parametrize(
    ("seconds", "told"), [(0.4, "0 s"), (119, "119 s"), (120, "2 min"), (7_200, "2 h")]
)
def test_times_are_for_people(seconds: float, told: str) -> None:
    assert _duration_text(seconds) == told


MAIN = """
from windlass.cli import main
import windlass_local as local
from windlass.providers.scripted import Scripted

async def wait(request):
    import asyncio
    await asyncio.sleep(0.4)
    if "Say 2" in request.messages[0].text:
        raise ValueError("broke at 2")
    return "said"

local.LocalProvider = lambda: Scripted(wait)
main()
"""


def test_at_a_terminal_one_line_says_how_far_it_is(rows: CommandLine) -> None:
    ours, theirs = pty.openpty()
    kept = {name: value for name, value in os.environ.items() if name not in ("CI", "NO_COLOR")}
    command = ["batch", "ask.json", "in.csv", "--out", "r.jsonl", "--workers", "1"]
    running = subprocess.Popen(
        [sys.executable, "-c", MAIN, *command],
        cwd=rows.folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=theirs,
        env={**kept, "TERM": "xterm", "COLUMNS": "100"},
    )
    os.close(theirs)
    drawn = re.sub(r"\x1b\[\d*m", "", read_terminal(ours).replace("\r\n", "\n"))
    assert running.wait(60) == 3
    os.close(ours)
    assert re.search(
        r"\r?[234] of 5 rows \(1 failed\), [\d.]+ a \w+, \$0 so far, \d+ \S+ left", drawn
    )
    left = re.sub(r"[^\n]*\n?\r?(\x1b\[1A)?\x1b\[2K", "", drawn)
    assert len(re.findall(r"of 5 rows", left)) == 2  # the last state, and the sentence at the end
    assert "row 2 (in.csv:3) failed: " in left
