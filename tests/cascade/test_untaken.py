"""`check` names what a phase asks of its model that the model does not take."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import CommandLine, windlass
from tests.engine.harness import cascade, phase
from tests.tasks.making import atomic

__all__ = ["windlass"]

OPUS = "anthropic/claude-opus-5-5"
TOLD = (
    "{} takes no tool_choice {!r}; a run sends 'auto', and asks for the call at the end of the"
    " instructions"
)


def line_of(text: str, wanted: str) -> int:
    return next(at for at, line in enumerate(text.splitlines(), start=1) if wanted in line)


@pytest.mark.parametrize("choice", ["required", "read_file"])
@pytest.mark.parametrize(
    "model", [OPUS, "openrouter/anthropic/claude-opus-5-5", "anthropic/claude-fable-6"]
)
def test_a_forced_tool(windlass: CommandLine, model: str, choice: str) -> None:
    made = phase("b", tackle=["read_file"], tool_choice=choice, model=model)
    text = json.dumps(cascade(phase("a"), made), indent=1)
    (windlass.folder / "c.json").write_text(text)
    said = windlass("check", "c.json", "--json")
    assert said.code == 0
    assert said.json["warnings"] == [
        {
            "message": "phases[1].tool_choice: " + TOLD.format(model, choice),
            "file": "c.json",
            "line": line_of(text, "tool_choice"),
        }
    ]
    assert "warning: c.json:" in windlass("check", "c.json").out
    assert windlass("check", "c.json", "--strict").code == 0  # a run does without it


def test_the_cascades_own_is_told_once_and_by_the_model_of_the_settings(
    windlass: CommandLine,
) -> None:
    phases = [phase(name, tackle=["read_file"]) for name in "ab"]
    (windlass.folder / "c.json").write_text(json.dumps(cascade(*phases, tool_choice="required")))
    assert "warnings" not in windlass("check", "c.json", "--json").json
    (windlass.folder / "windlass.toml").write_text(f'model = "{OPUS}"')
    (told,) = windlass("check", "c.json", "--json").json["warnings"]
    assert told["message"] == "tool_choice: " + TOLD.format(OPUS, "required")


def test_a_task(windlass: CommandLine) -> None:
    inside = (
        f"\n<model>{OPUS}</model>\n<tools><tool>read_file</tool></tools>\n"
        "<tool_choice>read_file</tool_choice>"
    )
    xml = atomic("a", inside)
    (windlass.folder / "t.xml").write_text(xml)
    told = windlass("check", "t.xml", "--json").json["warnings"][-1]
    assert told["message"].endswith(TOLD.format(OPUS, "read_file"))
    assert (told["file"], told["line"]) == ("t.xml", line_of(xml, "<tool_choice>"))


@pytest.mark.parametrize(
    ("model", "choice"),
    [
        (OPUS, "auto"),
        (OPUS, "none"),
        ("anthropic/claude-haiku-5-5", "required"),
        ("anthropic/claude-opus-5", "required"),
        ("openai/gpt-5.6", "read_file"),
    ],
)
def test_what_is_taken(windlass: CommandLine, model: str, choice: str) -> None:
    made = phase("a", tackle=["read_file"], tool_choice=choice, model=model)
    (windlass.folder / "c.json").write_text(json.dumps(cascade(made)))
    assert "warnings" not in windlass("check", "c.json", "--json").json
