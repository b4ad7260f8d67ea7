"""`make pythons`: which interpreters it takes, and what it says of those that are not there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parent.parent / "scripts" / "pythons.py"
pytestmark = pytest.mark.skipif(os.name == "nt", reason="the Makefile needs a shell")


def program(path: Path, script: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A PATH with a shim of pyenv's that has nothing behind it, and a make that fails for demo."""
    program(
        tmp_path / "bin" / "python3.98", "echo 'pyenv: python3.98: command not found'; exit 127"
    )
    program(
        tmp_path / "bin" / "make", 'echo "made $*"; case "$3" in demo) exit "${DEMO:-0}";; esac'
    )
    return tmp_path


def run(machine: Path, *versions: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": str(machine / "bin"), "PYENV_ROOT": str(machine), **variables}
    return subprocess.run(
        [sys.executable, SCRIPT, *versions],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_version_that_is_not_there_is_named(machine: Path) -> None:
    done = run(machine, "3.98", "3.99")
    assert done.returncode == 0
    assert "Python 3.98: not run" in done.stdout
    assert "Python 3.99: not run" in done.stdout
    assert "made" not in done.stdout


def test_the_newest_of_pyenv_is_taken_where_the_one_on_the_path_does_not_run(
    machine: Path,
) -> None:
    for patch in (2, 10):
        program(machine / "versions" / f"3.98.{patch}" / "bin" / "python", "echo 3.98")
    done = run(machine, "3.98")
    python = machine / "versions" / "3.98.10" / "bin" / "python"
    for command in ("demo", "tests"):
        assert f"made PYTHON={python} VENV=.venv-3.98 {command}\n" in done.stdout
        assert f"Python 3.98: make {command} passed" in done.stdout


def test_a_command_that_fails_is_told_and_the_next_still_run(machine: Path) -> None:
    program(machine / "bin" / "python3.97", "echo 3.97")
    done = run(machine, "3.97", DEMO="2")
    assert done.returncode == 1
    assert "Python 3.97: make demo failed" in done.stdout
    assert "Python 3.97: make tests passed" in done.stdout
