"""Who runs a session of a server's store, also on other machines: rows of `record` that say so.

Each says that a process holds a session, or that it let go of it. The next one names the one before
in its token, so that of several writers the server takes one. Whether a process of this machine
lives is told by its locked file; of another machine nobody knows, but by how long it was silent.
These rows are no part of the record: no commit names them, so that no view shows them.
"""

# Table and column names are constants of this package; values are always bound.
# ruff: noqa: S608
from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from windlass.public import (
    SILENT_S,
    Holder,
    SessionHeld,
    SessionLocks,
    StoreError,
    look_at,
    machine_name,
    packing,
)
from windlass_clickhouse._appending import HOLDER, holder_row
from windlass_clickhouse._rows import ClickHouseSession
from windlass_clickhouse.client import ClickHouseClient, Parameter
from windlass_clickhouse.layout import RECORD

_TRIES: Final = 20
"""How often a session is tried to be taken that others take at the same time."""


@dataclass(frozen=True, slots=True)
class _Last:
    """The last row of a session: its number, its own name, when the first was written, its words.

    `machine` is empty where nobody holds it.
    """

    number: int = 0
    key: str = ""
    started: float = 0.0
    machine: str = ""
    process: str = ""
    file: str = ""


class Holders:
    """Who holds the sessions of a server's store; `locks` are those of this machine's folder."""

    def __init__(self, client: ClickHouseClient, locks: SessionLocks) -> None:
        self._client = client
        self._locks = locks

    @contextmanager
    def hold(self, session_id: str) -> Iterator[None]:
        """Keep all others on any machine from running a session. Raises SessionHeld."""
        with self._locks.hold(session_id):
            own = self._take(session_id)
            try:
                yield
            finally:
                with suppress(StoreError):  # its lock on this machine is free all the same
                    self._insert(session_id, own, ("", "", ""), own.key)

    def _take(self, session_id: str) -> _Last:
        file = self._locks.file(session_id)
        mine = (machine_name(), str(os.getpid()), str(file))
        for again in range(_TRIES):
            last = self._last(session_id)
            if last.machine and (last.machine, last.file) != (mine[0], mine[2]):
                holder = self._holders_of({session_id: last})[session_id]
                if holder.state != "broken off":
                    raise SessionHeld(session_id, holder.process, holder.machine)
            key = self._insert(session_id, last, mine, last.key or f"first/{again}")
            taken = self._last(session_id)
            if taken.key == key:
                return taken
        raise StoreError(f"others keep taking session {session_id!r}; try again")

    def all(self) -> Mapping[str, Holder]:
        """Return who holds which session, or did until he was killed."""
        return self._holders_of(self._lasts("1"))

    def _holders_of(self, lasts: Mapping[str, _Last]) -> dict[str, Holder]:
        own, found = machine_name(), dict[str, Holder]()
        elsewhere = [name for name, each in lasts.items() if each.machine not in ("", own)]
        heard = self._heard_of(elsewhere)
        for name, each in lasts.items():
            if each.machine == own:
                _, is_held = look_at(Path(each.file))
                found[name] = Holder("running" if is_held else "broken off", each.process)
            elif each.machine:
                machine = each.machine.partition("/")[0]
                found[name] = Holder(
                    "unknown" if name in heard else "broken off", each.process, machine
                )
        return found

    def _heard_of(self, names: list[str]) -> set[str]:
        """Those of these sessions of which something was written lately, by the server's clock."""
        if not names:
            return set()
        stored = self._client.select(
            "SELECT session_id FROM record WHERE session_id IN {names:Array(String)} "
            "GROUP BY session_id HAVING max(written) > now() - {silent:Float64}",
            names=[packing.text(name) for name in names],
            silent=SILENT_S,
        )
        return {str(name) for (name,) in stored}

    def _last(self, session_id: str) -> _Last:
        name = packing.text(session_id)
        lasts = self._lasts("session_id = {name:String}", name=name)
        return lasts.get(name, _Last(started=time.time()))

    def _lasts(self, where: str, **values: Parameter) -> dict[str, _Last]:
        stored = self._client.select(
            "SELECT session_id, max(number), argMax(key, number), any(started), "
            f"argMax(json, number) FROM record WHERE kind = '{HOLDER}' AND session_no = 0 "
            f"AND {where} GROUP BY session_id",
            **values,
        )
        return {
            str(name): _Last(int(number), key, started, *json.loads(told))
            for name, number, key, started, told in stored
        }

    def _insert(self, session_id: str, last: _Last, told: tuple[str, str, str], token: str) -> str:
        """Write the next row of a session, unless another did; returns its name."""
        key = secrets.token_hex(16)
        session = ClickHouseSession(self._client, packing.text(session_id), 0, last.started, "")
        row = holder_row(session, last.number + 1, key, told)
        self._client.insert("record", RECORD, [row], f"{HOLDER}/{session_id}/{token}")
        return key
