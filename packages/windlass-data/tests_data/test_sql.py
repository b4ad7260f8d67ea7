"""SQL over the files of the allowed folder, and nothing but these."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from windlass.errors import ToolError
from windlass.messages import ToolCall
from windlass.tools.base import ToolContext
from windlass.tools.registry import make_tool
from windlass.tools.runner import run_tool
from windlass_data.sql import ask_for_rows, run_sql


class TestTables:
    @pytest.mark.parametrize(
        "name",
        [
            "sales",
            "SALES",
            "sales.csv",
            "'data/sales.csv'",
            "'./data/sales.csv'",
            '"data/sales.csv"',
        ],
    )
    def test_are_csv_files_by_name_and_by_path(self, context: ToolContext, name: str) -> None:
        text = run_sql(context, f"SELECT city, sum(sales) AS sum FROM {name} GROUP BY 1 ORDER BY 1")
        assert text == "city | sum\nAustin | 22.5\nDallas | 20\nNULL | 7\n(3 rows)"

    def test_are_parquet_and_json_files(self, context: ToolContext, root: Path) -> None:
        with duckdb.connect() as connection:
            connection.execute(f"COPY (SELECT 7 AS n) TO '{root / 'p.parquet'}'")
        (root / "j.json").write_text(json.dumps([{"n": 1}, {"n": 2}]))
        (root / "l.jsonl").write_text('{"n": 3}\n{"n": 4}\n')
        text = run_sql(context, "SELECT sum(n) FROM (FROM p UNION ALL FROM j UNION ALL FROM l)")
        assert text.endswith("\n17\n(1 row)")

    @pytest.mark.parametrize("name", ["shop.orders", "shop_orders", "'shop.sqlite:orders'"])
    def test_are_tables_of_sqlite_files(self, context: ToolContext, name: str) -> None:
        text = run_sql(context, f"SELECT id, day + 1 AS next, price, hex(body) AS body FROM {name}")
        assert text == (
            "id | next | price | body\n1 | 2024-01-03 | 2.5 | 00FF\n2 | NULL | 4 | NULL\n(2 rows)"
        )

    def test_join_across_files(self, context: ToolContext) -> None:
        text = run_sql(context, "SELECT count(*) FROM sales, shop.orders")
        assert text.endswith("\n8\n(1 row)")

    def test_can_be_listed_and_described(self, context: ToolContext) -> None:
        assert run_sql(context, "SHOW TABLES") == "name\nsales\nshop_orders\n(2 rows)"
        assert "sales | DOUBLE" in run_sql(context, "DESCRIBE sales")

    def test_of_one_name_must_be_named_by_path(self, context: ToolContext, root: Path) -> None:
        (root / "sales.json").write_text('[{"n": 1}]')
        with pytest.raises(
            ToolError, match=r"tables: 'sales.json', shop.orders .*, 'data/sales.csv'"
        ):
            run_sql(context, "FROM sales")
        assert run_sql(context, "FROM 'sales.json'") == "n\n1\n(1 row)"

    def test_that_cannot_be_read_say_so_when_asked_for(
        self, context: ToolContext, root: Path
    ) -> None:
        (root / "bad.parquet").write_text("this is no parquet file")
        (root / "bad.db").write_text("this is no database")
        assert run_sql(context, "SELECT 1 AS one") == "one\n1\n(1 row)"
        with pytest.raises(ToolError, match=r"'bad.parquet' cannot be read: "):
            run_sql(context, "FROM bad")

    def test_that_are_unknown_name_the_known_ones(self, context: ToolContext) -> None:
        with pytest.raises(ToolError) as caught:
            run_sql(context, "FROM orders_2024")
        assert "orders_2024" in str(caught.value)
        assert "tables: shop.orders (shop.sqlite:orders), sales (data/sales.csv)" in str(
            caught.value
        )
        assert "\n" not in str(caught.value)


OUTSIDE = [
    "SELECT * FROM '{secret}'",
    "SELECT * FROM read_csv('{secret}')",
    "SELECT * FROM read_text('{secret}')",
    "SELECT * FROM read_blob('{root}/../secret.csv')",
    "SELECT * FROM '../secret.csv'",
    "SELECT * FROM read_csv('../secret.csv')",
    "SELECT * FROM read_text('data/../../secret.csv')",
    "SELECT * FROM leak",
    "SELECT * FROM 'data/leak.csv'",
    "SELECT * FROM read_csv('{root}/data/leak.csv')",
    "SELECT * FROM read_text('{root}/.env')",
    "SELECT * FROM glob('/etc/*')",
    "SELECT * FROM sniff_csv('/etc/passwd')",
    "SELECT * FROM parquet_metadata('/etc/passwd')",
    "SELECT * FROM 'http://127.0.0.1:9/a.csv'",
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM sqlite_scan('{root}/shop.sqlite', 'orders')",
    "SELECT * FROM query('COPY sales TO ''{root}/data/sales.csv''')",
    "WITH w AS (INSERT INTO sales VALUES (1)) SELECT 1",
]


class TestSafety:
    @pytest.mark.parametrize("query", OUTSIDE)
    def test_nothing_outside_is_read(self, context: ToolContext, root: Path, query: str) -> None:
        before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
        with pytest.raises(ToolError) as caught:
            run_sql(context, query.format(secret=root.parent / "secret.csv", root=root))
        assert "secret," not in str(caught.value)
        assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before

    @pytest.mark.parametrize(
        "statement",
        [
            "COPY sales TO 'out.csv'",
            "COPY (SELECT 1) TO '/tmp/out.csv'",
            "EXPORT DATABASE 'out'",
            "ATTACH 'shop.sqlite' AS s",
            "ATTACH ':memory:' AS m",
            "INSTALL httpfs",
            "LOAD httpfs",
            "SET enable_external_access = true",
            "SET lock_configuration = false",
            "RESET allowed_paths",
            "PRAGMA enable_external_access = true",
            "CREATE TABLE t AS SELECT 1",
            "DROP VIEW sales",
            "DELETE FROM sales",
            "INSERT INTO sales VALUES (1)",
            "UPDATE sales SET sales = 0",
            "CALL checkpoint()",
            "PREPARE p AS SELECT 1",
            "EXPLAIN SELECT 1",
            "BEGIN",
        ],
    )
    def test_only_reading_statements_run(self, context: ToolContext, statement: str) -> None:
        with pytest.raises(ToolError, match=r"run_sql only reads|Error"):
            run_sql(context, statement)

    @pytest.mark.parametrize(
        "query", ["", "-- nothing", "SELECT 1; SELECT 2", "SELECT 1; DROP VIEW sales"]
    )
    def test_only_one_statement_runs(self, context: ToolContext, query: str) -> None:
        with pytest.raises(ToolError, match="expected one SQL statement"):
            run_sql(context, query)

    def test_variables_of_this_process_are_no_tables(self, context: ToolContext) -> None:
        text = run_sql(context, "SELECT current_setting('python_enable_replacements') AS on")
        assert text == "on\nfalse\n(1 row)"

    def test_a_semicolon_at_the_end_is_welcome(self, context: ToolContext) -> None:
        assert run_sql(context, "SELECT 1 AS one; -- done\n").startswith("one\n1\n")

    def test_an_endless_query_is_interrupted(self, context: ToolContext) -> None:
        start = time.monotonic()
        endless = "SELECT count(*) FROM range(10000000) a, range(10000000) b"
        with pytest.raises(ToolError, match=r"stopped after 0.3 s"):
            ask_for_rows(context, endless, 100, seconds=0.3)
        assert time.monotonic() - start < 10


class TestAnswer:
    def test_is_cut_with_the_whole_count(self, context: ToolContext) -> None:
        text = run_sql(context, "SELECT * FROM range(5000)", max_rows=2)
        assert text == "range\n0\n1\n(5000 rows, the first 2 shown)"

    def test_keeps_a_row_on_a_line_and_a_cell_short(self, context: ToolContext) -> None:
        text = run_sql(
            context, "SELECT 'a' || chr(10) || 'b' AS x, repeat('y', 1000) AS y, 0.1::FLOAT"
        )
        assert text.splitlines()[1].startswith("a b | yyyy")
        assert "… (1000 characters)" in text

    def test_of_times_with_zones_is_in_utc(self, context: ToolContext) -> None:
        text = run_sql(context, "SELECT TIMESTAMPTZ '2024-01-01 12:00:00+02' AS t")
        assert text == "t\n2024-01-01 10:00:00+00\n(1 row)"

    def test_of_a_wrong_query_is_the_first_line(self, context: ToolContext) -> None:
        with pytest.raises(ToolError, match="syntax error") as caught:
            run_sql(context, "SELEC 1")
        assert "\n" not in str(caught.value)


ENDLESS = (
    "SELECT count(*) FROM range(1000000000000) a, range(1000000) b WHERE a.range + b.range = 7"
)


class TestGivenUp:
    """A query that nobody waits for any more takes no processor time."""

    @pytest.mark.parametrize("how", ["time limit", "cancelled"])
    async def test_is_interrupted(
        self, context: ToolContext, call: Callable[..., ToolCall], how: str
    ) -> None:
        limit = 0.5 if how == "time limit" else 60.0
        tool = replace(make_tool(run_sql), timeout_s=limit)
        running = asyncio.ensure_future(run_tool(tool, call("run_sql", query=ENDLESS), context))
        if how == "cancelled":
            await asyncio.sleep(1)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
        else:
            assert "time limit of 0.5 s" in (await running).text
        has_ended("tool run_sql")

    async def test_also_while_a_table_of_an_sqlite_file_is_copied(
        self, context: ToolContext, root: Path, call: Callable[..., ToolCall]
    ) -> None:
        with closing(sqlite3.connect(root / "endless.sqlite")) as made, made:
            made.execute(
                "CREATE VIEW v AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
                " SELECT count(*) AS c FROM n"
            )
        tool = replace(make_tool(run_sql), timeout_s=0.5)
        asked = call("run_sql", query="SELECT * FROM endless.v")
        assert "time limit of 0.5 s" in (await run_tool(tool, asked, context)).text
        has_ended("tool run_sql")


def has_ended(name: str) -> None:
    """The thread of that name has ended, and nothing works on without it."""
    for thread in [one for one in threading.enumerate() if one.name == name]:
        thread.join(30)
        assert not thread.is_alive()
    before = time.process_time()
    time.sleep(0.5)
    assert time.process_time() - before < 0.3
