"""The blocks of the documented settings for windows, each as a cascade that runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from examples.auto_context.fix_validators import CASES
from examples.auto_context.fix_validators import tests_pass_validator as validate
from examples.run_all import FOLDER

import windlass
from windlass.api.loading import load_cascade
from windlass.cascade.compile import compile_rule
from windlass.cascade.model import Cascade
from windlass.engine.result import Result
from windlass.history.base import NodeType
from windlass.history.row_details import json_of
from windlass.history.sqlite import SqliteStore
from windlass.messages import Message, ToolCall, assistant
from windlass.providers.scripted import Scripted
from windlass.report.call_views import view_session
from windlass.settings.settings import Settings
from windlass.window.options import Policy
from windlass.wire.base import Request

HERE = FOLDER / "auto_context"
QUESTION = {"file": "corpus/time-to-live.md", "question": "how long does a cached prefix live?"}
INPUT: dict[str, dict[str, str]] = {
    "cascade_choosing.json": QUESTION,
    "synthesis.json": QUESTION,
    "cascade_level.json": {"folder": "corpus", "file": "time-to-live.md"},
    "seen_once.json": {"folder": "corpus", "file": "time-to-live.md"},
    "long_research.json": {"topic": "prompt cache"},
    "iterative_fix.json": {"pattern": "\\d+"},
}
GOOD = r"\d{4}-(0[1-9]|1[0-2])-\d{2}"


def checked(name: str) -> Cascade:
    return load_cascade(HERE / name, Settings.read({}, {}, FOLDER)).cascade


def policy(name: str) -> Policy:
    cascade = checked(name)
    found = compile_rule(cascade, cascade.phases[0]).policy
    assert found is not None
    return found


def run(name: str, store_folder: Path, model: Scripted) -> Result:
    providers = {"s": model}
    options: dict[str, Any] = {
        "store": store_folder,
        "root": FOLDER,
        "search_folder": FOLDER / "corpus",
    }
    return windlass.run_sync(HERE / name, INPUT[name], model="s/x", providers=providers, **options)


def test_every_cascade_is_described_and_in_the_readme() -> None:
    assert {file.name for file in HERE.glob("*.json")} == set(INPUT)
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    for name in INPUT:
        assert f"auto_context/{name}" in readme
        written = json.loads((HERE / name).read_text(encoding="utf-8"))
        assert list(written)[:2] == ["cascade_id", "description"]
        assert checked(name).cascade_id == Path(name).stem


@pytest.mark.req("AC-64", "AC-103")
def test_the_block_of_a_cascade(tmp_path: Path) -> None:
    made = policy("cascade_level.json")
    assert (made.window, made.mask_observations_after) == (5, 3)
    assert (made.compress_loops, made.loop_history_limit) == (True, 3)

    def answer(request: Request) -> Message | str:
        if request.tool_choice == "list_files":
            return assistant(calls=[ToolCall("1", "list_files", '{"folder": "corpus"}')])
        if request.tool_choice == "read_file":
            path = '{"path": "corpus/time-to-live.md"}'
            return assistant(calls=[ToolCall("2", "read_file", path)])
        return "said"

    result = run("cascade_level.json", tmp_path, Scripted(answer))
    assert (result.status, result.error) == ("completed", None)


@pytest.mark.req("AC-51", "AC-103")
def test_the_block_of_a_phase(tmp_path: Path) -> None:
    made = policy("long_research.json")
    assert (made.window, made.mask_observations_after) == (3, 2)
    calls = [
        assistant(calls=[ToolCall(f"c{n}", "web_search", '{"query": "prompt cache"}')])
        for n in range(6)
    ]
    said: list[Message | str] = [*calls, "found"]
    replies = iter(said)
    model = Scripted(lambda _: next(replies))
    result = run("long_research.json", tmp_path, model)
    assert (result.status, result.output) == ("completed", "found")
    assert len(model.requests) == 7


@pytest.mark.req("AC-34", "AC-35", "AC-103")
def test_the_block_of_a_loop(tmp_path: Path) -> None:
    made = policy("iterative_fix.json")
    assert (made.compress_loops, made.loop_history_limit) == (True, 2)
    replies = iter([r"\d+", r"\d+-\d+-\d+", r"\d{4}-\d{2}-\d{2}", GOOD])
    model = Scripted(lambda _: next(replies))
    result = run("iterative_fix.json", tmp_path, model)
    assert (result.status, result.output) == ("completed", GOOD)
    assert len(model.requests) == 4


def reads(request: Request) -> Message | str:
    if request.tool_choice == "read_file":
        path = '{"path": "corpus/time-to-live.md"}'
        return assistant(calls=[ToolCall("1", "read_file", path)])
    return "said"


def selections(store_folder: Path, result: Result) -> list[dict[str, Any]]:
    store = SqliteStore.open_existing(store_folder)
    try:
        told = [
            dict(json_of(stored.row))
            for stored in store.rows(result.session_id)
            if stored.row.node_type == NodeType.CONTEXT_SELECTION
        ]
        assert not list(store.verify())
    finally:
        store.close()
    return [one for one in told if one["selection_type"] == "inter_phase"]


@pytest.mark.req("AC-56", "AC-60", "AC-63", "AC-103")
def test_the_block_of_a_cascade_with_choosing(tmp_path: Path) -> None:
    cascade = checked("cascade_choosing.json")
    made = compile_rule(cascade, cascade.phases[2]).choosing
    assert made is not None
    weights = made.selection.weights
    assert (weights.recency, weights.keyword, weights.callout) == pytest.approx((0.3, 0.4, 0.3))
    result = run("cascade_choosing.json", tmp_path, Scripted(reads))
    assert (result.status, result.error) == ("completed", None)
    told = selections(tmp_path, result)
    assert [one["strategy_asked"] for one in told] == ["hybrid", "hybrid"]


@pytest.mark.req("AC-68", "AC-75", "AC-103")
def test_the_block_of_a_phase_that_chooses(tmp_path: Path) -> None:
    model = Scripted(reads)
    result = run("synthesis.json", tmp_path, model)
    assert (result.status, result.error) == ("completed", None)
    (told,) = selections(tmp_path, result)
    assert (told["strategy_asked"], told["config"]["max_tokens"]) == ("semantic", 40_000)
    assert {one["kind"] for one in told["anchors"]} == {"window", "output"}
    original = (FOLDER / "corpus" / "time-to-live.md").read_text(encoding="utf-8")
    assert original in [message.text for message in model.requests[-1].messages]


CHOOSES = """
import json, sys
import windlass

file, given, store, root = sys.argv[1:]
options = {"model": "local/smollm2", "store": store, "root": root}
result = windlass.run_sync(file, json.loads(given), **options)
print(result.session_id, result.status, result.error)
"""


@pytest.mark.local
@pytest.mark.req("AC-65", "AC-85")
def test_the_local_model_answers_from_what_was_chosen(tmp_path: Path) -> None:
    name = "synthesis.json"
    given = json.dumps(INPUT[name])
    done = subprocess.run(
        [sys.executable, "-c", CHOOSES, HERE / name, given, tmp_path / "store", FOLDER],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    session, status, *_ = done.stdout.split()
    assert status in ("completed", "incomplete")  # so small a model may talk until its limit
    store = SqliteStore.open_existing(tmp_path / "store")
    try:
        last = view_session(store, session).calls[-1]
        texts = [one.message.text for one in last.seen]
        original = (FOLDER / "corpus" / "time-to-live.md").read_text(encoding="utf-8")
        assert original in texts
        assert last.sent_tokens <= last.tokens_in
        assert not list(store.verify())
    finally:
        store.close()


SEEN_ONCE = """
import json, sys
import windlass

file, given, store, root = sys.argv[1:]
options = {"model": "local/smollm2", "store": store, "root": root}
result = windlass.run_sync(file, json.loads(given), **options)
print(result.session_id, result.status)
"""


@pytest.mark.local
@pytest.mark.req("AC-29", "CE-31", "CE-32")
def test_the_local_model_sees_a_file_once_and_then_its_digest(tmp_path: Path) -> None:
    name = "seen_once.json"
    given = json.dumps(INPUT[name])
    done = subprocess.run(
        [sys.executable, "-c", SEEN_ONCE, HERE / name, given, tmp_path / "store", FOLDER],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    session, status = done.stdout.split()
    assert status in ("completed", "incomplete")  # so small a model may talk until its limit
    store = SqliteStore.open_existing(tmp_path / "store")
    try:
        calls = view_session(store, session).calls
        original = (FOLDER / "corpus" / "time-to-live.md").read_text(encoding="utf-8")
        _, second, *_, third = calls  # between them stands what went on after a limit
        (whole,) = (one for one in second.seen if one.role == "tool")
        (digest,) = (one for one in third.seen if one.role == "tool")
        assert whole.message.text == original
        assert (digest.because, len(digest.message.text) < len(original) / 2) == ("digest", True)
        assert digest.original is not None
        assert digest.original.text == original
        assert f"result_{digest.original.content_hash[:8]}" in digest.message.text
        assert third.tokens_in < third.snowball_tokens
        assert not list(store.verify())
    finally:
        store.close()
    kept = tmp_path / "store" / "storage" / "tool_results"
    (file,) = kept.iterdir()
    assert json.loads(file.read_text())["content"] == original


@pytest.mark.parametrize("output", [r"\d+", "(", r"\d{4}-\d{2}-\d{2}", ".*"])
def test_the_validator_refuses_with_a_reason(output: str) -> None:
    verdict = validate(output)
    assert verdict["valid"] is False
    assert verdict["reason"].endswith(".")
    assert validate(GOOD) == {"valid": True, "reason": ""}
    assert any(CASES.values())
