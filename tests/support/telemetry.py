"""What OpenTelemetry's SDK was given in a test."""

from __future__ import annotations

import json
from typing import Any


class Collected:
    """Providers of traces and metrics that keep all in memory."""

    def __init__(self) -> None:
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import InMemoryMetricReader
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor
        from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

        self._exporter, self._reader = InMemorySpanExporter(), InMemoryMetricReader()
        self.tracers = TracerProvider(shutdown_on_exit=False)
        self.tracers.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.meters = MeterProvider([self._reader], shutdown_on_exit=False)

    @property
    def spans(self) -> list[Any]:
        """The spans that ended, by their start; a parent goes before its children."""
        ended = self._exporter.get_finished_spans()
        return sorted(ended, key=lambda span: (span.start_time, -span.end_time))

    def named(self, name: str) -> list[Any]:
        """Those of this name."""
        return [span for span in self.spans if span.name == name]

    def tree(self) -> list[str]:
        """The names of the spans in the order of their start, each indented below its parent."""
        spans = {span.context.span_id: span for span in self.spans}

        def depth(span: Any) -> int:
            above = span.parent and spans.get(span.parent.span_id)
            return 0 if above is None else 1 + depth(above)

        return ["  " * depth(span) + span.name for span in spans.values()]

    def with_parents(self) -> list[tuple[str | None, str]]:
        """The names of the spans, each behind that of its parent."""
        names = {span.context.span_id: span.name for span in self.spans}
        return [(span.parent and names[span.parent.span_id], span.name) for span in self.spans]

    def points(self, name: str) -> list[Any]:
        """The data points of a metric."""
        data = self._reader.get_metrics_data()
        scopes = [scope for one in data.resource_metrics for scope in one.scope_metrics]
        found = [one for scope in scopes for one in scope.metrics if one.name == name]
        return [point for one in found for point in one.data.data_points]


def content(span: Any, name: str) -> Any:
    """What an attribute holds as JSON."""
    return json.loads(span.attributes[name])
