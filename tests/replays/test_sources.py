"""Sessions of a store as conversations to replay."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import windlass
from tests.replays.making import session_file
from windlass.providers.scripted import Scripted
from windlass.replays.outcomes import RecordingReplay


def replayed(tmp_path: Path, *phases: dict[str, Any], **keys: Any) -> list[RecordingReplay]:
    cascade = {"cascade_id": "c", "model": "scripted/m", "phases": list(phases), **keys}
    said = iter(f"reply {number} " + "word " * 500 for number in range(20))
    ran = windlass.run_sync(
        cascade,
        {},
        providers={"scripted": Scripted(lambda _: next(said))},
        store=tmp_path,
        session_id="s1",
    )
    assert ran.status == "completed"
    return list(windlass.replay("s1", ["everything"], ["none"], store=tmp_path).recordings)


def phase(name: str, **keys: Any) -> dict[str, Any]:
    return {"name": name, "instructions": f"Do {name}.", **keys}


def tokens(recording: RecordingReplay) -> list[int]:
    return [round(call.tokens) for call in recording.outlays[0].calls]


def test_a_snowball_is_one_conversation(tmp_path: Path) -> None:
    (one,) = replayed(tmp_path, phase("a"), phase("b"), phase("c"), system="Be brief.")
    assert one.call_count == 3
    assert tokens(one) == sorted(tokens(one))
    assert tokens(one)[2] > 1_000


def test_a_phase_with_a_context_of_its_own_is_a_conversation_of_its_own(tmp_path: Path) -> None:
    phases = phase("a"), phase("b"), phase("c", context={"from": ["a"]})
    first, second = replayed(tmp_path, *phases, system="Be brief.")
    assert [first.call_count, second.call_count] == [2, 1]
    assert tokens(second)[0] < tokens(first)[1] + 20


def test_soundings_are_conversations_of_their_own(tmp_path: Path) -> None:
    sounded = phase("b", soundings={"factor": 3, "evaluator_instructions": "Take the best."})
    found = replayed(tmp_path, phase("a"), sounded)
    assert sum(one.call_count for one in found) == 4
    assert len(found) == 4


def test_sessions_under_it_are_replayed_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    inner = tmp_path / "inner.json"
    inner.write_text(json.dumps({"cascade_id": "inner", "phases": [phase("x")]}))
    found = replayed(tmp_path, phase("a", sub_cascades=[{"ref": str(inner)}]))
    assert [one.call_count for one in found] == [1, 1]


@pytest.mark.parametrize("policies", [["everything"], ["default"]])
def test_an_imported_session_is_replayed_as_its_file(tmp_path: Path, policies: list[str]) -> None:
    file = session_file(tmp_path / "s.jsonl")
    imported = windlass.import_sessions(file, store=tmp_path / "store")
    name = imported.sessions[0].session_id
    (of_file,) = windlass.replay(file, policies).totals
    (of_store,) = windlass.replay(name, policies, store=tmp_path / "store").totals
    assert of_store.dollars == pytest.approx(of_file.dollars)
    assert of_store.tokens == pytest.approx(of_file.tokens)


def test_results_told_as_words_of_the_user_are_needed_too(tmp_path: Path) -> None:
    (tmp_path / "run.traj.json").write_text(json.dumps(trajectory()))
    (recording,) = windlass.replay(tmp_path / "run.traj.json", ["everything"]).recordings
    (outlay,) = recording.outlays
    # The task names no file; the second command takes one out of the first one's result.
    assert (outlay.values_seen, outlay.values) == (1, 1)
    assert (recording.results, recording.results_as_words) == (2, True)
    windlass.import_sessions(tmp_path / "run.traj.json", store=tmp_path / "store")
    (stored,) = windlass.replay("latest", ["everything"], store=tmp_path / "store").recordings
    # What was said after the last call is in no request of it.
    assert (stored.outlays[0].values, stored.results) == (1, 1)


def trajectory() -> dict[str, Any]:
    """A run of mini-SWE-agent with two commands."""
    said = [
        ("system", "You answer with one command."),
        ("user", "Find the slow module and print it."),
        ("assistant", "I list.\n```bash\nls\n```"),
        ("user", "<returncode>0</returncode>\n<output>\nsrc/slow_one.py\nREADME\n</output>"),
        ("assistant", "I print it.\n```bash\ncat src/slow_one.py\n```"),
        ("user", "<returncode>0</returncode>\n<output>\npass\n</output>"),
    ]
    return {
        "trajectory_format": "mini-swe-agent-1.1",
        "info": {"config": {"model": {"model_name": "openai/gpt-5"}}},
        "messages": [{"role": role, "content": content} for role, content in said],
    }
