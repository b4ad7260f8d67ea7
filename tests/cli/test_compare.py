"""`windlass compare`: what it prints, how it ends, and the line that goes on."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from bench.compared_pair import CASCADE, MASKED, rows, script

from tests.cli.conftest import CommandLine, Said
from tests.engine.harness import cascade, phase
from tests.support.engine_budget import SMALL, Priced

TOOLS = """
from bench.compared_pair import log, note, right
"""


@pytest.fixture
def pair(windlass: CommandLine) -> CommandLine:
    """A cascade whose answers need what `masked.json` hides, and inputs."""
    windlass.write("pair_tools.py", TOOLS)
    of = {**CASCADE, "tools": ["pair_tools:log", "pair_tools:note"]}
    windlass.write("pair.json", of)
    windlass.write("masked.json", {"auto_context": MASKED})
    windlass.write("in.jsonl", "\n".join(map(json.dumps, rows(8, 6))))
    windlass.script = script
    return windlass


def compare(line: CommandLine, *more: str) -> Said:
    policies = ("--policy", "everything", "--policy", "masked.json")
    return line("compare", "pair.json", "in.jsonl", *policies, "--out", "c.jsonl", *more)


def test_success_stands_beside_cost(pair: CommandLine) -> None:
    said = compare(pair, "--judge", "pair_tools:right")
    assert said.code == 0, said.err
    cells = [line.split() for line in said.out.splitlines()]
    full, masked = (
        next(row for row in cells if row[:1] == [name]) for name in ("everything", "masked.json")
    )
    assert full[1:3] == ["8", "100%"]
    assert masked[1:3] == ["8", "25%"]
    beside = [row for row in cells if row[:1] == ["masked.json"]][1]
    assert beside[1:5] == ["8", "0", "6", "-75%"]
    assert "0.0312" in beside  # 2 * 0.5 ** 6
    assert beside[-1] == "worse"
    assert said.out.endswith("judge: pair_tools:right; cost of all runs: $0; results: c.jsonl\n")


def test_too_few_are_told_and_how_many_would_do(pair: CommandLine) -> None:
    pair.write("in.jsonl", "\n".join(map(json.dumps, rows(4, 2))))
    said = compare(pair, "--judge", "pair_tools:right")
    assert said.code == 0
    assert "masked.json: too few to tell with 4 inputs; " in said.out
    told = said.out.partition("4 inputs; ")[2].partition(" would do")[0]
    data = compare(pair, "--judge", "pair_tools:right", "--resume", "--json").json
    (difference,) = data["differences"]
    assert difference["inputs_needed"] == int(told)
    assert difference["verdict"] == "too few to tell"
    assert [each["successes"] for each in data["policies"]] == [4, 2]


def test_what_is_left_is_run_by_the_line_it_gives(pair: CommandLine) -> None:
    said = compare(pair, "--judge", "pair_tools:right", "--max-runs", "5", "--workers", "1")
    assert said.code == 3
    assert "of 16 runs 11 are to be run (--max-runs were started); run the 11 that are left:" in (
        said.complaint
    )
    again = shlex.split(said.complaint.partition(": windlass compare ")[2])
    again[again.index("--max-runs") + 1] = "100"
    said = pair("compare", *again)
    assert said.code == 0
    assert "16 rows, 5 of them answered before" in said.err


def test_a_limit_of_money_gives_the_line_that_allows_as_much_again(windlass: CommandLine) -> None:
    windlass.write("windlass.toml", '[prices."local/m"]\ninput = 1000.0\noutput = 10000.0\n')
    windlass.write(
        "ask.json", cascade(phase("a", instructions="Say {{ input.n }}."), max_output_tokens=1)
    )
    windlass.write("in.csv", "n\n1\n2\n3\n")
    model = Priced(lambda _: "x", SMALL, "local/m")
    windlass.patch.setattr("windlass_local.LocalProvider", lambda: model)
    words = ["compare", "ask.json", "in.csv", "--policy", "everything", "--policy", "lean"]
    said = windlass(
        *words, "--out", "c.jsonl", "--max-cost", "0.9", "--workers", "1", "-m", "local/m"
    )
    assert said.code == 3
    assert "2 are to be run (the next run could have cost more" in said.complaint
    said = windlass("compare", *shlex.split(said.complaint.partition(": windlass compare ")[2]))
    assert said.code == 0
    assert "$0.2000" in said.out


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["--policy", "leen"], "there is no policy 'leen': did you mean 'lean'"),
        (["--judge", "nobody"], "there is no judge 'nobody'"),
        (["--policy", "in.jsonl"], "there is no policy 'in.jsonl'"),
        (["--policy", "everything"], "each of them once"),
    ],
)
def test_a_mistake_is_one_sentence(pair: CommandLine, more: list[str], told: str) -> None:
    said = compare(pair, *more)
    assert said.code == 2
    assert told in said.complaint
    assert not Path("c.jsonl").exists()


def test_one_policy_is_none_to_compare(pair: CommandLine) -> None:
    said = pair("compare", "pair.json", "in.jsonl", "--out", "c.jsonl", "--policy", "everything")
    assert (said.code, "at least two policies" in said.complaint) == (2, True)
