"""Spans as OTLP in JSON: a line for so many of them, as collectors write and read them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from windlass.public import Store, genai_names
from windlass_otel.genai_messages import Contents
from windlass_otel.observing import replay_spans
from windlass_otel.spans import OtelSpan, nanoseconds

SPANS_A_LINE: Final = 100
_INTERNAL, _CLIENT, _ERROR = 1, 3, 2
"""The numbers of kinds of spans, and of the status of one that failed, in OTLP."""


def session_lines(store: Store, session_id: str, contents: Contents) -> Iterator[str]:
    """Yield the spans of a session, and of those under it, as lines of JSON.

    Trace and spans have the same ids whenever they are made; a session that ran under another one
    is of its trace. Raises UsageError for an unknown session.
    """
    spans = _Closed()
    replay_spans(store, session_id, spans, contents)
    start, root = store.start(session_id), session_id
    while start.parent_id is not None:
        root = start.parent_id
        start = store.start(root)
    listed = sorted(spans.listed, key=lambda span: (span.start, -span.end))
    for first in range(0, len(listed), SPANS_A_LINE):
        yield json.dumps(_request(listed[first : first + SPANS_A_LINE], root)) + "\n"


class _Closed:
    """Keeps the spans that have ended."""

    def __init__(self) -> None:
        self.listed: list[OtelSpan] = []

    def opened(self, span: OtelSpan) -> None:
        """It is listed when it has ended."""

    def closed(self, span: OtelSpan) -> None:
        """List it."""
        self.listed.append(span)


def _request(spans: Sequence[OtelSpan], root: str) -> dict[str, Any]:
    trace = _digest("trace", root)[:32]
    listed = {"scope": {"name": "windlass"}, "spans": [_as_json(span, trace) for span in spans]}
    resource = {"attributes": _attributes({"service.name": "windlass"})}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [listed]}]}


def _as_json(span: OtelSpan, trace: str) -> dict[str, Any]:
    above = {} if span.parent is None else {"parentSpanId": _digest("span", span.parent.id)[:16]}
    told = {"message": span.told} if span.told else {}
    return {
        "traceId": trace,
        "spanId": _digest("span", span.id)[:16],
        **above,
        "name": span.name,
        "kind": _CLIENT if span.operation == genai_names.CHAT else _INTERNAL,
        "startTimeUnixNano": str(nanoseconds(span.start)),
        "endTimeUnixNano": str(nanoseconds(span.end)),
        "attributes": _attributes(span.attributes),
        **({"status": {"code": _ERROR, **told}} if span.error else {}),
    }


def _digest(*names: str) -> str:
    return hashlib.sha256("/".join(names).encode()).hexdigest()


def _attributes(attributes: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in attributes.items()]


def _value(value: Any) -> dict[str, Any]:
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case list():
            return {"arrayValue": {"values": [_value(one) for one in value]}}
    return {"stringValue": str(value)}
