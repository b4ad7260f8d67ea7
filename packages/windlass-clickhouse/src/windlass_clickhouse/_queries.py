"""SQL by users on a ClickHouse store: one SELECT, bound parameters, a query that cannot write.

`?` stands for a parameter, as on every store. The server refuses to write (`readonly`), and
what could reach beyond the database is refused by `_statement.py`.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from windlass.public import StoreError, UsageError, did_you_mean
from windlass_clickhouse._statement import (
    ONLY,
    Statement,
    harmless_tables,
    reaching_database,
    read_statement,
)
from windlass_clickhouse.client import ClickHouseClient, EngineError

_SETTINGS: Final = {
    "readonly": 2,
    # Cards and bodies that were written again count once, whether merged already or not.
    "final": 1,
    # As in the document and every other database.
    "join_use_nulls": 1,
}


def select(client: ClickHouseClient, sql: str, params: Sequence[Any]) -> list[dict[str, Any]]:
    """Return the rows of one SELECT.

    Times come as ISO-8601 text in UTC with microseconds, as from SQLite. Raises UsageError
    for anything but one SELECT and for what ClickHouse refuses.
    """
    statement = read_statement(sql)
    _check_reach(client, statement)
    marks = len(statement.parts) - 1
    if marks != len(params):
        raise UsageError(
            f"this SELECT has {marks} bindings (`?`) and {len(params)} values were given"
        )
    query = statement.parts[0]
    for at, (value, part) in enumerate(zip(params, statement.parts[1:], strict=True)):
        query += f"{{p{at}:{_kind(value)}}}{part}"
    bound = {f"p{at}": value for at, value in enumerate(params)}
    try:
        names, rows = client.ask(query, bound, _SETTINGS)
    except EngineError as error:
        raise _refusal(client, error) from error
    return [{name: _plain(value) for name, value in zip(names, row, strict=True)} for row in rows]


def _check_reach(client: ClickHouseClient, statement: Statement) -> None:
    """Raise UsageError for functions and databases that only the server knows to reach further."""
    if statement.called:
        reaching = client.select(
            "SELECT name FROM system.table_functions WHERE lower(name) IN {names:Array(String)} "
            "AND lower(name) NOT IN {harmless:Array(String)} UNION ALL "
            "SELECT name FROM system.functions WHERE lower(name) IN {names:Array(String)} "
            "AND toString(origin) = 'ExecutableUserDefined'",
            names=sorted(statement.called),
            harmless=harmless_tables(),
        )
        if reaching:
            raise UsageError(f"{ONLY}, and {reaching[0][0]}() reaches beyond the store")
    if not statement.qualified:
        return
    others = client.select(
        "SELECT name FROM system.databases WHERE name IN {names:Array(String)} "
        "AND name != currentDatabase()",
        names=sorted({first for first, _ in statement.qualified}),
    )
    for first, second in sorted(statement.qualified):
        if (first,) in others and reaching_database(first, second):
            raise UsageError(f"{ONLY}, and {first}.{second} is not of the store")


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
            return UsageError(f"{ONLY}, and this asks for more ({words})")
        case _:
            return UsageError(f"ClickHouse refuses this SELECT: {words}")
