"""The demo as it is started, on a copy: the local model, the store, and the words at the end."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import windlass
from tests.examples.conftest import copy_examples


@pytest.mark.local
@pytest.mark.req("CI-52")
def test_the_demo_runs_with_the_local_model(tmp_path: Path) -> None:
    root = copy_examples(tmp_path)
    shorten(root / "chart_analysis_pipeline.json")
    done = subprocess.run(
        [sys.executable, root / "demo.py"],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = done.stdout
    ((session, number),) = re.findall(r"^  .*windlass show (\S+) --call (\d)$", told, re.MULTILINE)

    store = tmp_path / ".windlass"
    calls = windlass.query_unified("model IS NOT NULL", store=store)
    assert {row["session_id"] for row in calls} == {session}
    phases = [row["phase_name"] for row in calls]
    assert list(dict.fromkeys(phases)) == ["generate_chart", "generate_forecast", "final_report"]
    assert phases.index("final_report") == int(number) - 1
    # The call after a tool's result begins as the one before it, and finds that cached.
    follow_ups = [row for row in calls if row["node_type"] == "follow_up"]
    assert len(follow_ups) >= 3
    assert all(row["tokens_cached"] > row["tokens_in"] / 4 for row in follow_ups)
    results = windlass.query_unified("node_type = 'tool_result'", store=store)
    assert not any(json.loads(row["metadata_json"])["error"] for row in results)

    (chart,) = re.findall(r"^chart +(\S+)$", told, re.MULTILINE)
    assert (tmp_path / chart).read_bytes().startswith(b"\x89PNG")
    report = root / "reports" / "sales_report.md"
    assert report.read_text(encoding="utf-8").strip() in told
    for told_of in ("tokens sent", "reported cached", "sending everything", "claude-sonnet"):
        assert told_of in told


def shorten(file: Path) -> None:
    """Leave out the two phases on which no other depends for more than a sentence."""
    cascade = json.loads(file.read_text(encoding="utf-8"))
    gone = {"validate_chart", "process_inventory"}
    cascade["phases"] = [each for each in cascade["phases"] if each["name"] not in gone]
    sources = cascade["phases"][-1]["context"]["from"]
    sources[:] = [source for source in sources if source["phase"] not in gone]
    file.write_text(json.dumps(cascade), encoding="utf-8")
