"""A program that has OpenTelemetry set up, and a collector on this machine."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from tests.cli.conftest import windlass
from tests.engine.conftest import house
from tests.support.telemetry import Collected

__all__ = ["house", "windlass"]


@pytest.fixture
def collected(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collected]:
    """What this program's own providers of traces and metrics were given."""
    from opentelemetry import metrics, trace

    own = Collected()
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: own.tracers)
    monkeypatch.setattr(metrics, "get_meter_provider", lambda: own.meters)
    yield own
    own.tracers.shutdown()
    own.meters.shutdown()


@dataclass
class Collector:
    """A collector that takes OTLP over HTTP, or refuses it with `status`."""

    status: int = 200
    posts: list[tuple[str, bytes]] = field(default_factory=list)
    url: str = ""

    def spans(self) -> list[Any]:
        """The spans that arrived, in the form of protobuf."""
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
            ExportTraceServiceRequest,
        )

        spans: list[Any] = []
        for path, body in self.posts:
            if path == "/v1/traces":
                export = ExportTraceServiceRequest.FromString(body)
                scopes = [scope for one in export.resource_spans for scope in one.scope_spans]
                spans += [span for scope in scopes for span in scope.spans]
        return spans


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    """A collector on loopback, to which the variables point."""
    own = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            own.posts.append((self.path, body))
            self.send_response(own.status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        own.url = f"http://127.0.0.1:{server.server_address[1]}"
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", own.url)
        yield own
        server.shutdown()
        thread.join()
