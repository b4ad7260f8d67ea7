"""What a hook would have saved, said before one is installed."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.conftest import CommandLine, windlass
from tests.support.hooks_agent import RecordingAgent, bash, lines

from windlass.importing.streams import recordings
from windlass_agents.trial import left_alone, prove

__all__ = ["windlass"]


@pytest.fixture
def agent(tmp_path: Path) -> RecordingAgent:
    """A session without a hook that would have had much to shorten."""
    agent = RecordingAgent(tmp_path)
    agent.takes = False
    agent.run("Bash", {"command": "make"}, bash(lines("object", 400)))
    for number in range(8):
        agent.run("Bash", {"command": f"ls {number}"}, bash(f"main_{number}.c"))
    return agent


def test_a_hook_that_would_have_paid_says_how_much(
    agent: RecordingAgent, windlass: CommandLine
) -> None:
    said = windlass("hook", "try", str(agent.transcript))
    assert said.code == 0
    verdict, install = said.out.splitlines()[-2:]
    assert verdict.startswith("on this session it would have saved")
    assert install == "install it: windlass agent install claude-code"
    best = windlass("hook", "try", str(agent.transcript), "--json").json["best"][0]
    assert best["tool"] == "Bash"
    assert best["calls"] == 8
    assert best["tokens_after"] < best["tokens_before"]
    assert best["dollars"] > 0


def test_a_hook_that_would_cost_more_says_do_not_install_it(
    tmp_path: Path, windlass: CommandLine
) -> None:
    agent = RecordingAgent(tmp_path)
    agent.takes = False
    words = [
        "alpha",
        "bravo",
        "charlie",
        "delta",
        "echo",
        "foxtrot",
        "golf",
        "hotel",
        "india",
        "juliett",
    ]
    said = [
        " ".join(words[(at * step + step + at // 10 ** (step % 3)) % 10] for step in range(3, 11))
        for at in range(600)
    ]
    agent.run("Bash", {"command": "make"}, bash("\n".join(said)))
    for at in range(40, 560, 20):  # each call quotes a line that a short form leaves out
        agent.run("Edit", {"old_string": said[at]}, {"done": True}, text="done")
    told = windlass("hook", "try", str(agent.transcript))
    *_, missed, verdict = told.out.splitlines()
    assert "26 would have been out of view: 26 results to fetch again" in missed
    assert verdict.endswith("% more: do not install it")


def test_only_what_a_hook_can_replace_is_shortened(tmp_path: Path) -> None:
    agent = RecordingAgent(tmp_path)
    agent.takes = False
    long = lines("object", 400)
    agent.run("Edit", {"file_path": "a.c"}, {"stdout": long}, text=long)
    agent.run("Task", {"prompt": "x"}, {"stdout": long}, text=long)
    agent.run("Bash", {"command": "ls"}, bash("main.c"))
    [recording] = recordings(agent.transcript)
    results = [at for at, one in enumerate(recording.messages) if one.role == "tool"]
    assert left_alone(recording) == frozenset(results[:2])
    found = prove([recording], None, 1, [])
    assert found.best == ()
    assert found.cost.dollars == found.cost.everything_dollars
    assert "it hardly pays" in found.verdict
