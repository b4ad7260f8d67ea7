"""Tools under the names, and with the arguments, that other runners have for them.

They are registered where a tackle lists them, so that the prompts of such a cascade stay true. A
tool of the user's own of the same name goes before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Final

from windlass.errors import ToolError
from windlass.safety.files import UnreadableError, read_bytes
from windlass.tools import paths
from windlass.tools.base import Tool, ToolContext
from windlass.tools.data.sql import QUERY_S, run_sql
from windlass.tools.decode import decode_text
from windlass.tools.files import list_files
from windlass.tools.registry import make_tool

_MOST_BYTES: Final = 2_000_000
_MOST_FILES: Final = 5_000
_LONGEST: Final = 300
"""Characters of a line that is found."""


def ask_data(
    context: ToolContext,
    query: str = "",
    sql: str = "",
    *,
    db_path: str | None = None,
    connection: str | None = None,
    limit: int = 100,
) -> str:
    """Query the data files (CSV, Parquet, JSON, SQLite) with SQL in DuckDB's dialect; read-only.

    A file `sales.csv` is the table `sales`; a table of an SQLite file is `file.table`.

    Args:
        context: What the run provides.
        query: One SELECT, WITH, DESCRIBE, SUMMARIZE or SHOW TABLES statement.
        sql: The same as query; one of both is needed.
        db_path: Not needed: all data files are there under their names.
        connection: Not needed either.
        limit: How many rows of the answer to show, at most 1000.
    """
    if bool(query.strip()) == bool(sql.strip()):
        raise ToolError("give one statement, as 'query' (or as 'sql')")
    answer = run_sql(context, query if query.strip() else sql, limit)
    named = db_path or connection
    if not named:
        return answer
    return f"(there are no connections such as {named!r}: all data files are asked)\n{answer}"


def list_directory(context: ToolContext, path: str = ".", pattern: str = "*") -> str:
    """List the files of a folder with their sizes in bytes.

    Args:
        context: What the run provides.
        path: The folder, relative to the allowed folder.
        pattern: Which names to list, like '*.csv'; '**/*.csv' looks into folders too.
    """
    return list_files(context, path, pattern)


def search_files(
    context: ToolContext,
    query: str,
    path: str = ".",
    file_pattern: str = "*",
    max_results: int = 50,
) -> str:
    """Find the lines of text files that hold a text, in capitals or not.

    Args:
        context: What the run provides.
        query: The text to look for.
        path: The folder to look in, relative to the allowed folder, or one file.
        file_pattern: Which files to look in, by their names, like '*.md'.
        max_results: How many lines to show.
    """
    if not query.strip():
        raise ToolError("there is nothing to look for: give some text")
    real = paths.to_read(context, path)
    files = paths.walk(real, _MOST_FILES) if real.is_dir() else [real]
    found: list[str] = []
    for file in files:
        if fnmatch(file.name, file_pattern) and paths.may_read(context, file.resolve()):
            shown = paths.shown(context, file)
            found += [f"{shown}:{line}: {text}" for line, text in _lines_with(file, query)]
        if len(found) > max_results:
            cut = f"(more than {max_results} lines, these are the first)"
            return "\n".join([*found[:max_results], cut])
    return "\n".join(found) or f"no line of the files in {path!r} holds {query!r}"


def _lines_with(file: Path, query: str) -> Iterator[tuple[int, str]]:
    try:
        text = decode_text(read_bytes(file, _MOST_BYTES))
    except UnreadableError:
        return
    for number, line in enumerate((text or "").splitlines(), start=1):
        if query.casefold() in line.casefold():
            yield number, line.strip()[:_LONGEST]


_OLD_NAMES: Final[Mapping[str, tuple[Callable[..., Any], tuple[str, ...]]]] = {
    "list_directory": (list_directory, ("path",)),
    "search_files": (search_files, ("path",)),
    "smart_sql_run": (ask_data, ("query", "sql")),
    "sql_query": (ask_data, ("query", "sql")),
}
"""The functions by their old names, with the arguments that say what is read."""


def tool_of_old_name(name: str) -> Tool | None:
    """The tool that other runners call so; None: there is none."""
    if name not in _OLD_NAMES:
        return None
    function, reads = _OLD_NAMES[name]
    seconds = QUERY_S + 10 if function is ask_data else None
    return replace(make_tool(function, name=name, timeout_s=seconds), effects="none", reads=reads)
