"""Print what packages of the workspace need of others, a requirement a line: what `make lock` pins.

python scripts/dependencies.py windlass windlass[mcp] windlass-otel
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PACKAGES = Path(__file__).resolve().parent.parent / "packages"


def read_project(name: str) -> dict[str, Any]:
    """Return the table `project` of a package."""
    text = (PACKAGES / name / "pyproject.toml").read_text(encoding="utf-8")
    return dict(tomllib.loads(text)["project"])


def dependencies(name: str) -> Iterator[str]:
    """Yield what a package needs, and with `name[extra]` what an extra adds; none of our own."""
    package, _, extra = name.removesuffix("]").partition("[")
    project = read_project(package)
    needs = [*project["dependencies"]]
    if extra:
        needs += project["optional-dependencies"][extra]
    yield from (need for need in needs if not need.startswith("windlass"))


if __name__ == "__main__":
    needed = dict.fromkeys(need for name in sys.argv[1:] for need in dependencies(name))
    print("\n".join(needed))
