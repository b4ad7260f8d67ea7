"""Measure how the package is laid out, and print the measures.

    python scripts/house.py [-v]

A line of code is one that holds a token other than a comment or a docstring. Every function counts,
private ones and `__init__` too, and every class, whatever it is made of. Imports count wherever
they stand: at the top of a module, inside functions, and for types only. `-v` prints the names
behind each number.
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

ROOT: Final = Path(__file__).resolve().parent.parent
PACKAGE: Final = ROOT / "src" / "windlass"
TESTS: Final = ROOT / "tests"
MOST_FIELDS: Final = 15
"""Fields of a class that are no more than a reader holds."""
TURN: Final = "windlass.engine.turn.turn"
TOLD: Final = 12
"""How many of the largest are named behind a number."""

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


def loose_modules() -> list[str]:
    """Modules that stand in the root of the package itself, its doors apart."""
    return sorted(
        path.stem for path in PACKAGE.glob("*.py") if path.stem not in {"__init__", "__main__"}
    )


def lines_by_room() -> dict[str, int]:
    """Lines of code of each folder of the package, the largest first."""
    rooms: dict[str, int] = defaultdict(int)
    for path in module_files().values():
        parts = path.relative_to(PACKAGE).parts
        rooms[f"{parts[0]}/" if len(parts) > 1 else "(root)"] += lines_of_code(path)
    return dict(sorted(rooms.items(), key=lambda room: room[1], reverse=True))


def repeated_file_names() -> dict[str, list[str]]:
    """Names that several files have, an underscore in front apart, with their folders."""
    homes: dict[str, list[str]] = defaultdict(list)
    for path in module_files().values():
        folder = path.relative_to(PACKAGE).parent.as_posix()
        if path.name != "__init__.py":
            homes[path.stem.removeprefix("_")].append(folder)
    return {name: folders for name, folders in sorted(homes.items()) if len(folders) > 1}


def functions() -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Every function and method, with its module in front of its name."""
    for module, path in module_files().items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{module}.{node.name}", node


def parameters() -> Iterator[tuple[int, str]]:
    """How many parameters each function has, `self` and `cls` apart."""
    for name, node in functions():
        every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        yield sum(argument.arg not in {"self", "cls"} for argument in every), name


def untyped_keywords() -> list[str]:
    """Functions that take any keywords with any values."""
    return [
        name
        for name, node in functions()
        if (rest := node.args.kwarg) is not None
        and rest.annotation is not None
        and ast.unparse(rest.annotation) in {"Any", "object"}
    ]


def fields() -> Iterator[tuple[int, str]]:
    """How many attributes each class declares or assigns to `self`."""
    for module, path in module_files().items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                yield len(_attributes(node)), f"{module}.{node.name}"


def _attributes(node: ast.ClassDef) -> set[str]:
    declared = {
        line.target.id
        for line in node.body
        if isinstance(line, ast.AnnAssign)
        and isinstance(line.target, ast.Name)
        and "ClassVar" not in ast.unparse(line.annotation)
    }
    for method in ast.walk(node):
        targets: list[ast.expr] = []
        if isinstance(method, ast.Assign):
            targets = method.targets
        elif isinstance(method, ast.AnnAssign):
            targets = [method.target]
        for target in targets:
            match target:
                case ast.Attribute(value=ast.Name(id="self"), attr=name):
                    declared.add(name)
    return declared


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
    rooms = lines_by_room()
    yield (
        "lines of code (no blanks, comments, docstrings)",
        sum(rooms.values()),
        [f"{count:6,} {room}" for room, count in rooms.items()],
    )
    yield "files", len(module_files()), []
    tests = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in TESTS.rglob("*.py"))
    yield "lines of tests, blank ones too", tests, []
    loose = loose_modules()
    yield "loose modules in the root", len(loose), loose
    most = sorted(parameters(), reverse=True)[:TOLD]
    yield "parameters of the function that has most", most[0][0], _counted(most)
    large = sorted((each for each in fields() if each[0] > MOST_FIELDS), reverse=True)
    yield f"classes with more than {MOST_FIELDS} fields", len(large), _counted(large)
    untyped = untyped_keywords()
    yield "functions that take **Any", len(untyped), untyped
    names = repeated_file_names()
    yield (
        "names that several files have",
        len(names),
        [f"{name}: {', '.join(folders)}" for name, folders in names.items()],
    )
    longest = sorted(
        (
            (len(path.read_text(encoding="utf-8").splitlines()), module)
            for module, path in module_files().items()
        ),
        reverse=True,
    )[:TOLD]
    yield "lines of the longest file", longest[0][0], _counted(longest)
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


def _counted(rows: list[tuple[int, str]]) -> list[str]:
    return [f"{count:5} {name}" for count, name in rows]


def main(arguments: list[str]) -> int:
    """Print the table; the exit code."""
    for label, number, names in measures():
        print(f"{number:7,}  {label}")
        if "-v" in arguments:
            print("".join(f"           {name}\n" for name in names))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
