"""Break rows on purpose and show that their tests fail; exit 1 where a breakage passes.

    python scripts/mutants.py [ROW ...]

`mutants.toml` holds the breakages, as replacements in the source. Each is made in a copy
in a temporary folder, where the tests run that are marked with its row. A test that runs out of
time has not noticed the breakage. The tree itself is left alone.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from scripts.requirements import collect  # noqa: E402 - needs the line above

COPIED = (
    *("bench", "design", "docs", "examples", "packages", "scripts", "tests"),
    *("conftest.py", "pyproject.toml"),
)
_TIMED_OUT = re.compile(r"^(FAILED|ERROR) .* - ([\w.]+: )?(\w+\.)*Timeout.*$", re.MULTILINE)
"""A line of pytest's summary for a test that pytest, or a wait of its own, ended."""
PASSED, FAILED = int(pytest.ExitCode.OK), int(pytest.ExitCode.TESTS_FAILED)


@dataclass(frozen=True, slots=True)
class Mutant:
    """One breakage: `old`, which stands once in the package, becomes `new`."""

    row: str
    old: str
    new: str


def read_mutants() -> list[Mutant]:
    """The breakages in their order."""
    table = tomllib.loads((ROOT / "scripts" / "mutants.toml").read_text(encoding="utf-8"))
    return [Mutant(**entry) for entry in table["mutant"]]


def file_of(mutant: Mutant) -> Path:
    """The file that holds what is broken. Ends the program where there is no such one place."""
    sources = ROOT.glob("packages/*/src/**/*.py")
    files = [path for path in sources for _ in range(_times(mutant, path))]
    if len(files) != 1 or mutant.old == mutant.new:
        sys.exit(f"{mutant.row}: {mutant.old!r} stands {len(files)} times, not once")
    return files[0].relative_to(ROOT)


def _times(mutant: Mutant, path: Path) -> int:
    return path.read_text(encoding="utf-8").count(mutant.old)


def run_tests(copy: Path, tests: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run tests of the copy with the copy's package, up to the first failure."""
    options = ["-x", "-q", "--hypothesis-profile", "quick", "--timeout", "300"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *options, *tests],
        cwd=copy,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, copy.glob("packages/*/src"))),
            "PYTHONDONTWRITEBYTECODE": "1",
            "COLUMNS": "1000",  # or the summary would be cut before the reason
        },
        capture_output=True,
        text=True,
        check=False,
    )


def judge(mutant: Mutant, copy: Path, tests: Sequence[str]) -> str:
    """What became of a breakage: `` where a test failed, else what is wrong."""
    if not tests:
        return "has no test"
    file = copy / file_of(mutant)
    whole = file.read_text(encoding="utf-8")
    file.write_text(whole.replace(mutant.old, mutant.new), encoding="utf-8")
    try:
        ended = run_tests(copy, tests)
    finally:
        file.write_text(whole, encoding="utf-8")
    return trouble_in(ended, len(tests))


def trouble_in(ended: subprocess.CompletedProcess[str], tests: int) -> str:
    """Why a run of so many tests has not noticed a breakage; empty where one failed."""
    if ended.returncode == PASSED:
        return f"its {tests} tests pass all the same"
    if ended.returncode != FAILED:
        return f"its tests did not run (exit code {ended.returncode}): {ended.stdout[-2_000:]}"
    if late := _TIMED_OUT.search(ended.stdout):
        return f"a test ran out of time, which is no notice of it: {late[0]}"
    return ""


def main(chosen: list[str]) -> int:
    """Make each breakage; 1 where the tests of a row do not notice, 2 for an unknown row."""
    mutants = [mutant for mutant in read_mutants() if not chosen or mutant.row in chosen]
    if unknown := set(chosen) - {mutant.row for mutant in mutants}:
        print(f"no breakage of {', '.join(sorted(unknown))} in mutants.toml", file=sys.stderr)
        return 2
    for mutant in mutants:
        file_of(mutant)  # a list that has gone stale is told before anything runs
    shown: Mapping[str, list[str]] = collect()
    survived = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, copy / name)
        needed = sorted({test for mutant in mutants for test in shown.get(mutant.row, ())})
        if run_tests(copy, needed).returncode != PASSED:
            print("their tests fail without any breakage: run `make tests`", file=sys.stderr)
            return 1
        for mutant in mutants:
            trouble = judge(mutant, copy, shown.get(mutant.row, ()))
            survived += bool(trouble)
            print(f"{mutant.row:<7} {trouble or 'fails'}  ({file_of(mutant)})", flush=True)
    print(f"{len(mutants) - survived} of {len(mutants)} breakages are noticed")
    return int(survived > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
