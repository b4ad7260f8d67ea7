"""Measure how the package is laid out, and print the measures.

    python scripts/house.py [-v]

Imports count wherever they stand: at the top of a module, inside functions, and for types only.
`-v` prints the names behind each number.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import grimp

PACKAGE: Final = Path(__file__).resolve().parent.parent / "src" / "windlass"
SMALL: Final = 80
"""Lines of code below which a module with a single importer could be part of it."""

FAMILIES: Final = (
    "windlass.selection.strategies",
    "windlass.injectors",
    "windlass.window.encode",
    "windlass.window.policies",
)
"""Packages whose modules are siblings of one shape, so that a small one stays a module."""

TURN: Final = "windlass.engine.turn.turn"
_LAYOUT: Final = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def module_files() -> dict[str, Path]:
    """The file of each module, by its dotted name; packages included."""
    files = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        dotted = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        files[dotted.removesuffix(".__init__")] = path
    return files


def import_graph() -> grimp.ImportGraph:
    """Which module of the package imports which."""
    return grimp.build_graph("windlass", cache_dir=None)


def lines_of_code(path: Path) -> int:
    """Lines of a file that hold code: no blanks, no comments, no docstrings."""
    text = path.read_text(encoding="utf-8")
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                docstrings.update(range(node.lineno, (node.end_lineno or 0) + 1))
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _LAYOUT:
            code.update(range(token.start[0], token.end[0] + 1))
    return len(code - docstrings)


def small_modules(graph: grimp.ImportGraph) -> dict[str, str]:
    """Small modules that a single other one imports, with that one; families stand apart."""
    importers = {}
    for module, path in module_files().items():
        importing = graph.find_modules_that_directly_import(module)
        is_apart = path.name == "__init__.py" or module.rpartition(".")[0] in FAMILIES
        if len(importing) == 1 and not is_apart and lines_of_code(path) < SMALL:
            importers[module] = min(importing)
    return importers


def repeated_class_names() -> dict[str, list[str]]:
    """Public classes whose name stands at the top level of several modules, with the modules."""
    homes: dict[str, list[str]] = defaultdict(list)
    for module, path in module_files().items():
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(module)
    return {name: modules for name, modules in sorted(homes.items()) if len(modules) > 1}


def import_circles(graph: grimp.ImportGraph) -> list[list[str]]:
    """Groups of modules each of which imports, by way of others, all of its group."""
    reached = {module: graph.find_upstream_modules(module) for module in graph.modules}
    circles = {
        tuple(sorted({module, *(other for other in others if module in reached[other])}))
        for module, others in reached.items()
    }
    return [list(circle) for circle in sorted(circles) if len(circle) > 1]


def measures() -> Iterator[tuple[str, int, list[str]]]:
    """Each measure: what it counts, the number, and the names behind it."""
    graph = import_graph()
    lines = {module: lines_of_code(path) for module, path in module_files().items()}
    yield (
        "lines of code (no blanks, comments, docstrings)",
        sum(lines.values()),
        [f"{count:6} {module}" for module, count in lines.items()],
    )
    small = small_modules(graph)
    yield (
        f"modules under {SMALL} lines of code with a single importer, families apart",
        len(small),
        [f"{lines[module]:4} {module} (by {importer})" for module, importer in small.items()],
    )
    reached = graph.find_upstream_modules(TURN)
    yield f"modules that {TURN} reaches by imports", len(reached), sorted(reached)
    repeated = repeated_class_names()
    yield (
        "public class names that stand twice",
        len(repeated),
        [f"{name}: {', '.join(modules)}" for name, modules in repeated.items()],
    )
    circles = import_circles(graph)
    yield "circles of imports", len(circles), [", ".join(circle) for circle in circles]


def main(arguments: list[str]) -> int:
    """Print the table; the exit code."""
    for label, number, names in measures():
        print(f"{number:7,}  {label}")
        if "-v" in arguments:
            print("".join(f"           {name}\n" for name in names))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
