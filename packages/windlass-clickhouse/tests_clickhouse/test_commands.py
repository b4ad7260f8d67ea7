"""The command line on a store in ClickHouse: run, look, prove, prune, migrate."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.conftest import CommandLine

from tests_clickhouse.server import PASSWORD, USER

CASCADE = {
    "cascade_id": "two",
    "phases": [
        {"name": "look", "instructions": "Look."},
        {"name": "write", "instructions": "Write.", "context": {"from": ["look"]}},
    ],
}


@pytest.fixture(params=["server", "in process"])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of an empty store."""
    if request.param == "server":
        port = request.getfixturevalue("port")
        database = request.getfixturevalue("database")
        monkeypatch.setenv("WINDLASS_CLICKHOUSE_PASSWORD", PASSWORD)
        files = f"blobs={tmp_path / 'shared'}&files={tmp_path / 'seen'}"
        return f"clickhouse://{USER}@127.0.0.1:{port}/{database}?{files}"
    engine = Path(request.getfixturevalue("engine"))
    return f"chdb://{engine.parent}?database=cli{tmp_path.name}&files={tmp_path / 'seen'}"


@pytest.fixture
def cascade(tmp_path: Path) -> str:
    path = tmp_path / "two.json"
    path.write_text(json.dumps(CASCADE))
    return str(path)


def test_a_run_is_kept_shown_proven_moved_and_pruned(
    windlass: CommandLine,
    store: str,
    cascade: str,
    tmp_path: Path,
) -> None:
    assert windlass("run", cascade, "--store", store, "--session", "one").code == 0
    assert windlass("run", cascade, "--store", store, "--session", "two").code == 0
    listed = windlass("sessions", "--store", store, "--json").json
    assert [one["session_id"] for one in listed] == ["two", "one"]
    assert windlass("show", "one", "--store", store, "--call", "2", "--json").code == 0
    assert "Look." in windlass("show", "one", "--store", store, "--call", "1").out
    assert windlass("explain", "one", "1", "--store", store).code == 0
    assert windlass("report", "one", "--store", store, "--json").json["total"]["calls"] == 2
    ranked = windlass("report", "--store", store, "--json").json
    assert (ranked["total"]["sessions"], ranked["total"]["calls"]) == (2, 4)
    assert {each["name"] for each in ranked["sessions"]} == {"one", "two"}
    sql = "SELECT phase_name, tokens_in FROM unified_logs WHERE node_type = 'agent'"
    assert len(windlass("query", sql, "--store", store, "--json").json) == 4
    assert windlass("verify", "--store", store).code == 0
    kept = str(tmp_path / "kept")
    moved = windlass("migrate", store, kept)
    assert "2 sessions" in moved.out
    assert "counts and hashes agree" in moved.out
    assert "(0 of them new there)" in windlass("migrate", store, kept).out
    assert windlass("verify", "--store", kept).code == 0
    assert "removed 1 session, " in windlass("prune", "--session", "two", "--store", store).out
    listed = windlass("sessions", "--store", store, "--json").json
    assert [one["session_id"] for one in listed] == ["one"]
    back = windlass("migrate", kept, store, "--json").json
    assert [one["new_rows"] > 0 for one in back] == [False, True]
    assert windlass("verify", "--store", store).code == 0


def test_wrong_stores_are_one_sentence(
    windlass: CommandLine,
    port: int,
    database: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place = f"127.0.0.1:{port}/{database}?blobs=b"
    monkeypatch.setenv("WINDLASS_CLICKHOUSE_PASSWORD", "wr0ng")
    said = windlass("sessions", "--store", f"clickhouse://{USER}@{place}")
    assert said.code == 2
    assert "refuses the user 'windlass'" in said.complaint
    assert "wr0ng" not in said.err
    monkeypatch.setenv("WINDLASS_CLICKHOUSE_PASSWORD", PASSWORD)
    said = windlass("sessions", "--store", f"clickhouse://{USER}@{place}")
    assert said.code == 2
    assert "run a cascade first" in said.complaint
    said = windlass("verify", "--store", f"clickhouse://{USER}@127.0.0.1:1/x?blobs=b")
    assert said.code == 1
    assert "no ClickHouse answers" in said.complaint
