"""What tests of architecture build their cases of; others use it, too."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


PACKAGE = ROOT / "packages" / "windlass" / "src" / "windlass"


MODULES = sorted(ROOT.glob("packages/*/src/**/*.py"))
"""The modules of all packages, the core's among them."""


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def imports_of(tree: ast.Module) -> Iterator[str]:
    """Every module a file imports, also inside functions and for types only."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports name the package in full"
            assert node.module
            yield node.module
