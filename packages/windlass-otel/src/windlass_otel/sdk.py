"""Spans and metrics through OpenTelemetry's SDK, as the program or the variables configure it.

A program that has set a provider of traces up gets them there. Otherwise they go where the
variables `OTEL_*` say: by default in OTLP over HTTP to `http://localhost:4318`.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from windlass.public import Store, UsageError, genai_names, logging_unchanged, redacted_url
from windlass_otel.genai_messages import Contents
from windlass_otel.observing import ObservedStore, SpanMaker
from windlass_otel.spans import OtelSpan, nanoseconds

SCOPE: Final = "windlass"
"""The name of the scope of all spans and metrics."""
LONGEST_WAIT_S: Final = 5.0
"""How long the end of a run waits for a collector that does not answer."""
_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_OF_METRICS: Final = ("operation", "provider", "model", "error")


class SdkSink:
    """Gives spans to a tracer, and what calls took to a meter."""

    def __init__(self, tracer: Any, meter: Any) -> None:
        from opentelemetry import trace

        self._trace = trace
        self._tracer = tracer
        self._spans: dict[str, Any] = {}
        self.ended = 0
        """How many spans ended that are to be sent."""
        bounds = {"explicit_bucket_boundaries_advisory": genai_names.DURATION_BOUNDS}
        self._durations = [
            meter.create_histogram(name, unit="s", **bounds) for name in genai_names.DURATIONS
        ]
        self._tokens = {
            key: meter.create_counter(name, unit="{token}")
            for key, name in genai_names.TOKENS.items()
        }
        bounds = {"explicit_bucket_boundaries_advisory": genai_names.TOKEN_BOUNDS}
        self._old_tokens = meter.create_histogram(genai_names.OLD_TOKENS, unit="{token}", **bounds)

    def opened(self, span: OtelSpan) -> None:
        """Start a span, under that which is current where it has no parent."""
        above = None if span.parent is None else self._spans.get(span.parent.id)
        context = None if above is None else self._trace.set_span_in_context(above)
        kinds = self._trace.SpanKind
        kind = kinds.CLIENT if span.operation == genai_names.CHAT else kinds.INTERNAL
        self._spans[span.id] = self._tracer.start_span(
            span.name,
            context=context,
            kind=kind,
            attributes=span.attributes,
            start_time=nanoseconds(span.start),
        )

    def closed(self, span: OtelSpan) -> None:
        """End a span, and count what a call took."""
        own = self._spans.pop(span.id)
        own.set_attributes(span.attributes)
        if span.error:
            own.set_status(self._trace.StatusCode.ERROR, span.told or None)
        self.ended += own.is_recording()
        own.end(nanoseconds(span.end))
        if span.operation == genai_names.CHAT:
            self._count(span)

    def _count(self, span: OtelSpan) -> None:
        names = [genai_names.ATTRIBUTES[key][0] for key in _OF_METRICS]
        known = {name: span.attributes[name] for name in names if name in span.attributes}
        for histogram in self._durations:
            histogram.record(span.end - span.start, known)
        for key, counter in self._tokens.items():
            tokens = span.attributes.get(genai_names.ATTRIBUTES[key][0])
            if tokens is None:
                continue
            counter.add(tokens, known | genai_names.named({"modality": "unknown"}))
            if key in genai_names.OLD_TOKEN_TYPES:
                of_type = genai_names.named({"token_type": genai_names.OLD_TOKEN_TYPES[key]})
                self._old_tokens.record(tokens, known | of_type)


@dataclass(frozen=True, slots=True)
class _Exporters:
    """The exporters of providers that Windlass made; None: it has none."""

    spans: _Counted | None = None
    metrics: _Counted | None = None


class Telemetry:
    """Where the spans and metrics of an engine's runs go; `close` sends the last of them."""

    def __init__(self, tracers: Any, meters: Any, exporters: _Exporters) -> None:
        self._exporters = exporters
        self._providers = tracers, meters
        self._observed: list[tuple[ObservedStore, SdkSink]] = []

    @classmethod
    def open(cls) -> Telemetry:
        """Return the telemetry of this program, or a new one by the variables `OTEL_*`.

        Raises UsageError where the SDK is not installed, or a variable names an unknown exporter.
        """
        try:
            with logging_unchanged("opentelemetry"):
                from opentelemetry import metrics, trace
                from opentelemetry.sdk.metrics import MeterProvider
                from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
                from opentelemetry.sdk.resources import SERVICE_NAME, Resource
                from opentelemetry.sdk.trace import TracerProvider
                from opentelemetry.sdk.trace.export import BatchSpanProcessor

                if not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
                    return cls(
                        trace.get_tracer_provider(), metrics.get_meter_provider(), _Exporters()
                    )
                exporters = _Exporters(_span_exporter(), _metric_exporter())
        except ImportError as error:
            raise UsageError(
                "OpenTelemetry's SDK is not installed; `pip install 'windlass[otel]'`, or leave"
                " out --otel"
            ) from error
        resource = Resource.create()
        if str(resource.attributes[SERVICE_NAME]).startswith("unknown_service"):
            resource = resource.merge(Resource({SERVICE_NAME: SCOPE}))
        tracers = TracerProvider(resource=resource, id_generator=_Ids(), shutdown_on_exit=False)
        if exporters.spans is not None:
            tracers.add_span_processor(BatchSpanProcessor(exporters.spans))
        readers = [PeriodicExportingMetricReader(one) for one in [exporters.metrics] if one]
        meters = MeterProvider(readers, resource, shutdown_on_exit=False)
        return cls(tracers, meters, exporters)

    def observe(self, store: Store, *, contents: bool) -> Store:
        """Return the store, of whose sessions spans are made; `contents`: with what was said."""
        tracers, meters = self._providers
        sink = SdkSink(tracers.get_tracer(SCOPE), meters.get_meter(SCOPE))
        observed = ObservedStore(store, SpanMaker(store, sink, Contents(contents)))
        self._observed.append((observed, sink))
        return cast("Store", observed)

    async def close(self) -> str:
        """Send what is not sent yet; says what could not be told or sent (empty: all was)."""
        for store, _ in self._observed:
            store.finish()
        exporters = self._exporters
        await asyncio.to_thread(self._shut_down, exporters)
        lost: list[str] = []
        if exporters.spans is not None:
            ended = sum(sink.ended for _, sink in self._observed)
            unsent = ended - exporters.spans.sent
            lost += [f"{unsent:,} of {ended:,} spans"] if unsent else []
        if exporters.metrics is not None and exporters.metrics.failed:
            lost.append("metrics")
        place = next(filter(None, map(os.environ.get, _ENDPOINTS)), "http://localhost:4318")
        told = [f"{' and '.join(lost)} did not reach {redacted_url(place)}"] if lost else []
        if failures := sum(store.failures for store, _ in self._observed):
            told.append(f"{failures:,} steps of the run could not be told")
        return f"OpenTelemetry: {'; '.join(told)}" if told else ""

    def _shut_down(self, exporters: _Exporters) -> None:
        if exporters == _Exporters():  # the providers are the program's
            return
        threads = [
            threading.Thread(target=each.shutdown, daemon=True)  # one may wait for an answer
            for each in self._providers
        ]
        until = time.monotonic() + LONGEST_WAIT_S
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))
        if any(thread.is_alive() for thread in threads):
            for exporter in filter(None, (exporters.spans, exporters.metrics)):
                exporter.shutdown()  # ends the waiting between tries
            for thread in threads:
                thread.join(1.0)


class _Ids:
    """Draws ids of spans and traces: the SDK's own are equal where a tool has seeded `random`."""

    def generate_span_id(self) -> int:
        """64 bits, not all 0."""
        return secrets.randbits(64) or 1

    def generate_trace_id(self) -> int:
        """128 bits, not all 0."""
        return secrets.randbits(128) or 1

    def is_trace_id_random(self) -> bool:
        """Return whether all bits are drawn."""
        return True


class _Counted:
    """An exporter of which it is counted how many spans it sent, and how often it failed."""

    def __init__(self, exporter: Any) -> None:
        self._exporter = exporter
        self._stopped = False
        self.sent = 0
        self.failed = 0

    def export(self, data: Any, **times: float) -> Any:
        """Export, and count; what is on its way counts as failed."""
        self.failed += 1
        result = self._exporter.export(data, **times)
        if result.name == "SUCCESS":
            self.failed -= 1
            self.sent += len(data) if isinstance(data, Sequence) else 0
        return result

    def shutdown(self, **times: float) -> None:
        """Shut down, once."""
        if not self._stopped:
            self._stopped = True
            self._exporter.shutdown(**times)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._exporter, name)


def _span_exporter() -> _Counted | None:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return _chosen("OTEL_TRACES_EXPORTER", OTLPSpanExporter)


def _metric_exporter() -> _Counted | None:
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

    return _chosen("OTEL_METRICS_EXPORTER", OTLPMetricExporter)


def _chosen(variable: str, otlp: Callable[[], Any]) -> _Counted | None:
    match os.environ.get(variable, "").strip() or "otlp":
        case "otlp":
            return _Counted(otlp())
        case "none":
            return None
        case other:
            raise UsageError(
                f"{variable} is {other!r}; only otlp and none are known here, and others where a"
                " program sets OpenTelemetry up itself"
            )
