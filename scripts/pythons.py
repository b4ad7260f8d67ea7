"""Run the demo and the tests with every Python that Windlass supports, or with those named.

    python scripts/pythons.py [VERSION ...]

The versions are those of the classifiers in pyproject.toml. A Python is looked for as
`python3.13` on the PATH, then among pyenv's; one that cannot make an environment counts
as not there. Each has an environment of its own (`.venv-3.13`). Exit 1 where a command
failed; versions that were not found are named, and no failure.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COMMANDS = ("demo", "tests")
# Lint, types and imports are the same for each: types are checked for the oldest.
CLASSIFIER = "Programming Language :: Python :: "
# A shim of pyenv answers for versions that are not there; the rest is what `make` needs of one.
WORKS = "import ensurepip, sys, venv; print('%d.%d' % sys.version_info[:2])"


def supported() -> list[str]:
    """The versions that pyproject.toml names, such as `3.13`."""
    project = tomllib.loads(
        (ROOT / "packages" / "windlass" / "pyproject.toml").read_text(encoding="utf-8")
    )["project"]
    names = [name.removeprefix(CLASSIFIER) for name in project["classifiers"]]
    return [name for name in names if name[:1].isdigit()]


def candidates(version: str) -> Iterator[Path]:
    """Where an interpreter of the version may be, best first."""
    if (on_path := shutil.which(f"python{version}")) is not None:
        yield Path(on_path)
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    built = (pyenv / "versions").glob(f"{version}.*/bin/python")
    yield from sorted(built, key=lambda path: [int(part) for part in _numbers(path)], reverse=True)


def _numbers(interpreter: Path) -> list[str]:
    return [part for part in interpreter.parent.parent.name.split(".") if part.isdigit()]


def find(version: str) -> Path | None:
    """An interpreter of the version that runs and can make an environment."""
    for path in candidates(version):
        told = subprocess.run([path, "-c", WORKS], capture_output=True, text=True, check=False)
        if told.stdout.strip() == version:
            return path
    return None


def main(versions: list[str]) -> int:
    """Run them one after the other; the exit code."""
    ended: list[str] = []
    failed = False
    for version in versions:
        python = find(version)
        if python is None:
            where = f"no python{version} on the PATH that runs, and none among pyenv's"
            ended.append(f"Python {version}: not run, {where}")
            continue
        make = ["make", f"PYTHON={python}", f"VENV=.venv-{version}"]
        for command in COMMANDS:
            print(f"\n==> Python {version}: make {command}", flush=True)
            code = subprocess.run([*make, command], cwd=ROOT, check=False).returncode
            failed = failed or code != 0
            ended.append(f"Python {version}: make {command} {'failed' if code else 'passed'}")
    print("\n" + "\n".join(ended))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or supported()))
