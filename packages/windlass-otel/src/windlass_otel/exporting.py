"""A session as spans in OTLP's JSON: the forms `otel` and `otel-content` of `windlass export`."""

from __future__ import annotations

from collections.abc import Iterator

from windlass.public import ExportedSession
from windlass_otel.genai_messages import Contents
from windlass_otel.otlp_json import session_lines


def export_spans(session: ExportedSession) -> Iterator[str]:
    """Yield the lines of a session's spans, without what was said."""
    return _lines(session, contents=False)


def export_spans_with_content(session: ExportedSession) -> Iterator[str]:
    """Yield the lines of a session's spans, with what was said."""
    return _lines(session, contents=True)


def _lines(session: ExportedSession, *, contents: bool) -> Iterator[str]:
    shown = Contents(contents, session.shown, session.value)
    return session_lines(session.store, session.session_id, shown)
