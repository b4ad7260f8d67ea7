"""Bills of the works that were done, printed in the end or appended to a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests_apart.frameworks.work import HEADER

ROWS = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--bills", type=Path, help="the file that the bills are appended to")


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    rows = config.stash.get(ROWS, [])
    path = config.getoption("--bills")
    if path is None:
        for line in [HEADER, *rows] if rows else ():
            terminalreporter.write_line(line)
        return
    before = path.read_text("utf-8") if path.exists() else f"{HEADER}\n"
    path.write_text(before + "".join(f"{line}\n" for line in rows), "utf-8")


@pytest.fixture
def rows(pytestconfig: pytest.Config) -> list[str]:
    """The lines of the table so far."""
    return pytestconfig.stash.setdefault(ROWS, [])
