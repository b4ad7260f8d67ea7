"""What somebody who may write cascades, or a store, can make of what names itself."""

from __future__ import annotations

import json
import re
import sqlite3
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import CommandLine, windlass
from tests.engine.harness import call, calls, cascade, phase
from windlass.wire.base import Request

__all__ = ["windlass"]

pytestmark = pytest.mark.timeout(120)


def named(line: CommandLine, name: str, subs: Iterable[str]) -> None:
    refs = [{"ref": f"{each}.json"} for each in subs]
    line.write(f"{name}.json", {**cascade(phase("p", sub_cascades=refs)), "cascade_id": name})


@pytest.mark.parametrize("command", ["check", "run", "dry run", "batch"])
def test_cascades_that_name_each_other_many_times_are_counted(
    windlass: CommandLine, command: str
) -> None:
    for level in range(5):
        named(windlass, f"c{level}", [f"c{level + 1}"] * 9)
    named(windlass, "c5", [])
    windlass.write("in.csv", "n\n1\n")
    words = {
        "check": ["check", "c0.json"],
        "run": ["run", "c0.json"],
        "dry run": ["run", "c0.json", "--dry-run"],
        "batch": ["batch", "c0.json", "in.csv", "--out", "r.jsonl"],
    }
    began = time.monotonic()
    said = windlass(*words[command])
    assert time.monotonic() - began < 20  # it did not end; the machine may be busy
    assert said.code == 2
    assert "'c5.json' is one sub-cascade too many" in said.err
    assert "at most 1,000" in said.err
    assert windlass.requests == []


def test_one_that_names_very_many_is_counted_too(windlass: CommandLine) -> None:
    named(windlass, "c0", ["c1"] * 5_000)
    named(windlass, "c1", [])
    said = windlass("check", "c0.json")
    assert said.code == 2
    assert "one sub-cascade too many" in said.complaint


def test_a_thousand_are_checked(windlass: CommandLine) -> None:
    named(windlass, "c0", ["c1"] * 10)
    named(windlass, "c1", ["c2"] * 9)
    named(windlass, "c2", ["c3"] * 9)
    named(windlass, "c3", [])
    began = time.monotonic()
    said = windlass("check", "c0.json")
    assert said.code == 0, said.err
    assert time.monotonic() - began < 20  # about two seconds where nothing else runs


# ---- sessions of a store that was edited --------------------------------------------


@pytest.fixture
def family(windlass: CommandLine) -> CommandLine:
    """A store with `s1`, which ran a sub-cascade, and `s2`."""
    named(windlass, "below", [])
    named(windlass, "top", ["below"])
    for session in ("s1", "s2"):
        assert windlass("run", "top.json", "--session", session).code == 0
    return windlass


def database(line: CommandLine) -> Path:
    (path,) = (line.folder / ".windlass").glob("*.sqlite")
    return path


def parents(line: CommandLine, **parent_of: str) -> None:
    """Write other parents into the store."""
    with sqlite3.connect(database(line)) as db:
        for session, parent in parent_of.items():
            done = db.execute(
                "UPDATE sessions SET parent_id = ?, parent_phase = 'p'"
                " WHERE session_id = ? OR ? = '*'",
                (parent, session, session),
            )
            assert done.rowcount
    db.close()


_READING = (
    ("show", "s1"),
    ("report", "s1"),
    ("report",),
    ("sessions",),
    ("sessions", "--status", "completed"),
    ("replay", "s1"),
    ("export", "s1"),
    ("report", "s1", "--html", "page.html"),
)


@pytest.mark.parametrize("words", _READING, ids=" ".join)
@pytest.mark.parametrize("circle", [{"s1": "s1"}, {"s1": "s2", "s2": "s1"}])
def test_sessions_that_run_each_other_are_met_once(
    family: CommandLine, words: tuple[str, ...], circle: dict[str, str]
) -> None:
    parents(family, **circle)
    said = family(*words)
    assert "Traceback" not in said.err
    assert said.code == 0, said.err
    assert said.out.count("s1\n") < 5


def test_a_circle_can_be_pruned(family: CommandLine) -> None:
    parents(family, s1="s2", s2="s1")
    said = family("prune", "--session", "s1")
    assert "Traceback" not in said.err


def test_sessions_nested_without_end_are_told(family: CommandLine) -> None:
    db = sqlite3.connect(database(family))
    columns = [name for _, name, *_ in db.execute("PRAGMA table_info(sessions)")]
    row = dict(
        zip(
            columns,
            db.execute("SELECT * FROM sessions WHERE session_id = 's2'").fetchone(),
            strict=True,
        )
    )
    first = db.execute("SELECT max(session_no) FROM sessions").fetchone()[0]
    for level in range(300):
        above = "s1" if level == 0 else f"d{level - 1}"
        row |= {"session_id": f"d{level}", "parent_id": above, "session_no": first + 1 + level}
        marks = ", ".join("?" * len(columns))
        db.execute(f"INSERT INTO sessions VALUES ({marks})", [row[each] for each in columns])
    db.commit()
    db.close()
    for words in (("show", "s1"), ("report", "s1"), ("replay", "s1")):
        said = family(*words)
        assert said.code not in (0, None)
        assert "nested more than 100 levels deep" in said.complaint


# ---- cascades that are tools --------------------------------------------------------


def as_tool(line: CommandLine, name: str, *tackle: str, **keys: Any) -> None:
    """A cascade that is a tool and may call others that lie beside it."""
    own = {"cascade_id": name, "inputs_schema": {"x": "any"}, "tools": ["./"]}
    line.write(f"{name}.json", {**cascade(phase("p", tackle=[*tackle], **keys)), **own})


def call_all(times: int) -> Callable[[Request], Any]:
    """A model that calls each cascade it may so many times at once, as long as it may."""

    def script(request: Request) -> Any:
        names = [tool.name for tool in request.tools if tool.name.startswith("c")]
        asked = [
            call(name, json.dumps({"x": f"{at} of {len(request.messages)}"}))
            for name in names
            for at in range(times)
        ]
        return calls(*asked) if asked else "done"

    return script


CIRCLES: dict[str, tuple[dict[str, list[str]], str]] = {
    "itself": ({"c0": ["c0"]}, "c0.json -> c0.json"),
    "another": ({"c0": ["c1"], "c1": ["c0"]}, "c0.json -> c1.json -> c0.json"),
    "a third": ({"c0": ["c1"], "c1": ["c2"], "c2": ["c1"]}, "c1.json -> c2.json -> c1.json"),
}


@pytest.mark.parametrize("kind", CIRCLES)
@pytest.mark.parametrize("command", ["check", "run", "dry run", "batch"])
def test_cascades_that_call_themselves_as_tools_are_refused(
    windlass: CommandLine, command: str, kind: str
) -> None:
    named_by, way = CIRCLES[kind]
    for name, tackle in named_by.items():
        as_tool(windlass, name, *tackle)
    windlass.write("in.csv", "x\n1\n")
    words = {
        "check": ["check", "c0.json"],
        "run": ["run", "c0.json", "-i", "x=1"],
        "dry run": ["run", "c0.json", "-i", "x=1", "--dry-run"],
        "batch": ["batch", "c0.json", "in.csv", "--out", "r.jsonl"],
    }
    said = windlass(*words[command])
    assert said.code == 2, said.err
    assert re.search(r"c\d.json:\d+: phase 'p', tackle: 'c\d' would run itself", said.complaint)
    (told,) = re.findall(r"without end \((.*)\)", said.complaint)
    files = way.split(" -> ")[:-1]
    assert sorted(told.split(" -> ")[:-1]) == sorted(files)  # from any of them on
    assert windlass.requests == []


@pytest.mark.parametrize("turned", [True, False])
def test_a_circle_of_a_tool_and_a_sub_cascade_is_refused(
    windlass: CommandLine, *, turned: bool
) -> None:
    first, second = ("c1", "c0") if turned else ("c0", "c1")
    as_tool(windlass, first, second)
    as_tool(windlass, second, sub_cascades=[{"ref": f"{first}.json"}])
    said = windlass("run", "c0.json", "-i", "x=1")
    assert said.code == 2
    assert "would run itself without end" in said.complaint
    assert windlass.requests == []


@pytest.mark.parametrize("judging", ["loop_until", "ward", "soundings"])
def test_a_cascade_that_judges_itself_is_refused(windlass: CommandLine, judging: str) -> None:
    picked = {"factor": 2, "evaluator_instructions": "Pick the best."}
    keys: dict[str, dict[str, Any]] = {
        "loop_until": {"rules": {"loop_until": "c0"}},
        "ward": {"wards": {"post": [{"validator": "c0", "mode": "blocking"}]}},
        "soundings": {"soundings": {**picked, "validator": "c0"}},
    }
    as_tool(windlass, "c0", **keys[judging])
    said = windlass("check", "c0.json")
    assert said.code == 2
    assert "'c0' would run itself without end (c0.json -> c0.json)" in said.complaint


def test_one_that_a_manifest_offers_to_itself_is_refused_when_it_is_called(
    windlass: CommandLine,
) -> None:
    own = {"cascade_id": "c0", "inputs_schema": {"x": "any"}, "tools": ["./"]}
    windlass.write("c0.json", {**cascade(phase("p", tackle="manifest")), **own})
    windlass.script = call_all(1)
    said = windlass("run", "c0.json", "-i", "x=1", "--session", "s1", "--max-turns", "9")
    assert "Traceback" not in said.err
    assert len(windlass("sessions", "--json").json) == 1


@pytest.mark.parametrize("limits", [("400",), ("12", "400")])
def test_the_sessions_of_all_that_are_called_are_counted(
    windlass: CommandLine, limits: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a bound: 9,330 sessions in 320 seconds. Those of before it is resumed count, too."""
    monkeypatch.setattr("windlass.engine._subcascades.CASCADES", 30)
    as_tool(windlass, "c3", sub_cascades=[{"ref": "d.json"}] * 3)
    windlass.write("d.json", cascade(phase("q")))
    for level in range(3):
        as_tool(windlass, f"c{level}", f"c{level + 1}", rules={"max_turns": 9})
    windlass.script = call_all(5)
    for at, limit in enumerate(limits):
        how = ("--resume", "s1") if at else ("--session", "s1", "-i", "x=1")
        said = windlass("run", "c0.json", *how, "--max-turns", limit)
        assert "Traceback" not in said.err
    listed = windlass("sessions", "--json", "--limit", "1000").json
    assert 20 < len(listed) - 1 <= 30
    assert any("a run begins at most 30 cascades" in str(each) for each in windlass.requests)
