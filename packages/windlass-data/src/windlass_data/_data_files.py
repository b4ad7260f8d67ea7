"""Data files of the allowed folder as tables of one locked DuckDB connection.

CSV, TSV, Parquet and JSON are read where they lie; tables of SQLite files are copied
in with Python's own sqlite3, because DuckDB's wheel has no SQLite reader and nothing
is ever downloaded. Which files may be read is decided here, before a query is seen;
after that the connection can reach no other file and no setting can be changed.
"""

from __future__ import annotations

import json
import math
import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from windlass.public import Cancellation, ToolContext, ToolError, logging_unchanged, paths

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

INSTALL: Final = "pip install 'windlass[tools]'"
MAX_FILES: Final = 2_000
MAX_ROWS: Final = 500_000
"""Rows that are copied out of one SQLite table, or taken into a chart."""

_LISTED: Final = 30
_READERS: Final = {
    ".csv": "read_csv",
    ".tsv": "read_csv",
    ".parquet": "read_parquet",
    ".json": "read_json",
    ".jsonl": "read_json",
    ".ndjson": "read_json",
}
_SQLITE: Final = frozenset({".sqlite", ".sqlite3", ".db"})
# The schema that copies of SQLite tables lie in, out of the way of SHOW TABLES.
_COPIES: Final = "_copies"


class DataSource(NamedTuple):
    """A table that a query may name.

    `name` is what SQL calls it (empty where several files share the name), `label` its
    path as a person writes it (`data/sales.csv`, `shop.sqlite:orders`), `table` the
    table inside an SQLite file.
    """

    name: str
    label: str
    file: Path
    table: str = ""

    @property
    def schema(self) -> str:
        """Return what SQL calls the SQLite file: `shop` in `shop.orders`."""
        return _identifier(self.file.stem)

    def __str__(self) -> str:
        spelled = f"{self.schema}.{self.table}" if self.table else self.name or f"'{self.label}'"
        return f"{spelled} ({self.label})" if self.name else spelled


class Table(NamedTuple):
    """Rows with named columns, and where they came from."""

    columns: tuple[str, ...]
    rows: Sequence[tuple[Any, ...]]
    origin: str


def sources(context: ToolContext) -> list[DataSource]:
    """Return every table of the allowed folder, shallow files first."""
    tables: list[DataSource] = []
    for path in sorted(paths.walk(context.root, MAX_FILES), key=lambda each: len(each.parts)):
        # DuckDB judges a link by what it leads to.
        label, file, stem = paths.shown(context, path), path.resolve(), _identifier(path.stem)
        suffix = path.suffix.lower()
        if not paths.may_read(context, file):
            continue
        if suffix in _READERS:
            tables.append(DataSource(stem, label, file))
        elif suffix in _SQLITE:
            tables += [
                DataSource(f"{stem}_{_identifier(table)}", f"{label}:{table}", file, table)
                for table in _sqlite_tables(file)
            ]
    names = [each.name.casefold() for each in tables]
    return [
        each if names.count(each.name.casefold()) == 1 else each._replace(name="")
        for each in tables
    ]


def known_tables(tables: Sequence[DataSource]) -> str:
    """Return the closing words of a message: which tables there are."""
    if not tables:
        return "the allowed folder holds no CSV, Parquet, JSON or SQLite file"
    more = f" and {len(tables) - _LISTED} more" if len(tables) > _LISTED else ""
    return "tables: " + ", ".join(str(each) for each in tables[:_LISTED]) + more


def read(context: ToolContext, file: str) -> Table:
    """The whole table of a data file; `shop.sqlite:orders` names a table of an SQLite file."""
    tables = sources(context)
    source = _pick(context, file, tables)
    with connect(tables, [source], source.label, context.cancellation) as (connection, unreadable):
        if unreadable:
            raise ToolError(unreadable[0])
        try:
            rows = connection.execute(f"FROM {quoted(source.label)}").fetchmany(MAX_ROWS + 1)
        except load_duckdb().Error as problem:
            raise ToolError(f"cannot read {source.label!r}: {first_line(problem)}") from problem
        columns = tuple(str(each[0]) for each in connection.description or ())
    if len(rows) > MAX_ROWS:
        raise ToolError(
            f"{source.label!r} has over {MAX_ROWS} rows: sum them up with run_sql first"
        )
    return Table(columns, rows, source.label)


def _pick(context: ToolContext, file: str, tables: Sequence[DataSource]) -> DataSource:
    name = file.strip().removeprefix("./")
    spellings: tuple[Callable[[DataSource], str], ...] = (
        lambda each: each.label,
        lambda each: each.name,
        lambda each: f"{each.schema}.{each.table}",
        # The file's name alone, and an SQLite file without its table: if only one fits.
        lambda each: each.file.name,
        lambda each: each.label.partition(":")[0],
    )
    for spelled in spellings:
        fitting = [each for each in tables if spelled(each) == name]
        if len(fitting) == 1:
            return fitting[0]
    if ":" not in name:
        # An absolute path may name a table; any other path is refused in its own words.
        label = paths.shown(context, paths.to_read(context, name))
        if label != name:
            return _pick(context, label, tables)
    raise ToolError(f"{file!r} names no table, or several; {known_tables(tables)}")


@contextmanager
def connect(
    tables: Sequence[DataSource],
    needed: Sequence[DataSource],
    text: str,
    cancellation: Cancellation,
) -> Iterator[tuple[DuckDBPyConnection, list[str]]]:
    """A DuckDB connection that holds the `needed` sources and can reach nothing else.

    With it comes for each source that could not be read its reason.

    Sources have their names as views, and their paths where `text` spells them. Files
    of `tables` may also be named by absolute path. What it does is interrupted by `cancellation`.
    """
    duckdb = load_duckdb()
    settings = {
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        # Else a query could read variables of this process by their Python names.
        "python_enable_replacements": "false",
        "memory_limit": "1GB",
        # Else a large sort would write to the working directory.
        "temp_directory": "",
    }
    unreadable: list[str] = []
    with (
        closing(duckdb.connect(":memory:", config=settings)) as connection,
        cancellation.interrupting(connection.interrupt),
    ):
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(f"CREATE SCHEMA {_COPIES}")
        for source in needed:
            try:
                _add(connection, source, text, cancellation)
            except (duckdb.Error, sqlite3.Error, OverflowError) as problem:
                # Told only when the query fails: it may mean another table.
                unreadable.append(f"{source.label!r} cannot be read: {first_line(problem)}")
        allowed = ", ".join(_literal(str(each.file)) for each in tables if not each.table)
        connection.execute(f"SET allowed_paths = [{allowed}]")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        yield connection, unreadable


def _add(
    connection: DuckDBPyConnection, source: DataSource, text: str, cancellation: Cancellation
) -> None:
    spelled = [each for each in (source.label, f"./{source.label}") if each in text]
    views = [quoted(name) for name in (source.name, *spelled) if name]
    if source.table:
        content = _copy_in(connection, source, cancellation)
        if source.name:
            connection.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(source.schema)}")
            views.append(f"{quoted(source.schema)}.{quoted(source.table)}")
    else:
        # An unquoted sales.csv is the table `csv` of a schema `sales` to SQL.
        if source.name and source.file.name in text:
            connection.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(source.file.stem)}")
            views.append(f"{quoted(source.file.stem)}.{quoted(source.file.suffix[1:])}")
        content = f"{_READERS[source.file.suffix.lower()]}({_literal(str(source.file))})"
    for view in views:
        connection.execute(f"CREATE VIEW {view} AS FROM {content}")


def quoted(name: str) -> str:
    """Return a name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def first_line(problem: BaseException) -> str:
    """Return the first line of an error's text; DuckDB adds a picture of the query below it."""
    return str(problem).strip().partition("\n")[0]


def load_duckdb() -> Any:
    """Return the module of DuckDB. Raises ToolError where it is not installed."""
    try:
        with logging_unchanged("duckdb"):
            import duckdb
    except ModuleNotFoundError as problem:
        raise ToolError(f"this tool needs DuckDB: {INSTALL}") from problem
    return duckdb


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _identifier(stem: str) -> str:
    name = re.sub(r"\W+", "_", stem).strip("_") or "table"
    return f"t_{name}" if name[0].isdigit() else name


# ---- SQLite files -------------------------------------------------------------------


def _open_sqlite(file: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True, timeout=5)
    connection.text_factory = lambda data: data.decode("utf-8", "replace")
    return connection


def _sqlite_tables(file: Path) -> list[str]:
    query = (
        "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') "
        "AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name"
    )
    try:
        with closing(_open_sqlite(file)) as connection:
            return [str(row[0]) for row in connection.execute(query)]
    except sqlite3.Error:
        return []  # `.db` is also the ending of files that are no SQLite


def _copy_in(connection: DuckDBPyConnection, source: DataSource, cancellation: Cancellation) -> str:
    """Copy one SQLite table into DuckDB, by way of a file: bound rows take 100 times as long."""
    import tempfile

    with closing(_open_sqlite(source.file)) as lite, cancellation.interrupting(lite.interrupt):
        cursor = lite.execute(f"SELECT * FROM {quoted(source.table)} LIMIT {MAX_ROWS + 1}")  # noqa: S608
        columns = [str(each[0]) for each in cursor.description]
        rows = cursor.fetchall()
    if len(rows) > MAX_ROWS:
        raise OverflowError(f"over {MAX_ROWS} rows are too many to copy")
    types = [_column_type([row[at] for row in rows]) for at in range(len(columns))]
    fields, picked = [], []
    for name, kind in zip(map(quoted, columns), types, strict=True):
        fields.append(f"{name}: '{'VARCHAR' if kind == 'BLOB' else kind}'")
        picked.append(f"unhex({name}) AS {name}" if kind == "BLOB" else name)
    target = f"{_COPIES}.{quoted(source.label)}"
    with tempfile.TemporaryDirectory(prefix="windlass-") as folder:
        file = Path(folder, "rows.ndjson")
        with file.open("w", encoding="utf-8") as out:
            for row in rows:
                out.write(json.dumps(dict(zip(columns, map(_json_value, row), strict=True))) + "\n")
        connection.execute(
            f"CREATE TABLE {target} AS SELECT {', '.join(picked)} FROM read_json("  # noqa: S608
            f"{_literal(str(file))}, format='newline_delimited', columns={{{', '.join(fields)}}})"
        )
    return target


def _json_value(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _column_type(values: list[Any]) -> str:
    """Return the type that holds all values: SQLite's columns promise none."""
    kinds = {type(value) for value in values if value is not None}
    if kinds == {int}:
        return "BIGINT"
    if kinds and kinds <= {int, float}:
        return "DOUBLE"
    if kinds == {bytes}:
        return "BLOB"
    texts = [value for value in values if isinstance(value, str)]
    if kinds == {str} and all(_is_iso(each, date) for each in texts):
        return "DATE"
    if kinds == {str} and all(_is_iso(each, datetime) for each in texts):
        return "TIMESTAMP"
    return "VARCHAR"


def _is_iso(text: str, kind: type[date]) -> bool:
    try:
        # The separators tell a date from a number like 20240131.
        return "-" in text and kind.fromisoformat(text) is not None
    except ValueError:
        return False
