"""Pruning a ClickHouse store: whole sessions, and what no other session uses.

Nobody holds a lock while this runs. So what was written or renewed a short while ago
(`grace_s`) is left alone even where nothing names it: it may belong to an append that has not
committed yet. The next prune takes it.
"""

# Table and column names are constants of this package; values are always bound.
# ruff: noqa: S608
from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from windlass.history.base import BANK, Pruned
from windlass.history.blob_places import BlobPlace
from windlass.history.clickhouse import reading
from windlass.history.clickhouse.client import ClickHouseClient, quoted
from windlass.history.clickhouse.views import VISIBLE
from windlass.history.pruning import remove_visible

_STALE_S: Final = 3600.0
"""Seconds after which an unfinished file belongs to no living process."""

_PORTION: Final = 1_000
"""Names that one statement removes."""

_NAMED: Final = (
    "SELECT key FROM record WHERE kind IN ('row', 'made', 'result') "
    "AND session_no NOT IN {chosen:Array(UInt64)}"
)
_YOUNG: Final = "written > now() - {grace:Float64}"


@dataclass(slots=True)
class _Going:
    """What a prune removes."""

    sessions: list[int]
    bodies: list[str]
    writes: list[str]
    files: list[str]


def choose(
    client: ClickHouseClient, older_than_s: float | None, session_id: str | None, now: float
) -> list[tuple[int, str]]:
    """Number and name of the sessions to remove. Raises UsageError for an unknown one."""
    if session_id is not None:
        return [(reading.must_find(client, session_id)[0], session_id)]
    assert older_than_s is not None
    found = client.select(
        "SELECT session_no, any(session_id) FROM record "
        f"WHERE {VISIBLE} GROUP BY session_no "
        "HAVING greatest(any(started), maxIf(at, kind = 'row')) < {before:Float64} "
        "AND NOT startsWith(any(session_id), {bank:String}) "
        "ORDER BY min(written)",
        before=now - older_than_s,
        bank=BANK,
    )
    return [(int(number), str(name)) for number, name in found]


def used_blobs(client: ClickHouseClient, chosen: Sequence[int] = ()) -> set[str]:
    """The blobs that the record names, without those that only the chosen sessions use."""
    stored = client.select(
        "SELECT arrayJoin(arrayConcat(pictures, if(body IS NULL, [key], []))) AS sha "
        f"FROM bodies WHERE key IN ({_NAMED}) "
        "UNION DISTINCT SELECT key FROM record WHERE kind = 'result' "
        "AND session_no NOT IN {chosen:Array(UInt64)}",
        chosen=list(chosen),
    )
    return {str(sha) for (sha,) in stored}


def prune(
    client: ClickHouseClient,
    blobs: BlobPlace,
    folder: Path,
    chosen: Sequence[tuple[int, str]],
    *,
    now: float,
    grace_s: float,
    dry_run: bool,
) -> Pruned:
    """Remove the sessions and what nothing else uses, and report it; or only report."""
    numbers = [number for number, _ in chosen]
    ((rows,),) = client.select(
        "SELECT count() FROM record WHERE kind = 'row' AND session_no IN {chosen:Array(UInt64)} "
        f"AND {VISIBLE}",
        chosen=numbers,
    )
    going = _going(client, blobs, numbers, now=now, grace_s=grace_s)
    told = Pruned(
        sessions=tuple(name for _, name in chosen),
        rows=int(rows),
        bodies=len(going.bodies),
        blobs=len(going.files),
        bytes=sum(blobs.size(sha) for sha in going.files),
    )
    if not dry_run:
        _forget(client, going)
        remove_files(client, blobs, folder, going.files, now)
    return told


def _going(
    client: ClickHouseClient, blobs: BlobPlace, numbers: list[int], *, now: float, grace_s: float
) -> _Going:
    bodies = client.select(
        f"SELECT key FROM bodies WHERE key NOT IN ({_NAMED}) "
        f"GROUP BY key HAVING NOT ({_YOUNG.replace('written', 'max(written)')})",
        chosen=numbers,
        grace=grace_s,
    )
    # Rows of large batches that never came to their commit.
    writes = client.select(
        "SELECT DISTINCT write FROM record WHERE early = 1 AND write NOT IN "
        f"(SELECT write FROM record WHERE kind = 'commit' AND early = 1) AND NOT ({_YOUNG})",
        grace=grace_s,
    )
    used = used_blobs(client, numbers)
    files = [
        sha
        for sha in list(blobs.list())
        if sha not in used and not (grace_s and blobs.written(sha) > now - grace_s)
    ]
    return _Going(
        numbers, [str(key) for (key,) in bodies], [str(write) for (write,) in writes], files
    )


def _forget(client: ClickHouseClient, going: _Going) -> None:
    """The database forgets first: a crash then leaves files that nothing names."""
    _delete(client, "record", "session_no IN {these:Array(UInt64)}", going.sessions)
    _delete(client, "context_cards", "session_id IN {these:Array(String)}", _names(client, going))
    _delete(client, "record", "write IN {these:Array(String)}", going.writes)
    _delete(client, "bodies", "key IN {these:Array(String)}", going.bodies)


def _names(client: ClickHouseClient, going: _Going) -> list[str]:
    """Names of sessions whose cards are left over: no record has them any more."""
    if not going.sessions:
        return []
    found = client.select(
        "SELECT DISTINCT session_id FROM context_cards "
        "WHERE session_id NOT IN (SELECT session_id FROM record WHERE kind = 'start')"
    )
    return [str(name) for (name,) in found]


def _delete(client: ClickHouseClient, table: str, where: str, these: Sequence[Any]) -> None:
    target = table
    if client.cluster is not None:
        target = f"{table}_local ON CLUSTER {quoted(client.cluster)}"
    for at in range(0, len(these), _PORTION):
        client.command(f"DELETE FROM {target} WHERE {where}", these=list(these[at : at + _PORTION]))


def remove_files(
    client: ClickHouseClient, blobs: BlobPlace, folder: Path, files: Sequence[str], now: float
) -> None:
    """Remove these blobs, unfinished files, and visible names that the record does not have."""
    for sha in files:
        blobs.remove(sha)
    blobs.remove_unfinished(now - _STALE_S)
    stored = client.select(
        f"SELECT kind, json FROM record WHERE kind IN ('image', 'result') AND {VISIBLE}"
    )
    remove_visible(folder, {json.loads(values)[-1] for _, values in stored})
