"""No command ends with a traceback: stopped before it begins, or with nowhere to print."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.engine.harness import cascade, phase

MAIN = [sys.executable, "-c", "from windlass.cli import main; main()"]
SENDS = """
import os, signal, sys
from windlass.cli import main

class Sending:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.{sent})

sys.meta_path.insert(0, Sending())
main()
"""
"""A program that gets a signal while it imports a module."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "c.json").write_text(json.dumps(cascade(phase("a"))))
    return tmp_path


@pytest.mark.parametrize("sent", ["SIGINT", "SIGTERM"])
@pytest.mark.parametrize(
    "module",
    ["rich.console", "windlass.cli.ending", "windlass.cli.app", "windlass.settings.settings"],
)
def test_a_signal_during_an_import_ends_it_in_silence(folder: Path, module: str, sent: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", SENDS.format(module=module, sent=sent), "run", "c.json"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 130
    assert (ended.stdout, ended.stderr.strip()) in {("", "windlass: interrupted"), ("", "")}
    assert not (folder / ".windlass").exists()


WAYS = [["--version"], ["--help"], ["memory", "--help"], ["models"], ["check", "c.json", "--json"]]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
@pytest.mark.parametrize("arguments", WAYS, ids=" ".join)
def test_a_full_disk_is_one_sentence(folder: Path, arguments: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [*MAIN, *arguments], cwd=folder, stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert ended.returncode == 1
    told = b"windlass: the output could not be written: No space left on device\n"
    assert ended.stderr == told


@pytest.mark.parametrize(
    ("arguments", "stream"), [*((way, "| true") for way in WAYS), (["models"], ">&-")]
)
def test_closed_output_is_no_failure(folder: Path, arguments: list[str], stream: str) -> None:
    command = f'set -o pipefail; "$@" {stream}'
    ended = subprocess.run(
        ["/bin/bash", "-c", command, "bash", *MAIN, *arguments],
        cwd=folder,
        stderr=subprocess.PIPE,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, b"")
