"""The recording that comes with the examples, and what the README says of it."""

from __future__ import annotations

import re
from pathlib import Path

from tests.cli.conftest import CommandLine
from tests.cli.conftest import windlass as command_line

__all__ = ["command_line"]

ROOT = Path(__file__).parent.parent.parent
RECORDING = ROOT / "examples" / "recordings" / "claude_code.jsonl"


def test_a_newcomer_sees_what_the_readme_shows(command_line: CommandLine) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    command = re.search(r"windlass replay (\S+) --html page.html", readme)
    assert command is not None
    assert ROOT / command[1] == RECORDING
    said = command_line("replay", str(RECORDING), "--html", "page.html")
    assert said.code == 0
    (shown,) = [block for block in readme.split("```")[1::2] if "as recorded" in block]
    assert shown.strip() in said.out
    assert "</html>" in (command_line.folder / "page.html").read_text(encoding="utf-8")


def test_it_is_small_and_has_its_licence_beside_it() -> None:
    assert RECORDING.stat().st_size < 300_000
    assert "Apache License" in RECORDING.with_name("LICENSE.openagents").read_text()
