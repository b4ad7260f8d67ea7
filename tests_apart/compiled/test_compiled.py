"""The compiled package: what is compiled, and that its windows are those of the source."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import tomllib
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest
from hatch_build import chosen, groups_of

import windlass

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
WHEEL = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
LISTED = chosen(ROOT, WHEEL["hooks"]["custom"])
MODULES = [".".join(path.with_suffix("").parts) for path in LISTED]


def test_the_package_is_the_one_that_was_installed() -> None:
    assert ROOT / "src" not in Path(windlass.__file__).parents


@pytest.mark.parametrize("name", MODULES)
def test_what_is_listed_is_compiled(name: str) -> None:
    file = importlib.import_module(name).__file__
    assert file is not None
    assert file.endswith(tuple(EXTENSION_SUFFIXES))


@pytest.mark.parametrize(
    "name", ["windlass.messages", "windlass.settings", "windlass.loop.context"]
)
def test_what_is_not_listed_is_not(name: str) -> None:
    assert str(importlib.import_module(name).__file__).endswith(".py")


def test_each_file_is_in_one_library() -> None:
    grouped = [path for paths, _ in groups_of(ROOT, LISTED) for path in paths]
    assert sorted(grouped) == sorted(path.as_posix() for path in LISTED)


def _windows(*first: Path) -> list[str]:
    """What `windows.py` prints, with the package of `first`, or the one that is installed."""
    done = subprocess.run(
        [sys.executable, "-m", "tests_apart.compiled.windows"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, first))},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


def test_windows_are_those_of_the_source() -> None:
    compiled, interpreted = _windows(), _windows(ROOT / "src")
    assert compiled[0].endswith(tuple(EXTENSION_SUFFIXES))
    assert interpreted[0] == str(ROOT / "src" / "windlass" / "window" / "course.py")
    assert len(compiled) > 200
    assert compiled[1:] == interpreted[1:]
