"""No store of Windlass is open to tools, wherever it lies and whatever it is called."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

import windlass
from tests.engine.harness import House, by_phase, calls, cascade, phase
from tests.engine.harness import call as called
from windlass.errors import ToolError
from windlass.memory.passages import Files
from windlass.providers.scripted import Scripted
from windlass.tools.base import ToolContext
from windlass.tools.files import list_files, read_file, write_file
from windlass.tools.searching import web_search
from windlass_data.charts import create_chart
from windlass_data.sql import run_sql

SECRET = "swordfish"


async def make_store(folder: Path, scratch: Path) -> None:
    """A store in which another session said something, in rows, bodies, results and blobs."""

    def large() -> str:
        """Answer."""
        return f"{SECRET}\n" * 2_000

    replies = {"a": [calls(called("large")), calls(called("large")), "done"]}
    result = await windlass.run(
        cascade(phase("a", tackle=["large"], context_ttl={"tool_results": 1}), auto_context={}),
        {"word": SECRET},
        model="scripted/x",
        store=folder,
        root=scratch,
        tools=[large],
        providers={"scripted": Scripted(by_phase(replies))},
    )
    assert result.status == "completed"
    assert list((folder / "blobs").glob("??/*"))


@pytest.fixture
async def stored(root: Path, tmp_path: Path) -> Path:
    """The allowed folder with a store in it, a copy of another one, links and copies."""
    await make_store(root / "data" / "old results", tmp_path)
    await make_store(tmp_path / "elsewhere", tmp_path)
    with closing(sqlite3.connect(tmp_path / "elsewhere" / "windlass.sqlite")) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    shutil.copytree(tmp_path / "elsewhere", root / "backup")
    database = tmp_path / "elsewhere" / "windlass.sqlite"
    for name in ("copy.db", "copy.json", "copy.csv", "data/copy.sqlite3"):
        shutil.copy(database, root / name)
    (root / "hard.db").hardlink_to(root / "backup" / "windlass.sqlite")
    (root / "soft.db").symlink_to(root / "backup" / "windlass.sqlite")
    shutil.copytree(tmp_path / "elsewhere" / "blobs", root / "shared")
    return root


def files_of_stores(root: Path) -> list[str]:
    found = [path for path in root.rglob("*") if path.is_file()]
    parts = ("old results", "backup", "copy", "hard", "soft", "shared")
    return [
        path.relative_to(root).as_posix()
        for path in found
        if path.relative_to(root).as_posix().removeprefix("data/").startswith(parts)
    ]


QUERIES = (
    "SHOW TABLES",
    "SELECT * FROM information_schema.tables",
    "SELECT * FROM copy.bodies",
    "SELECT * FROM hard.bodies",
    "SELECT * FROM soft.bodies",
    "SELECT * FROM windlass.bodies",
    "SELECT * FROM 'backup/windlass.sqlite:bodies'",
    "SELECT * FROM read_text('copy.json')",
    "SELECT * FROM read_text('{root}/copy.json')",
    "SELECT * FROM read_blob('{root}/copy.csv')",
    "SELECT * FROM read_blob('{root}/**')",
    "SELECT * FROM read_text('{root}/backup/**/*.json')",
    "SELECT * FROM read_text('{root}/shared/*/*')",
    "SELECT * FROM glob('{root}/**')",
    "SELECT * FROM sqlite_scan('{root}/copy.db', 'bodies')",
    "ATTACH '{root}/copy.db' AS x (TYPE sqlite)",
    "COPY (SELECT 1) TO '{root}/copy.db'",
    "FROM 'copy.csv'",
    "FROM 'copy.json'",
)


async def test_run_sql_sees_none(stored: Path, context: ToolContext) -> None:
    for query in QUERIES:
        try:
            told = run_sql(context, query.format(root=stored))
        except ToolError as refused:
            told = str(refused)
        assert SECRET not in told, query
        assert "unified_logs" not in told, query  # no other table of it is told either
        assert "copy (" not in told, query
    assert run_sql(context, "SHOW TABLES") == "name\nsales\nshop_orders\n(2 rows)"


async def test_files_of_stores_are_neither_read_nor_listed_nor_replaced(
    stored: Path, context: ToolContext
) -> None:
    listed = list_files(context, pattern="**/*")
    assert "data/sales.csv" in listed
    names = files_of_stores(stored)
    assert len(names) > 15
    for name in names:
        before = (stored / name).read_bytes()
        assert f"{name} " not in listed
        for use in (read_file, lambda c, p: write_file(c, p, "gone"), list_files):
            with pytest.raises(ToolError, match=r"store of a history|is a file"):
                use(context, name)
        assert (stored / name).read_bytes() == before
    for folder in ("data/old results", "backup", "backup/storage", "backup/new"):
        with pytest.raises(ToolError, match="store of a history"):
            write_file(context, f"{folder}/x/new.txt", "text")
        with pytest.raises(ToolError, match="store of a history"):
            list_files(context, folder)
    assert "backup" not in list_files(context)
    assert "old results" not in list_files(context, "data")


async def test_search_and_memory_and_charts_see_none(stored: Path, context: ToolContext) -> None:
    searching = replace(context, search_folder=stored)
    assert "no document has any of the words" in str(web_search(searching, SECRET))
    files = Files([stored])
    passages, _ = files.look()
    assert passages
    assert not [one for one in passages if SECRET in one.text]
    with pytest.raises(ToolError):
        create_chart(context, file="copy.db:bodies", kind="bar", title="t", x="sha256")


async def test_a_root_that_is_a_store_itself_closes_what_belongs_to_it(
    root: Path, context: ToolContext, tmp_path: Path
) -> None:
    await make_store(root, tmp_path)
    assert "bodies" not in run_sql(context, "SHOW TABLES")
    assert run_sql(context, "SELECT count(*) FROM sales").endswith("\n4\n(1 row)")
    listed = list_files(context, pattern="**/*")
    assert "data/sales.csv" in listed
    assert "windlass" not in listed
    assert "blobs" not in listed
    with pytest.raises(ToolError, match="store of a history"):
        write_file(context, "windlass.sqlite-wal", "")
    assert "wrote" in write_file(context, "new.txt", "text")


async def test_a_run_reads_its_own_results_and_nothing_else_of_the_store(house: House) -> None:
    """The store lies in the open, under the root, and another session is in it."""
    await make_store(house.store, house.folder)
    others = [str(path) for path in (house.store / "storage" / "tool_results").iterdir()]
    assert others
    asks = [called("read_file", f'{{"path": "{path}"}}') for path in others]
    asks += [called("run_sql", '{"query": "SHOW TABLES"}')]
    asks += [called("list_files", '{"pattern": "**/*"}')]
    tools = ["read_file", "run_sql", "list_files"]
    ran = await house.run(cascade(phase("a", tackle=tools)), {"a": [calls(*asks), "done"]})
    told = "\n".join(text for role, text in ran.seen("a", -1) if role == "tool")
    assert SECRET not in told
    assert "bodies" not in told
    assert "windlass.sqlite" not in told
