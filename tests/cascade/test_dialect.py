"""Keys that other runners read in another sense are named, with file and line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import windlass
from tests.engine.harness import cascade, phase
from windlass.cli.app import app
from windlass.engine.events import Event, Noted
from windlass.engine.result import Result
from windlass.providers.scripted import Scripted

ODD = [
    ({"name": "a", "instructions": "@ann: what did you mean?"}, "the name of a file"),
    (phase("a", callouts={"output": "Note", "messages_filter": "all"}), "there is no 'messages'"),
    (phase("a", memory="b", tackle=["search_memory"]), "nothing is put into the bank 'b'"),
    (phase("a", memory="b", injectors={"todo": False}), "nothing is put into the bank 'b'"),
]
FINE = [
    phase("a", callouts={"output": "^OUTPUT:", "messages": r"\bdone\b"}),
    phase("a", callouts={"decision": "Final report"}),
    phase("a", callouts={"output": "^O:", "decision": "Final report"}),
    {"name": "a", "instructions": "Ask @ann."},
    phase("a", memory="b", tackle=["remember"]),
    phase("a", memory="b", tackle="manifest"),
    phase("a", memory="b"),
    phase("a", memory={"read": ["b"]}, tackle=["search_memory"]),
    phase("a", memory=["b"]),
    phase("a", tackle=["read_file"], rules={"max_turns": 1}),
    phase("a", tackle=["read_file"], rules={"max_turns": 2}),
]


def write(folder: Path, *phases: Any, **keys: Any) -> Path:
    file = folder / "c.json"
    file.write_text(json.dumps(cascade(*phases, **keys), indent=1))
    return file


def checked(file: Path, *flags: str) -> tuple[int, str]:
    told = CliRunner().invoke(app, ["check", str(file), *flags])
    return told.exit_code, " ".join(told.output.split()) if told.exit_code == 0 else str(
        told.exception
    )


async def run(file: Path, store: Path) -> tuple[list[str], Result]:
    events: list[Event] = []
    result = await windlass.run(
        file,
        {},
        model="scripted/x",
        store=store,
        root=file.parent,
        providers={"scripted": Scripted(lambda _: "ok")},
        on_event=events.append,
    )
    return [one.text for one in events if isinstance(one, Noted)], result


@pytest.mark.parametrize(("made", "told"), ODD)
async def test_what_may_be_meant_so_runs_and_is_told(tmp_path: Path, made: Any, told: str) -> None:
    file = write(tmp_path, made)
    notes, result = await run(file, tmp_path / "store")
    assert result.status == "completed"
    (note,) = [one for one in notes if one.startswith("warning: ")]
    assert told in note
    assert note.startswith(f"warning: {file}:")
    code, said = checked(file)
    assert code == 0
    assert told in said
    code, said = checked(file, "--strict")
    assert code != 0
    code, said = checked(file, "--json")
    (warning,) = json.loads(said)["warnings"]
    assert told in f"{warning['file']}:{warning['line']}: {warning['message']}"


@pytest.mark.parametrize("made", FINE)
async def test_what_is_plainly_ours_is_told_nothing(tmp_path: Path, made: Any) -> None:
    file = write(tmp_path, made)
    notes, result = await run(file, tmp_path / "store")
    assert result.error is None
    assert not [one for one in notes if "warning" in one]


def test_warnings_of_a_run_leave_json_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = write(tmp_path, ODD[0][0])
    flags = ["--dry-run", "--model", "openai/gpt-5", "--json"]
    told = CliRunner().invoke(app, ["run", str(file), *flags])
    assert json.loads(told.stdout)["phase"] == "a"
    assert "the name of a file" in told.stderr
