"""`check` says what is different here from the runner that the language comes from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from tests.engine.harness import cascade, phase
from windlass.cli.app import app

LOOK = phase("look", tackle=["list_files"])
CHILD = phase("delegate", sub_cascades=[{"ref": "child.json"}])


def told(folder: Path, *phases: Any, **keys: Any) -> list[str]:
    """What `check` calls different, each after the place; both ways of printing say the same."""
    (folder / "child.json").write_text(json.dumps(cascade(phase("find"))))
    file = folder / "c.json"
    file.write_text(json.dumps(cascade(*phases, **keys), indent=1))
    said = json.loads(CliRunner().invoke(app, ["check", str(file), "--json", "--strict"]).stdout)
    plain = CliRunner().invoke(app, ["check", str(file)]).output
    listed = said.get("different_here", [])
    assert plain.count("different here: ") == len(listed)
    assert all(each["file"] == str(file) and each["line"] for each in listed)
    return [each["message"].partition("; elsewhere")[0] for each in listed]


def test_what_judges_it_and_what_is_taken_from_it(tmp_path: Path) -> None:
    extraction = {"pattern": "(.*)", "store_as": "x"}
    judged = {
        **LOOK,
        "rules": {"loop_until": "satisfied"},
        "wards": {"post": ["grammar_check"], "pre": ["content_safety"]},
        "output_extraction": extraction,
    }
    places = ["rules.loop_until", "output_extraction.pattern", "wards.post[0]"]
    assert sorted(told(tmp_path, judged)) == sorted(
        f"phase 'look', {place}: takes the phase's text" for place in places
    )


def test_words_that_may_mean_a_phase_of_a_sub_cascade(tmp_path: Path) -> None:
    own = {**CHILD, "context": {"from": ["previous"]}}
    last = phase("last", context={"from": ["first", "previous", "all"]})
    assert told(tmp_path, phase("start"), own, last) == [
        "phase 'delegate', context.from[0]: 'previous' is a phase of this cascade"
    ]
    assert told(tmp_path, CHILD, last) == [
        "phase 'last', context.from[0]: 'first' is a phase of this cascade"
    ]
