"""A reduce on a Ray cluster of one machine: what it does here, in the same order."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import windlass
from windlass.engine.result import Result
from windlass.errors import InputFailed
from windlass.history.sqlite import SqliteStore
from windlass.messages import ToolCall, assistant
from windlass.providers.scripted import Scripted
from windlass.wire.base import Request

TASK = """<task type="reduce" parallel="3">
  <description>Sum up</description>
  <inputs><file split="lines">rows.txt</file></inputs>
  <inner_task>
    <description>Say what {{ input.item }} is, number {{ input.index }}.</description>
    <tools><tool>set_state</tool></tools>
  </inner_task>
  <reduction_task><description>Put them together.</description></reduction_task>
</task>"""


def item(request: Request) -> str:
    found = re.search(r"Say what (\S+) is", "\n".join(m.text for m in request.messages))
    return found[1] if found else ""


def script(request: Request) -> Any:
    """Calls a tool once, then answers; the later an input stands, the sooner it is ready."""
    said = item(request)
    if not said:
        return "\n".join(message.text for message in request.messages)
    if said == "bad":
        raise ValueError("no more")
    if request.messages[-1].role == "user":
        return assistant(
            "", calls=[ToolCall("c", "set_state", f'{{"key": "k", "value": "{said}"}}')]
        )
    time.sleep({"a": 0.3, "b": 0.1}.get(said, 0.0))
    return f"got {said} in {os.getpid():010}"  # as long in each process


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    import ray
    from ray import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers have no tests
    monkeypatch.chdir(tmp_path)
    (tmp_path / "task.xml").write_text(TASK)
    yield tmp_path
    ray.shutdown()


def run(folder: Path, rows: str, engine: str, **options: Any) -> Result:
    (folder / "rows.txt").write_text("\n".join(rows.split()))
    options |= {"engine": engine, "model": "scripted/x", "store": folder / "store", "root": folder}
    options["providers"] = {"scripted": Scripted(script)}
    if "resume" in options:
        return windlass.resume_task_sync(options.pop("resume"), **options)
    return windlass.evaluate_sync(folder / "task.xml", **options)


def without_processes(text: str) -> str:
    return re.sub(r" in \d+", "", text)


def test_results_are_those_of_one_process_in_the_same_order(folder: Path) -> None:
    here = run(folder, "a b c d e", "local")
    there = run(folder, "a b c d e", "ray")
    assert here.error is None
    assert there.error is None
    assert without_processes(there.output or "") == without_processes(here.output or "")
    assert re.findall(r"got (\w)", there.output or "") == list("abcde")
    workers = set(re.findall(r" in (\d+)", there.output or ""))
    assert f"{os.getpid():010}" not in workers
    assert len(workers) > 1
    assert there.usage.tokens_in == here.usage.tokens_in
    with SqliteStore.open_existing(folder / "store") as store:
        assert _phases(store, here.session_id) == _phases(store, there.session_id)
        assert not [found for found in store.verify() if found.severity == "damage"]


def _phases(store: SqliteStore, session: str) -> dict[str, int]:
    """How many rows each task has in the record."""
    found: dict[str, int] = {}
    for stored in store.rows(session):
        name = str(stored.row.phase)
        found[name] = found.get(name, 0) + 1
    return found


def test_a_failure_names_its_input_and_the_rest_is_kept_and_resumed(folder: Path) -> None:
    failed = run(folder, "a b bad d e f g", "ray")
    assert isinstance(failed.error, InputFailed)
    assert failed.error.index == 2
    assert "no more" in str(failed.error)
    kept = {one["index"] for one in failed.notes["partialResults"]}
    assert {0, 1} <= kept
    assert 2 not in kept
    again = run(folder, "a b c d e f g", "ray", resume=failed.session_id)
    assert again.error is None
    assert re.findall(r"got (\w)", again.output or "") == list("abcdefg")
    with SqliteStore.open_existing(folder / "store") as store:
        counts = _phases(store, failed.session_id)
    # what was asked, the call, the result and the answer, and why each of two calls was made: once
    assert counts["inner[0]"] == 6
