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
from pathlib import Path
from typing import Any, Final

from windlass.history.base import BANK, Pruned
from windlass.history.blobs import BlobPlace, remove_visible
from windlass.history.clickhouse.client import ClickHouseClient, quoted
from windlass.history.clickhouse.tables import VISIBLE

_STALE_S: Final = 3600.0
"""Seconds after which an unfinished file belongs to no living process."""

_PORTION: Final = 1_000
"""Names that one statement removes."""

_NAMED: Final = (
    "SELECT key FROM record WHERE kind IN ('row', 'made', 'result') "
    "AND session_no NOT IN {chosen:Array(UInt64)}"
)
_YOUNG: Final = "written > now() - {grace:Float64}"


def older(client: ClickHouseClient, before: float) -> list[tuple[int, str]]:
    """Number and name of the sessions, but for memory banks, without a row since."""
    stored = client.select(
        "SELECT session_no, any(session_id) FROM record "
        f"WHERE {VISIBLE} GROUP BY session_no "
        "HAVING greatest(any(started), maxIf(at, kind = 'row')) < {before:Float64} "
        "AND NOT startsWith(any(session_id), {bank:String}) "
        "ORDER BY min(written)",
        before=before,
        bank=BANK,
    )
    return [(int(number), str(name)) for number, name in stored]


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


def visible_names(client: ClickHouseClient) -> set[str]:
    """The visible names of pictures and results, as paths under the store's folder."""
    stored = client.select(
        f"SELECT json FROM record WHERE kind IN ('image', 'result') AND {VISIBLE}"
    )
    return {json.loads(values)[-1] for (values,) in stored}


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
    bodies = client.select(
        f"SELECT key FROM bodies WHERE key NOT IN ({_NAMED}) "
        f"GROUP BY key HAVING NOT ({_YOUNG.replace('written', 'max(written)')})",
        chosen=numbers,
        grace=grace_s,
    )
    used = used_blobs(client, numbers)
    files = [
        sha
        for sha in list(blobs.list())
        if sha not in used and not (grace_s and blobs.written(sha) > now - grace_s)
    ]
    pruned = Pruned(
        sessions=tuple(name for _, name in chosen),
        rows=int(rows),
        bodies=len(bodies),
        blobs=len(files),
        bytes=sum(blobs.size(sha) for sha in files),
    )
    if not dry_run:
        # The database forgets first: a crash then leaves files that nothing names.
        _forget(client, numbers, [key for (key,) in bodies], grace_s)
        for sha in files:
            blobs.remove(sha)
        blobs.remove_unfinished(now - _STALE_S)
        remove_visible(folder, visible_names(client))
    return pruned


def _forget(
    client: ClickHouseClient, sessions: list[int], bodies: list[str], grace_s: float
) -> None:
    # Rows of large batches that never came to their commit.
    writes = client.select(
        "SELECT DISTINCT write FROM record WHERE early = 1 AND write NOT IN "
        f"(SELECT write FROM record WHERE kind = 'commit' AND early = 1) AND NOT ({_YOUNG})",
        grace=grace_s,
    )
    _delete(client, "record", "session_no IN {these:Array(UInt64)}", sessions)
    if sessions:
        # Cards that are left over: no record has their sessions any more.
        names = client.select(
            "SELECT DISTINCT session_id FROM context_cards "
            "WHERE session_id NOT IN (SELECT session_id FROM record WHERE kind = 'start')"
        )
        _delete(
            client, "context_cards", "session_id IN {these:Array(String)}",
            [name for (name,) in names],
        )  # fmt: skip
    _delete(client, "record", "write IN {these:Array(String)}", [write for (write,) in writes])
    _delete(client, "bodies", "key IN {these:Array(String)}", bodies)


def _delete(client: ClickHouseClient, table: str, where: str, these: Sequence[Any]) -> None:
    target = table
    if client.cluster is not None:
        target = f"{table}_local ON CLUSTER {quoted(client.cluster)}"
    for at in range(0, len(these), _PORTION):
        client.command(f"DELETE FROM {target} WHERE {where}", these=list(these[at : at + _PORTION]))
