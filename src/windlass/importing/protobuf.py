"""OTLP in protobuf, which an extra reads."""

from __future__ import annotations

from typing import Any


def read_protobuf(data: bytes) -> dict[str, Any] | None:
    """The export that a protobuf text holds, as JSON; None where it is none.

    Raises ImportError where the extra is not installed.
    """
    from google.protobuf.json_format import MessageToDict
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

    message = TracesData()
    try:
        message.ParseFromString(data)
    except DecodeError:
        return None
    told: dict[str, Any] = MessageToDict(message)
    return told if told.get("resourceSpans") else None
