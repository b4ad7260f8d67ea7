"""The folder, the context and the calls that tests of tools need."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.engine.harness import House
from windlass.messages import ToolCall
from windlass.tools.base import ToolContext

SALES = "month,city,sales\n2024-01,Austin,10\n2024-01,Dallas,20\n2024-02,Austin,12.5\n2024-03,,7\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An allowed folder with data, beside a secret that lies outside."""
    folder = tmp_path / "allowed"
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "sales.csv").write_text(SALES)
    (folder / "notes.md").write_text("# Notes\n\none\ntwo\nthree\n")
    (folder / ".env").write_text("KEY=secret")
    (tmp_path / "secret.csv").write_text("a,b\nsecret,1\n")
    (folder / "data" / "leak.csv").symlink_to(tmp_path / "secret.csv")
    with closing(sqlite3.connect(folder / "shop.sqlite")) as shop, shop:
        shop.execute("CREATE TABLE orders (id INTEGER, day TEXT, price REAL, body BLOB)")
        shop.execute("INSERT INTO orders VALUES (1, '2024-01-02', 2.5, x'00ff')")
        shop.execute("INSERT INTO orders VALUES (2, NULL, 4, NULL)")
    return folder


@pytest.fixture
def context(root: Path) -> ToolContext:
    return ToolContext(session_id="s", phase="p", root=root, state={})


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """Runs cascades with scripted models in a store under the test's folder."""
    made = House(tmp_path)
    yield made
    made.close()


@pytest.fixture
def call() -> Callable[..., ToolCall]:
    def make(name: str, **arguments: Any) -> ToolCall:
        return ToolCall("call_1", name, json.dumps(arguments))

    return make
