"""What every file of the package keeps to, beyond what the linters hold."""

from __future__ import annotations

import ast
import doctest
import importlib
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from scripts.house import import_circles, import_graph, repeated_class_names

from tests.support.architecture import MODULES, PACKAGE, ROOT, imports_of, name_of, tree_of

PURE = [
    path
    for folder in ("caching", "wire", "window")
    for path in sorted((PACKAGE / folder).rglob("*.py"))
    if path.name != "rates.py"  # which of the listed prices holds depends on the day
]
SHIPPED = (
    [
        path
        for folder in (
            "packages",
            "tests",
            "tests_apart",
            "bench",
            "scripts",
            "examples",
            "docs",
            "design",
            ".ci",
        )
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in {".py", ".md", ".toml", ".json", ".yaml", ".sh", ""} and path.is_file()
    ]
    + sorted(ROOT.glob("*.md"))
    + [ROOT / "Makefile", ROOT / "pyproject.toml"]
)

PINNED = sorted((ROOT / "requirements").rglob("*.txt"))

LONGEST_STORY = 200
"""Lines of `turn.py`: the whole story of one call must be readable in one sitting."""

PURE_IMPORTS = {
    "__future__",
    "base64",
    "binascii",
    "bisect",
    "collections",
    "csv",
    "dataclasses",
    "difflib",
    "enum",
    "functools",
    "hashlib",
    "heapq",
    "itertools",
    "json",
    "math",
    "numpy",
    "operator",
    "re",
    "shlex",
    "statistics",
    "string",
    "textwrap",
    "types",
    "windlass.safety.foreign",
    "typing",
    "unicodedata",
    "windlass.caching.bill",
    "windlass.caching.breakpoints",
    "windlass.caching.meter",
    "windlass.caching.pauses",
    "windlass.caching.prices",
    "windlass.caching.provider_rules",
    "windlass.caching.model_cache",
    "windlass.errors",
    "windlass.messages",
    "windlass.safety.patterns",
    "windlass.text.pictures",
    "windlass.text.prompts",
    "windlass.text.tokens",
    "windlass.window",
    "windlass.wire",
}
"""All that pure folders may import: nothing that knows time, chance, disk or network."""

EFFECTS = {"open", "print", "input", "exec", "eval", "compile", "__import__", "breakpoint"}

# Spelt with brackets, so that this file does not find itself.
UNFINISHED = re.compile(
    r"\b(TOD[O]|FIXM[E]|XX[X])\b|NotImplemented[E]rror|pragma: no [c]over|type: [i]gnore(?!\[)"
)
ELSEWHERE = re.compile(
    r"/wor[k]/|/roo[t]/|/hom[e]/\w|/User[s]/\w|pypi\.or[g]|pythonhoste[d]|registry\.npmj[s]"
)

QUOTED = {"tests/data"}
"""Folders with recordings of others, which are quoted as they are."""


def found(pattern: re.Pattern[str], path: Path) -> list[str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return [
        f"{name_of(path)}:{number}: {line.strip()}"
        for number, line in enumerate(lines, start=1)
        if pattern.search(line)
    ]


def _is_overload(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
    return any(isinstance(name, ast.Name) and name.id == "overload" for name in node.decorator_list)


def public_definitions(
    body: list[ast.stmt], inside: str = ""
) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]]:
    """Public functions, classes and their public methods; not what a function holds."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            if node.name.startswith("_") or _is_overload(node):
                continue
            yield inside + node.name, node
            if isinstance(node, ast.ClassDef):
                yield from public_definitions(node.body, f"{inside}{node.name}.")


@pytest.mark.parametrize("path", MODULES, ids=name_of)
class TestEveryModule:
    def test_says_what_it_is_and_so_does_all_it_offers(self, path: Path) -> None:
        tree = tree_of(path)
        assert ast.get_docstring(tree), f"{name_of(path)} has no docstring"
        silent = [
            name for name, node in public_definitions(tree.body) if not ast.get_docstring(node)
        ]
        assert not silent, f"{name_of(path)}: no docstring on {', '.join(silent)}"

    def test_is_finished(self, path: Path) -> None:
        assert not found(UNFINISHED, path)


@pytest.mark.parametrize("path", PURE, ids=name_of)
class TestPureModules:
    def test_import_nothing_that_acts(self, path: Path) -> None:
        foreign = [
            module
            for module in imports_of(tree_of(path))
            if not any(module == pure or module.startswith(pure + ".") for pure in PURE_IMPORTS)
        ]
        assert not foreign, f"{name_of(path)} is pure and imports {', '.join(foreign)}"

    def test_call_nothing_that_acts(self, path: Path) -> None:
        acting = [
            f"{name_of(path)}:{node.lineno}: {node.func.id}"
            for node in ast.walk(tree_of(path))
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in EFFECTS
        ]
        assert not acting


def test_pure_folders_are_where_they_are_looked_for() -> None:
    assert {path.relative_to(PACKAGE).parts[0] for path in PURE} == {"caching", "wire", "window"}


def test_no_test_imports_another() -> None:
    for path in sorted((ROOT / "tests").rglob("*.py")):
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
                names = [node.module, *(f"{node.module}.{one.name}" for one in node.names)]
                found = [name for name in names if name.startswith("tests.") and ".test_" in name]
                assert not found, (
                    f"{path.name} imports {found}; tests/support is for what is shared"
                )


def test_private_modules_stay_in_their_room() -> None:
    graph = import_graph()
    private = [name for name in graph.modules if name.rpartition(".")[2].startswith("_")]
    assert private
    for module in private:
        room = module.rpartition(".")[0]
        outside = [
            importer
            for importer in graph.find_modules_that_directly_import(module)
            if importer != room and not importer.startswith(f"{room}.")
        ]
        assert not outside, f"{module} is imported by {outside}"


def test_no_public_class_name_stands_twice() -> None:
    assert not repeated_class_names()


def test_no_module_imports_itself_by_way_of_others() -> None:
    assert not import_circles(import_graph())


def test_the_contract_of_imports_lists_every_module() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = project["tool"]["importlinter"]["contracts"][0]["layers"]
    listed = [name.strip() for layer in layers for name in re.split("[|:]", layer)]
    assert sorted(listed) == sorted(import_graph().find_children("windlass"))


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("turn.py")), ids=name_of)
def test_the_story_of_one_call_fits_one_sitting(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) < LONGEST_STORY


def test_no_file_names_a_machine_or_a_registry() -> None:
    read = [path for path in SHIPPED if path.parent.relative_to(ROOT).as_posix() not in QUOTED]
    assert len(read) > len(MODULES)
    assert not [place for path in read for place in found(ELSEWHERE, path)]


@pytest.mark.parametrize(
    "path", [path for path in MODULES if ">>> " in path.read_text(encoding="utf-8")], ids=name_of
)
def test_examples_in_docstrings_hold(path: Path) -> None:
    dotted = path.as_posix().rpartition("/src/")[2].removesuffix(".py").replace("/", ".")
    module = importlib.import_module(dotted.removesuffix(".__init__"))
    outcome = doctest.testmod(module)
    assert outcome.failed == 0


@pytest.mark.parametrize("path", PINNED, ids=name_of)
def test_packages_are_pinned_once_for_every_python_and_by_hash(path: Path) -> None:
    """Types are checked for the oldest Python, with the packages that all of them have."""
    text = path.read_text(encoding="utf-8")
    pins = re.findall(r"^([\w.-]+)==", text, re.MULTILINE)
    assert sorted(set(pins)) == sorted(pins)
    assert "--index-url" not in text
    blocks = re.split(r"^(?=[\w.-]+==)", text, flags=re.MULTILINE)[1:]
    assert all("--hash=sha256:" in block for block in blocks)
