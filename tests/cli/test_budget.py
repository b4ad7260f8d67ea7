"""`--budget`: what the command line says of a run whose money is used up."""

from __future__ import annotations

import json

from tests.cli.conftest import CommandLine
from tests.support import engine_budget as engine
from tests.support.engine_budget import ENDLESS, SMALL, Priced, loops
from tests.tasks.making import atomic

PRICES = engine.PRICES.replace("priced/m", "local/m")


def test_a_run_ends_with_3_and_says_what_was_spent(windlass: CommandLine) -> None:
    windlass.write("windlass.toml", PRICES)
    windlass.write("endless.json", ENDLESS)
    windlass.patch.setattr("windlass_local.LocalProvider", lambda: Priced(loops, SMALL, "local/m"))
    asked = ("run", "endless.json", "-m", "local/m", "--session", "s1", "--budget", "2.50")
    said = windlass(*asked)
    assert said.code == 3
    assert "incomplete (money)" in said.complaint
    assert "of the budget of $2.50 was spent, and the next call could have cost $" in said.complaint
    assert windlass("sessions", "--json").json[0]["reason"] == "money"
    windlass.write("windlass.toml", "")
    said = windlass(*asked[:-4], "--budget", "2.50")
    assert said.code == 2
    assert "no known price" in said.complaint
    assert windlass(*asked[:-4], "--budget", "much").code == 2
    task = windlass.write("t.xml", atomic("a"))
    windlass.write("windlass.toml", PRICES)
    said = windlass("evaluate", task, "-m", "local/m", "--budget", "0.01", "--json")
    assert said.code == 3
    assert json.loads(said.out)["notes"]["budget"]["spent"] == 0


def test_other_limits_say_what_was_used_and_how_to_go_on(windlass: CommandLine) -> None:
    windlass.write("endless.json", ENDLESS)
    windlass.patch.setattr("windlass_local.LocalProvider", lambda: Priced(loops, SMALL, "local/m"))
    asked = ("run", "endless.json", "-m", "local/m", "--session")
    said = windlass(*asked, "s1", "--max-turns", "2")
    assert said.code == 3
    assert "incomplete (turns): 2 of 2 turns were made: the next call" in said.complaint
    assert "go on from there: windlass run endless.json --resume s1" in said.complaint
    said = windlass(*asked, "s2", "--max-tokens", "1000")
    assert (said.code, "incomplete (tokens)" in said.complaint) == (3, True)
    said = windlass(*asked, "s3", "--max-seconds", "0.0001", "--json")
    assert said.code == 3
    assert json.loads(said.out)["notes"]["budget"]["reason"] == "time"
    said = windlass(*asked, "s4", "--max-turns", "0")
    assert said.code == 2
    assert said.complaint.count("\n") <= 1
    assert "max_turns 0 must be a number above 0" in said.complaint
    task = windlass.write("t.xml", atomic("a"))
    said = windlass("evaluate", task, "-m", "local/m", "--max-tokens", "3", "--session", "s5")
    assert said.code == 3
    assert "windlass evaluate t.xml --resume s5" in said.complaint
