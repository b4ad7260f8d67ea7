"""Inputs that templates need and a run is not given: told before anything is paid for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import windlass
from tests.engine.harness import cascade, phase
from windlass.cli.app import app
from windlass.errors import CascadeError, TaskFileError
from windlass.providers.scripted import Scripted

LATE = [
    {**phase("late"), "instructions": "Use\n{{ input.region }}."},
    {**phase("late"), "system": "You know {{ input.region }}."},
    phase("late", context={"from": [{"phase": "start", "if": "{{ input.region == 'x' }}"}]}),
    phase("late", inject_from=[{"phase": "start", "condition": "{{ input.region }}"}]),
]
FREE = [
    {**phase("late"), "instructions": "Use {{ input.region | default('all') }}."},
    phase("late", context={"from": [{"phase": "start", "if": "{{ input.region is defined }}"}]}),
    phase("first_", context={"from": [], "include_input": True}),
]

TASK = """<task type="sequential" name="t">
  <description>Work on {{ input.topic }}</description>
  <steps>
    <task type="atomic" name="one">
      <description>Read.</description>
      <inputs><expression>input.rows</expression></inputs>
    </task>
    <task type="atomic" name="two"><description>Use {{ input.region }}</description></task>
  </steps>
</task>
"""


def provider() -> Scripted:
    return Scripted(lambda _: "ok")


async def run(made: Any, given: Mapping[str, Any], folder: Path, model: Scripted) -> Any:
    return await windlass.run(
        made,
        given,
        model="scripted/x",
        store=folder / "store",
        root=folder,
        providers={"scripted": model},
    )


async def test_what_ends_the_instructions_is_a_template_like_them(tmp_path: Path) -> None:
    rules = {"loop_until": "length_check", "loop_until_prompt": "Of {{ input.region }}."}
    model = provider()
    with pytest.raises(CascadeError, match="-i region="):
        await run(cascade(phase("a", rules=rules)), {}, tmp_path, model)
    assert model.requests == []
    assert not (tmp_path / "store").exists()
    silent = cascade(phase("a", rules={"loop_until": "length_check", "loop_until_silent": True}))
    await run(silent, {}, tmp_path, model)


@pytest.mark.parametrize("late", LATE)
async def test_a_missing_input_of_a_later_phase_is_found_before_the_first_call(
    tmp_path: Path, late: dict[str, Any]
) -> None:
    file = tmp_path / "c.json"
    file.write_text(json.dumps(cascade(phase("start"), late), indent=1))
    model = provider()
    with pytest.raises(CascadeError, match="input 'region'") as refused:
        await run(file, {"regoin": "x"}, tmp_path, model)
    (mistake,) = refused.value.mistakes
    assert mistake.file == str(file)
    line = next(n for n, text in enumerate(file.read_text().splitlines(), 1) if "region" in text)
    assert mistake.line == line
    assert "did you mean 'regoin'?" in mistake.text
    assert "-i region=" in mistake.text
    assert model.requests == []
    assert not (tmp_path / "store").exists()
    assert (await run(file, {"region": "x"}, tmp_path, model)).status == "completed"


@pytest.mark.parametrize("late", FREE)
async def test_what_may_be_left_out_is_no_need(tmp_path: Path, late: dict[str, Any]) -> None:
    ran = await run(cascade(phase("start"), late), {}, tmp_path, provider())
    assert ran.status == "completed"


async def test_all_are_told_at_once_of_what_is_made_in_python_too(tmp_path: Path) -> None:
    made = cascade(*LATE[:1], phase("b"), system="{{ input.a }} {{ input.b }}")
    with pytest.raises(CascadeError) as refused:
        await run(made, {}, tmp_path, provider())
    assert len(refused.value.mistakes) == 3
    assert all(f"input {name!r}" in str(refused.value) for name in ("a", "b", "region"))


async def test_a_system_prompt_that_no_phase_has_needs_nothing(tmp_path: Path) -> None:
    made = cascade(phase("a", system="Be."), system="{{ input.a }}")
    assert (await run(made, {}, tmp_path, provider())).status == "completed"


async def test_the_line_in_a_block_of_yaml_is_that_of_the_use(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(
        "cascade_id: c\nphases:\n  - name: a\n"
        "    instructions: |\n      Read\n      {{ input.f }}\n"
    )
    with pytest.raises(CascadeError) as refused:
        await run(file, {}, tmp_path, provider())
    assert refused.value.mistakes[0].line == 6


async def test_tasks_are_looked_through_as_cascades_are(tmp_path: Path) -> None:
    file = tmp_path / "t.xml"
    file.write_text(TASK)
    model = provider()
    with pytest.raises(TaskFileError) as refused:
        await windlass.evaluate(
            file, {}, model="scripted/x", store=tmp_path / "s", providers={"scripted": model}
        )
    told = [
        (one.line, one.text.partition("input '")[2].partition("'")[0])
        for one in refused.value.mistakes
    ]
    assert told == [(2, "topic"), (6, "rows"), (8, "region")]
    assert model.requests == []
    given = {"topic": "x", "rows": ["x"], "region": "y"}
    done = await windlass.evaluate(
        file, given, model="scripted/x", store=tmp_path / "s", providers={"scripted": model}
    )
    assert done.status == "completed"


@pytest.mark.parametrize("command", ["run", "run --dry-run", "evaluate"])
def test_commands_end_with_2_and_send_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / ("t.xml" if command == "evaluate" else "c.json")
    file.write_text(TASK if command == "evaluate" else json.dumps(cascade(LATE[0], phase("b"))))
    told = CliRunner().invoke(app, [*command.split(), str(file), "-i", "topc=1"])
    assert isinstance(told.exception, CascadeError)
    assert told.exception.exit_code == 2
    assert "input 'region'" in str(told.exception)
    assert not (tmp_path / ".windlass").exists()


def test_check_lists_what_is_needed(tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    file.write_text(json.dumps(cascade(*LATE[:1], system="{{ input.file }}")))
    told = CliRunner().invoke(app, ["check", str(file)])
    assert "needs: -i file=... -i region=..." in told.stdout
    told = CliRunner().invoke(app, ["check", str(file), "--json"])
    assert json.loads(told.stdout)["needs"] == ["file", "region"]
    task = tmp_path / "t.xml"
    task.write_text(TASK)
    told = CliRunner().invoke(app, ["check", str(task)])
    assert "needs: -i topic=... -i rows=... -i region=..." in told.stdout
