"""Graphs on the command line: progress, what was chosen, the bound of a loop, warnings."""

from __future__ import annotations

from tests.cli.conftest import CommandLine
from tests.engine.harness import by_phase, call, calls, cascade, phase

LOOP = cascade(phase("a", handoffs=["b"]), phase("b", handoffs=["a", "end"]), phase("never"))


def test_a_run_tells_where_it_goes_on(windlass: CommandLine) -> None:
    windlass.write("c.json", LOOP)
    back = calls(call("route_to", '{"target": "a"}'), text="Once more.")
    windlass.script = by_phase({"b": [back, "end"]})  # type: ignore[assignment]
    said = windlass("run", "c.json", "--session", "s")
    assert said.code == 0, said.err
    started = [line.split("  ")[0] for line in said.err.splitlines() if line.startswith("[")]
    assert started == ["[1] a", "[2] b", "[3] a", "[4] b"]
    assert "note: phase 'b' goes on with 'a': its model chose it" in said.err
    shown = windlass("show", "s").out
    assert "decision: b: phase 'b' goes on with 'a': its model chose it" in shown
    assert "decision: a: phase 'a' runs again: visit 2" in shown
    assert "note: phase 'b' goes on with 'a'" in windlass("explain", "s", "3").out


def test_a_loop_ends_at_its_bound_as_incomplete(windlass: CommandLine) -> None:
    windlass.write("c.json", cascade(phase("a", handoffs=["a"])))
    said = windlass("run", "c.json")
    assert said.code == 3
    assert "phase 'a' was to run again, and has run 25 times; the run ends" in said.err
    assert len(windlass.requests) == 25


def test_check_warns_of_what_never_runs(windlass: CommandLine) -> None:
    windlass.write("c.json", LOOP)
    said = windlass("check", "c.json")
    assert said.code == 0
    assert (
        "warning: c.json:19: phases[2]: no way leads to phase 'never' by 'handoffs', so it never"
        " runs"
    ) in said.out
