"""Graphs on the command line: progress, what was chosen, the bound of a loop, warnings."""

from __future__ import annotations

from tests.cli.conftest import CommandLine, Transcript
from tests.engine.harness import by_phase, call, calls, cascade, phase

LOOP = cascade(phase("a", handoffs=["b"]), phase("b", handoffs=["a", "end"]), phase("never"))


def test_what_is_printed_of_a_graph(windlass: CommandLine, transcript: Transcript) -> None:
    windlass.write("c.json", LOOP)
    back = calls(call("route_to", '{"target": "a"}'), text="Once more.")
    windlass.script = by_phase({"b": [back, "end"]})  # type: ignore[assignment]
    transcript("graph", "check c.json", "run c.json --session s", "show s", "explain s 3")


def test_a_loop_ends_at_its_bound_as_incomplete(windlass: CommandLine) -> None:
    windlass.write("c.json", cascade(phase("a", handoffs=["a"])))
    said = windlass("run", "c.json")
    assert said.code == 3
    assert "phase 'a' was to run again, and has run 25 times; the run ends" in said.err
    assert len(windlass.requests) == 25
