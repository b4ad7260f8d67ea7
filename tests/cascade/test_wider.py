"""Cascades as somebody writes them who knows only another runner's documents pass `check`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from windlass.cli.app import app

WIDER = Path(__file__).parent / "data" / "wider"
FILES = sorted(path for path in WIDER.iterdir() if path.is_file())


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.stem)
def test_a_cascade_of_another_runner_passes(file: Path) -> None:
    told = CliRunner().invoke(app, ["check", str(file), "--json"])
    mistakes = json.loads(told.stdout).get("mistakes", [])
    assert not mistakes


def test_there_are_enough_of_them() -> None:
    assert len(FILES) >= 20
