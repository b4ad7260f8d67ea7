"""The shapes in which each version takes a replacement, beside the table of Windlass.

`pytest -s` prints what each version handed over.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests_clients import coding_agents, replacing
from tests_clients.coding_agents import CLAUDE, asked
from tests_clients.conftest import NewDesk
from tests_clients.model_server import Call
from tests_clients.plans import build_log
from tests_clients.replacing import SAID
from windlass_agents.shapes import CLAUDE_CODE, OPENCODE, Shape, shape_of

PATTERN = {"pattern": "mail_1", "path": "src"}
CALLS: Mapping[str, Call] = {
    "Bash": ("Bash", {"command": "ls docs"}),
    "Bash, kept in a file": ("Bash", {"command": build_log(2_000)}),
    "Read": ("Read", {"file_path": "src/mail.py"}),
    "Grep, lines": ("Grep", {**PATTERN, "output_mode": "content"}),
    "Grep, files": ("Grep", {**PATTERN, "output_mode": "files_with_matches"}),
    "Grep, counts": ("Grep", {**PATTERN, "output_mode": "count"}),
    "Glob": ("Glob", {"pattern": "docs/*.md"}),
    "MCP": ("mcp__table__records", {"count": 3}),
    "Bash, failed": ("Bash", {"command": "exit 3"}),
}
LEFT = {"Grep, counts", "Bash, failed"}


@dataclass(frozen=True)
class Handed:
    """A result as the agent handed it over, and what its model got instead."""

    event: Mapping[str, Any]
    got: str

    @property
    def shape(self) -> Shape | None:
        """The shape that Windlass sees in it."""
        found = shape_of(CLAUDE_CODE, self.event["tool_name"], self.event.get("tool_response"))
        return None if found is None else found[0]

    @property
    def keys(self) -> str:
        """The keys of what was handed over."""
        result = self.event.get("tool_response")
        if isinstance(result, dict):
            inner = result.get("file")
            more = f", file: {', '.join(inner)}" if isinstance(inner, dict) else ""
            return ", ".join(result) + more
        return type(result).__name__


def handed_over(new_desk: NewDesk, version: str, how: str) -> dict[str, Handed]:
    """What the hook `replacing` was handed, by the names in CALLS."""
    desk = new_desk()
    calls = [
        (tool, {key: _full(desk.project, key, value) for key, value in given.items()})
        for tool, given in CALLS.values()
    ]
    desk.model.plans = {"shapes": [[call] for call in calls]}
    events = desk.home / "events.jsonl"
    desk.set_hooks(f"{sys.executable} {replacing.__file__} {events} {how}", only="ToolUse")
    session = desk.claude(version, "plan:shapes")
    steps = asked(desk.exchanges, session)
    told = [json.loads(line) for line in events.read_text(encoding="utf-8").splitlines()]
    by_call = {event["tool_use_id"]: event for event in told}
    made = [block["id"] for step in steps for block in step.answer if block["type"] == "tool_use"]
    got = steps[-1].results
    return {name: Handed(by_call[call], got[call]) for name, call in zip(CALLS, made, strict=True)}


def _full(project: Path, key: str, value: Any) -> Any:
    return str(project / value) if key in ("file_path", "path") else value


@pytest.fixture(scope="module")
def right(new_desk: NewDesk, version: str) -> dict[str, Handed]:
    return handed_over(new_desk, version, "right")


def test_each_shape_is_taken(right: dict[str, Handed], version: str) -> None:
    print(f"\nClaude Code {version}")  # noqa: T201
    for name, handed in right.items():
        shape = "-" if handed.shape is None else handed.shape.name
        print(f"  {name:22}{shape:32}{handed.keys}")  # noqa: T201
        assert (SAID in handed.got) == (name not in LEFT), name
        assert len(handed.got) < 200 or name in LEFT


def test_each_shape_of_the_table_is_met_in_each_version_that_it_names(
    right: dict[str, Handed], version: str
) -> None:
    met = [handed.shape for handed in right.values()]
    for shape in CLAUDE_CODE:
        assert shape in met, shape.name
        assert version in shape.tested


def test_the_oldest_version_of_the_table_and_its_newest_are_tried() -> None:
    for shape in CLAUDE_CODE:
        assert shape.since == min(CLAUDE, key=_number)
        assert max(shape.tested, key=_number) == max(CLAUDE, key=_number)
    assert {coding_agents.OPENCODE} == {each for shape in OPENCODE for each in shape.tested}


def test_another_shape_is_dropped_without_a_word(new_desk: NewDesk, version: str) -> None:
    wrong = handed_over(new_desk, version, "wrong")
    assert {name for name, handed in wrong.items() if SAID in handed.got} == {"MCP"}


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
