"""Which test shows which requirement.

Rows are read from `design/requirements.tsv`, the delivered parts from
`[tool.windlass] delivered` in pyproject.toml. A mark with an unknown id is a
collection error of its module. That no row of a delivered part is left without a
test is itself a test (`test_requirements.py`): each worker of a parallel run
collects the whole suite, so it sees every mark wherever it runs.

PYTEST_DONT_REWRITE: scripts/requirements.py imports this before pytest does, and
nothing here asserts.
"""

from __future__ import annotations

import csv
import inspect
import tomllib
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Final

import pytest

from windlass.errors import did_you_mean

DOORS: Final = frozenset(
    ("bound", "Context", "evaluate", "evaluate_sync", "query_unified", "run", "run_sync", "select")
)
"""The names of the package that its users call, beside the command line."""


@dataclass(frozen=True, slots=True)
class Row:
    """One requirement. `parts` are the parts of the plan that carry it."""

    id: str
    text: str
    parts: tuple[str, ...]


@cache
def read_rows(root: Path) -> tuple[Row, ...]:
    """The rows of the requirements file under `root`, in its order."""
    with (root / "design" / "requirements.tsv").open(encoding="utf-8", newline="") as file:
        lines = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        return tuple(
            Row(line["id"], line["text"], tuple(line["part"].split(", "))) for line in lines
        )


def read_delivered(root: Path) -> tuple[str, ...]:
    """The parts that pyproject.toml under `root` calls delivered."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    return tuple(project["tool"]["windlass"]["delivered"])


def ids_of(item: pytest.Item) -> tuple[Any, ...]:
    """The ids that a test, its class and its module are marked with."""
    return tuple(id_ for mark in item.iter_markers("req") for id_ in mark.args)


def shown_by(items: Iterable[pytest.Item]) -> dict[str, list[str]]:
    """From a row's id to the tests that show it; cases of one test count once."""
    shown: dict[str, list[str]] = {}
    for item in items:
        test = item.nodeid.partition("[")[0]
        for id_ in ids_of(item):
            tests = shown.setdefault(id_, [])
            if test not in tests:
                tests.append(test)
    return shown


def goes_through_a_door(item: pytest.Item) -> bool:
    """Whether a test, its fixtures or a helper of either uses a public door.

    Seen by the names in their code: a cascade or a task that is run, the command line, `bound`,
    `Context`, `select`, `query_unified`.
    """
    if not isinstance(item, pytest.Function):
        return False
    fixtures = item._fixtureinfo.name2fixturedefs.values()  # no public way knows their functions
    used = [item.function, *(each.func for defined in fixtures for each in defined)]
    if item.cls is not None:  # what it calls as `self.name`
        codes = _codes(inspect.unwrap(item.function).__code__)
        used += [getattr(item.cls, name, None) for each in codes for name in each.co_names]
    seen: set[int] = set()
    return any(_uses_a_door(one, seen) for one in used)


def _uses_a_door(value: Any, seen: set[int]) -> bool:
    if id(value) in seen:
        return False
    seen.add(id(value))
    module = str(getattr(value, "__module__", None))
    if module.startswith("windlass"):
        name = getattr(value, "__name__", None)
        return name in DOORS or (name == "main" and module.startswith("windlass.cli"))
    if not module.startswith(("test", "bench")):
        return False
    if isinstance(value, type):
        parts = [part for kind in value.__mro__[:-1] for part in vars(kind).values()]
        return any(_uses_a_door(part, seen) for part in parts)
    if isinstance(value, property):
        value = value.fget
    value = inspect.unwrap(value)
    value = getattr(getattr(value, "hypothesis", None), "inner_test", value)
    code, scope = getattr(value, "__code__", None), getattr(value, "__globals__", {})
    cells = [cell.cell_contents for cell in getattr(value, "__closure__", None) or ()]
    return code is not None and (
        any(_uses_a_door(cell, seen) for cell in cells)
        or any(_uses_a_door(named, seen) for each in _codes(code) for named in _named(each, scope))
    )


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _named(code: CodeType, scope: Mapping[str, Any]) -> Iterator[Any]:
    """What a piece of code names: globals, and attributes of modules among them."""
    for name in code.co_names:
        value = scope.get(name)
        if isinstance(value, ModuleType):
            for attribute in code.co_names:
                yield getattr(value, attribute, None)
        else:
            yield value


def without_test(
    rows: Iterable[Row], delivered: Collection[str], shown: Mapping[str, Collection[str]]
) -> list[Row]:
    """The rows that belong to a delivered part, perhaps among others, and have no test."""
    return [
        row
        for row in rows
        if not shown.get(row.id) and any(part in delivered for part in row.parts)
    ]


def is_whole(config: pytest.Config) -> bool:
    """Whether this run collects the whole suite, not a choice of files or names."""
    option = config.option
    narrowing = ("keyword", "markexpr", "deselect", "ignore", "ignore_glob")
    if any(getattr(option, name, None) for name in narrowing):
        return False
    start = config.invocation_params.dir
    chosen = {(start / argument.partition("::")[0]).resolve() for argument in config.args}
    named_inside = any("::" in argument for argument in config.args)
    roots = [(config.rootpath / folder).resolve() for folder in config.getini("testpaths")]
    return not named_inside and all(
        any(root == path or path in root.parents for path in chosen) for root in roots
    )


def _complaint(item: pytest.Item, known: Collection[str]) -> str | None:
    for mark in item.iter_markers("req"):
        if not mark.args or mark.kwargs:
            return f"{item.name}: req takes one or more ids, as in req('CI-9')"
        for id_ in mark.args:
            if id_ not in known:
                hint = did_you_mean(str(id_), known).partition(" known: ")[0]
                return f"{item.name}: {id_!r} is no row of design/requirements.tsv; {hint}"
    return None


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makeitem(
    collector: pytest.Collector,
) -> Generator[None, Any, Any]:
    """Refuse marks with unknown ids where the test is collected."""
    made = yield
    known = {row.id for row in read_rows(collector.config.rootpath)}
    for item in made if isinstance(made, list) else [made]:
        complaint = _complaint(item, known) if isinstance(item, pytest.Item) else None
        if complaint:
            raise collector.CollectError(complaint)
    return made
