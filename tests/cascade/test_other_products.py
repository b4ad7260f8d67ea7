"""Keys and tools of other products: told once, refused in one sentence, left out with --lenient."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import windlass
from tests.engine.harness import House, cascade, phase
from windlass.cli.app import app
from windlass.engine.events import Noted
from windlass.errors import CascadeError
from windlass.history.base import RAN
from windlass.providers.scripted import Scripted

BESIDE = {
    "triggers": [{"name": "daily", "type": "cron", "schedule": "0 7 * * *"}],
    "narrator": {"enabled": True},
    "research_db": "market",
    "ui_mode": "research",
}
AUDIBLES: dict[str, Any] = {"audibles": {"enabled": True, "budget": 3}}


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    house = House(tmp_path)
    yield house
    house.close()


def write(folder: Path, data: Any) -> Path:
    file = folder / "c.json"
    file.write_text(json.dumps(data, indent=1))
    return file


def check(file: Path, *flags: str) -> Any:
    told = CliRunner().invoke(app, ["check", str(file), "--json", *flags])
    return json.loads(told.stdout)


def messages(told: list[dict[str, Any]]) -> list[str]:
    return [f"{each['line']}: {each['message']}" for each in told]


def test_keys_of_other_products_are_told_once_each(tmp_path: Path) -> None:
    file = write(tmp_path, cascade(phase("a", **AUDIBLES), phase("b", **AUDIBLES), **BESIDE))
    warnings = messages(check(file)["warnings"])
    lines = file.read_text().splitlines()
    for key in (*BESIDE, *AUDIBLES):
        at = next(number for number, line in enumerate(lines, start=1) if f'"{key}"' in line)
        (told,) = [each for each in warnings if repr(key) in each]
        assert told == f"{at}: {key!r} is not part of Windlass, and is left out"
    assert len(warnings) == len(BESIDE) + 1


async def test_a_run_tells_them_and_goes_on(house: House) -> None:
    ran = await house.run(write(house.folder, cascade(phase("a", **AUDIBLES), **BESIDE)))
    assert ran.result.status == "completed"
    notes = [event.text for event in ran.events if isinstance(event, Noted)]
    assert [note for note in notes if "'narrator' is not part of Windlass" in note]


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (cascade(phase("a"), async_cascades=[{"ref": "x.yaml"}]), "'sub_cascades' of a phase"),
        (cascade(phase("a", async_cascades=[{"ref": "x.yaml"}])), "'sub_cascades' of a phase"),
        (cascade(phase("a", rag={"directory": "docs"})), "'search_folder'"),
        (cascade(phase("a", tackle=["run_code"])), "tool of your own ('tools')"),
        (cascade(phase("a", tackle=["create_plotly"])), "'create_chart' draws charts here"),
        (cascade(phase("a", tackle=["shell:x.sh"])), "one of an MCP server ('mcp_servers')"),
        (cascade({"name": "a", "instructions": "{{ checkpoint_id }}"}), "'ask_human' instead"),
    ],
)
def test_what_is_refused_is_refused_in_one_sentence(tmp_path: Path, made: Any, told: str) -> None:
    (mistake,) = check(write(tmp_path, made))["mistakes"]
    assert told in mistake["message"]


LENIENT = cascade(
    phase("a", tackle=["say", "set_state", "lenses"], async_cascades=[{"ref": "x.yaml"}]),
    phase("b", rules={"loop_until": "no_such_judge"}),
    nonsense=1,
)


def test_lenient_leaves_them_out_with_warnings(tmp_path: Path) -> None:
    file = write(tmp_path, LENIENT)
    assert len(check(file)["mistakes"]) >= 3
    warnings = check(file, "--lenient")["warnings"]
    for name in ("async_cascades", "say", "lenses", "nonsense", "no_such_judge"):
        (told,) = [each for each in warnings if repr(name) in each["message"]]
        assert "left out" in told["message"]
        assert name in file.read_text().splitlines()[told["line"] - 1]


def test_lenient_leaves_out_unknown_wards(tmp_path: Path) -> None:
    wards = {"pre": ["gone_before"], "post": [{"validator": "gone_after"}], "turn": ["satisfied"]}
    file = write(tmp_path, cascade(phase("a", wards=wards)))
    assert len(check(file)["mistakes"]) == 2
    told = [each["message"] for each in check(file, "--lenient")["warnings"]]
    assert ["gone_before" in told[0], "gone_after" in told[1], len(told)] == [True, True, 2]


def test_lenient_leaves_out_unknown_validators_of_soundings(tmp_path: Path) -> None:
    soundings = {
        "factor": 2,
        "evaluator_instructions": "The shorter.",
        "validator": "gone_first",
        "reforge": {"honing_prompt": "Shorter.", "threshold": "gone_after"},
    }
    file = write(tmp_path, cascade(phase("a", soundings=soundings)))
    assert len(check(file)["mistakes"]) == 2
    told = [each["message"] for each in check(file, "--lenient")["warnings"]]
    assert ["gone_first" in told[0], "gone_after" in told[1], len(told)] == [True, True, 2]


def test_lenient_leaves_out_unknown_validators_of_the_whole_cascades_soundings(
    tmp_path: Path,
) -> None:
    soundings = {"factor": 2, "evaluator_instructions": "The shorter.", "validator": "gone"}
    file = write(tmp_path, cascade(phase("a"), soundings=soundings))
    (told,) = check(file, "--lenient")["warnings"]
    assert told["message"].endswith("it is left out")
    assert "'gone'" in told["message"]


def test_a_lenient_phase_without_its_tool_is_told(tmp_path: Path) -> None:
    made = cascade({"name": "a", "tool": "run_code"}, phase("b"))
    made["phases"][0]["handoffs"] = ["b"]
    file = write(tmp_path, made)
    assert "run_code" in check(file)["mistakes"][0]["message"]
    (told,) = check(file, "--lenient")["warnings"]
    assert "a run that comes here fails" in told["message"]


def test_lenient_forgives_nothing_else(tmp_path: Path) -> None:
    file = write(tmp_path, cascade(phase("a", nonsense=1, rules={"max_turns": 0})))
    (mistake,) = check(file, "--lenient")["mistakes"]
    assert "max_turns" in mistake["message"]


async def test_a_lenient_run_is_resumed_as_it_was_begun(house: House) -> None:
    file = write(house.folder, LENIENT)
    with pytest.raises(CascadeError):
        await house.run(file)

    def fails_in_b(request: Any) -> str:
        if "Do b." in request.messages[-1].text:
            raise RuntimeError("gone")
        return "ok"

    ran = await house.run(file, fails_in_b, lenient=True, session_id="s")
    assert ran.result.status == "failed"
    store = house.open_store()
    assert store.start("s").cascade[RAN]["lenient"] is True
    store.close()
    model = Scripted(lambda _: "ok")
    result = await windlass.resume(
        "s", store=house.store, root=house.folder, providers={"scripted": model}
    )
    assert result.status == "completed"
    assert len(model.requests) == 1
    assert [tool.name for tool in model.requests[0].tools] == []
