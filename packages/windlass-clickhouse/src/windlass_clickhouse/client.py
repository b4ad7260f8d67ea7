"""One ClickHouse behind the real client: questions, inserts, and what its errors mean to people.

Knows the client (`clickhouse-connect`, which speaks to a server over HTTP and to the engine
in process alike) and nothing of batches or sessions. The password is read from the
environment and stands in no message.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from windlass.public import StoreError, UsageError, did_you_mean, logging_unchanged, own_files

_PASSWORD: Final = "WINDLASS_CLICKHOUSE_PASSWORD"  # noqa: S105 - the name of a variable

_WAITS_S: Final = (0.1, 0.5, 2.0)
"""Seconds between the tries of something that a lost connection stopped."""

_UNKNOWN: Final = {
    46: "function", 47: "column", 60: "table", 63: "function", 72: "format", 115: "setting",
    344: "feature", 48: "feature", 43: "function", 80: "index",
}  # fmt: skip
_LIMITS: Final = {
    241: "has no memory left for this (its limit max_memory_usage)",
    243: "has no space left on its disk",
    252: "has too many parts to merge: write less often, or give it time",
    159: "took longer than its limit",
    209: "took longer than its limit",
    242: "has made the table read-only (it lost its ClickHouse Store)",
    999: "lost its ClickHouse Store",
    225: "has no ClickHouse Store, which Replicated tables need",
}

Parameter: TypeAlias = str | int | float | Sequence[str] | Sequence[int]
"""What a statement's `{name:Type}` is bound to."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where a ClickHouse is: a server's address, or the folder of an engine in process.

    `shown` names it in messages and holds no secret.
    """

    shown: str
    database: str
    host: str = ""
    port: int = 0
    user: str = "default"
    secure: bool = False
    path: str | None = None


class LostConnectionError(StoreError):
    """The server went away before it answered: what was asked may or may not have happened."""


class ClickHouseClient:
    """A connection that is made when it is first used; threads may share it.

    Raises UsageError for what the user wrote (address, password, database) and StoreError
    where the server fails.
    """

    def __init__(self, target: Target, password: str | None) -> None:
        self.target = target
        self._password = password
        self._lock = threading.RLock()
        self._client: Any = None
        self._insert_settings: dict[str, Any] = {}
        self.version = ""

    # ---- the connection -------------------------------------------------------------

    def beside(self) -> ClickHouseClient:
        """Give another connection to the same server, that waits for none of this one's questions.

        The engine in process has one for all.
        """
        return (
            self if self.target.path is not None else ClickHouseClient(self.target, self._password)
        )

    def open(self) -> None:
        """Connect now. Raises UsageError where the client is not installed."""
        with self._lock:
            if self._client is None:
                self._connect()

    def close(self) -> None:
        """Close the connection; the next question opens it again."""
        with self._lock:
            if self._client is not None:
                with suppress(Exception):  # it may be lost already
                    self._client.close()
                self._client = None

    def _connect(self) -> None:
        connect = _library(in_process=self.target.path is not None)
        try:
            self._client = self._made(connect)
            self.version = str(self._client.server_version)
            can_deduplicate = self._client.query(
                "SELECT name FROM system.settings WHERE name = 'deduplicate_insert'"
            ).result_rows
        except Exception as error:
            self._client = None
            raise self._translated(error) from error
        # Joined by the server with what others insert at the same time, and acknowledged
        # when it is on the disk. Servers that cannot tell repeated inserts apart then
        # (before 26) write each by itself.
        self._insert_settings = (
            {"async_insert": 1, "wait_for_async_insert": 1, "deduplicate_insert": "enable"}
            if can_deduplicate
            else {"async_insert": 0, "insert_deduplicate": 1}
        )

    def _made(self, connect: Any) -> Any:
        target = self.target
        if target.path is not None:
            own_files.make_folder(Path(target.path))  # the engine would make it for everybody
            client = connect.get_client(interface="chdb", path=target.path)
            client.command(f"CREATE DATABASE IF NOT EXISTS {quoted(target.database)}")
            client.command(f"USE {quoted(target.database)}")
            client.database = target.database
            return client
        return connect.get_client(
            host=target.host,
            port=target.port,
            username=target.user,
            password=self._password or "",
            database=target.database,
            secure=target.secure,
            connect_timeout=10,
            send_receive_timeout=300,
            query_retries=0,
            autogenerate_session_id=False,
        )

    def _again(self, do: Any, *, harmless: bool) -> Any:
        """Do it, and again where the connection is lost and doing it twice is `harmless`."""
        with self._lock:
            for wait in (*_WAITS_S, None):
                try:
                    self.open()
                    return do(self._client)
                except Exception as error:
                    translated = self._translated(error)
                    if not isinstance(translated, LostConnectionError):
                        raise translated from error
                    self.close()
                    if wait is None or not harmless:
                        raise translated from error
                    time.sleep(wait)
            raise AssertionError

    # ---- what is asked --------------------------------------------------------------

    def select(self, sql: str, **parameters: Parameter) -> list[tuple[Any, ...]]:
        """Return the rows of a SELECT; values are bound by the server as `{name:Type}`."""
        done = self._again(
            lambda client: client.query(sql, parameters=parameters or None), harmless=True
        )
        return [tuple(row) for row in done.result_rows]

    def ask(
        self, sql: str, parameters: Mapping[str, Any], settings: Mapping[str, Any]
    ) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
        """Return names and rows of a user's SELECT, with these settings."""

        def do(client: Any) -> Any:
            return client.query(sql, parameters=dict(parameters) or None, settings=dict(settings))

        done = self._again(do, harmless=True)
        return tuple(done.column_names), [tuple(row) for row in done.result_rows]

    def command(self, sql: str, *, harmless: bool = True, **parameters: Parameter) -> None:
        """A statement without an answer."""
        self._again(
            lambda client: client.command(sql, parameters=parameters or None), harmless=harmless
        )

    def insert(
        self,
        table: str,
        columns: Sequence[tuple[str, str]],
        rows: Sequence[Sequence[Any]],
        token: str,
    ) -> None:
        """Insert rows as one block, acknowledged; the same `token` again inserts nothing.

        Raises LostConnectionError where no answer came, after several tries.
        """
        if not rows:
            return
        names = [name for name, _ in columns]
        kinds = [kind.split(" DEFAULT ")[0] for _, kind in columns]
        settings = {**self._insert_settings, "insert_deduplication_token": token}

        def do(client: Any) -> None:
            client.insert(table, rows, names, column_type_names=kinds, settings=settings)

        self._again(do, harmless=True)

    # ---- errors ---------------------------------------------------------------------

    def _translated(self, error: Exception) -> Exception:
        if isinstance(error, StoreError | UsageError):
            return error
        place = self.target.shown
        code = getattr(error, "code", None)
        text = _first_line(str(error))
        if code is None and _is_lost(error):
            if self.target.path is None and _never_there(error):
                return StoreError(
                    f"no ClickHouse answers at {place}: see that the server runs and that host and "
                    "port (8123, or 8443 with secure=true) are right; nothing was recorded"
                )
            return LostConnectionError(
                f"the connection to {place} was lost before the server answered: what was "
                "acknowledged is safe, and the step may be done again"
            )
        match code:
            case 516 | 192 | 193 | 194:
                return UsageError(
                    f"{place} refuses the user {self.target.user!r} or the password: "
                    f"set {_PASSWORD}" + (" (it is set)" if self._password else " (it is not set)")
                )
            case 81:
                return UsageError(
                    f"there is no database {self.target.database!r} at {place}: make it with "
                    f"CREATE DATABASE {quoted(self.target.database)}, or name another in --store; "
                    + self._databases()
                )
            case 497:
                return StoreError(
                    f"the user {self.target.user!r} may not do this at {place}: {text}"
                )
            case int() if code in _LIMITS:
                return StoreError(f"the server {place} {_LIMITS[code]}: {text}")
            case _:
                return _in_process(error, text, place) or EngineError(code, text, place)

    def _databases(self) -> str:
        """Return the databases there are, for the message about one that is not."""
        connect = _library(in_process=False)
        try:
            client = connect.get_client(
                host=self.target.host,
                port=self.target.port,
                username=self.target.user,
                password=self._password or "",
                secure=self.target.secure,
            )
            names = [row[0] for row in client.query("SHOW DATABASES").result_rows]
            client.close()
        except Exception:  # noqa: BLE001 - only a hint
            return "the server does not say which there are"
        own = [name for name in names if name.lower() not in ("system", "information_schema")]
        return did_you_mean(self.target.database, own)


class EngineError(StoreError):
    """The engine refused a statement: its `code`, and its words in one line."""

    def __init__(self, code: int | None, text: str, place: str) -> None:
        self.code = code
        self.words = text
        missing = _UNKNOWN.get(code or 0)
        sentence = f"ClickHouse at {place} failed: {text}"
        if missing is not None:
            sentence = (
                f"ClickHouse at {place} lacks a {missing} that this store needs: {text}; "
                "tried with ClickHouse 26"
            )
        super().__init__(sentence)


def quoted(name: str) -> str:
    """Return a name as SQL takes it, whatever it is made of."""
    return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"


def _library(*, in_process: bool) -> Any:
    try:
        with logging_unchanged("clickhouse_connect", *(["chdb"] if in_process else [])):
            import clickhouse_connect

            if in_process:
                import chdb

                del chdb
    except ImportError as error:
        extra = "chdb" if in_process else "clickhouse"
        raise UsageError(
            f"a store in ClickHouse needs {error.name}: pip install 'windlass[{extra}]'"
        ) from error
    return clickhouse_connect


def _first_line(text: str) -> str:
    """Return the engine's own words: without the client's frame, stack and version."""
    _, frame, rest = text.partition("DB::Exception: ")
    line = (rest if frame else text).strip().splitlines()[0] if text.strip() else "no reason given"
    return line.split(" (version ")[0].removeprefix("DB::Exception: ").strip()[:400]


def _chain(error: BaseException) -> list[BaseException]:
    chain: list[BaseException] = []
    at: BaseException | None = error
    while at is not None and at not in chain:
        chain.append(at)
        at = at.__cause__ or at.__context__
    return chain


def _is_lost(error: BaseException) -> bool:
    """Return whether the connection broke, rather than the server having said something."""
    names = {
        "OperationalError", "ProtocolError", "NewConnectionError", "MaxRetryError",
        "ReadTimeoutError", "ConnectTimeoutError", "IncompleteRead", "StreamFailureError",
    }  # fmt: skip
    return any(
        isinstance(each, OSError | EOFError) or type(each).__name__ in names
        for each in _chain(error)
    )


def _never_there(error: BaseException) -> bool:
    names = {"NewConnectionError", "ConnectTimeoutError", "NameResolutionError"}
    text = " ".join(str(each) for each in _chain(error))
    return any(
        isinstance(each, ConnectionRefusedError) or type(each).__name__ in names
        for each in _chain(error)
    ) or any(name in text for name in (*names, "Connection refused", "Name or service"))


def _in_process(error: BaseException, text: str, place: str) -> Exception | None:
    """Return what chdb means when it cannot open its folder."""
    words = " ".join(str(each) for each in _chain(error))
    # The lock's own words go to standard error; the exception only says that it did not begin.
    if "initializing EmbeddedServer" in words:
        return StoreError(
            f"the store {place} is open in another process, or its files are damaged; "
            "chdb lets one at a time: close it, "
            "or use a ClickHouse server or a folder (SQLite) as the store"
        )
    if "Unable to open the chdb engine" in words:
        return StoreError(
            f"the store {place} cannot be opened in this process: {text}; chdb keeps one folder "
            "open in a process"
        )
    return None
