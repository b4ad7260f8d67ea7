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


def repeated_file_names() -> dict[str, list[str]]:
    """Names that several files have, an underscore in front apart, with their folders.

    Modules of commands have the names of their commands, and do not count.
    """
    homes: dict[str, list[str]] = defaultdict(list)
    for path in module_files().values():
        folder = path.relative_to(PACKAGE).parent.as_posix()
        if path.name != "__init__.py" and folder != "cli/commands":
            homes[path.stem.removeprefix("_")].append(folder)
    return {name: folders for name, folders in sorted(homes.items()) if len(folders) > 1}


def parameters() -> Iterator[tuple[int, str]]:
    """Public functions and methods: how many parameters each has, `self` and `cls` apart."""
    for module, path in module_files().items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                count = sum(argument.arg not in {"self", "cls"} for argument in every)
                if not node.name.startswith("_"):
                    yield count, f"{module}.{node.name}"


def mutable_fields() -> Iterator[tuple[int, str]]:
    """Classes that change: how many attributes each declares or assigns to `self`."""
    for module, path in module_files().items():
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not _is_value(node):
                yield len(_attributes(node)), f"{module}.{node.name}"


def _is_value(node: ast.ClassDef) -> bool:
    """Whether a class is frozen, or a model, a protocol, an enum, a tuple or an error."""
    decorators = " ".join(ast.unparse(one) for one in node.decorator_list)
    bases = " ".join(ast.unparse(one) for one in node.bases)
    values = (
        "Model",
        "Protocol",
        "Enum",
        "NamedTuple",
        "TypedDict",
        "Error",
        "Options",
        "Settings",
    )
    return "frozen=True" in decorators or any(value in bases for value in values)


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
    lines = {module: lines_of_code(path) for module, path in module_files().items()}
    yield (
        "lines of code (no blanks, comments, docstrings)",
        sum(lines.values()),
        [f"{count:6} {module}" for module, count in lines.items()],
    )
    loose = loose_modules()
    yield "loose modules in the root", len(loose), loose
    most = sorted(parameters(), reverse=True)[:TOLD]
    yield "parameters of the public function that has most", most[0][0], _counted(most)
    fields = sorted(mutable_fields(), reverse=True)[:TOLD]
    yield "fields of the mutable class that has most", fields[0][0], _counted(fields)
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
