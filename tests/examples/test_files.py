"""The files of the examples themselves: sound, described, and listed where they should be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from examples.run_all import EXAMPLES, FOLDER
from examples.validators import mentions_a_number
from jsonschema import Draft202012Validator

from windlass.api.loading import load_cascade
from windlass.cascade.published_schema import json_schema
from windlass.settings.settings import Settings

NAMES = sorted(EXAMPLES)


def read(name: str) -> dict[str, Any]:
    text = (FOLDER / name).read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text) if name.endswith(".json") else yaml.safe_load(text)
    return found


def test_every_cascade_is_listed() -> None:
    there = {file.name for ending in ("json", "yaml") for file in FOLDER.glob(f"*.{ending}")}
    assert there == {name for name in EXAMPLES if "/" not in name}


@pytest.mark.parametrize("name", NAMES)
def test_it_is_sound_and_says_what_it_shows(name: str, tmp_path: Path) -> None:
    cascade = read(name)
    Draft202012Validator(json_schema()).validate(cascade)
    checked = load_cascade(FOLDER / name, Settings.read({}, {}, tmp_path)).cascade
    assert list(cascade)[:2] == ["cascade_id", "description"]
    assert checked.cascade_id == Path(name).stem
    assert cascade["description"].endswith(".")


@pytest.mark.parametrize("name", NAMES)
def test_the_readme_says_how_to_run_it(name: str) -> None:
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    (command,) = [line for line in readme.splitlines() if f"run examples/{name} " in line]
    given = " ".join(f"-i {key}='{value}'" for key, value in EXAMPLES[name].items())
    assert command.endswith(f"--root examples {given}")


@pytest.mark.parametrize(("text", "valid"), [("It is 7.", True), ("It is seven.", False)])
def test_a_number_is_digits(text: str, *, valid: bool) -> None:
    verdict = mentions_a_number(text)
    assert verdict["valid"] is valid
    assert bool(verdict["reason"]) is not valid
