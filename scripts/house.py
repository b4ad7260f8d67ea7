"""Measure how the packages are laid out, and print the measures: the core first, then all.

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
PACKAGES: Final = {
    path.name: path for path in sorted(ROOT.glob("packages/*/src/*")) if path.is_dir()
}
"""The folder of each package, by the name that is imported."""
CORE: Final = "windlass"
PACKAGE: Final = PACKAGES[CORE]
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
    """Return the file of each module of all packages, by its dotted name."""
    files = {}
    for folder in PACKAGES.values():
        for path in sorted(folder.rglob("*.py")):
            dotted = ".".join(path.relative_to(folder.parent).with_suffix("").parts)
            files[dotted.removesuffix(".__init__")] = path
    return files


def import_graph() -> grimp.ImportGraph:
    """Return which module of the packages imports which."""
    return grimp.build_graph(*PACKAGES, cache_dir=None)


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
    """Return the lines of code of each folder of the core, the largest first."""
    rooms: dict[str, int] = defaultdict(int)
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE).parts
        rooms[f"{parts[0]}/" if len(parts) > 1 else "(root)"] += lines_of_code(path)
    return dict(sorted(rooms.items(), key=lambda room: room[1], reverse=True))


def repeated_file_names() -> dict[str, list[str]]:
    """Names that several files have, an underscore in front apart, with their folders."""
    homes: dict[str, list[str]] = defaultdict(list)
    for path in module_files().values():
        *_, folder = path.parent.as_posix().rpartition("/src/")
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


def core_modules(graph: grimp.ImportGraph, package: str) -> list[str]:
    """List the modules of the core that a package imports."""
    inside = [module for module in graph.modules if module.partition(".")[0] == package]
    reached = {
        imported
        for module in inside
        for imported in graph.find_modules_directly_imported_by(module)
    }
    return sorted(name for name in reached if name.partition(".")[0] == CORE)


def measures() -> Iterator[tuple[str, int, list[str]]]:
    """Each measure: what it counts, the number, and the names behind it."""
    graph = import_graph()
    rooms = lines_by_room()
    yield (
        "lines of code of the core (no blanks, comments, docstrings)",
        sum(rooms.values()),
        [f"{count:6,} {room}" for room, count in rooms.items()],
    )
    yield "files of the core", sum(1 for _ in PACKAGE.rglob("*.py")), []
    lines = {
        name: sum(map(lines_of_code, folder.rglob("*.py"))) for name, folder in PACKAGES.items()
    }
    plugins = [f"{count:6,} {name}" for name, count in lines.items() if name != CORE]
    yield "lines of code of all packages", sum(lines.values()), plugins
    yield "files of all packages", len(module_files()), []
    public = {name: core_modules(graph, name) for name in PACKAGES if name != CORE}
    largest = max(public, key=lambda name: len(public[name]))
    yield f"modules of the core that {largest} imports", len(public[largest]), public[largest]
    tests = [*ROOT.glob("tests/**/*.py"), *ROOT.glob("packages/*/tests_*/**/*.py")]
    count = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in tests)
    yield "lines of tests, blank ones too", count, []
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
