"""On a narrow terminal tables stay tables, and no id, hash or number is broken."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import CommandLine
from tests.engine.harness import by_phase, call, calls, cascade, phase
from tests.support.cli_terminal import COMMANDS, WAYS
from tests.tasks.making import atomic
from windlass.cli.output import out
from windlass.engine.cards import card_queue

QUERIES = (
    ("SELECT session_id, content_hash, trace_id, parent_id FROM unified_logs",),
    ("SELECT session_id, node_type, content_hash, content_json FROM unified_logs",),
)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the folder is kept when it has been made once."""
    return tmp_path_factory.mktemp("kept")


@pytest.fixture
def named(windlass: CommandLine, kept: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """A folder with a session whose name Windlass made, with what the commands are tried on."""
    monkeypatch.setattr(card_queue, "DRAIN_S", 60.0)
    if not any(kept.iterdir()):
        run_once(windlass)
        shutil.copytree(windlass.folder, kept, dirs_exist_ok=True)
    else:
        shutil.copytree(kept, windlass.folder, dirs_exist_ok=True)
    return windlass


def run_once(windlass: CommandLine) -> None:
    windlass.write(
        "bad.json",
        cascade(
            phase("gathering_what_there_is", tackle=["set_state", "remember"], memory="notes"),
            phase("b", callouts={"k": "mine"}, context={"from": ["gathering_what_there_is"]}),
            cascade_id="a_cascade_with_a_long_name",
            auto_context=True,
        ),
    )
    windlass.write("bad.xml", atomic("a"))
    (windlass.folder / "texts").mkdir()
    (windlass.folder / "texts" / "a.txt").write_text("deploy")
    remember = json.dumps({"text": "deploy", "bank": "notes", "key": "k"})
    asked = calls(call("set_state", '{"key": "k", "value": "v"}'), call("remember", remember))
    windlass.script = by_phase({"gathering_what_there_is": [asked, "done " * 300]})  # type: ignore[assignment]
    assert windlass("run", "bad.json").code == 0


def ids_in(value: Any) -> set[str]:
    """Every id and hash that a command answers as JSON."""
    if isinstance(value, list):
        return {each for item in value for each in ids_in(item)}
    if isinstance(value, dict):
        own = {
            item
            for key, item in value.items()
            if isinstance(item, str) and key.endswith(("_id", "hash", "id"))
        }
        return {*own, *(each for item in value.values() for each in ids_in(item))}
    return set()


@pytest.mark.parametrize("columns", [80, 40])
@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_ids_stand_on_one_line(
    named: CommandLine, path: tuple[str, ...], columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    (session,) = named("sessions", "--json").json
    rows = named("query", "SELECT * FROM unified_logs", "--json").json
    ids = {each for each in ids_in(rows) if len(each) >= 16}
    ids |= ids_in(named("show", "latest", "--json").json)
    assert session["session_id"] in ids
    monkeypatch.setattr(out, "_width", columns)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    for way in (*WAYS[path][:3], *(QUERIES if path == ("query",) else ())):
        said = named(
            *path, *({"S": session["session_id"], "K": "k"}.get(each, each) for each in way)
        )
        for word in (said.out + said.err).split():
            # A beginning is as good as the whole: commands take it.
            parts = [each for each in ids if word in each and not each.startswith(word)]
            broken = 6 <= len(word) < 80 and word not in ids and len(word) not in (8, 16)
            assert not (broken and parts and any(char.isdigit() for char in word)), said.out


def test_a_table_without_room_leaves_out_what_matters_least(
    named: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("20260101-101010-aaaaaa", "20260101-101010-bbbbbb"):
        assert named("run", "bad.json", "--session", name).code == 0
    for columns in (80, 60, 40):
        monkeypatch.setattr(out, "_width", columns)
        said = named("sessions")
        lines = said.out.partition("\n\n")[0].splitlines()
        assert max(len(line.rstrip()) for line in lines if "no room for" not in line) <= columns
        assert len(lines) <= 1 + 3 * 3 + 1, "a row is no list of lines"
        short = [line.split()[0] for line in lines[1:] if line.strip()]
        assert "20260101-101010-a" in short
        assert "20260101-101010-b" in short
        assert named("show", "20260101-101010-a").code == 0
        assert "(--json has all)" in said.out
    monkeypatch.setattr(out, "_width", 80)
    printed = named("query", "SELECT * FROM unified_logs LIMIT 2").out
    assert printed.startswith("session_id")
    assert "no room for: " in printed
    assert printed.endswith("2 rows\n")
    monkeypatch.setattr(out, "_width", 200)  # that of a pipe, which loses nothing
    rows = named("query", "SELECT * FROM unified_logs LIMIT 2", "--json").json
    printed = named("query", "SELECT * FROM unified_logs LIMIT 2").out
    assert all(row["trace_id"] in printed for row in rows)
    assert "no room" not in printed
