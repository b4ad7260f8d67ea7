"""Recordings and runs whose texts act on who looks at a page or a file made of them."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path

import pytest

from tests.cli.conftest import CommandLine
from tests.cli.conftest import windlass as command_line_fixture
from tests.engine.harness import by_phase, call, calls, cascade, phase
from tests.replays.making import session_file

windlass = command_line_fixture

ACTING = "\x1b[31m\x07\x9b31m\u202e\u2066\u200f\u061c\u2028\ufff9<script>"


def acting(file: Path) -> set[str]:
    """The characters of a file that act on who looks at it, by their kind in Unicode."""
    kinds = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
    marks = "\u061c\u200e\u200f\ufff9\ufffa\ufffb"
    return {
        each
        for each in set(file.read_text(encoding="utf-8"))
        if (unicodedata.category(each) in ("Cc", "Cs", "Zl", "Zp") and each not in "\n\t")
        or unicodedata.bidirectional(each) in kinds
        or each in marks
    }


@pytest.fixture
def spoken(windlass: CommandLine) -> CommandLine:
    """A session `s1` and recordings that say such things wherever a text may stand."""
    told = phase("a", tackle=["set_state"]) | {"instructions": "Do a. {{ input.x }}"}
    windlass.write("bad.json", cascade(told, cascade_id="c\u202e\u2066"))
    asked = calls(call("set_state", json.dumps({"key": "k", "value": ACTING})))
    windlass.script = by_phase({"a": [asked, f"said {ACTING}"]})  # type: ignore[assignment]
    said = windlass("run", "bad.json", "--session", "s1", "-i", f"x={ACTING}")
    assert said.code == 0, said.err
    (windlass.folder / "logs").mkdir()
    for number in range(2):
        name = f"{number} \x1b[31m \u202e \x9b.jsonl"
        session_file(windlass.folder / "logs" / name, name=f"n {ACTING}", model=f"m {ACTING}")
    session_file(windlass.folder / "s.jsonl", name=f"n {ACTING}", model=f"m {ACTING}")
    (windlass.folder / "logs" / "no \x1b[31m\u202e.jsonl").write_text("{", encoding="utf-8")
    return windlass


@pytest.mark.parametrize(
    "command",
    [
        ("replay", "s.jsonl", "--html"),
        ("replay", "logs", "--html"),
        ("report", "s1", "--html"),
        ("report", "--html"),
        ("export", "s1", "--as", "html", "--out"),
        ("export", "s1", "--as", "markdown", "--out"),
    ],
)
def test_no_character_acts_on_who_looks_at_a_page(
    spoken: CommandLine, command: tuple[str, ...]
) -> None:
    said = spoken(*command, "page")
    assert said.code == 0, said.err
    page = spoken.folder / "page"
    assert acting(page) == set()
    assert "\\u202e" in page.read_text(encoding="utf-8")
    if "markdown" not in command:
        assert "<script" not in page.read_text(encoding="utf-8")


def test_what_programs_read_says_the_same(spoken: CommandLine) -> None:
    assert spoken("export", "s1", "--as", "jsonl", "--out", "calls.jsonl").code == 0
    file = spoken.folder / "calls.jsonl"
    assert acting(file) == set()
    replies = [json.loads(line)["response"] for line in file.read_text().splitlines()]
    assert replies[-1]["choices"][0]["message"]["content"] == f"said {ACTING}"
