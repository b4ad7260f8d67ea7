"""Three cascades by somebody who knows only another runner's documents run unchanged.

They stand in `data/elsewhere` with the module, prompts and inputs that belong to them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import windlass
from tests.engine.harness import House, Ran, call, calls
from windlass.cli.app import app
from windlass.engine.events import Noted
from windlass.history.sqlite import SqliteStore
from windlass.messages import Message
from windlass.wire.base import Request

ELSEWHERE = Path(__file__).parent / "data" / "elsewhere"
FILES = sorted(each.name for each in ELSEWHERE.iterdir() if each.suffix in {".yaml", ".json"})


def given(file: str) -> Any:
    """The input that belongs to a cascade."""
    text = (ELSEWHERE / "inputs" / f"{Path(file).stem}.json").read_text(encoding="utf-8")
    return json.loads(text)


def script(request: Request) -> Message | str:
    """Plausible answers, by what is asked."""
    if request.output_schema and "winner" in request.output_schema.get("properties", {}):
        return '{"winner": 1}'
    if request.output_schema:
        return '{"headline": "Two orders are late", "late_count": 2, "urgent": true}'
    if any("billing" in str(tool.parameters) for tool in request.tools):
        return calls(call("route_to", '{"target": "billing"}'), text="It is about an invoice.")
    if request.messages[0].text.startswith("You judge a text."):
        return '{"valid": true, "reason": "fine"}'
    return f"Answer {len(request.messages)}: the next step is that Bo writes the invoice by Friday."


async def ran(file: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Ran:
    """A run of the file as it stands, in its own folder."""
    monkeypatch.chdir(ELSEWHERE)
    monkeypatch.syspath_prepend(ELSEWHERE)
    house = House(folder)
    try:
        return await house.run(ELSEWHERE / file, script, given(file))
    finally:
        house.close()


def prompt_with(run: Ran, words: str) -> str:
    """The newest message of the first request in which it holds these words."""
    newest = (request.messages[-1].text for request in run.model.requests)
    return next(text for text in newest if words in text)


@pytest.mark.req("CI-58")
@pytest.mark.parametrize("file", FILES)
def test_passes_check(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ELSEWHERE)
    told = CliRunner().invoke(app, ["check", file, "--trust", "--json"])
    assert "mistakes" not in json.loads(told.stdout)
    assert told.exit_code == 0


@pytest.mark.req("CI-58")
async def test_a_branch_with_judges_and_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    triage = await ran("triage.yaml", tmp_path, monkeypatch)
    assert triage.result.status == "completed"
    assert list(triage.result.outputs) == ["summarise", "route", "billing", "answer"]
    assert triage.result.outputs["route"] == "It is about an invoice."
    answer = prompt_with(triage, "Write the reply to Ms Okafor.")
    assert "The billing desk says: Answer" in answer
    assert "technical desk says" not in answer
    assert "Desk was: It is about an invoice." in answer
    assert "Your reply is good when the customer knows what happens next." in answer


@pytest.mark.req("CI-58")
async def test_a_tool_phase_soundings_and_a_schema(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = await ran("orders.json", tmp_path, monkeypatch)
    assert orders.result.status == "completed"
    assert list(orders.result.outputs) == ["load_orders", "summary", "as_json", "mail"]
    assert json.loads(orders.result.outputs["load_orders"])["count"] == 4
    assert orders.result.state["validated_output"]["late_count"] == 2
    assert "Subject: Two orders are late" in prompt_with(orders, "Write a short mail")


@pytest.mark.req("CI-58")
async def test_children_a_bank_and_wards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notes = await ran("notes.yaml", tmp_path, monkeypatch)
    assert (notes.result.status, notes.result.reason) == ("completed", None)
    assert list(notes.result.outputs)[-2:] == ["minutes", "closing"]
    style = (ELSEWHERE / "prompts" / "notes_style.md").read_text(encoding="utf-8")
    assert prompt_with(notes, style.splitlines()[0])
    told = [each.text for each in notes.events if isinstance(each, Noted)]
    assert any("ward 'length_check' accepts the output" in each for each in told)
    assert any("'minutes' goes on with 'closing'" in each for each in told)


@pytest.mark.local
@pytest.mark.req("CI-58")
@pytest.mark.parametrize("file", ["notes.yaml", "orders.json", "triage.yaml"])
async def test_the_model_on_this_machine_runs_them(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ELSEWHERE)
    monkeypatch.syspath_prepend(ELSEWHERE)
    monkeypatch.setenv("WINDLASS_MAX_OUTPUT_TOKENS", "60")
    store = tmp_path / "store.db"
    result = await windlass.run(ELSEWHERE / file, given(file), store=store, trust=True)
    # A model this small is refused by judges: then the run ends as the rules say, and is on record.
    if result.status == "failed":
        assert "used up its" in str(result.error)
    else:
        assert list(result.outputs)[-1] == {"notes": "closing", "orders": "mail"}.get(
            Path(file).stem, "answer"
        )
    with SqliteStore(store) as recorded:
        assert list(recorded.verify()) == []
