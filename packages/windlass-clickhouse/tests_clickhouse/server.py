"""A ClickHouse to test against: the real engine (chdb) behind its HTTP interface.

    python -m tests_clickhouse.server FOLDER

It prints its port and serves until its standard input ends. It knows one user, `windlass` with
the password `right`, and speaks what the real client speaks: settings and parameters in the
address, Native blocks both ways, compressed inserts, errors with their code in a header.
What a real server has and this has not: several users, clusters, queues of asynchronous inserts.

`/trouble` makes it misbehave, see `Trouble`.
"""

from __future__ import annotations

import base64
import email
import email.policy
import http.server
import json
import os
import re
import sys
import tempfile
import threading
import zlib
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import chdb
import lz4.frame

USER: Final = "windlass"
PASSWORD: Final = "right"
_INSERT: Final = re.compile(
    rb"\s*(INSERT\s+INTO\s+.+?)\s+FORMAT\s+(\w+)\s*?\n", re.IGNORECASE | re.DOTALL
)
_FORMAT: Final = re.compile(r"\s+FORMAT\s+(\w+)\s*;?\s*$", re.IGNORECASE)
_CODE: Final = re.compile(r"Code: (\d+)")
_OWN: Final = frozenset(
    (
        "query", "database", "default_format", "compress", "decompress", "session_id",
        "enable_http_compression", "session_timeout", "query_id", "wait_end_of_query",
        "send_progress_in_http_headers", "http_headers_progress_interval_ms", "role",
        "client_protocol_version", "buffer_size", "quota_key",
        "http_write_exception_in_output_format",
    )
)  # fmt: skip


class Engine:
    """The engine, one statement at a time."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.lock = threading.Lock()
        self.keep = chdb.connect(folder)  # the engine lives as long as one of its handles

    def run(
        self, sql: str, form: str, database: str, settings: dict[str, str], bound: dict[str, str]
    ) -> bytes:
        """The answer to one statement, in a session of its own."""
        with self.lock:
            handle = chdb.connect(self.folder)
            try:
                if database:
                    handle.query(f"USE `{database}`")
                for name, value in settings.items():
                    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
                    handle.query(f"SET {name} = '{escaped}'")
                found = handle.query(sql, form, params=bound)
                return bytes(found.bytes() or b"")
            finally:
                handle.close()


class Trouble:
    """What goes wrong next, for tests: set by a request to `/trouble?kind=…&table=…&skip=…`.

    `before`: the connection is cut before the insert is done; `after`: the insert is done, and
    the connection cut before the answer. `table` names the table it happens to; `skip` so many
    inserts pass first; `times` it happens (0: for good).
    """

    def __init__(self) -> None:
        self.kind = ""
        self.table = ""
        self.skip = 0
        self.times = 0

    def meets(self, sql: str) -> str:
        """The kind of trouble that this insert meets; empty for none."""
        if not self.kind or not re.search(rf"INTO\s+`?{self.table}`?\b", sql, re.IGNORECASE):
            return ""
        if self.skip > 0:
            self.skip -= 1
            return ""
        kind = self.kind
        if self.times > 0:
            self.times -= 1
            if self.times == 0:
                self.kind = ""
        return kind


class Handler(http.server.BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True
    engine: Engine
    trouble: Trouble

    def log_message(self, *_: Any) -> None:
        """Nothing."""

    def do_GET(self) -> None:
        self._serve(b"")

    def do_POST(self) -> None:
        self._serve(self._body())

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            data = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                data += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        match self.headers.get("Content-Encoding"):
            case "lz4":
                return bytes(lz4.frame.decompress(data))
            case "gzip":
                return zlib.decompress(data, 31)
            case _:
                return data

    def _serve(self, body: bytes) -> None:
        asked = urlsplit(self.path)
        given = {
            name: values[-1]
            for name, values in parse_qs(asked.query, keep_blank_values=True).items()
        }
        if asked.path == "/ping":
            self._answer(200, b"Ok.\n")
        elif asked.path == "/trouble":
            self.trouble.__dict__.update(
                kind=given["kind"],
                table=given.get("table", "record"),
                skip=int(given.get("skip", 0)),
                times=int(given.get("times", 1)),
            )
            self._answer(200, b"")
        elif not self._is_let_in(given):
            told = f"Code: 516. DB::Exception: {USER}: Authentication failed. (X)\n"
            self._answer(403, told.encode(), {"X-ClickHouse-Exception-Code": "516"})
        else:
            kind = self.headers.get("Content-Type", "")
            if kind.startswith("multipart/form-data"):  # a long statement and its parameters
                given.update(_form(kind, body))
                body = b""
            self._run(given, body)

    def _is_let_in(self, given: dict[str, str]) -> bool:
        user, key = given.pop("user", None), given.pop("password", None)
        if "X-ClickHouse-User" in self.headers:
            user, key = self.headers["X-ClickHouse-User"], self.headers.get("X-ClickHouse-Key")
        kind, _, secret = self.headers.get("Authorization", "").partition(" ")
        if kind == "Basic":
            user, _, key = base64.b64decode(secret).decode().partition(":")
        return (user, key) == (USER, PASSWORD)

    def _run(self, given: dict[str, str], body: bytes) -> None:
        sql = given.get("query", "")
        data = body
        if not sql:
            insert = _INSERT.match(body)
            sql, data = (
                (insert[0].decode(), body[insert.end() :]) if insert else (body.decode(), b"")
            )
        bound = {name[6:]: value for name, value in given.items() if name.startswith("param_")}
        settings = {
            name: value
            for name, value in given.items()
            if name not in _OWN and not name.startswith("param_")
        }
        trouble = self.trouble.meets(sql)
        if trouble == "before":
            self._cut()
            return
        form = given.get("default_format", "TabSeparated")
        if insert := _INSERT.match(sql.encode() + b"\n"):
            sql, form = insert[1].decode(), insert[2].decode()
        elif found := _FORMAT.search(sql):
            sql, form = sql[: found.start()], found[1]
        try:
            answer = self._execute(
                sql, form, given.get("database", ""), settings, bound=bound, data=data
            )
        except Exception as error:  # noqa: BLE001 - the client is told, as by a server
            text = str(error)
            code = _CODE.search(text)
            number = code[1] if code else "1002"
            told = text[text.find("Code: ") :] if code else text
            status = {"81": 404, "60": 404}.get(number, 500)
            self._answer(status, told.encode(), {"X-ClickHouse-Exception-Code": number})
            return
        if trouble == "after":
            self._cut()
            return
        self._answer(200, answer, {"X-ClickHouse-Format": form})

    def _execute(
        self,
        sql: str,
        form: str,
        database: str,
        settings: dict[str, str],
        *,
        bound: dict[str, str],
        data: bytes,
    ) -> bytes:
        if not data:
            return self.engine.run(sql, form, database, settings, bound)
        with tempfile.NamedTemporaryFile(suffix=".native") as file:
            file.write(data)
            file.flush()
            inserted = f"{sql} FROM INFILE '{file.name}' FORMAT {form}"
            return self.engine.run(inserted, "TabSeparated", database, settings, bound)

    def _cut(self) -> None:
        self.close_connection = True
        self.connection.close()

    def _answer(self, status: int, data: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {
            "Content-Length": str(len(data)),
            "X-ClickHouse-Timezone": "UTC",
            "X-ClickHouse-Summary": json.dumps({}),
            **(headers or {}),
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)


def _form(kind: str, body: bytes) -> dict[str, str]:
    """The fields of a form."""
    head = f"Content-Type: {kind}\r\n\r\n".encode()
    fields = email.message_from_bytes(head + body, policy=email.policy.HTTP)
    found: dict[str, str] = {}
    for part in fields.walk():
        data = part.get_payload(decode=True)
        if isinstance(data, bytes):
            found[str(part.get_param("name", header="content-disposition"))] = data.decode()
    return found


class Server(http.server.ThreadingHTTPServer):
    """The server; clients that hang up are no news."""

    daemon_threads = True

    def handle_error(self, *_: Any) -> None:
        """Nothing."""


def main() -> None:
    """Serve until standard input ends."""
    Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
    Handler.engine = Engine(sys.argv[1])
    Handler.trouble = Trouble()
    server = Server(("127.0.0.1", int(sys.argv[2]) if len(sys.argv) > 2 else 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdout.write(f"{server.server_address[1]}\n")
    sys.stdout.flush()
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main()
