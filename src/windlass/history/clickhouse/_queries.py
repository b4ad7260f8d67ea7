"""SQL by users on a ClickHouse store: one SELECT, bound parameters, a query that cannot write.

`?` stands for a parameter, as on every store. The server refuses to write (`readonly`), and
what could reach beyond the database (files, other servers) is refused here, since an engine in
process has all the rights of the process.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from windlass.errors import StoreError, UsageError, did_you_mean
from windlass.history.clickhouse.client import ClickHouseClient, EngineError

_SETTINGS: Final = {
    "readonly": 2,
    # Cards and bodies that were written again count once, whether merged already or not.
    "final": 1,
    # As in the document and every other database.
    "join_use_nulls": 1,
}
_TOKEN: Final = re.compile(
    r"'(?:[^'\\]|\\.|'')*'|`(?:[^`\\]|\\.)*`|\"(?:[^\"\\]|\\.)*\""
    r"|--[^\n]*|\#!?\s[^\n]*|/\*.*?\*/|\$(\w*)\$.*?\$\1\$|\?|;|\w+|\s+|.",
    re.DOTALL,
)
_COMMENT: Final = ("--", "/*", "# ", "#!")
_ONLY: Final = "only one SELECT can be run here"
_HARMLESS: Final = frozenset(
    {
        "format", "generaterandom", "generateseries", "generate_series", "merge", "null",
        "numbers", "numbers_mt", "primes", "values", "view", "zeros", "zeros_mt",
    }
)  # fmt: skip
"""Table functions that reach nothing outside the database."""


def select(client: ClickHouseClient, sql: str, params: Sequence[Any]) -> list[dict[str, Any]]:
    """The rows of one SELECT.

    Times come as ISO-8601 text in UTC with microseconds, as from SQLite. Raises UsageError
    for anything but one SELECT and for what ClickHouse refuses.
    """
    statement, marks = _one_statement(client, sql)
    if marks != len(params):
        raise UsageError(
            f"this SELECT has {marks} bindings (`?`) and {len(params)} values were given"
        )
    kinds = [_kind(value) for value in params]
    parts = statement.split("\0")
    query = parts[0]
    for at, (kind, part) in enumerate(zip(kinds, parts[1:], strict=True)):
        query += f"{{p{at}:{kind}}}{part}"
    bound = {f"p{at}": value for at, value in enumerate(params)}
    try:
        names, rows = client.ask(query, bound, _SETTINGS)
    except EngineError as error:
        raise _refusal(client, error) from error
    return [{name: _plain(value) for name, value in zip(names, row, strict=True)} for row in rows]


def _one_statement(client: ClickHouseClient, sql: str) -> tuple[str, int]:
    """The statement with a NUL for each `?`, and how many there are."""
    pieces: list[str] = []
    marks = 0
    ended = False
    words: list[str] = []
    for token in _TOKEN.finditer(sql.replace("\0", " ")):
        piece = token[0]
        if piece.isspace() or piece.startswith(_COMMENT):
            pieces.append(" " if not ended else "")
            continue
        if ended:
            raise UsageError(f"{_ONLY} at a time: leave out what follows the semicolon")
        if piece == ";":
            ended = True
            continue
        if piece == "?":
            marks += 1
            piece = "\0"
        pieces.append(piece)
        words.append(piece.lower())
    _check_reach(client, words)
    return "".join(pieces), marks


def _check_reach(client: ClickHouseClient, words: list[str]) -> None:
    called = {word for word, after in pairwise(words) if after == "("}
    if "outfile" in words:
        raise UsageError(f"{_ONLY}, and this would write a file (INTO OUTFILE)")
    quoted = {word.strip('`"') for word in called}
    if not quoted - _HARMLESS:
        return
    reaching = client.select(
        "SELECT name FROM system.table_functions WHERE lower(name) IN {names:Array(String)} "
        "AND lower(name) NOT IN {harmless:Array(String)}",
        names=sorted(quoted),
        harmless=sorted(_HARMLESS),
    )
    if reaching:
        raise UsageError(f"{_ONLY}, and {reaching[0][0]}() reaches beyond the store")


def _kind(value: Any) -> str:
    match value:
        case bool():
            return "Bool"
        case int() if -(2**63) <= value < 2**63:
            return "Int64"
        case float():
            return "Float64"
        case str():
            return "String"
        case None:
            return "Nullable(String)"
        case _:
            raise UsageError(
                f"ClickHouse refuses this SELECT: a value of type {type(value).__name__} cannot "
                "be bound; expected text, a number, true, false or null"
            )


def _plain(value: Any) -> Any:
    match value:
        case dt.datetime():
            if value.tzinfo is not None:
                value = value.astimezone(dt.UTC).replace(tzinfo=None)
            return value.isoformat(timespec="microseconds") + "Z"
        case dt.date():
            return value.isoformat()
        case tuple() | list():
            return [_plain(item) for item in value]
        case Mapping():
            return {str(name): _plain(item) for name, item in value.items()}
        case None | bool() | int() | float() | str():
            return value
        case bytes():
            return value.decode("utf-8", "replace")
        case _:
            return str(value)


def _refusal(client: ClickHouseClient, error: EngineError) -> StoreError | UsageError:
    words = error.words
    name = re.search(r"`([^`]+)`|'([^']+)'", words)
    unknown = (name[1] or name[2]).rpartition(".")[2] if name else ""
    match error.code:
        case 47 if unknown:
            columns = client.select(
                "SELECT DISTINCT name FROM system.columns WHERE database = currentDatabase() "
                "AND table = 'unified_logs'"
            )
            hint = did_you_mean(unknown, (column for (column,) in columns))
            return UsageError(f"no column {unknown!r} in the store: {hint}")
        case 60 if unknown:
            tables = client.select(
                "SELECT name FROM system.tables WHERE database = currentDatabase()"
            )
            hint = did_you_mean(unknown, (table for (table,) in tables))
            return UsageError(f"no table {unknown!r} in the store: {hint}")
        case 46:
            return UsageError(f"no such function: {words}")
        case 164 | 497:
            return UsageError(f"{_ONLY}, and this asks for more ({words})")
        case _:
            return UsageError(f"ClickHouse refuses this SELECT: {words}")
