"""Pruning a hooked session takes what the hook noted of it, unless its agent goes on with it."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from tests.cli.conftest import CommandLine
from tests.cli.conftest import windlass as command_line
from tests.support.hooks_agent import RecordingAgent, bash, lines

from windlass_agents.hooked_sessions import store_hooked

line = command_line

HOUR = 3_600.0


def hooked(folder: Path, name: str, *, age_s: float, is_stored: bool = True) -> Path:
    """The journal of a session whose agent ended so long ago."""
    agent = RecordingAgent(folder, name)
    agent.run("Bash", {"command": "make"}, bash(lines(f"{name} part")))
    agent.run("Bash", {"command": "make again"}, bash("done"))
    agent.answer([{"type": "text", "text": "Built."}])
    journal = agent.store / "hooks" / "claude-code" / f"{name}.jsonl"
    if is_stored:
        store_hooked(agent.store, "claude-code", name)
    for path in (journal, agent.transcript):
        when = time.time() - age_s
        os.utime(path, (when, when))
    return journal


def stored(line: CommandLine, folder: Path) -> list[str]:
    listed = line("sessions", "--json", "--store", str(folder / ".windlass"))
    return [one["session_id"] for one in listed.json]


def test_pruning_by_name_takes_the_journal_of_that_session(
    line: CommandLine, tmp_path: Path
) -> None:
    first = hooked(tmp_path, "s1", age_s=2 * HOUR)
    (name,) = stored(line, tmp_path)
    second = hooked(tmp_path, "s2", age_s=2 * HOUR)
    store = str(tmp_path / ".windlass")
    would = line("prune", "--session", name, "--dry-run", "--store", store)
    assert "would remove what hooks noted of 1 session\n  s1\n" in would.out
    assert first.exists()
    told = line("prune", "--session", name, "--store", store)
    assert (told.code, "removed what hooks noted of 1 session\n  s1\n" in told.out) == (0, True)
    assert (first.exists(), second.exists()) == (False, True)


def test_pruning_by_age_takes_old_journals_with_their_originals(
    line: CommandLine, tmp_path: Path
) -> None:
    old = hooked(tmp_path, "s1", age_s=90 * HOUR, is_stored=False)
    new = hooked(tmp_path, "s2", age_s=2 * HOUR, is_stored=False)
    originals = tmp_path / ".windlass" / "hooks" / "originals"
    both = {path.name for path in originals.iterdir()}
    hooked(tmp_path, "s3", age_s=90 * HOUR)
    store = str(tmp_path / ".windlass")
    told = line("prune", "--older-than", "3d", "--json", "--store", store).json
    assert sorted(told["journals"]) == ["s1", "s3"]
    assert (old.exists(), new.exists()) == (False, True)
    kept = {path.name for path in originals.iterdir()}
    assert len(both) == 2
    assert len(kept) == 1
    assert kept < both
    named = {json.loads(each).get("original") for each in new.read_text().splitlines()}
    assert kept <= {f"{one}.json" for one in named}


@pytest.mark.parametrize("is_used", ["journal", "transcript"])
def test_a_journal_in_use_stays_and_is_named(
    line: CommandLine, tmp_path: Path, is_used: str
) -> None:
    journal = hooked(tmp_path, "s1", age_s=2 * HOUR)
    os.utime(journal if is_used == "journal" else tmp_path / "projects" / "s1.jsonl")
    (name,) = stored(line, tmp_path)
    told = line("prune", "--session", name, "--store", str(tmp_path / ".windlass"))
    assert "left alone, as they are in use by an agent: s1" in told.out
    assert journal.exists()
