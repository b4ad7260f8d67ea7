"""An object store to test against: the part of S3 that blobs use, over HTTP, in memory."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from typing import Any
from urllib.parse import parse_qs, urlsplit
from xml.sax.saxutils import escape

BUCKET = "bucket"
_PAGE = 3
"""Names on a page, so that a listing has several."""


class Handler(http.server.BaseHTTPRequestHandler):
    """One connection: objects by their path, times in seconds since 1970."""

    protocol_version = "HTTP/1.1"
    objects: dict[str, tuple[bytes, float]]
    failing: list[int]
    clock: list[float]

    def log_message(self, *_: Any) -> None:
        """Nothing."""

    def _name(self) -> str | None:
        """The object's name; None for a bucket that is not there."""
        _, bucket, name = [*urlsplit(self.path).path.split("/", 2), ""][:3]
        return name if bucket == BUCKET else None

    def do_PUT(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        name = self._name()
        if self.failing or name is None:
            self._refuse()
            return
        self.objects[name] = (data, self.clock[0])
        self._answer(200, headers={"ETag": '"1"'})

    def do_GET(self) -> None:
        name = self._name()
        if self.failing or name is None:
            self._refuse()
        elif not name:
            self._list(parse_qs(urlsplit(self.path).query))
        elif name in self.objects:
            data, at = self.objects[name]
            self._answer(200, data, {"ETag": '"1"', "Last-Modified": formatdate(at, usegmt=True)})
        else:
            self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_DELETE(self) -> None:
        if self.failing:
            self._refuse()
            return
        self.objects.pop(self._name() or "", None)
        self._answer(204)

    def do_POST(self) -> None:
        """Several deletes at once."""
        data = self.rfile.read(int(self.headers["Content-Length"])).decode()
        names = [part.partition("</Key>")[0] for part in data.split("<Key>")[1:]]
        for name in names:
            self.objects.pop(name, None)
        gone = "".join(f"<Deleted><Key>{escape(name)}</Key></Deleted>" for name in names)
        self._answer(200, f"<DeleteResult>{gone}</DeleteResult>".encode())

    def _list(self, asked: dict[str, list[str]]) -> None:
        prefix = asked.get("prefix", [""])[0]
        after = asked.get("continuation-token", [""])[0]
        names = sorted(name for name in self.objects if name.startswith(prefix) and name > after)
        page = names[:_PAGE]
        found = "".join(
            f"<Contents><Key>{escape(name)}</Key><Size>{len(self.objects[name][0])}</Size>"
            "<LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>1</ETag></Contents>"
            for name in page
        )
        more = len(names) > _PAGE
        token = f"<NextContinuationToken>{page[-1]}</NextContinuationToken>" if more else ""
        text = f"<ListBucketResult><IsTruncated>{str(more).lower()}</IsTruncated>{token}{found}"
        self._answer(200, f"{text}</ListBucketResult>".encode())

    def _refuse(self) -> None:
        status = self.failing[0] if self.failing else 404
        code = "NoSuchBucket" if status == 404 else "AccessDenied"
        self._answer(status, f"<Error><Code>{code}</Code></Error>".encode())

    def _answer(
        self, status: int, data: bytes = b"", headers: dict[str, str] | None = None
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


@contextmanager
def serving() -> Iterator[tuple[str, type[Handler]]]:
    """The address of a fresh object store, and its handler with what is in it."""

    class Own(Handler):
        objects: dict[str, tuple[bytes, float]] = {}  # noqa: RUF012 - one store for one server
        failing: list[int] = []  # noqa: RUF012
        clock: list[float] = [1_000_000.0]  # noqa: RUF012

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Own)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", Own
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
