"""What somebody who may write cascades, or a store, can make of what names itself."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.cli.conftest import CommandLine, windlass
from tests.engine.harness import cascade, phase

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
