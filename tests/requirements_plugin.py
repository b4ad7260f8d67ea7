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
import tomllib
from collections.abc import Collection, Generator, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from windlass.errors import did_you_mean


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


@cache
def _known_ids(root: Path) -> frozenset[str]:
    return frozenset(row.id for row in read_rows(root))


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
    known = _known_ids(collector.config.rootpath)
    for item in made if isinstance(made, list) else [made]:
        complaint = _complaint(item, known) if isinstance(item, pytest.Item) else None
        if complaint:
            raise collector.CollectError(complaint)
    return made
