"""Tools under the names, and with the arguments, that other runners have for them.

They are registered where a tackle lists them, so that the prompts of such a cascade stay true. A
tool of the user's own of the same name goes before.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from fnmatch import fnmatch
from typing import Any, Final

from windlass.errors import ToolError
from windlass.safety.files import UnreadableError, read_bytes
from windlass.safety.foreign import decode_text
from windlass.safety.patterns import compile_pattern
from windlass.settings.plugins import TOOLS, load_plugin
from windlass.tools import paths
from windlass.tools.base import Tool, ToolContext
from windlass.tools.files import list_files
from windlass.tools.registry import make_tool

_RUN_SQL: Final = "run_sql"
_MOST_BYTES: Final = 2_000_000
_MOST_FILES: Final = 5_000
_LONGEST: Final = 300
"""Characters of a line that is found."""


def ask_sql(
    context: ToolContext,
    sql: str = "",
    query: str = "",
    *,
    limit: int = 100,
    connection: str | None = None,
    db_path: str | None = None,
) -> str:
    """Query the data files (CSV, Parquet, JSON, SQLite) with SQL in DuckDB's dialect; read-only.

    A file `sales.csv` is the table `sales`; a table of an SQLite file is `file.table`.

    Args:
        context: What the run provides.
        sql: One SELECT, WITH, DESCRIBE, SUMMARIZE or SHOW TABLES statement.
        query: The same as sql; one of both is needed.
        limit: How many rows of the answer to show, at most 1000.
        connection: Not needed: all data files are there under their names.
        db_path: Not needed either.
    """
    if bool(query.strip()) == bool(sql.strip()):
        raise ToolError("give one statement, as 'query' (or as 'sql')")
    answer = load_plugin(TOOLS, _RUN_SQL)(context, query if query.strip() else sql, limit)
    if (named := connection or db_path) is None:
        return str(answer)
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
    pattern = compile_pattern(re.escape(query), re.IGNORECASE, in_lines=True)
    found: list[str] = []
    for file in files:
        if not (fnmatch(file.name, file_pattern) and paths.may_read(context, file.resolve())):
            continue
        with suppress(UnreadableError):
            text = decode_text(read_bytes(file, _MOST_BYTES)) or ""
            lines = ((line.number, line.text.strip()[:_LONGEST]) for line in pattern.lines(text))
            found += [f"{paths.shown(context, file)}:{number}: {line}" for number, line in lines]
        if len(found) > max_results:
            cut = f"(more than {max_results} lines, these are the first)"
            return "\n".join([*found[:max_results], cut])
    return "\n".join(found) or f"no line of the files in {path!r} holds {query!r}"


OLD_NAMES: Final[Mapping[str, tuple[Callable[..., Any], tuple[str, ...]]]] = {
    "list_directory": (list_directory, ("path",)),
    "search_files": (search_files, ("path",)),
    "smart_sql_run": (ask_sql, ("query", "sql")),
    "sql_query": (ask_sql, ("query", "sql")),
}
"""The functions by their old names, each with the parameters that say what it reads."""


def tool_of_old_name(name: str) -> Tool | None:
    """Return the tool that other runners call so; None: there is none."""
    if name not in OLD_NAMES:
        return None
    function, reads = OLD_NAMES[name]
    made = make_tool(function, name=name)
    if function is ask_sql:
        made = replace(made, timeout_s=make_tool(load_plugin(TOOLS, _RUN_SQL)).timeout_s)
    return replace(made, effects="none", reads=reads)
