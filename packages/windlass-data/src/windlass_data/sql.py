"""`run_sql`: questions in SQL to the data files of the allowed folder.

Reads only: one statement, SELECT and its kin, on a connection that reaches no file
but the data files of that folder (see `_data_files.py`).
"""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from windlass.public import Cancellation, ToolContext, ToolError, tool
from windlass_data import _data_files as data

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

QUERY_S: Final = 50.0
"""Seconds after which a query is interrupted: before the tool's own limit, so that what is said
of it names a way out."""

_MAX_ROWS: Final = 1_000
_MAX_CELL: Final = 200
_BATCH: Final = 10_000
# Statements that show which tables there are, without naming one.
_CATALOGUE: Final = re.compile(
    r"\b(show|information_schema|duckdb_\w+|pg_\w+|sqlite_master)\b", re.IGNORECASE
)


@tool(timeout_s=QUERY_S + 10, reads=("query",), effects="none")
def run_sql(context: ToolContext, query: str, max_rows: int = 100) -> str:
    """Query the data files (CSV, Parquet, JSON, SQLite) with SQL in DuckDB's dialect; read-only.

    A file `sales.csv` is the table `sales`, and can also be named by its path:
    FROM 'data/sales.csv'. A table of an SQLite file is `file.table`.

    Args:
        context: What the run provides.
        query: One SELECT, WITH, DESCRIBE, SUMMARIZE or SHOW TABLES statement.
        max_rows: How many rows of the answer to show, at most 1000.
    """
    return table_text(*ask_for_rows(context, query, min(max(max_rows, 0), _MAX_ROWS)))


@tool(name="run_sql", timeout_s=QUERY_S + 10, reads=("query",), effects="none")
def query_rows(context: ToolContext, query: str) -> dict[str, Any]:
    """The answer to a query as data: its columns, its first 1,000 rows as objects, their count.

    Args:
        context: What the run provides.
        query: One statement that only reads.
    """
    columns, rows, total = ask_for_rows(context, query, _MAX_ROWS)
    objects = [dict(zip(columns, row, strict=True)) for row in rows]
    return {"columns": columns, "rows": objects, "row_count": total}


def ask_for_rows(
    context: ToolContext, query: str, max_rows: int, seconds: float = QUERY_S
) -> tuple[list[str], list[tuple[Any, ...]], int]:
    """Return the columns of the answer to `query`, its first rows, and how many there are of them.

    It is interrupted after `seconds`.
    """
    tables = data.sources(context)
    needed = [each for each in tables if _CATALOGUE.search(query) or _is_named(each, query)]
    cancellation = context.cancellation
    timer = threading.Timer(seconds, cancellation.cancel)
    timer.daemon = True
    timer.start()
    try:
        with data.connect(tables, needed, query, cancellation) as (connection, unreadable):
            try:
                text = _checked(connection, query)
                return _answer(connection, text, max_rows, cancellation)
            except data.load_duckdb().Error as problem:
                reasons = "; ".join(
                    [data.first_line(problem), *unreadable, data.known_tables(tables)]
                )
                raise ToolError(reasons) from problem
    except (data.load_duckdb().Error, ToolError) as problem:
        if cancellation.cancelled:
            raise ToolError(
                f"the query was stopped after {seconds:g} s: ask for less, or filter first"
            ) from problem
        raise
    finally:
        timer.cancel()


def _is_named(source: data.DataSource, query: str) -> bool:
    names = (source.name, source.label, source.table, source.file.name)
    return any(
        name and re.search(rf"(?<!\w){re.escape(name)}(?!\w)", query, re.IGNORECASE)
        for name in names
    )


def _checked(connection: DuckDBPyConnection, query: str) -> str:
    """Return the one statement of `query`, which only reads."""
    try:
        statements = connection.extract_statements(query)
    except data.load_duckdb().Error as problem:
        raise ToolError(data.first_line(problem)) from problem
    if len(statements) != 1:
        raise ToolError(f"expected one SQL statement, not {len(statements)}")
    kind = statements[0].type.name
    if kind != "SELECT":
        raise ToolError(
            f"run_sql only reads: {kind} is refused, use SELECT, WITH, DESCRIBE or SHOW TABLES"
        )
    return str(statements[0].query).strip().rstrip(";")


def _answer(
    connection: DuckDBPyConnection, query: str, max_rows: int, cancellation: Cancellation
) -> tuple[list[str], list[tuple[Any, ...]], int]:
    connection.execute(query)
    described: Sequence[Any] = connection.description or ()
    if any("TIME ZONE" in str(each[1]) for each in described):
        # DuckDB needs the package pytz to hand these to Python; as text it does not.
        connection.execute(f"SELECT COLUMNS(*)::VARCHAR FROM ({query}\n)")  # noqa: S608
    rows = connection.fetchmany(max_rows)
    total = len(rows)
    while more := len(connection.fetchmany(_BATCH)):
        total += more
        if cancellation.cancelled:  # rows that are there already take no interruption
            raise ToolError("given up")
    return [str(each[0]) for each in described], rows, total


def table_text(columns: Sequence[str], rows: Sequence[Sequence[Any]], total: int) -> str:
    """Return a table in the fewest characters that a model reads well: `a | b`, then the count."""
    lines = [" | ".join(columns)]
    lines += [" | ".join(_cell(value) for value in row) for row in rows]
    count = f"{total} row" if total == 1 else f"{total} rows"
    shown = "" if total == len(rows) else f", the first {len(rows)} shown"
    return "\n".join([*lines, f"({count}{shown})"])


def _cell(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    text = format(value, ".10g") if isinstance(value, float) else str(value)
    text = text.replace("\r", " ").replace("\n", " ")
    return text if len(text) <= _MAX_CELL else f"{text[:_MAX_CELL]}… ({len(text)} characters)"
