"""What somebody who may write a batch's files can make it spend or believe."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import CommandLine, Said, windlass
from tests.engine.harness import cascade, phase

__all__ = ["windlass"]

LONG = "9" * 400
TOO_LONG = "9" * 5_000


@pytest.fixture
def answered(windlass: CommandLine) -> CommandLine:
    """A batch with two rows of which the first is answered, and a price."""
    windlass.write("windlass.toml", '[prices."local/m"]\ninput = 1.0\noutput = 1.0\n')
    windlass.write("ask.json", cascade(phase("a", instructions="Say {{ input.n }}.")))
    windlass.write("in.csv", "n\n1\n2\n")
    said = batch(windlass, "--max-runs", "1")
    assert len(Path("r.jsonl").read_text().splitlines()) == 1, said.err
    return windlass


def batch(line: CommandLine, *more: str) -> Said:
    return line("batch", "ask.json", "in.csv", "--out", "r.jsonl", *more)


def edited(name: str, key: str, written: str) -> None:
    """Write another value, as JSON text, into each line of a file of results."""
    path, lines = Path(name), list[str]()
    for text in path.read_text().splitlines():
        line, keys = json.loads(text), key.split(".")
        held = line
        for each in keys[:-1]:
            held = held[each]
        held[keys[-1]] = "@@"
        lines.append(json.dumps(line).replace('"@@"', written) + "\n")
    path.write_text("".join(lines))


ODD_MONEY = ["-1", "NaN", "Infinity", "1e400", LONG, TOO_LONG, "true", '"1"', "[]", "1e12"]


@pytest.mark.parametrize(
    ("key", "written"),
    [
        *(("cost", each) for each in ODD_MONEY),
        *(("tokens.in", each) for each in ("-1", "1.5", "null", LONG, "true", "[]")),
        *(("tokens", each) for each in ("null", "[]", "{}")),
        *(("row", each) for each in ("[1]", "true", "0", "1.0", LONG, "null")),
        *(("input_hash", each) for each in ("[]", "null", "1")),
        *(("cascade_hash", each) for each in ("{}", "null")),
        *(("status", each) for each in ("[]", '"done"', "null")),
        *(("again", each) for each in ("0", "null", '"no"')),
        *(("session_id", each) for each in ("[]", "1")),
        *(("reason", each) for each in ("[]", "1")),
        *(("error", "{}"), ("output", "[" * 900 + "]" * 900)),
    ],
)
def test_a_line_that_cannot_be_is_named_and_nothing_is_run(
    answered: CommandLine, key: str, written: str
) -> None:
    edited("r.jsonl", key, written)
    before, asked = Path("r.jsonl").read_text(), len(answered.requests)
    said = batch(answered, "--resume", "--max-cost", "0.000001")
    assert said.code == 2
    assert said.complaint.startswith("windlass: r.jsonl:1: this is not the result of a batch (")
    assert len(said.complaint) < 300
    assert Path("r.jsonl").read_text() == before
    assert len(answered.requests) == asked


def test_what_was_spent_counts_against_the_limit(answered: CommandLine) -> None:
    edited("r.jsonl", "cost", "0.5")
    asked = len(answered.requests)
    said = batch(answered, "--resume", "--max-cost", "0.4")
    assert "Traceback" not in said.err
    assert len(answered.requests) == asked


@pytest.mark.parametrize(
    ("key", "written"),
    [
        *(("score", each) for each in ("NaN", "Infinity", LONG, '"1"', "[]")),
        *(("judge_cost", each) for each in ("-1", "NaN", LONG, '"1"')),
        *(("run.cost", each) for each in ("-1", "NaN", LONG, "[]")),
        *(("run.tokens.in", each) for each in ("-1", LONG, "null")),
        *(("run", each) for each in ("null", "[]", "{}")),
        *(("input", each) for each in ("[1]", "{}", "2", "-1")),
        *(("take", each) for each in ("[1]", "7", "null")),
        *(("policy", each) for each in ("[]", '"nobody"')),
    ],
)
def test_a_line_of_a_comparison_that_cannot_be(
    windlass: CommandLine, key: str, written: str
) -> None:
    windlass.write("ask.json", cascade(phase("a", instructions="Say {{ input.n }}.")))
    windlass.write("in.csv", "n\n1\n")
    line = ("compare", "ask.json", "in.csv", "--policy", "everything", "--policy", "default")
    assert windlass(*line, "--out", "r.jsonl").code == 0
    asked = len(windlass.requests)
    edited("r.jsonl", key, written)
    said = windlass(*line, "--out", "r.jsonl", "--resume")
    assert said.code == 2
    assert said.complaint.startswith("windlass: r.jsonl:1: this ")
    assert len(windlass.requests) == asked


@pytest.mark.parametrize(
    "written",
    ["NaN", "-Infinity", "1e400", LONG, TOO_LONG, "[" * 900 + "]" * 900, '{"a":' * 150 + "1"],
)
def test_a_row_of_input_that_cannot_be_is_named_with_its_line(
    windlass: CommandLine, written: str
) -> None:
    windlass.write("ask.json", cascade(phase("a", instructions="Say {{ input.n }}.")))
    closing = "}" * written.count("{")
    windlass.write("in.jsonl", f'{{"n": 1}}\n{{"n": {written}{closing}}}\n')
    said = windlass("batch", "ask.json", "in.jsonl", "--out", "r.jsonl")
    assert said.code == 2
    assert "in.jsonl:2: it is not JSON: " in said.err
    assert "Traceback" not in said.err
    assert windlass.requests == []


@pytest.mark.parametrize("value", ["nan", "-1", "0", "inf", "-inf"])
@pytest.mark.parametrize("flag", ["--max-cost", "--max-seconds", "--budget"])
def test_a_limit_that_is_no_amount_is_refused(windlass: CommandLine, flag: str, value: str) -> None:
    windlass.write("ask.json", cascade(phase("a", instructions="Say {{ input.n }}.")))
    windlass.write("in.csv", "n\n1\n")
    said = batch(windlass, flag, value)
    assert said.code == 2
    assert "above 0" in said.complaint
    assert windlass.requests == []


@pytest.mark.parametrize("value", ["nan", "-1", "inf"])
@pytest.mark.parametrize("flag", ["--fail-over", "--min-recall"])
def test_a_gate_that_could_not_fail_is_refused(
    windlass: CommandLine, flag: str, value: str
) -> None:
    talk = {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}
    windlass.write("talk.json", talk)
    said = windlass("replay", "talk.json", flag, value)
    assert said.code == 2
    assert "must be a number from 0" in said.complaint


@pytest.mark.parametrize("value", ["nan", "-1", "inf", "1e400", LONG, '"1"', "true"])
def test_prices_of_the_user_that_cannot_be(windlass: CommandLine, value: str) -> None:
    windlass.write("windlass.toml", f'[prices."local/m"]\ninput = {value}\noutput = 1.0\n')
    windlass.write("ask.json", cascade(phase("a")))
    said = windlass("run", "ask.json")
    assert said.code == 2
    assert "windlass.toml" in said.complaint
    assert windlass.requests == []


@pytest.mark.parametrize("value", ["nan", "1e400", "-1", LONG, TOO_LONG, "[" * 900 + "]" * 900])
def test_a_policy_with_a_number_that_cannot_be(windlass: CommandLine, value: str) -> None:
    policy: dict[str, Any] = {"auto_context": {"max_window_tokens": "@@"}}
    windlass.write("odd.json", json.dumps(policy).replace('"@@"', value))
    talk = {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}
    windlass.write("talk.json", talk)
    for name in ("odd.json", f"default,max_window_tokens={value}"):
        said = windlass("replay", "talk.json", "--policy", name)
        assert said.code == 2
        assert "Traceback" not in said.err + said.out
